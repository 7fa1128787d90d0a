//! Sessions that end from the inside, with nobody there.

use std::path::Path;
use std::time::{Duration, Instant};

use cellblock::{Engine as _, Exit};

use crate::controller;
use crate::lab::{Ask as _, Lab, on, runtime_directory, within};
use crate::reattach::kill_in;

const IDLE: i64 = 11;
const MAX_LIFE: i64 = 12;

impl Lab {
    /// Waits for a container's end, from now on.
    async fn end_of(&self, session: &str) -> tokio::task::JoinHandle<Exit> {
        let id = self.container(session).await.expect("its container").id;
        let docker = self.docker.clone();
        tokio::spawn(async move { docker.wait(&id).await.expect("the engine is there") })
    }
}

/// The session has ended so by then, and nothing of it can be found.
async fn ends(lab: &Lab, name: &str, end: tokio::task::JoinHandle<Exit>, code: i64, limit: Duration) {
    let exit = tokio::time::timeout(limit, end).await.expect("it ends in time").expect("no panic");
    assert_eq!(exit.code, Some(code));
    within(Duration::from_secs(5), "its container is gone", async || lab.container(name).await.is_none()).await;
    let run = controller::run(["run", "--session", name, "-c", "1"]);
    assert!(run.code == Some(7) && run.stderr.contains("there is no session"), "{}", run.stderr);
}

#[tokio::test]
async fn a_session_that_nobody_uses_ends_at_its_idle_time() {
    on(async |lab| {
        let name = lab.start("idle", ["--idle-timeout", "3s"]);
        let end = lab.end_of(&name).await;
        let session = lab.attach(&name).await;
        // Held it is not idle, whatever it does.
        let idle = tokio::time::timeout(Duration::from_secs(5), session.run("import time\ntime.sleep(60)")).await;
        assert!(idle.is_err() && !end.is_finished());
        session.detach().await.expect("it lets go");
        let left = Instant::now();
        ends(lab, &name, end, IDLE, Duration::from_secs(10)).await;
        assert!(left.elapsed() > Duration::from_millis(2900), "{:?}", left.elapsed());
    })
    .await;
}

#[tokio::test]
async fn an_endless_loop_that_is_left_meets_its_deadline_and_then_the_idle_time() {
    on(async |lab| {
        for (what, code) in [
            ("loop", "while True: pass"),
            ("stubborn", "while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        ] {
            let name = lab.start(what, ["--idle-timeout", "2s"]);
            let end = lab.end_of(&name).await;
            let session = lab.attach(&name).await;
            let run = session.run(code).timeout(Duration::from_secs(4)).on_drop(cellblock::OnDrop::LeaveRunning);
            let running = tokio::time::timeout(Duration::from_millis(500), run).await;
            assert!(running.is_err(), "{running:?}");
            session.detach().await.expect("it lets go");
            let left = Instant::now();
            ends(lab, &name, end, IDLE, Duration::from_secs(15)).await;
            // Busy it was not idle: the deadline came first.
            assert!(left.elapsed() > Duration::from_secs(5), "{:?}", left.elapsed());
        }
    })
    .await;
}

#[tokio::test]
async fn maximum_life_ends_a_session_with_nobody_there_busy_or_not() {
    on(async |lab| {
        let idle = lab.start("old", ["--max-life", "8s"]);
        let busy = lab.start("busy", ["--max-life", "8s"]);
        let (end_of_idle, end_of_busy) = (lab.end_of(&idle).await, lab.end_of(&busy).await);
        kill_in(
            &busy,
            "print('begun', flush=True)\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
        );
        ends(lab, &idle, end_of_idle, MAX_LIFE, Duration::from_secs(12)).await;
        ends(lab, &busy, end_of_busy, MAX_LIFE, Duration::from_secs(4)).await;
    })
    .await;
}

#[tokio::test]
async fn maximum_life_ends_a_session_that_is_held_with_its_reason() {
    on(async |lab| {
        let name = lab.start("held", ["--max-life", "5s"]);
        let run = controller::run(["run", "--session", &name, "-c", "import time; time.sleep(60)"]);
        assert_eq!(run.code, Some(5), "{}", run.stderr);
        assert!(run.stderr.contains("maximum life"), "{}", run.stderr);
        assert!(lab.container(&name).await.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_session_lives_as_long_as_somebody_comes_back() {
    on(async |lab| {
        let name = lab.start("visited", ["--idle-timeout", "3s"]);
        let begun = Instant::now();
        let mut visits = 0;
        while begun.elapsed() < Duration::from_secs(7) {
            let session = lab.attach(&name).await;
            assert_eq!(session.value(&format!("visits = {visits}\nvisits")).await, visits.to_string());
            session.detach().await.expect("it lets go");
            tokio::time::sleep(Duration::from_secs(1)).await;
            visits += 1;
        }
        assert!(visits > 3);
    })
    .await;
}

#[tokio::test]
async fn nothing_on_the_host_outlives_a_session_that_ended_with_nobody_there() {
    on(async |lab| {
        let mut left = Vec::new();
        for what in ["started", "pruned"] {
            let name = lab.start(what, ["--idle-timeout", "1s"]);
            let end = lab.end_of(&name).await;
            let session = lab.attach(&name).await;
            let spill = session.cell("print('x' * 3_000_000)").await.stdout.spill.expect("a file with all of it");
            session.detach().await.expect("it lets go");
            let id = spill.parent().and_then(Path::file_name).expect("its directory").to_owned();
            let directory = runtime_directory().join(id);
            assert!(directory.exists() && spill.exists());
            ends(lab, &name, end, IDLE, Duration::from_secs(10)).await;
            left.push((directory, spill));
            // Whoever starts next looks after what nobody else does; `prune` is for who starts nothing.
            if what == "started" {
                lab.start("next", []);
            } else {
                assert_eq!(controller::run(["prune"]).code, Some(0));
            }
            within(Duration::from_secs(5), format!("{what}: it is gone"), async || {
                left.iter().all(|(directory, spill)| !directory.exists() && !spill.exists())
            })
            .await;
        }
    })
    .await;
}
