//! Kernels that fail, and what the session says of it.

use std::time::Duration;

use cellblock::{Death, OnDrop, Ran, Rung, Session, State, Status};

use super::fake::{End, FakeEngine, Greeting, MISSING_IMAGE, Status as ContainerStatus};
use super::{attach, builder, busy, session, stop};

fn died(status: &Status) -> Death {
    match status {
        Status::KernelDied(death) => death.clone(),
        other => panic!("{other:?}"),
    }
}

/// The session runs, and its kernel is a new one.
async fn is_restarted(session: &Session) {
    let execution = session.run("x").await.unwrap();
    assert!(matches!(execution.status, Status::Error(error) if error.ename == "NameError"));
}

#[tokio::test]
async fn a_dead_kernel_is_restarted_and_says_how_it_ended() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    for (code, exit, signal, out_of_memory) in [
        ("import os; os._exit(3)", Some(3), None, false),
        ("import os; os.abort()", None, Some(6), false),
        ("%oom", None, Some(9), true),
    ] {
        session.run("x = 1").await.unwrap();
        let execution = session.run(code).await.unwrap();
        let death = died(&execution.status);
        assert_eq!((death.code, death.signal, death.out_of_memory), (exit, signal, out_of_memory), "{code}");
        assert_eq!(execution.state, State::KernelRestarted);
        is_restarted(&session).await;
    }
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_kernel_that_dies_between_cells_is_restarted_before_the_next() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    session.run("x = 1").await.unwrap();
    engine.container().kernel().unwrap().end(End::Code(0));
    let execution = loop {
        let execution = session.run("1 + 1").await.unwrap();
        // The cell may be on its way to the old kernel when that ends.
        if !matches!(execution.status, Status::KernelDied(_)) {
            break execution;
        }
    };
    assert_eq!(execution.status, Status::Ok);
    is_restarted(&session).await;
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_cell_that_has_ended_when_its_kernel_dies_is_told_as_ended() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    // Which of the cell's last messages and the word of its kernel's end is read first is chance.
    let mut states = Vec::new();
    for round in 0..40 {
        let execution = session.run(format!("x = 1\nprint({round})\n%end 3\n40 + 2")).await.unwrap();
        assert_eq!((&execution.status, execution.text()), (&Status::Ok, Some("42")), "{round}");
        assert_eq!(execution.stdout.text, format!("{round}\n"));
        let next = loop {
            let next = session.run("x").await.unwrap();
            // It may be on its way to the old kernel when that ends.
            if !matches!(next.status, Status::KernelDied(_)) {
                break next;
            }
        };
        assert!(matches!(&next.status, Status::Error(error) if error.ename == "NameError"), "{:?}", next.status);
        states.push(execution.state);
    }
    assert!(states.contains(&State::KernelRestarted), "its kernel's end was never read first");
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_link_that_is_lost_while_a_kernel_is_replaced_is_made_again() {
    let engine = FakeEngine::new();
    let session = builder(&engine).detached(true).start().await.unwrap();
    let container = engine.container();
    for lost in [&[false][..], &[true], &[true, false, true]] {
        session.run("x = 1").await.unwrap();
        container.lose_at_starts(lost);
        let execution = session.run("import os; os._exit(3)").await.unwrap();
        assert_eq!((died(&execution.status).code, execution.state), (Some(3), State::KernelRestarted), "{lost:?}");
        assert_eq!(container.starts_to_lose(), 0);
        is_restarted(&session).await;

        container.lose_at_starts(lost);
        let execution = session.run("while True: pass").timeout(Duration::from_millis(50)).await.unwrap();
        assert_eq!((&execution.status, execution.state), (&Status::TimedOut, State::Kept));
        session.restart().await.unwrap();
        assert_eq!(container.starts_to_lose(), 0);
        is_restarted(&session).await;
    }
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_link_that_is_lost_at_every_start_of_a_kernel_ends_the_session() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    engine.container().lose_at_starts(&[true; 1000]);
    let execution = session.run("import os; os._exit(3)").await.unwrap();
    assert!(matches!(&execution.status, Status::ContainerGone(how) if how.contains("link")), "{:?}", execution.status);
    assert_eq!(execution.state, State::ContainerGone);
    assert!(engine.containers().is_empty());
}

#[tokio::test]
async fn a_cell_that_goes_on_over_another_link_has_its_deadline_told_again() {
    let engine = FakeEngine::new();
    let session = builder(&engine).detached(true).start().await.unwrap();
    let container = engine.container();
    let timeout = Duration::from_secs(60);
    let running = tokio::spawn(session.run("while True: pass").timeout(timeout).into_future());
    busy(&engine).await;
    assert_eq!(container.deadlines(), [timeout]);
    container.lose_link();
    tokio::time::timeout(Duration::from_secs(10), async {
        while container.deadlines().len() == 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the bridge may never have heard of the deadline");
    assert!(container.deadlines()[1] < timeout, "what is left of it");
    session.interrupt().await.unwrap();
    assert_eq!(running.await.unwrap().unwrap().status, Status::Interrupted);
    stop(&session, &engine).await;
}

#[tokio::test]
async fn an_interrupt_that_the_kernels_control_channel_does_not_take_is_left_to_the_bridge() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let running = tokio::spawn(session.run("print('begun')\n%hostile close-control\nwhile True: pass").into_future());
    busy(&engine).await;
    session.interrupt().await.unwrap();
    assert_eq!(running.await.unwrap().unwrap().status, Status::Interrupted);
    assert_eq!(engine.container().interrupts(), 1);
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_container_that_cannot_be_removed_is_not_told_as_gone() {
    let stubborn = "while True:\n    try:\n        time.sleep(1)\n    except KeyboardInterrupt:\n        pass";
    for code in ["import os; os._exit(3)", stubborn] {
        let engine = FakeEngine::new();
        let session = builder(&engine).name("left").detached(true).start().await.unwrap();
        engine.refuse_removals(true);
        engine.container().set_greeting(Greeting::Http);
        let error = session.run(code).timeout(Duration::from_millis(50)).await.unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(error.ran() == Ran::Yes && !error.is_session_gone() && error.hint().is_some(), "{error:?}");
        assert!(why.contains("could not be restarted") && why.contains("could not be removed"), "{why}");
        assert_eq!(engine.container().status(), ContainerStatus::Running);
        // What it is told to do, it can do: there is a session to take hold of.
        engine.container().set_greeting(Greeting::Honest);
        let again = attach(&engine, "left").await;
        is_restarted(&again).await;

        // Nor is it said when the session is stopped in the middle of a cell.
        let running = tokio::spawn(again.run("while True: pass").into_future());
        busy(&engine).await;
        assert!(again.stop().await.is_err());
        let error = running.await.unwrap().unwrap_err();
        assert!(error.ran() != Ran::Never && !error.is_session_gone(), "{error:?}");
        engine.refuse_removals(false);
        stop(&attach(&engine, "left").await, &engine).await;
    }
}

#[tokio::test]
async fn an_owned_container_that_cannot_be_removed_ends_with_its_lease() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let container = engine.container();
    engine.refuse_removals(true);
    container.set_greeting(Greeting::Http);
    let execution = session.run("import os; os._exit(3)").await.unwrap();
    assert!(matches!(execution.status, Status::ContainerGone(_)), "{:?}", execution.status);
    assert_eq!((execution.state, container.exited().await), (State::ContainerGone, Some(10)));
}

#[tokio::test]
async fn a_container_that_ended_and_cannot_be_removed_is_gone() {
    let engine = FakeEngine::new();
    let session = builder(&engine).detached(true).start().await.unwrap();
    engine.refuse_removals(true);
    let running = tokio::spawn(session.run("while True: pass").into_future());
    busy(&engine).await;
    engine.container().exit(Some(137));
    let execution = running.await.unwrap().unwrap();
    assert!(matches!(execution.status, Status::ContainerGone(_)), "{:?}", execution.status);
    assert_eq!(execution.state, State::ContainerGone);
}

#[tokio::test]
async fn code_that_ignores_interrupts_costs_the_kernel() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let code = "while True:\n    try:\n        time.sleep(1)\n    except KeyboardInterrupt:\n        pass";
    let execution = session.run(code).timeout(Duration::from_millis(50)).await.unwrap();
    assert_eq!(
        (execution.status, execution.state, execution.rung),
        (Status::TimedOut, State::KernelRestarted, Some(Rung::KernelRestart))
    );
    is_restarted(&session).await;
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_held_gil_gets_one_signal_from_the_bridge_and_the_next_cell_none() {
    let engine = FakeEngine::new();
    let session = builder(&engine).grace(Duration::from_secs(5)).start().await.unwrap();
    let execution = session.run("%gil 0.5").timeout(Duration::from_millis(50)).await.unwrap();
    assert_eq!((execution.status, execution.state), (Status::TimedOut, State::Kept));
    assert_eq!(engine.container().interrupts(), 1);
    let next = session.run("import time; time.sleep(0.3)").await.unwrap();
    assert_eq!(next.status, Status::Ok);
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_lost_reply_does_not_cost_the_state() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let execution = session.run("x = 1\nprint('done')\n%noreply").await.unwrap();
    assert_eq!((execution.stdout.text.as_str(), execution.state), ("done\n", State::Kept));
    assert_eq!(session.run("x").await.unwrap().result.unwrap().text(), Some("1"));
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_lost_idle_does_not_hang_the_session() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let execution = session.run("x = 1\n%noidle").await.unwrap();
    assert_eq!((execution.status, execution.state), (Status::Ok, State::Kept));
    assert_eq!(session.run("x").await.unwrap().result.unwrap().text(), Some("1"));
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_dropped_call_is_interrupted_and_the_next_one_runs() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let dropped = tokio::time::timeout(Duration::from_millis(100), session.run("x = 1\nwhile True: pass")).await;
    assert!(dropped.is_err());
    assert_eq!(session.run("x").await.unwrap().result.unwrap().text(), Some("1"));
    let left = session.run("import time; time.sleep(0.3); y = 2").on_drop(OnDrop::LeaveRunning);
    assert!(tokio::time::timeout(Duration::from_millis(100), left).await.is_err());
    assert_eq!(session.run("y").await.unwrap().result.unwrap().text(), Some("2"));
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_killed_container_ends_the_session_and_says_so() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let running = tokio::spawn(session.run("while True: pass").into_future());
    busy(&engine).await;
    engine.container().exit(Some(137));
    let execution = running.await.unwrap().unwrap();
    assert!(matches!(execution.status, Status::ContainerGone(_)), "{:?}", execution.status);
    assert_eq!(execution.state, State::ContainerGone);
    let error = session.run("1").await.unwrap_err();
    assert!(error.is_session_gone());
    assert_eq!(error.ran(), Ran::Never);
}

#[tokio::test]
async fn what_the_engine_refuses_is_an_error_by_name() {
    let engine = FakeEngine::new();
    let error = builder(&engine).image(MISSING_IMAGE).start().await.unwrap_err();
    assert!(error.is_image_missing(), "{error}");
    let first = builder(&engine).name("one").start().await.unwrap();
    let error = builder(&engine).name("one").start().await.unwrap_err();
    assert!(error.is_name_taken(), "{error}");
    stop(&first, &engine).await;
    builder(&engine).name("one").start().await.unwrap().stop().await.unwrap();
}
