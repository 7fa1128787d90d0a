//! From the start of a session to its end.

use std::time::{Duration, Instant};

use cellblock::{Error, Execution, Ran, RunStream, Session, State, Status};
use futures_util::future::join_all;

use crate::follow::Following;
use crate::host;
use crate::lab::{Ask as _, Lab, SOON, tests, until};

tests! {
    links: [
        a_stop_ends_the_cell_that_runs,
        a_stopped_session_says_so_to_every_call,
    ]
    everywhere: [
        a_restart_ends_the_cell_that_runs_and_not_those_behind_it,
        cells_behind_a_stop_never_run,
        a_session_works_from_a_second_runtime,
        handles_go_where_they_like,
    ]
    python_links: [
        a_restart_forgets_variables_and_keeps_files,
    ]
    python: [
        an_owned_session_goes_with_its_last_handle,
        a_blocked_caller_stalls_nobody,
        the_environment_is_the_kernels,
        a_session_ends_at_its_maximum_life,
        many_restarts_leave_one_kernel,
    ]
    process: [
        sixteen_sessions_at_once,
    ]
    container: [
        sixteen_slow_containers_at_once_all_become_ready,
    ]
}

async fn a_restart_forgets_variables_and_keeps_files(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1\nwith open('kept.txt', 'w') as file: file.write('here')\nNone").await;
    session.restart().await.expect("it restarts");
    let gone = session.cell("x").await;
    assert_eq!(gone.error().map(|error| error.ename.as_str()), Some("NameError"));
    assert_eq!(gone.state, State::Kept, "the caller asked for the restart and knows");
    assert_eq!(session.value("open('kept.txt').read()").await, "'here'");
}

async fn a_restart_ends_the_cell_that_runs_and_not_those_behind_it(lab: &Lab) {
    let session = lab.session().await;
    let running = Following::until(&session, "print('begun', flush=True)\nimport time\ntime.sleep(60)", "begun").await;
    let (ended, behind, restarted) =
        tokio::join!(running.finish(), async { session.cell("40 + 2").await }, session.restart());
    restarted.expect("it restarts");
    let Status::KernelDied(death) = &ended.status else { panic!("{:?}", ended.status) };
    assert!(death.reason.as_ref().is_some_and(|reason| reason.contains("restart")), "{death:?}");
    assert_eq!((ended.state, ended.stdout.text.as_str()), (State::KernelRestarted, "begun\n"));
    assert_eq!((behind.text(), behind.state), (Some("42"), State::Kept));
}

async fn a_stop_ends_the_cell_that_runs(lab: &Lab) {
    let session = lab.session().await;
    let running = Following::until(&session, "print('begun', flush=True)\nimport time\ntime.sleep(60)", "begun").await;
    let (ended, stopped) = tokio::join!(running.finish(), session.stop());
    stopped.expect("it stops");
    assert!(matches!(ended.status, Status::ContainerGone(_)), "{:?}", ended.status);
    assert_eq!((ended.state, ended.stdout.text.as_str()), (State::ContainerGone, "begun\n"));
    let listed = lab.engine().list(&[]).await.expect("a list");
    let id = lab.fixture().recording().only();
    assert!(listed.iter().all(|one| one.id != id), "when stop has returned the container is gone");
}

async fn cells_behind_a_stop_never_run(lab: &Lab) {
    let session = lab.session().await;
    let running = Following::until(&session, "print('begun', flush=True)\nimport time\ntime.sleep(60)", "begun").await;
    let behind = (0..3).map(|_| session.run("1").into_future());
    let (_, behind, stopped) = tokio::join!(running.finish(), join_all(behind), session.stop());
    stopped.expect("it stops");
    for error in behind {
        gone(&error.expect_err("it never ran"));
    }
}

fn gone(error: &Error) {
    assert!(error.is_session_gone(), "{error:?}");
    assert_eq!(error.ran(), Ran::Never, "{error:?}");
    assert!(std::error::Error::source(&error).is_some_and(|how| !how.to_string().is_empty()), "{error:?}");
}

async fn a_stopped_session_says_so_to_every_call(lab: &Lab) {
    let session = lab.session().await;
    let other = session.clone();
    session.stop().await.expect("it stops");
    for session in [&session, &other] {
        gone(&session.run("1").await.expect_err("gone"));
        gone(&session.interrupt().await.expect_err("gone"));
        gone(&session.restart().await.expect_err("gone"));
        gone(&session.complete("x", 1).await.expect_err("gone"));
        gone(&session.is_complete("x").await.expect_err("gone"));
        gone(&session.stop().await.expect_err("gone"));
        let mut stream = session.run_stream("1");
        let first = futures_util::StreamExt::next(&mut stream).await.expect("an item");
        gone(&first.expect_err("gone"));
        assert!(futures_util::StreamExt::next(&mut stream).await.is_none());
    }
}

/// Compiles, which is all that it has to do.
async fn handles_go_where_they_like(lab: &Lab) {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    fn sent<T: Send + 'static>(value: T) -> T {
        value
    }
    let session = lab.session().await;
    shared(&session);
    drop(sent(session.run("1").into_future()));
    let _: RunStream = sent(session.run_stream("1"));
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    is_send(session.interrupt()).await.expect("nothing to do");
    is_send(session.restart()).await.expect("it restarts");
    let moved = session.clone();
    let spawned = tokio::spawn(async move { moved.run("1 + 1").await });
    assert_eq!(spawned.await.expect("no panic").expect("the call goes well").text(), Some("2"));
    is_send(session.stop()).await.expect("it stops");
    fn is_sync<T: Send + Sync>() {}
    is_sync::<(Execution, Error, Session)>();
}

/// Runs something on a runtime of its own, which has ended when this returns.
async fn on_another_runtime<T: Send + 'static>(what: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let thread = std::thread::spawn(move || runtime.block_on(what));
    tokio::task::spawn_blocking(move || thread.join().expect("no panic")).await.expect("no panic")
}

async fn a_session_works_from_a_second_runtime(lab: &Lab) {
    let builder = lab.builder();
    let session = on_another_runtime(async move {
        let session = builder.start().await.expect("a session");
        session.good("x = 1").await;
        // What is under way when the runtime ends goes on as it was told.
        let run = session.run("import time\ntime.sleep(0.3)\nx += 1").on_drop(cellblock::OnDrop::LeaveRunning);
        let _ = tokio::time::timeout(Duration::from_millis(100), run).await;
        session
    })
    .await;
    assert_eq!(session.value("x").await, "2");
    let (again, moved) = (session.clone(), session.clone());
    assert_eq!(on_another_runtime(async move { again.value("x + 1").await }).await, "3");
    on_another_runtime(async move { moved.stop().await }).await.expect("it stops");
    gone(&session.run("1").await.expect_err("gone"));
}

async fn an_owned_session_goes_with_its_last_handle(lab: &Lab) {
    let session = lab.session().await;
    session.good("print('x' * 3_000_000)").await;
    let other = session.clone();
    drop(session);
    assert_eq!(other.value("1 + 1").await, "2");
    let begun = Instant::now();
    drop(other);
    assert!(begun.elapsed() < Duration::from_millis(500), "a drop only sends: {:?}", begun.elapsed());
    let (id, spec) = lab.fixture().recording().created().remove(0);
    until("the container is gone", async || {
        lab.engine().list(&[]).await.expect("a list").iter().all(|one| one.id != id)
    })
    .await;
    let directory = host::directory(&spec);
    until("the host's directory is gone", async || !directory.exists()).await;
}

async fn a_blocked_caller_stalls_nobody(lab: &Lab) {
    let session = lab.session().await;
    session.good("import time").await;
    let blocked = session.run("for i in range(20000): print(i)\nend = time.monotonic()").into_future();
    let mut blocked = std::pin::pin!(blocked);
    assert!(futures_util::poll!(blocked.as_mut()).is_pending());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let other = session.clone();
    let behind = std::thread::spawn(move || runtime.block_on(async { other.value("time.monotonic() >= end").await }));
    // This thread is all that the test's runtime has. The other caller's cell runs once this one's has ended.
    assert_eq!(behind.join().expect("no panic"), "True");
    assert!(blocked.await.expect("the call goes well").is_ok());
}

async fn the_environment_is_the_kernels(lab: &Lab) {
    let session = lab.builder().env("OWN", "a=b c\n'\"").env("CLASH", "1").env("CLASH", "2").start().await;
    let session = session.expect("a session");
    assert_eq!(session.value("import os\nos.environ['OWN'] == 'a=b c\\n\\'\"'").await, "True");
    assert_eq!(session.value("os.environ['CLASH']").await, "'2'");
    assert_eq!(session.value("[name for name in os.environ if 'CELLBLOCK' in name]").await, "[]");
    session.restart().await.expect("it restarts");
    assert_eq!(session.value("import os\nos.environ['CLASH']").await, "'2'");
}

async fn a_session_ends_at_its_maximum_life(lab: &Lab) {
    let session = lab.builder().max_life(Duration::from_secs(4)).start().await.expect("a session");
    let begun = Instant::now();
    let execution = session.cell("import time\ntime.sleep(60)").await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let Status::ContainerGone(how) = &execution.status else { panic!("{:?}", execution.status) };
    assert!(how.contains("life"), "{how:?}");
    gone(&session.run("1").await.expect_err("gone"));
}

async fn many_restarts_leave_one_kernel(lab: &Lab) {
    let session = lab.session().await;
    for round in 0..8 {
        session.restart().await.expect("it restarts");
        assert_eq!(session.value(&format!("{round} + 1")).await, (round + 1).to_string());
    }
    // Two at once are two restarts, and nobody is left waiting.
    let (one, two) = tokio::join!(session.restart(), session.restart());
    one.and(two).expect("both restart");
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn sixteen_sessions_at_once(lab: &Lab) {
    let all = join_all((0..16).map(|i| async move {
        let session = lab.session().await;
        session.good(format!("x = {i}")).await;
        session
    }))
    .await;
    let values = join_all(all.iter().map(|session| async move { session.value("x * 2").await })).await;
    assert_eq!(values, (0..16).map(|i| (i * 2).to_string()).collect::<Vec<_>>());
    // One that dies takes no other with it.
    all[3].cell("import os\nos._exit(1)").await;
    all[5].stop().await.expect("it stops");
    for (i, session) in all.iter().enumerate().filter(|(i, _)| ![3, 5].contains(i)) {
        assert_eq!(session.value("x").await, i.to_string());
    }
    let stopped = join_all(all.iter().map(Session::stop)).await;
    assert_eq!(stopped.iter().filter(|result| result.is_err()).count(), 1);
}

async fn sixteen_slow_containers_at_once_all_become_ready(lab: &Lab) {
    let all = join_all((0..16).map(|i| async move {
        let session = lab.builder().cpus(0.2).memory(256 << 20).start().await.expect("a session");
        assert_eq!(session.value(&format!("{i} * 2")).await, (i * 2).to_string());
        session
    }))
    .await;
    for stopped in join_all(all.iter().map(Session::stop)).await {
        stopped.expect("it stops");
    }
}
