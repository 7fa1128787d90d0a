//! Owned and detached sessions, and who holds them.

use std::time::Duration;

use cellblock::{Lease, Session, Status};

use super::fake::{FakeEngine, Status as ContainerStatus};
use super::{attach, builder};

#[tokio::test]
async fn a_detached_session_is_let_go_and_taken_again() {
    let engine = FakeEngine::new();
    let session = builder(&engine).name("kept").detached(true).start().await.unwrap();
    session.run("x = 41").await.unwrap();
    let error = Session::attach("kept").engine(engine.clone()).await.unwrap_err();
    assert!(error.is_held(), "{error}");
    session.detach().await.unwrap();
    drop(session);

    let listed = Session::list(engine.as_ref()).await.unwrap();
    assert_eq!(
        listed.iter().map(|found| (found.name.as_str(), found.lease)).collect::<Vec<_>>(),
        [("kept", Lease::Detached)]
    );
    let again = attach(&engine, "kept").await;
    assert_eq!(again.run("x + 1").await.unwrap().result.unwrap().text(), Some("42"));
    again.stop().await.unwrap();
    assert!(engine.containers().is_empty());
    assert!(Session::attach("kept").engine(engine.clone()).await.unwrap_err().is_no_such_session());
}

#[tokio::test]
async fn a_detached_session_ends_by_its_idle_time() {
    let engine = FakeEngine::new();
    let session = builder(&engine).detached(true).idle_timeout(Duration::from_millis(200)).start().await.unwrap();
    let container = engine.container();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(session.run("1").await.unwrap().status, Status::Ok);
    session.detach().await.unwrap();
    assert_eq!(container.status(), ContainerStatus::Running);
    tokio::time::timeout(Duration::from_secs(5), container.exited()).await.unwrap();
    assert_eq!(container.status(), ContainerStatus::Exited(Some(11)));
}

#[tokio::test]
async fn the_last_handle_of_an_owned_session_removes_it() {
    let engine = FakeEngine::new();
    let session = builder(&engine).start().await.unwrap();
    let clone = session.clone();
    drop(session);
    assert_eq!(clone.run("1").await.unwrap().status, Status::Ok);
    let container = engine.container();
    drop(clone);
    tokio::time::timeout(Duration::from_secs(5), container.exited()).await.unwrap();
}

#[tokio::test]
async fn maximum_life_ends_a_session_that_is_busy() {
    let engine = FakeEngine::new();
    let session = builder(&engine).max_life(Duration::from_millis(300)).start().await.unwrap();
    let execution = session.run("while True: pass").await.unwrap();
    let Status::ContainerGone(how) = execution.status else { panic!("{:?}", execution.status) };
    assert!(how.contains("maximum life"), "{how}");
}
