//! Cells that end, and how often the fakes were signalled for it.

use std::time::Duration;

use cellblock::{Ran, State, Status};
use futures_util::future::join_all;

use super::fake::FakeEngine;
use super::{session, stop};

#[tokio::test]
async fn many_lines_and_long_ones_arrive_whole() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let execution = session.run("for i in range(10_000): print(i)").await.unwrap();
    let expected: String = (0..10_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(execution.stdout.text, expected);
    let execution = session.run("print('x' * 2_000_000)").await.unwrap();
    assert_eq!((execution.stdout.total_bytes, execution.stdout.truncated), (2_000_001, true));
    let code = format!("x = '{}'", "y".repeat(1_000_000));
    assert_eq!(session.run(code).await.unwrap().status, Status::Ok);
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_timeout_interrupts_and_keeps_the_state() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    session.run("x = 1").await.unwrap();
    for code in ["import time; time.sleep(60)", "while True: pass", "import asyncio\nawait asyncio.sleep(60)"] {
        let execution = session.run(code).timeout(Duration::from_millis(50)).await.unwrap();
        assert_eq!((&execution.status, execution.state), (&Status::TimedOut, State::Kept), "{code}");
        assert!(execution.timing.total < Duration::from_secs(5));
    }
    assert_eq!(session.run("x").await.unwrap().result.unwrap().text(), Some("1"));
    assert_eq!(engine.container().interrupts(), 0, "SIGINTs by the bridge, where control answered");
    stop(&session, &engine).await;
}

#[tokio::test]
async fn an_interrupt_ends_the_cell_that_runs_and_no_other() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let sleeping = tokio::spawn(session.run("print('begun', flush=True)\nimport time; time.sleep(60)").into_future());
    // Interrupts that come before the cell are nobody's, so it takes as many as it takes.
    let execution = loop {
        session.interrupt().await.unwrap();
        if sleeping.is_finished() {
            break sleeping.await.unwrap().unwrap();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((execution.status, execution.state), (Status::Interrupted, State::Kept));
    for _ in 0..20 {
        assert_eq!(session.run("1").await.unwrap().status, Status::Ok);
    }
    stop(&session, &engine).await;
}

#[tokio::test]
async fn cells_past_what_may_wait_are_refused_and_never_run() {
    const CELLS: u32 = 1_100;
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    session.run("n = 0").await.unwrap();
    let first = session.run("import time; time.sleep(1)").into_future();
    let behind = join_all((0..CELLS).map(|_| session.run("n += 1").into_future()));
    let (first, behind) = tokio::join!(first, behind);
    assert_eq!(first.unwrap().status, Status::Ok);
    let refused: Vec<_> = behind.into_iter().filter_map(Result::err).collect();
    assert!(!refused.is_empty() && refused.iter().all(|error| error.is_usage() && error.ran() == Ran::Never));
    let ran = CELLS - u32::try_from(refused.len()).unwrap();
    assert_eq!(session.run("n").await.unwrap().text(), Some(ran.to_string().as_str()));
    stop(&session, &engine).await;
}
