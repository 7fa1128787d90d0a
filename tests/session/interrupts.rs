//! Interrupts on request, and the barrier that keeps them out of the next cell.

use std::time::{Duration, Instant};

use cellblock::{Rung, Session, State, Status};

use crate::follow::Following;
use crate::lab::{Ask as _, Lab, SOON, tests};

tests! {
    links: [
        an_interrupt_from_another_handle_ends_the_cell,
        a_cell_after_an_interrupt_never_sees_it,
        a_cell_after_a_timeout_never_sees_its_interrupt,
    ]
    everywhere: [
        an_interrupt_with_nothing_running_does_nothing,
        an_interrupted_cell_does_not_stop_those_behind_it,
        an_interrupt_as_a_cell_begins_costs_later_ones_nothing,
        an_interrupt_as_a_cell_begins_is_not_lost,
    ]
    python: [
        code_that_goes_on_after_an_interrupt_ends_as_it_likes,
        an_await_is_interrupted_at_once,
        many_interrupts_at_once_are_few_for_the_code,
        an_interrupt_reaches_input,
        a_second_interrupt_reaches_code_that_has_caught_the_first,
    ]
}

const SLEEP: &str = "print('begun', flush=True)\nimport time\ntime.sleep(60)";

async fn an_interrupt_from_another_handle_ends_the_cell(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    let running = Following::until(&session, SLEEP, "begun").await;
    let other = session.clone();
    let begun = Instant::now();
    tokio::spawn(async move { other.interrupt().await }).await.expect("no panic").expect("it is taken");
    let execution = running.finish().await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!((execution.status, execution.rung), (Status::Interrupted, Some(Rung::Interrupt)));
    assert_eq!((execution.state, execution.stdout.text.as_str()), (State::Kept, "begun\n"));
    assert_eq!(session.value("x").await, "1");
}

async fn an_interrupt_with_nothing_running_does_nothing(lab: &Lab) {
    let session = lab.session().await;
    for _ in 0..3 {
        session.interrupt().await.expect("nothing to do");
    }
    assert_eq!(session.value("1 + 1").await, "2");
    // Nor to a cell that is sent at the same moment: it runs, or it is interrupted, and the next one runs.
    for _ in 0..20 {
        let (cell, interrupt) =
            tokio::join!(async { session.cell("import time\ntime.sleep(0.01)").await }, session.interrupt());
        interrupt.expect("it is taken");
        assert!(matches!(cell.status, Status::Ok | Status::Interrupted), "{:?}", cell.status);
        assert_eq!(session.value("1 + 1").await, "2");
    }
}

async fn an_interrupted_cell_does_not_stop_those_behind_it(lab: &Lab) {
    let session = lab.session().await;
    let running = Following::until(&session, SLEEP, "begun").await;
    let (interrupted, behind, last, interrupt) = tokio::join!(
        running.finish(),
        async { session.cell("x = 1").await },
        async { session.cell("x + 1").await },
        session.interrupt()
    );
    interrupt.expect("it is taken");
    assert_eq!(interrupted.status, Status::Interrupted);
    assert_eq!((behind.status, last.text()), (Status::Ok, Some("2")));
}

async fn code_that_goes_on_after_an_interrupt_ends_as_it_likes(lab: &Lab) {
    let session = lab.session().await;
    let code = "import time\ntry:\n    print('begun', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt: print('went on')\n'end'";
    let running = Following::until(&session, code, "begun").await;
    session.interrupt().await.expect("it is taken");
    let execution = running.finish().await;
    assert!(execution.is_ok(), "{execution:?}");
    assert_eq!((execution.stdout.text.as_str(), execution.text()), ("begun\nwent on\n", Some("'end'")));

    let code = "import time\ntry:\n    print('begun', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt: raise ValueError('own')";
    let running = Following::until(&session, code, "begun").await;
    session.interrupt().await.expect("it is taken");
    let execution = running.finish().await;
    assert_eq!(execution.error().map(|error| error.ename.as_str()), Some("ValueError"), "{}", execution.status);
}

async fn an_await_is_interrupted_at_once(lab: &Lab) {
    let session = lab.session().await;
    let code = "import asyncio\nprint('begun', flush=True)\nawait asyncio.sleep(60)";
    let running = Following::until(&session, code, "begun").await;
    let begun = Instant::now();
    session.interrupt().await.expect("it is taken");
    assert_eq!(running.finish().await.status, Status::Interrupted);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn many_interrupts_at_once_are_few_for_the_code(lab: &Lab) {
    let session = lab.session().await;
    let code = "import time\nhits = 0\nwhile hits == 0:\n    try:\n        print('begun', flush=True)\n        \
                time.sleep(60)\n    except KeyboardInterrupt: hits += 1";
    let running = Following::until(&session, code, "begun").await;
    let all = futures_util::future::join_all((0..10).map(|_| session.interrupt())).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    let execution = running.finish().await;
    assert!(matches!(execution.status, Status::Ok | Status::Interrupted), "{:?}", execution.status);
    assert_eq!((execution.state, session.value("hits").await.as_str()), (State::Kept, "1"));
}

async fn an_interrupt_reaches_input(lab: &Lab) {
    let session = lab.session().await;
    let (asked, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let run = session.run("input('? ')").stdin(move |_| {
        asked.send(()).expect("the test listens");
        Box::pin(std::future::pending())
    });
    let interrupt = async {
        seen.recv().await.expect("it asks");
        session.interrupt().await
    };
    let (execution, interrupt) = tokio::join!(run.into_future(), interrupt);
    interrupt.expect("it is taken");
    assert_eq!(execution.expect("the call goes well").status, Status::Interrupted);
    assert_eq!(session.value("1 + 1").await, "2");
}

/// What is between 0 and `most`, a different one each round.
fn jitter(round: u32, most: Duration) -> Duration {
    most * (round * 37 % 101) / 101
}

async fn is_clean(session: &Session, round: u32) {
    let next = session.cell("clean = 40 + 2\nclean").await;
    assert!(next.result.is_some(), "round {round}: {next:?}");
    assert_eq!((next.status, next.stderr.text.as_str()), (Status::Ok, ""), "round {round}");
    assert_eq!((next.result.as_ref().and_then(|result| result.text()), next.rung), (Some("42"), None), "round {round}");
}

async fn a_cell_after_an_interrupt_never_sees_it(lab: &Lab) {
    let session = lab.session().await;
    session.good("import time").await;
    for round in 0..lab.rounds(150) {
        let cell = async { session.cell("time.sleep(0.02)").await };
        let interrupt = async {
            tokio::time::sleep(jitter(round, Duration::from_millis(45))).await;
            session.interrupt().await
        };
        let (cell, interrupt) = tokio::join!(cell, interrupt);
        interrupt.expect("it is taken");
        assert!(matches!(cell.status, Status::Ok | Status::Interrupted), "round {round}: {:?}", cell.status);
        assert_eq!(cell.state, State::Kept, "round {round}");
        is_clean(&session, round).await;
    }
}

async fn an_interrupt_as_a_cell_begins_costs_later_ones_nothing(lab: &Lab) {
    let session = lab.session().await;
    session.good("import time").await;
    for round in 0..lab.rounds(300) {
        let cell = async { session.cell("time.sleep(0.01)").await };
        // Into the kernel's own code, before and after the user's.
        let interrupt = async {
            tokio::time::sleep(jitter(round, Duration::from_millis(5))).await;
            session.interrupt().await
        };
        let begun = Instant::now();
        let (_, interrupt) = tokio::join!(cell, interrupt);
        interrupt.expect("it is taken");
        is_clean(&session, round).await;
        assert!(begun.elapsed() < SOON, "round {round}: {:?}", begun.elapsed());
    }
}

async fn an_interrupt_as_a_cell_begins_is_not_lost(lab: &Lab) {
    let session = lab.session().await;
    session.good("import time").await;
    for round in 0..lab.rounds(200) {
        // It is asked for after the cell, so it is the cell's, wherever that is on its way.
        let cell = session.run("time.sleep(30)").into_future();
        let interrupt = async {
            if round % 4 > 0 {
                tokio::time::sleep(jitter(round, Duration::from_millis(8))).await;
            }
            session.interrupt().await
        };
        let begun = Instant::now();
        let (cell, interrupt) = tokio::join!(cell, interrupt);
        interrupt.expect("it is taken");
        let cell = cell.expect("the call goes well");
        assert_eq!(cell.status, Status::Interrupted, "round {round}");
        assert!(begun.elapsed() < SOON, "round {round}: {:?}", begun.elapsed());
    }
}

async fn a_cell_after_a_timeout_never_sees_its_interrupt(lab: &Lab) {
    let session = lab.builder().grace(SOON).start().await.expect("a session");
    session.good("import time").await;
    for round in 0..lab.rounds(250) {
        // Ends exactly at its deadline, more or less.
        let timeout = Duration::from_millis(15) + jitter(round, Duration::from_millis(15));
        let cell = session.run("time.sleep(0.02)").timeout(timeout).await.expect("the call goes well");
        assert!(matches!(cell.status, Status::Ok | Status::TimedOut), "round {round}: {:?}", cell.status);
        assert_eq!(cell.state, State::Kept, "round {round}");
        is_clean(&session, round).await;
    }
}

async fn a_second_interrupt_reaches_code_that_has_caught_the_first(lab: &Lab) {
    let session = lab.session().await;
    // What says that it has begun is printed within the `try`: its text is here before its `print` has returned.
    let code = "import time\ntry:\n    print('begun', flush=True)\n    time.sleep(60)\n\
                except KeyboardInterrupt: print('caught', flush=True)\ntime.sleep(60)";
    let running = Following::until(&session, code, "begun").await;
    session.interrupt().await.expect("it is taken");
    let running = running.until_printed("caught").await;
    let begun = Instant::now();
    session.interrupt().await.expect("it is taken");
    assert_eq!(running.finish().await.status, Status::Interrupted);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}
