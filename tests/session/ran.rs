//! Whether the code of a failed call ran, for every way in which a call can fail.

use std::future::IntoFuture as _;
use std::time::Duration;

use cellblock::{Error, OnDrop, Ran, Session, SessionBuilder, State};
use futures_util::StreamExt as _;
use futures_util::future::join_all;

use crate::follow::Following;
use crate::lab::{Ask as _, Lab, tests};

tests! {
    everywhere: [
        what_fails_before_the_kernel_has_it_never_ran,
        what_fails_without_code_ran_none,
        a_cell_whose_session_is_let_go_may_have_run_and_those_behind_it_never_did,
    ]
    python: [
        the_result_of_a_cell_that_was_left_is_not_lost_with_its_session,
    ]
    container: [
        a_session_that_does_not_start_ran_nothing,
    ]
}

const MINUTE: Duration = Duration::from_secs(60);

fn detached(lab: &Lab) -> SessionBuilder {
    lab.builder().name(lab.name("ran")).detached(true).idle_timeout(2 * MINUTE)
}

async fn attach(lab: &Lab) -> Session {
    Session::attach(lab.name("ran")).engine(lab.engine()).await.expect("it can be held")
}

/// Fails with this, and says how.
fn says(ran: Ran, error: &Error) {
    assert_eq!(error.ran(), ran, "{error:?}");
}

async fn streamed(session: &Session, code: &str) -> Error {
    let mut stream = session.run_stream(code);
    stream.next().await.expect("an item").expect_err("it fails")
}

async fn what_fails_before_the_kernel_has_it_never_ran(lab: &Lab) {
    let session = lab.session().await;
    says(Ran::Never, &session.run("ran = 1").timeout(Duration::MAX).await.expect_err("a timeout without end"));
    says(Ran::Never, &session.run("#".repeat((64 << 20) + 1)).await.expect_err("too long"));
    let raised = session.cell("ran").await;
    assert!(raised.error().is_some_and(|error| error.ename == "NameError"), "it never ran");

    session.stop().await.expect("it stops");
    says(Ran::Never, &session.run("1").await.expect_err("it is stopped"));
    says(Ran::Never, &streamed(&session, "1").await);
}

async fn what_fails_without_code_ran_none(lab: &Lab) {
    let nobody = || Session::attach(lab.name("nobody")).engine(lab.engine());
    says(Ran::Never, &nobody().await.expect_err("there is none"));
    says(Ran::Never, &nobody().timeout(Duration::MAX).await.expect_err("a timeout without end"));
    says(Ran::Never, &Session::watch(lab.engine(), &lab.name("nobody")).await.expect_err("there is none"));
    says(Ran::Never, &Session::remove(lab.engine().as_ref(), &lab.name("nobody")).await.expect_err("there is none"));
    says(Ran::Never, &lab.builder().name("no name").start().await.expect_err("no name"));

    let session = lab.builder().name(lab.name("owned")).start().await.expect("a session");
    says(Ran::Never, &lab.builder().name(lab.name("owned")).start().await.expect_err("it is taken"));
    says(Ran::Never, &Session::attach(lab.name("owned")).engine(lab.engine()).await.expect_err("it is owned"));
    says(Ran::Never, &Session::watch(lab.engine(), &lab.name("owned")).await.expect_err("it is owned"));
    // Those that the driver never answers because it ends.
    let (asked, completed, restarted, stopped) = tokio::join!(
        session.is_complete("x"),
        session.complete("x", 1),
        async { session.stop().await.and(session.restart().await) },
        async { session.stop().await.and(session.stop().await) },
    );
    let ends = [asked.err(), completed.err(), restarted.err(), stopped.err(), session.interrupt().await.err()];
    assert!(ends.iter().flatten().count() >= 3, "{ends:?}");
    ends.iter().flatten().for_each(|error| says(Ran::Never, error));

    let held = detached(lab).start().await.expect("a session");
    let attached = Session::attach(lab.name("ran")).engine(lab.engine()).await;
    says(Ran::Never, &attached.expect_err("it is held"));
    held.stop().await.expect("it stops");
}

async fn a_cell_whose_session_is_let_go_may_have_run_and_those_behind_it_never_did(lab: &Lab) {
    let session = detached(lab).start().await.expect("a session");
    session.good("first = 0\nbehind = 0").await;
    let code = "first = 1\nprint('begun', flush=True)\nimport time\ntime.sleep(1)";
    let running = Following::until(&session, code, "begun").await;
    let behind = join_all((0..3).map(|_| session.run("behind = 1").into_future()));
    let streamed = streamed(&session, "behind = 1");
    let (first, behind, streamed, detached) = tokio::join!(running.failed(), behind, streamed, session.detach());
    detached.expect("it lets go");
    says(Ran::Unknown, &first);
    assert!(first.is_session_gone(), "{first:?}");
    says(Ran::Never, &streamed);
    behind.into_iter().for_each(|cell| says(Ran::Never, &cell.expect_err("it never ran")));
    let session = attach(lab).await;
    assert_eq!((session.value("first").await, session.value("behind").await), ("1".to_owned(), "0".to_owned()));
    session.stop().await.expect("it stops");
}

async fn the_result_of_a_cell_that_was_left_is_not_lost_with_its_session(lab: &Lab) {
    let left = async || {
        let session = detached(lab).start().await.expect("a session");
        let stream = session.run_stream("print('begun', flush=True)\nimport time\ntime.sleep(60)");
        drop(Following::begin(stream.on_drop(OnDrop::LeaveRunning)).until_printed("begun").await);
        session.detach().await.expect("it lets go");
        attach(lab).await
    };
    let session = left().await;
    let (recovered, stopped) = tokio::join!(session.recovered(), session.stop());
    stopped.expect("it stops");
    let execution = recovered.expect("it is known").expect("a cell was left");
    assert_eq!((execution.stdout.text.as_str(), execution.state), ("begun\n", State::ContainerGone));

    let session = left().await;
    let (recovered, detached) = tokio::join!(session.recovered(), session.detach());
    detached.expect("it lets go");
    says(Ran::Yes, &recovered.expect_err("it has not ended"));
    attach(lab).await.stop().await.expect("it stops");
}

async fn a_session_that_does_not_start_ran_nothing(lab: &Lab) {
    says(Ran::Never, &lab.builder().image("cellblock:no-such-tag").start().await.expect_err("there is no image"));
    says(Ran::Never, &lab.builder().runtime("no-such-runtime").start().await.expect_err("there is no runtime"));
    says(Ran::Never, &lab.builder().memory(1).start().await.expect_err("a byte of memory"));
    says(Ran::Never, &lab.builder().pids(1).start().await.expect_err("one process"));
    let nowhere = cellblock::Docker::connect_to("unix:///nowhere.sock").await;
    says(Ran::Never, &nowhere.expect_err("no engine"));
}
