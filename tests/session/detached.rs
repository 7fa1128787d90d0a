//! Sessions that go on without a controller.

use std::time::{Duration, Instant};

use cellblock::{Lease, Ran, Session, SessionBuilder, State, Status};

use crate::follow::{Following, leave_running, until_cell_ended};
use crate::lab::{Ask as _, Lab, SOON, tests, until};

tests! {
    links: [
        variables_are_there_for_the_next_holder,
        a_session_has_one_holder,
    ]
    everywhere: [
        a_name_without_a_session_cannot_be_attached_to,
        an_owned_session_is_not_shared,
        a_name_is_taken_once,
        sessions_are_listed_and_removed,
    ]
    python: [
        a_session_that_its_last_handle_leaves_goes_on,
        a_cell_left_running_goes_on_without_a_holder,
        a_deadline_holds_without_a_holder,
        a_kernel_that_died_meanwhile_is_told,
        an_idle_session_ends_by_itself,
        a_busy_session_is_not_idle,
        an_attached_session_is_not_idle,
        a_session_removed_by_name_is_gone_for_its_holder,
    ]
}

fn detached(lab: &Lab, name: &str) -> SessionBuilder {
    lab.builder().name(lab.name(name)).detached(true).idle_timeout(Duration::from_secs(120))
}

async fn attach(lab: &Lab, name: &str) -> Session {
    Session::attach(lab.name(name)).engine(lab.engine()).await.expect("it can be held")
}

async fn variables_are_there_for_the_next_holder(lab: &Lab) {
    let session = detached(lab, "kept").start().await.expect("a session");
    assert_eq!((session.name(), session.lease()), (lab.name("kept").as_str(), Lease::Detached));
    session.good("x = 41\nprint('seen by the first')").await;
    session.detach().await.expect("it lets go");
    for round in 1..=3 {
        let session = attach(lab, "kept").await;
        assert_eq!((session.name(), session.lease()), (lab.name("kept").as_str(), Lease::Detached));
        let execution = session.good("x += 1\nprint(x)\nx").await;
        assert_eq!(execution.text(), Some((41 + round).to_string().as_str()));
        assert_eq!((execution.stdout.text, execution.state), (format!("{}\n", 41 + round), State::Kept));
        session.detach().await.expect("it lets go");
        let error = session.run("1").await.expect_err("it was let go");
        assert!(error.is_session_gone() && error.ran() == Ran::Never, "{error:?}");
    }
    let session = attach(lab, "kept").await;
    session.stop().await.expect("it stops");
    let error = Session::attach(lab.name("kept")).engine(lab.engine()).await.expect_err("stopped");
    assert!(error.is_no_such_session(), "{error:?}");
}

async fn a_session_has_one_holder(lab: &Lab) {
    let session = detached(lab, "held").start().await.expect("a session");
    session.good("x = 1").await;
    for _ in 0..3 {
        let error = Session::attach(lab.name("held")).engine(lab.engine()).await.expect_err("it is held");
        assert!(error.is_held() && error.hint().is_some(), "{error:?}");
        assert_eq!(session.value("x").await, "1", "the holder notices nothing");
    }
    session.detach().await.expect("it lets go");
    assert_eq!(attach(lab, "held").await.value("x").await, "1");
}

async fn a_name_without_a_session_cannot_be_attached_to(lab: &Lab) {
    let error = Session::attach(lab.name("nobody")).engine(lab.engine()).await.expect_err("there is none");
    assert!(error.is_no_such_session(), "{error:?}");
    assert!(error.to_string().contains(&lab.name("nobody")) && error.hint().is_some(), "{error:?}");
    let error = Session::remove(lab.engine().as_ref(), &lab.name("nobody")).await.expect_err("there is none");
    assert!(error.is_no_such_session(), "{error:?}");
    for name in ["", "../x", "a b"] {
        assert!(Session::attach(name).engine(lab.engine()).await.expect_err("no name").is_usage());
        assert!(Session::remove(lab.engine().as_ref(), name).await.expect_err("no name").is_usage());
    }
}

async fn an_owned_session_is_not_shared(lab: &Lab) {
    let session = lab.builder().name(lab.name("owned")).start().await.expect("a session");
    assert_eq!(session.lease(), Lease::Owned);
    let error = Session::attach(lab.name("owned")).engine(lab.engine()).await.expect_err("it is owned");
    assert!(error.is_held(), "{error:?}");
    assert_eq!(session.value("1 + 1").await, "2");
    session.detach().await.expect("of an owned one this is its stop");
    let listed = Session::list(lab.engine().as_ref()).await.expect("a list");
    assert!(listed.iter().all(|one| one.name != lab.name("owned")), "{listed:?}");
}

async fn a_name_is_taken_once(lab: &Lab) {
    let session = lab.builder().name(lab.name("taken")).start().await.expect("a session");
    session.good("x = 1").await;
    let error = lab.builder().name(lab.name("taken")).start().await.expect_err("it is taken");
    assert!(error.is_name_taken(), "{error:?}");
    assert_eq!(session.value("x").await, "1");
    session.stop().await.expect("it stops");
    let again = lab.builder().name(lab.name("taken")).start().await.expect("it is free again");
    let fresh = again.cell("x").await;
    assert_eq!(fresh.error().map(|error| error.ename.as_str()), Some("NameError"));
}

async fn sessions_are_listed_and_removed(lab: &Lab) {
    let owned = lab.builder().name(lab.name("list-b")).start().await.expect("a session");
    let other = detached(lab, "list-a").start().await.expect("a session");
    other.detach().await.expect("it lets go");
    let ours = async || -> Vec<_> {
        let all = Session::list(lab.engine().as_ref()).await.expect("a list");
        let ours = [lab.name("list-a"), lab.name("list-b")];
        all.into_iter().filter(|one| ours.contains(&one.name)).collect()
    };
    let listed = ours().await;
    let [a, b] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((a.lease, b.lease), (Lease::Detached, Lease::Owned), "by name: {listed:?}");
    for one in [a, b] {
        assert_eq!(one.state, "running");
        assert!(one.created > 1_700_000_000 && !one.image.is_empty(), "{one:?}");
        assert!(lab.fixture().recording().created().iter().any(|(id, _)| *id == one.container));
    }
    Session::remove(lab.engine().as_ref(), &lab.name("list-a")).await.expect("it is removed");
    until("it is gone from the list", async || ours().await.len() == 1).await;
    assert_eq!(owned.value("1 + 1").await, "2");
}

async fn a_session_that_its_last_handle_leaves_goes_on(lab: &Lab) {
    let session = detached(lab, "left").start().await.expect("a session");
    session.good("x = 1").await;
    drop(session);
    let mut again = None;
    // The drop only sends: for a moment the old holder may still be there.
    until("it can be held again", async || {
        again = Session::attach(lab.name("left")).engine(lab.engine()).await.ok();
        again.is_some()
    })
    .await;
    assert_eq!(again.expect("a session").value("x").await, "1");
}

async fn a_cell_left_running_goes_on_without_a_holder(lab: &Lab) {
    let session = detached(lab, "running").start().await.expect("a session");
    let code = "import time\nx = 'half'\nprint('begun', flush=True)\ntime.sleep(1)\nx = 'whole'";
    leave_running(&session, code, Duration::from_secs(60)).await;
    let session = attach(lab, "running").await;
    let execution = session.good("print('own')\nx").await;
    assert_eq!((execution.text(), execution.stdout.text.as_str()), (Some("'whole'"), "own\n"));
}

async fn a_deadline_holds_without_a_holder(lab: &Lab) {
    let session = detached(lab, "deadline").grace(Duration::from_millis(500)).start().await.expect("a session");
    session.good("x = 'kept'").await;
    leave_running(&session, "import time\nprint('begun', flush=True)\ntime.sleep(90)", Duration::from_secs(1)).await;
    let begun = Instant::now();
    let session = attach(lab, "deadline").await;
    assert_eq!(session.value("x").await, "'kept'");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

async fn a_kernel_that_died_meanwhile_is_told(lab: &Lab) {
    let session = detached(lab, "died").start().await.expect("a session");
    session.good("x = 1").await;
    let kernel = lab.kernel().await;
    let code = "import os, time\nprint('begun', flush=True)\ntime.sleep(0.5)\nos._exit(5)";
    leave_running(&session, code, Duration::from_secs(60)).await;
    until("the kernel has died", async || !kernel.exists()).await;
    let session = attach(lab, "died").await;
    let execution = session.cell("'x' in globals()").await;
    // The bridge may not have noticed yet, and the cell goes down with the old kernel: the variables are gone, and that is said.
    assert_eq!(execution.state, State::KernelRestarted, "{}", execution.status);
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn is_listed(lab: &Lab, name: &str) -> bool {
    let listed = Session::list(lab.engine().as_ref()).await.expect("a list");
    listed.iter().any(|one| one.name == lab.name(name))
}

async fn an_idle_session_ends_by_itself(lab: &Lab) {
    let session = detached(lab, "idle").idle_timeout(Duration::from_secs(1)).start().await.expect("a session");
    session.good("x = 1").await;
    session.detach().await.expect("it lets go");
    until("it has ended", async || !is_listed(lab, "idle").await).await;
}

async fn a_busy_session_is_not_idle(lab: &Lab) {
    let session = detached(lab, "busy").idle_timeout(Duration::from_secs(2)).start().await.expect("a session");
    let code = "import time\nprint('begun', flush=True)\ntime.sleep(4)";
    leave_running(&session, code, Duration::from_secs(60)).await;
    until_cell_ended(lab.engine(), session.name()).await;
    assert!(is_listed(lab, "busy").await, "it ran a cell until now");
    until("it has ended", async || !is_listed(lab, "busy").await).await;
}

async fn an_attached_session_is_not_idle(lab: &Lab) {
    let session = detached(lab, "attended").idle_timeout(Duration::from_secs(1)).start().await.expect("a session");
    session.good("x = 1").await;
    let other = detached(lab, "alone").idle_timeout(Duration::from_secs(1)).start().await.expect("a session");
    other.detach().await.expect("it lets go");
    until("one that was let go later has ended", async || !is_listed(lab, "alone").await).await;
    assert_eq!(session.value("x").await, "1");
}

async fn a_session_removed_by_name_is_gone_for_its_holder(lab: &Lab) {
    let session = detached(lab, "removed").start().await.expect("a session");
    let running = Following::until(&session, "import time\nprint('begun', flush=True)\ntime.sleep(60)", "begun").await;
    Session::remove(lab.engine().as_ref(), session.name()).await.expect("it is removed");
    let execution = running.finish().await;
    assert!(matches!(execution.status, Status::ContainerGone(_)), "{:?}", execution.status);
    assert!(session.run("1").await.expect_err("gone").is_session_gone());
}
