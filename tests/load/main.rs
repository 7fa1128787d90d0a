//! Many sessions in one process: every answer right, nothing left at the end, little memory for each.
//!
//! 8 sessions of 12 cells; with `CELLBLOCK_LOAD=full` 32 of 50.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/alone.rs"]
mod alone;
#[path = "../support/memory.rs"]
mod memory;
#[path = "../support/process.rs"]
mod process;

mod cells;
mod drivers;
mod left;

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cellblock::{Docker, Engine, Session};
use futures_util::future::{join_all, try_join_all};

use alone::alone;
use drivers::Drivers;
use process::ProcessEngine;

/// No session may be idle at a higher price, in KiB.
const IDLE: u64 = 512;
const IDLE_SESSIONS: u64 = 20;
/// So many start at once: a session has to be ready in time even then.
const WAVE: usize = 16;

#[expect(clippy::print_stderr, reason = "the reader of the test's output must know")]
fn say(text: &str) {
    eprintln!("{text}");
}

/// An engine and an image in it. None, with a word about it, where there is none.
async fn container() -> Option<(Arc<dyn Engine>, String)> {
    let skipped = |why: String| {
        assert!(env::var_os("CELLBLOCK_REQUIRE_ENGINE").is_none(), "{why}");
        say(&format!("skipped: {why}"));
    };
    let docker = match Docker::connect().await {
        Ok(docker) => docker,
        Err(error) => {
            skipped(format!("no engine: {error}"));
            return None;
        }
    };
    let chosen = env::var("CELLBLOCK_TEST_IMAGE").ok();
    for image in chosen.map_or(vec!["cellblock:base".into(), "cellblock:data".into()], |image| vec![image]) {
        if docker.image(&image).await.is_ok_and(|found| found.is_some()) {
            return Some((Arc::new(Drivers(Arc::new(docker))), image));
        }
    }
    skipped("no kernel image, and CELLBLOCK_TEST_IMAGE names no other".to_owned());
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_at_once_leave_nothing_behind() {
    if container().await.is_none() || !alone("many_sessions_at_once_leave_nothing_behind") {
        return;
    }
    let (sessions, cells) = match env::var("CELLBLOCK_LOAD").as_deref() {
        Ok("full") => (32, 50),
        _ => (8, 12),
    };
    // The first session brings what stays: threads, and what they have open.
    storm(1, 1).await;
    let before = left::Left::now();
    let begun = Instant::now();
    let storm = storm(sessions, cells).await;
    left::settles_to(&before).await;
    let Storm { ends, spills, idle } = storm;
    say(&format!(
        "{sessions} sessions of {cells} cells in {:?}: {ends} deaths and timeouts, {spills} spill files; {idle} KiB for each idle one",
        begun.elapsed()
    ));
    assert!(ends > 0 && spills > 0, "nothing happened");
    assert!(idle < IDLE, "an idle session takes {idle} KiB");
}

/// What many sessions at once came to.
struct Storm {
    ends: u32,
    spills: usize,
    /// The memory of a session that has not run anything, in KiB.
    idle: u64,
}

/// Starts so many sessions, runs so many cells in each, and stops them.
async fn storm(sessions: u32, cells: u32) -> Storm {
    let (engine, image) = container().await.unwrap();
    let name = |number: u32| format!("load-{}-{number}", std::process::id());
    let mut starts = (0..sessions).map(|number| {
        let builder = Session::builder().engine(Arc::clone(&engine)).image(&image).name(name(number));
        let builder = builder.cpus(0.2).memory(256 << 20).output_limit(8 << 10);
        builder.grace(Duration::from_millis(1500)).start()
    });
    let (begun, before) = (Instant::now(), memory::resident());
    let mut started = Vec::new();
    loop {
        let wave = try_join_all(starts.by_ref().take(WAVE)).await.expect("every session is ready");
        if wave.is_empty() {
            break;
        }
        started.extend(wave);
    }
    let idle = memory::resident().saturating_sub(before) / u64::from(sessions);
    say(&format!("{sessions} sessions at 0.2 CPU each were ready after {:?}", begun.elapsed()));
    let directories = left::directories();
    assert_eq!(directories.len(), started.len(), "each session has a directory");
    assert!(drivers::tasks() >= started.len(), "each session has tasks");
    let numbered = started.iter().zip(0_u64..);
    let outcomes = join_all(numbered.map(|(session, number)| cells::run(session, number, cells))).await;
    join_all(started.iter().map(async |session| session.stop().await.expect("it stops"))).await;
    let spills: Vec<_> = outcomes.iter().flat_map(|outcome| &outcome.spills).collect();
    for path in directories.iter().chain(spills.iter().copied()) {
        assert!(!path.exists(), "{} is left", path.display());
    }
    for spill in &spills {
        let directory = spill.parent().unwrap();
        assert!(!directory.exists(), "{} is left", directory.display());
    }
    let names: Vec<_> = (0..sessions).map(name).collect();
    for container in engine.list(&[]).await.unwrap() {
        assert!(!names.iter().any(|name| container.name.ends_with(name)), "{} is left", container.name);
    }
    Storm { ends: outcomes.iter().map(|outcome| outcome.ends).sum(), spills: spills.len(), idle }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_session_takes_little_memory() {
    let Some(python) = env::var_os("CELLBLOCK_TEST_PYTHON") else {
        assert!(env::var_os("CELLBLOCK_REQUIRE_PYTHON").is_none(), "CELLBLOCK_TEST_PYTHON names no Python");
        return say("skipped: CELLBLOCK_TEST_PYTHON names no Python with ipykernel");
    };
    if !alone("an_idle_session_takes_little_memory") {
        return;
    }
    let engine = Arc::new(ProcessEngine::new(python));
    let start = async || {
        let session = Session::builder().engine(Arc::clone(&engine) as _).image("process").start().await.unwrap();
        assert_eq!(session.run("40 + 2").await.unwrap().text(), Some("42"));
        session
    };
    let first = start().await;
    memory::forget_peak();
    let before = memory::resident();
    let sessions = join_all((0..IDLE_SESSIONS).map(|_| start())).await;
    let each = memory::resident().saturating_sub(before) / IDLE_SESSIONS;
    let start = memory::peak().saturating_sub(before) / IDLE_SESSIONS;
    say(&format!("an idle session takes {each} KiB, and {start} while all start"));
    join_all(sessions.iter().chain([&first]).map(async |session| session.stop().await.unwrap())).await;
    engine.clean_up();
    assert!(each < IDLE, "an idle session takes {each} KiB");
}
