//! Time that is up: the rung that it took and what is left of the state.

use std::time::{Duration, Instant};

use cellblock::{Execution, Rung, Session, State, Status};

use crate::follow::Following;
use crate::lab::{Ask as _, Lab, SOON, tests};

tests! {
    links: [
        sleeping_code_is_interrupted_at_its_timeout,
        code_that_swallows_interrupts_costs_the_kernel,
    ]
    everywhere: [
        the_timeout_of_the_session_holds_where_none_is_named,
        waiting_in_the_queue_costs_no_time,
    ]
    python: [
        what_an_except_block_prints_is_there,
    ]
    container: [
        a_paused_container_is_killed_at_last,
    ]
}

const SHORT: Duration = Duration::from_millis(500);
/// Of what is not going to end.
const GRACE: Duration = Duration::from_millis(800);
/// Of what is: to write its first traceback takes a kernel on a busy machine a while.
const LONG_GRACE: Duration = SOON;

/// A session with this grace and a variable to lose.
async fn session(lab: &Lab, grace: Duration) -> Session {
    let session = lab.builder().grace(grace).start().await.expect("a session");
    session.good("kept = 'here'").await;
    session
}

/// Runs out of time with this code, and checks everything that is the same for all.
async fn runs_out(session: &Session, code: &str) -> Execution {
    let begun = Instant::now();
    let execution = session.run(code).timeout(SHORT).await.expect("the call goes well");
    let elapsed = begun.elapsed();
    assert_eq!(execution.status, Status::TimedOut, "{code}");
    assert!(elapsed >= SHORT && elapsed < SHORT + SOON, "{elapsed:?}: {code}");
    let state = if execution.rung == Some(Rung::Interrupt) { State::Kept } else { State::KernelRestarted };
    assert_eq!(execution.state, state, "{:?}: {code}", execution.rung);
    let begun = Instant::now();
    assert_eq!(session.value("1 + 1").await, "2");
    assert!(begun.elapsed() < SOON, "{:?} after {code}", begun.elapsed());
    let kept = session.cell("kept").await;
    assert_eq!(kept.text() == Some("'here'"), state == State::Kept, "{kept:?} after {code}");
    execution
}

async fn is_interrupted(lab: &Lab, code: &str) {
    let execution = runs_out(&session(lab, LONG_GRACE).await, code).await;
    assert_eq!(execution.rung, Some(Rung::Interrupt), "{code}");
}

async fn costs_the_kernel(lab: &Lab, code: &str) {
    let execution = runs_out(&session(lab, GRACE).await, code).await;
    assert_eq!(execution.rung, Some(Rung::KernelRestart), "{code}");
}

async fn sleeping_code_is_interrupted_at_its_timeout(lab: &Lab) {
    is_interrupted(lab, "import time\ntime.sleep(60)").await;
}

async fn code_that_swallows_interrupts_costs_the_kernel(lab: &Lab) {
    costs_the_kernel(lab, "import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass")
        .await;
}

async fn what_an_except_block_prints_is_there(lab: &Lab) {
    let session = session(lab, LONG_GRACE).await;
    let code = "import time\nprint('before')\ntry: time.sleep(60)\nfinally: print('cleaned up')";
    let execution = session.run(code).timeout(SHORT).await.expect("the call goes well");
    assert_eq!((execution.status, execution.stdout.text.as_str()), (Status::TimedOut, "before\ncleaned up\n"));
}

async fn the_timeout_of_the_session_holds_where_none_is_named(lab: &Lab) {
    let session = lab.builder().timeout(SHORT).grace(LONG_GRACE).start().await.expect("a session");
    let execution = session.cell("import time\ntime.sleep(60)").await;
    assert_eq!((execution.status, execution.rung), (Status::TimedOut, Some(Rung::Interrupt)));
    let longer = session.run("import time\ntime.sleep(1)\n'done'").timeout(Duration::from_secs(20)).await;
    assert_eq!(longer.expect("the call goes well").text(), Some("'done'"));
}

async fn waiting_in_the_queue_costs_no_time(lab: &Lab) {
    let session = lab.session().await;
    let cell = || session.run("import time\ntime.sleep(1.5)").timeout(Duration::from_secs(4));
    let (one, two, three) = tokio::join!(cell().into_future(), cell().into_future(), cell().into_future());
    for execution in [one, two, three] {
        assert_eq!(execution.expect("the call goes well").status, Status::Ok);
    }
}

async fn a_paused_container_is_killed_at_last(lab: &Lab) {
    let session = lab.builder().grace(GRACE).start().await.expect("a session");
    let code = "print('begun', flush=True)\nimport time\ntime.sleep(60)";
    let running = Following::begin(session.run_stream(code).timeout(Duration::from_secs(1)));
    let running = running.until_printed("begun").await;
    lab.fixture().bollard().pause_container(&lab.fixture().recording().only().0).await.expect("it is paused");
    let begun = Instant::now();
    let execution = running.finish().await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!((execution.status, execution.rung), (Status::TimedOut, Some(Rung::ContainerKill)));
    assert_eq!((execution.state, execution.stdout.text.as_str()), (State::ContainerGone, "begun\n"));
    let error = session.run("1").await.expect_err("the container is gone");
    assert!(error.is_session_gone(), "{error:?}");
}
