//! Calls whose callers lose interest, at any moment.

use std::future::{Future, IntoFuture as _};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use cellblock::{OnDrop, Session, Status};
use futures_util::Stream;

use crate::host;
use crate::lab::{Ask as _, Lab, SOON, tests, until};

tests! {
    links: [
        a_dropped_call_is_interrupted_after_any_number_of_polls,
        a_dropped_call_may_be_left_running_after_any_number_of_polls,
    ]
    everywhere: [
        a_dropped_stream_is_interrupted_after_any_number_of_polls,
        a_dropped_stream_may_be_left_running_after_any_number_of_polls,
        what_was_dropped_in_the_queue_never_runs,
        what_was_left_in_the_queue_runs,
        a_call_left_running_keeps_its_timeout,
        dropped_requests_harm_nobody,
    ]
    python: [
        a_dropped_start_leaves_nothing,
        a_call_dropped_while_it_asks_harms_nobody,
        a_dropped_call_that_swallows_interrupts_ends_at_its_timeout,
    ]
    process: [
        a_dropped_detached_start_leaves_nothing,
    ]
}

/// Polls a future this many times, with a moment between, and drops it. True if it was ready before.
async fn poll_and_drop(future: impl Future, times: usize) -> bool {
    let mut future = pin!(future);
    for _ in 0..times {
        let ready = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
        if ready {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    false
}

/// The same for a stream, of which it takes one item a poll. True if it ended before.
async fn poll_stream_and_drop(mut stream: impl Stream + Unpin, times: usize) -> bool {
    for _ in 0..times {
        let ended = std::future::poll_fn(|context| {
            Poll::Ready(matches!(Pin::new(&mut stream).poll_next(context), Poll::Ready(None)))
        });
        if ended.await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    false
}

const POLLS: usize = 14;
/// Prints, so that a stream has something at several polls, and sleeps for longer than any test.
const LONG: &str = "import time\nfor i in range(5): print(i, flush=True)\ntime.sleep(90)\nmarker = 'ran to its end'";
const SHORT: &str = "import time\nfor i in range(5): print(i, flush=True)\ntime.sleep(0.15)\ncount += 1";

/// The session answers at once, and the long cell did not go on.
async fn is_usable(session: &Session, polls: usize) {
    let begun = Instant::now();
    assert_eq!(session.value("marker").await, "'unset'", "after {polls} polls");
    assert!(begun.elapsed() < SOON, "{:?} after {polls} polls", begun.elapsed());
}

async fn a_dropped_call_is_interrupted_after_any_number_of_polls(lab: &Lab) {
    let session = lab.session().await;
    session.good("marker = 'unset'").await;
    for polls in 0..=POLLS {
        assert!(!poll_and_drop(session.run(LONG).into_future(), polls).await);
        is_usable(&session, polls).await;
    }
}

async fn a_dropped_stream_is_interrupted_after_any_number_of_polls(lab: &Lab) {
    let session = lab.session().await;
    session.good("marker = 'unset'").await;
    for polls in 0..=POLLS {
        assert!(!poll_stream_and_drop(session.run_stream(LONG), polls).await);
        is_usable(&session, polls).await;
    }
}

async fn a_dropped_call_may_be_left_running_after_any_number_of_polls(lab: &Lab) {
    let session = lab.session().await;
    session.good("count = 0").await;
    for polls in 1..=POLLS {
        let run = session.run(SHORT).on_drop(OnDrop::LeaveRunning);
        poll_and_drop(run.into_future(), polls).await;
        let next = session.good("count").await;
        assert_eq!(next.text(), Some(polls.to_string().as_str()));
        assert_eq!(next.stdout.text, "", "the dropped cell's output is nobody else's");
    }
}

async fn a_dropped_stream_may_be_left_running_after_any_number_of_polls(lab: &Lab) {
    let session = lab.session().await;
    session.good("count = 0").await;
    for polls in 1..=POLLS {
        poll_stream_and_drop(session.run_stream(SHORT).on_drop(OnDrop::LeaveRunning), polls).await;
        assert_eq!(session.value("count").await, polls.to_string());
    }
}

/// Runs something while a cell with this timeout blocks the session.
async fn behind(session: &Session, what: impl AsyncFnOnce()) {
    let ahead = session.run("import time\ntime.sleep(0.6)");
    let (ahead, ()) = tokio::join!(ahead.into_future(), what());
    assert_eq!(ahead.expect("the call goes well").status, Status::Ok);
}

async fn what_was_dropped_in_the_queue_never_runs(lab: &Lab) {
    let session = lab.session().await;
    session.good("count = 0").await;
    behind(&session, async || {
        for polls in 1..4 {
            poll_and_drop(session.run("count += 1").into_future(), polls).await;
            poll_stream_and_drop(session.run_stream("count += 10"), polls).await;
        }
    })
    .await;
    assert_eq!(session.value("count").await, "0");
}

async fn what_was_left_in_the_queue_runs(lab: &Lab) {
    let session = lab.session().await;
    session.good("count = 0").await;
    behind(&session, async || {
        for polls in 1..4 {
            poll_and_drop(session.run("count += 1").on_drop(OnDrop::LeaveRunning).into_future(), polls).await;
            poll_stream_and_drop(session.run_stream("count += 10").on_drop(OnDrop::LeaveRunning), polls).await;
        }
    })
    .await;
    assert_eq!(session.value("count").await, "33");
}

async fn a_call_left_running_keeps_its_timeout(lab: &Lab) {
    let session = lab.session().await;
    let begun = Instant::now();
    let run = session.run("import time\ntime.sleep(90)").timeout(Duration::from_secs(1)).on_drop(OnDrop::LeaveRunning);
    poll_and_drop(run.into_future(), 1).await;
    assert_eq!(session.value("1 + 1").await, "2");
    assert!(begun.elapsed() > Duration::from_millis(900) && begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

async fn dropped_requests_harm_nobody(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    for polls in 0..6 {
        poll_and_drop(session.interrupt(), polls).await;
        poll_and_drop(session.complete("x", 1), polls).await;
        poll_and_drop(session.is_complete("x = 1"), polls).await;
        let (cell, _) = tokio::join!(
            async { session.cell("import time\ntime.sleep(0.05)").await },
            poll_and_drop(session.interrupt(), polls)
        );
        assert!(matches!(cell.status, Status::Ok | Status::Interrupted), "{:?}", cell.status);
        assert_eq!(session.value("x").await, "1");
    }
    for polls in 1..5 {
        poll_and_drop(session.restart(), polls).await;
        assert_eq!(session.value("1 + 1").await, "2");
    }
    for polls in 1..5 {
        poll_and_drop(session.stop(), polls).await;
    }
    until("the session has stopped", async || session.run("1").await.is_err_and(|error| error.is_session_gone())).await;
}

/// Nothing is left of what a start made.
async fn leaves_nothing(lab: &Lab, detached: bool) {
    for polls in [0, 1, 2, 5, 20, 100] {
        let begun = lab.fixture().recording().created().len();
        let name = lab.name(&format!("dropped-{polls}"));
        let start = lab.builder().name(name.clone()).detached(detached).start();
        if poll_and_drop(Box::pin(start), polls).await && detached {
            // It was faster, and a detached session that has started goes on.
            Session::remove(lab.engine().as_ref(), &name).await.expect("it is there");
        }
        if polls > 0 {
            until("it has begun", async || lab.fixture().recording().created().len() > begun).await;
        }
        until(format_args!("nothing is left after {polls} polls"), async || nothing_is_there(lab).await).await;
    }
}

/// Everything that was made, if it was, has gone: containers and the host's directories.
async fn nothing_is_there(lab: &Lab) -> bool {
    let created = lab.fixture().recording().created();
    let listed = lab.engine().list(&[]).await.expect("a list");
    created.iter().all(|(id, spec)| !host::directory(spec).exists() && listed.iter().all(|one| one.id != *id))
}

async fn a_dropped_start_leaves_nothing(lab: &Lab) {
    Box::pin(leaves_nothing(lab, false)).await;
}

async fn a_dropped_detached_start_leaves_nothing(lab: &Lab) {
    Box::pin(leaves_nothing(lab, true)).await;
}

async fn a_call_dropped_while_it_asks_harms_nobody(lab: &Lab) {
    let session = lab.session().await;
    for polls in [1, 3, 10, 30] {
        let run = session.run("input('? ')").stdin(|_| Box::pin(std::future::pending()));
        assert!(!poll_and_drop(run.into_future(), polls).await);
        let begun = Instant::now();
        assert_eq!(session.value("1 + 1").await, "2");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
    // Left running, it asks nobody: an end of file.
    let run = session.run(
        "import time\ntime.sleep(0.2)\nresult = 'unset'\ntry: result = input('? ')\nexcept EOFError: result = 'eof'",
    );
    let run = run.stdin(|_| Box::pin(std::future::pending())).on_drop(OnDrop::LeaveRunning);
    assert!(!poll_and_drop(run.into_future(), 2).await);
    assert_eq!(session.value("result").await, "'eof'");
}

async fn a_dropped_call_that_swallows_interrupts_ends_at_its_timeout(lab: &Lab) {
    let session = lab.builder().grace(Duration::from_millis(500)).start().await.expect("a session");
    let code = "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass";
    let begun = Instant::now();
    let run = session.run(code).timeout(Duration::from_secs(2));
    assert!(!poll_and_drop(run.into_future(), 100).await);
    let next = session.good("1 + 1").await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(next.text(), Some("2"));
}
