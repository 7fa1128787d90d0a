//! What the guard, the recorder and a watch cost a warm call.
//!
//! The guard has no switch: calls without it are made by this benchmark, built once more with `--cfg cellblock_unguarded`.
//! So that nothing else differs, each arm's calls are made by a process of its own.

#![expect(clippy::print_stdout, reason = "stdout is how a caller answers")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use cellblock::{LinkPolicy, Session};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::report::{self, Sample};
use crate::side::Side;
use crate::support::{Result, calls, order, session};

pub(crate) const COMMAND: &str = "caller";

/// Each of them with sessions of its own: one kernel process is not as fast as the next.
const SETS: usize = 5;
const ROUNDS: usize = 40;
const CALLS: usize = 10;
const WARM_UP: usize = 50;
const IDLE: Duration = Duration::from_secs(60);
const TARGET: f64 = 1.05;

pub(crate) async fn measure() -> Result<()> {
    report::heading("building the benchmark once more, without the guard");
    let unguarded = build_unguarded().await?;
    let guarded = std::env::current_exe()?;
    let arms = [(&unguarded, "plain"), (&guarded, "plain"), (&guarded, "recorded"), (&guarded, "watched")];
    let mut samples = ["none of them", "the guard", "guard and recorder", "guard, recorder and watch"].map(Sample::new);
    for _ in 0..SETS {
        let mut callers = Vec::new();
        for (program, with) in arms {
            callers.push(caller(program, with, program == &guarded).await?);
        }
        for round in 0..ROUNDS {
            for index in order(round, arms.len()) {
                samples[index].extend(callers[index].times(&json!(CALLS)).await?);
            }
        }
        for caller in callers {
            caller.end().await?;
        }
    }
    let [none, guard, recorder, all] = &samples;
    report::table("warm call 1+1, socket link", &[none, guard, recorder, all]);
    let ratio = |what: &str, sample: &Sample| {
        report::ratio(&format!("1+1, p50, {what} / none of them"), sample.median(), none.median(), TARGET);
    };
    ratio("the guard", guard);
    ratio("guard and recorder", recorder);
    ratio("guard, recorder and watch", all);
    Ok(())
}

async fn build_unguarded() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["bench", "--quiet", "--bench", "measures", "--no-run", "--message-format", "json"]);
    if cfg!(feature = "serve") {
        build.args(["--features", "serve"]);
    }
    // In a place of its own: next to it, `target/release/cellblock` would be one without the guard.
    build.args(["--target-dir", "target/unguarded"]).env("RUSTFLAGS", "--cfg cellblock_unguarded");
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    let built = build.stderr(Stdio::inherit()).output().await?;
    let mut messages =
        str::from_utf8(&built.stdout)?.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = messages
        .find(|message| message.pointer("/target/name") == Some(&json!("measures")))
        .and_then(|message| message["executable"].as_str().map(PathBuf::from));
    program.ok_or_else(|| format!("the benchmark could not be built without the guard: {}", built.status).into())
}

async fn caller(program: &Path, with: &str, guarded: bool) -> Result<Side> {
    let mut caller = Side::spawn(Command::new(program).args([COMMAND, with]), "a caller failed")?;
    let ready = caller.answer().await?;
    if ready == json!({ "guarded": guarded }) { Ok(caller) } else { Err(format!("a caller said {ready}").into()) }
}

/// The caller's side: `caller plain|recorded|watched`. Asked for a number of calls, it answers with how long each took.
pub(crate) async fn main(args: &[String]) -> Result<()> {
    let [with] = args else { return Err("with what?".into()) };
    // Should the benchmark be killed, what is detached goes on.
    let session = session(LinkPolicy::Socket).detached(with != "plain").idle_timeout(IDLE).start().await?;
    if with == "watched" {
        let mut watch = Session::watch(Arc::clone(session.engine()), session.name()).await?;
        tokio::spawn(async move { while watch.next().await.is_some() {} });
    }
    calls(&session, WARM_UP).await?;
    println!("{}", json!({ "guarded": !cfg!(cellblock_unguarded) }));
    for count in std::io::stdin().lines() {
        let times = calls(&session, count?.parse()?).await?;
        let micros: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
        println!("{}", json!({ "times": micros }));
    }
    session.stop().await?;
    Ok(())
}
