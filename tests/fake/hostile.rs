//! Kernels that attack the host. It lives on with bounded memory, says what happened, and other sessions do not notice.

use std::time::Duration;

use cellblock::{Session, State, Status};

use super::fake::{End, FakeEngine, Greeting};
use super::{builder, session, stop};

async fn is_well(session: &Session) {
    let execution = session.run("40 + 2").await.unwrap();
    assert_eq!((execution.status, execution.result.unwrap().text()), (Status::Ok, Some("42")));
}

#[tokio::test]
async fn what_no_honest_kernel_sends_costs_the_kernel() {
    let (engine, others) = (FakeEngine::new(), FakeEngine::new());
    let (hostile, other) = (session(&engine).await, session(&others).await);
    for act in [
        "huge-frame",
        "endless-multipart",
        "reserved-flags",
        "command",
        "long-header",
        "long-signature",
        "many-identities",
        "huge-frame shell",
        "endless-multipart shell",
    ] {
        let running = hostile.run(format!("%hostile {act}\nwhile True: pass")).timeout(Duration::from_secs(20));
        let execution = running.await.unwrap();
        let Status::KernelDied(death) = &execution.status else { panic!("{act}: {:?}", execution.status) };
        assert!(death.reason.as_ref().is_some_and(|reason| reason.starts_with("the kernel ")), "{act}: {death:?}");
        assert_eq!(execution.state, State::KernelRestarted);
        is_well(&other).await;
        is_well(&hostile).await;
    }
    stop(&hostile, &engine).await;
    stop(&other, &others).await;
}

#[tokio::test]
async fn a_message_that_cannot_be_read_costs_no_more_than_itself() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    session.run("x = 1").await.unwrap();
    for (act, stdout) in [
        ("missing-frames", ""),
        ("no-delimiter", ""),
        ("bad-signature", ""),
        ("garbage-header", ""),
        ("deep-json", ""),
        ("odd-json", "\u{fffd}\u{fffd}"),
        ("replay", "forged\n"),
        ("bad-signature shell", ""),
        ("missing-frames shell", ""),
        ("relay-garbage", ""),
    ] {
        let execution =
            session.run(format!("print('before', flush=True)\n%hostile {act}\nprint('after')\nx")).await.unwrap();
        assert_eq!(execution.stdout.text, format!("before\n{stdout}after\n"), "{act}");
        assert_eq!((execution.status, execution.state), (Status::Ok, State::Kept), "{act}");
        assert_eq!(execution.result.unwrap().text(), Some("1"), "{act}");
    }
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_message_that_is_too_long_is_left_out_and_counted() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let execution = session.run("print('before', flush=True)\n%flood 25200000\nprint('after')").await.unwrap();
    assert_eq!((&execution.status, execution.state), (&Status::Ok, State::Kept));
    assert_eq!(execution.stdout.text, "before\nafter\n");
    assert_eq!(execution.outputs_left_out, 1);
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_relay_that_breaks_the_protocol_ends_its_session_alone() {
    let others = FakeEngine::new();
    let other = session(&others).await;
    let faults = ["past-credit", "long-frame", "unknown-kind", "flood", "absurd-credit", "killed"];
    futures_util::future::join_all(faults.map(async |fault| {
        let engine = FakeEngine::new();
        let session = session(&engine).await;
        let execution = session.run(format!("%hostile relay-{fault}\nwhile True: pass")).await.unwrap();
        assert!(matches!(execution.status, Status::ContainerGone(_)), "{fault}: {:?}", execution.status);
        assert!(engine.containers().is_empty(), "{fault}: the container is left");
        assert!(session.run("1").await.unwrap_err().is_session_gone());
    }))
    .await;
    is_well(&other).await;
    stop(&other, &others).await;
}

#[tokio::test]
async fn sockets_that_do_not_greet_as_they_should_fail_the_start() {
    for greeting in [Greeting::Http, Greeting::Old] {
        let engine = FakeEngine::greeting(greeting);
        let started = tokio::time::timeout(Duration::from_secs(10), builder(&engine).start()).await;
        assert!(started.unwrap().is_err(), "{greeting:?}");
        assert!(engine.containers().is_empty(), "{greeting:?}: the container is left");
    }
}

#[tokio::test]
async fn a_greeting_without_end_keeps_nobody_else_waiting() {
    for greeting in [Greeting::Slow, Greeting::Silent] {
        let engine = FakeEngine::greeting(greeting);
        let starting = tokio::spawn(builder(&engine).start());
        let others = FakeEngine::new();
        let other = session(&others).await;
        is_well(&other).await;
        stop(&other, &others).await;
        assert!(!starting.is_finished());
        let kernel = loop {
            if let Some(kernel) = engine.containers().first().and_then(|container| container.kernel()) {
                break kernel;
            }
            tokio::task::yield_now().await;
        };
        kernel.end(End::Signal(9));
        assert!(starting.await.unwrap().is_err());
        assert!(engine.containers().is_empty());
    }
}

#[tokio::test]
async fn a_kernel_that_comes_back_mute_ends_the_session() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    engine.container().set_greeting(Greeting::Http);
    let execution = session.run("import os; os._exit(1)").await.unwrap();
    assert!(matches!(execution.status, Status::KernelDied(_) | Status::ContainerGone(_)), "{:?}", execution.status);
    assert_eq!(execution.state, State::ContainerGone);
    assert!(engine.containers().is_empty());
}
