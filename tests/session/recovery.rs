//! What a later holder learns of the cell that was left, and what a watcher sees.

use std::future::IntoFuture as _;
use std::time::Duration;

use cellblock::{Event, Execution, Ran, Session, State, Status};
use futures_util::StreamExt as _;

use crate::follow::{leave_running, until_cell_ended};
use crate::lab::{Ask as _, Lab, tests, until};

tests! {
    python_links: [
        the_result_of_the_cell_that_was_left_is_recovered,
    ]
    python: [
        output_printed_while_nobody_was_connected_is_recovered,
        an_error_of_the_cell_that_was_left_is_recovered,
        what_was_delivered_is_not_recovered_again,
        a_result_that_nobody_took_waits_for_the_next_holder,
        a_timeout_without_a_holder_is_recovered,
        a_death_without_a_holder_is_recovered,
        a_long_output_is_recovered_at_both_ends,
        a_watcher_sees_the_cells_and_disturbs_nobody,
        an_owned_session_has_no_watchers,
        abandoned_sessions_alone_are_pruned,
    ]
}

async fn start(lab: &Lab) -> Session {
    let builder = lab.builder().name(lab.name("left")).detached(true).grace(Duration::from_secs(5));
    builder.start().await.expect("a session")
}

/// Leaves a cell running that prints `begun`, and the session with it.
async fn leave(lab: &Lab, code: &str) {
    leave_running(&start(lab).await, code, MINUTE).await;
}

async fn attach(lab: &Lab) -> Session {
    Session::attach(lab.name("left")).engine(lab.engine()).await.expect("it can be held")
}

async fn recovered(session: &Session) -> Execution {
    session.recovered().await.expect("it is known").expect("a cell was left")
}

const MINUTE: Duration = Duration::from_secs(60);

async fn the_result_of_the_cell_that_was_left_is_recovered(lab: &Lab) {
    let code = "import time\nprint('begun', flush=True)\ntime.sleep(1.5)\nprint('last')\ndisplay('shown')\n'result'";
    leave(lab, code).await;
    let session = attach(lab).await;
    // A cell that is sent before the result is asked for waits its turn and changes nothing.
    let (execution, next) = tokio::join!(recovered(&session), async { session.good("print('next')\n1").await });
    assert_eq!((execution.status, execution.state), (Status::Ok, State::Kept));
    assert_eq!(execution.stdout.text, "begun\nlast\n");
    assert_eq!(execution.result.and_then(|result| result.text().map(str::to_owned)).as_deref(), Some("'result'"));
    assert_eq!(execution.outputs.len(), 3, "{:?}", execution.outputs);
    assert!(execution.execution_count.is_some());
    assert_eq!(next.stdout.text, "next\n");
}

async fn output_printed_while_nobody_was_connected_is_recovered(lab: &Lab) {
    let code = "import time\nprint('begun', flush=True)\nfor i in range(100): print(i, flush=True); time.sleep(0.02)\n\
                with open('done', 'w'): pass";
    leave(lab, code).await;
    let session = attach(lab).await;
    until("the cell has ended", async || {
        session.cell("import os\nos.path.exists('done')").await.text() == Some("True")
    })
    .await;
    let execution = recovered(&session).await;
    let expected: String = (0..100).map(|i| format!("{i}\n")).collect();
    assert_eq!((execution.stdout.text, execution.status), (format!("begun\n{expected}"), Status::Ok));
}

async fn an_error_of_the_cell_that_was_left_is_recovered(lab: &Lab) {
    leave(lab, "import time\nprint('begun', flush=True)\ntime.sleep(1)\n1 / 0").await;
    let execution = recovered(&attach(lab).await).await;
    let error = execution.error().expect("an error");
    assert_eq!((error.ename.as_str(), error.evalue.as_str()), ("ZeroDivisionError", "division by zero"));
    assert_eq!(execution.state, State::Kept);
}

async fn what_was_delivered_is_not_recovered_again(lab: &Lab) {
    let session = lab.builder().name(lab.name("left")).detached(true).start().await.expect("a session");
    assert!(session.recovered().await.expect("it is known").is_none(), "nobody was here before");
    session.good("print('delivered')").await;
    session.detach().await.expect("it lets go");
    let session = attach(lab).await;
    assert!(session.recovered().await.expect("it is known").is_none(), "it was delivered");
    session.detach().await.expect("it lets go");
    let session = attach(lab).await;
    session.stop().await.expect("it stops");

    leave(lab, "import time\nprint('begun', flush=True)\ntime.sleep(1)\n'once'").await;
    let session = attach(lab).await;
    assert_eq!(recovered(&session).await.text(), Some("'once'"));
    assert!(session.recovered().await.expect("it is known").is_none(), "it was taken");
    session.detach().await.expect("it lets go");
    let session = attach(lab).await;
    assert!(session.recovered().await.expect("it is known").is_none(), "it was taken");
    session.stop().await.expect("it stops");
    match session.recovered().await {
        Ok(recovered) => assert!(recovered.is_none()),
        Err(error) => assert!(error.is_session_gone() && error.ran() != Ran::Yes, "{error:?}"),
    }
}

async fn a_result_that_nobody_took_waits_for_the_next_holder(lab: &Lab) {
    leave(lab, "import time\nprint('begun', flush=True)\ntime.sleep(1)\n'waiting'").await;
    for _ in 0..2 {
        attach(lab).await.detach().await.expect("it lets go");
    }
    let session = attach(lab).await;
    let waiting = session.recovered();
    let dropped = tokio::time::timeout(Duration::from_millis(1), waiting).await;
    if dropped.is_err() {
        session.detach().await.expect("it lets go");
        assert_eq!(recovered(&attach(lab).await).await.text(), Some("'waiting'"));
    }
}

async fn a_timeout_without_a_holder_is_recovered(lab: &Lab) {
    let code = "import time\nx = 'kept'\nprint('begun', flush=True)\ntime.sleep(60)";
    leave_running(&start(lab).await, code, Duration::from_secs(1)).await;
    until_cell_ended(lab.engine(), &lab.name("left")).await;
    let session = attach(lab).await;
    let execution = recovered(&session).await;
    assert!(!execution.is_ok(), "{:?}", execution.status);
    assert_eq!((execution.state, execution.stdout.text.as_str()), (State::Kept, "begun\n"), "{:?}", execution.status);
    assert_eq!(session.value("x").await, "'kept'");
}

async fn a_death_without_a_holder_is_recovered(lab: &Lab) {
    let session = start(lab).await;
    let kernel = lab.kernel().await;
    let code = "import os, time\nprint('begun', flush=True)\ntime.sleep(0.5)\nos._exit(7)";
    leave_running(&session, code, MINUTE).await;
    until("the kernel has died", async || !kernel.exists()).await;
    let session = attach(lab).await;
    let execution = recovered(&session).await;
    let Status::KernelDied(death) = &execution.status else { panic!("{:?}", execution.status) };
    assert_eq!((death.code, execution.state), (Some(7), State::KernelRestarted));
    assert_eq!(execution.stdout.text, "begun\n");
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn a_long_output_is_recovered_at_both_ends(lab: &Lab) {
    let code = "import time\nprint('begun', flush=True)\ntime.sleep(0.5)\n\
                print(''.join('%07d\\n' % i for i in range(1_500_000)), end='')";
    leave(lab, code).await;
    let session = attach(lab).await;
    let execution = recovered(&session).await;
    assert!(execution.stdout.text.starts_with("begun\n0000000\n"), "{:?}", execution.stdout.text.get(..40));
    assert!(execution.stdout.text.ends_with("1499999\n"), "{:?}", execution.status);
    let whole = execution.stdout.total_bytes == 12_000_006;
    assert!(whole || execution.outputs_left_out > 0, "what is lost is counted: {:?}", execution.stdout.total_bytes);
}

async fn a_watcher_sees_the_cells_and_disturbs_nobody(lab: &Lab) {
    let session = lab.builder().name(lab.name("watched")).detached(true).start().await.expect("a session");
    session.good("x = 1").await;
    let mut watch = Session::watch(lab.engine(), &lab.name("watched")).await.expect("it can be watched");
    let cells = async {
        for i in 0..5 {
            assert_eq!(session.good(format!("print('watched {i}')\n{i}")).await.stdout.text, format!("watched {i}\n"));
        }
    };
    let seen = async {
        let (mut text, mut lagged) = (String::new(), 0);
        loop {
            match watch.next().await.expect("more").expect("the watch goes well") {
                Event::Stdout(part) => text += &part,
                Event::Lagged { events } => lagged += events,
                Event::Done(execution) if execution.stdout.text == "watched 4\n" => return (text, lagged),
                _ => {}
            }
        }
    };
    let ((), (text, lagged)) = tokio::join!(cells, seen);
    let expected: String = (0..5).map(|i| format!("watched {i}\n")).collect();
    assert!(text == expected || lagged > 0, "what it missed is told: {text:?}");
    let before = session.value("x").await;
    drop(watch);
    assert_eq!((before.as_str(), session.value("x").await.as_str()), ("1", "1"));
    let mut watch = Session::watch(lab.engine(), &lab.name("watched")).await.expect("it can be watched again");
    session.stop().await.expect("it stops");
    let end = async { while watch.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(10), end).await.expect("the watch ends with the session");
}

async fn an_owned_session_has_no_watchers(lab: &Lab) {
    let session = lab.builder().name(lab.name("private")).start().await.expect("a session");
    let error = Session::watch(lab.engine(), &lab.name("private")).await.expect_err("it is private");
    assert!(error.is_held(), "{error:?}");
    let error = Session::watch(lab.engine(), &lab.name("nobody")).await.expect_err("there is none");
    assert!(error.is_no_such_session(), "{error:?}");
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn abandoned_sessions_alone_are_pruned(lab: &Lab) {
    let owned = lab.builder().name(lab.name("owned")).start().await.expect("a session");
    let held = lab.builder().name(lab.name("held")).detached(true).start().await.expect("a session");
    let free = lab.builder().name(lab.name("free")).detached(true).start().await.expect("a session");
    free.detach().await.expect("it lets go");
    let pruned = Session::prune(lab.engine().as_ref()).await.expect("it prunes");
    let ours = [lab.name("owned"), lab.name("held"), lab.name("free")];
    assert!(pruned.iter().all(|name| !ours.contains(name)), "{pruned:?}");
    assert_eq!((owned.value("1").await, held.value("2").await), ("1".to_owned(), "2".to_owned()));
    let free = Session::attach(lab.name("free")).engine(lab.engine()).await.expect("it is there");
    assert_eq!(free.value("3").await, "3");
    let _ = free.run("4").into_future().await;
}
