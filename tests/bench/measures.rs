//! Benchmarks against a real engine and real clients, with targets that are ratios within one run.
//!
//! `cargo bench --bench measures [-- [--long[=SECONDS]] [warm] [start] [output] [links] [stall] [shell] [files] [truth] [overhead] [serve]]`
//!
//! `CELLBLOCK_TEST_PYTHON` is a Python that has `jupyter_client` and `ipykernel`; `CELLBLOCK_TEST_IMAGE` the image
//! (default `cellblock:base`). `--long` makes the stalls of `stall` last 30 s instead of 3.
//! `serve` needs the feature of that name; with `--long` 1,000 sessions come and go in it instead of 100.

#![expect(clippy::print_stdout, reason = "a report is what a benchmark is for")]

mod controller;
mod files;
mod jupyter;
mod links;
mod memory;
mod output;
mod overhead;
mod report;
#[cfg(feature = "serve")]
mod serve;
mod shell;
mod side;
mod stall;
mod start;
mod support;
mod truth;
mod warm;

use std::process::ExitCode;
use std::time::Duration;

use support::Result;

const MEASURES: [&str; 10] =
    ["warm", "start", "output", "links", "stall", "shell", "files", "truth", "overhead", "serve"];
/// What this program is for the processes that it starts itself.
const COMMANDS: [&str; 2] = [controller::COMMAND, overhead::COMMAND];
const SHORT_STALL: Duration = Duration::from_secs(3);
const LONG_STALL: u64 = 30;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` and nextest run every target; only `cargo bench` passes `--bench`.
    if !args.iter().any(|arg| arg == "--bench" || COMMANDS.contains(&arg.as_str())) {
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref()),
    }
}

async fn run(args: &[String]) -> Result<()> {
    match args {
        [command, rest @ ..] if command == controller::COMMAND => return controller::main(rest).await,
        [command, rest @ ..] if command == overhead::COMMAND => return overhead::main(rest).await,
        _ => {}
    }
    let mut stall = SHORT_STALL;
    let mut chosen = Vec::new();
    for arg in args {
        match arg.as_str() {
            "--bench" => {}
            "--long" => stall = Duration::from_secs(LONG_STALL),
            long if long.starts_with("--long=") => {
                stall = Duration::from_secs(long.trim_start_matches("--long=").parse()?);
            }
            measure if MEASURES.contains(&measure) => chosen.push(measure),
            other => return Err(format!("unknown argument {other:?}; measures are {}", MEASURES.join(", ")).into()),
        }
    }
    let wanted = |measure| chosen.is_empty() || chosen.contains(&measure);
    if wanted("warm") {
        warm::measure().await?;
    }
    if wanted("start") {
        start::measure().await?;
    }
    if wanted("output") {
        output::measure().await?;
    }
    if wanted("links") {
        links::measure().await?;
    }
    if wanted("shell") {
        shell::measure().await?;
    }
    if wanted("stall") {
        stall::measure(stall).await?;
    }
    if wanted("files") {
        files::measure().await?;
    }
    if wanted("truth") {
        truth::measure().await?;
    }
    if wanted("overhead") {
        overhead::measure().await?;
    }
    #[cfg(feature = "serve")]
    if wanted("serve") {
        serve::measure(if stall > SHORT_STALL { 1000 } else { 100 }).await?;
    }
    Ok(())
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    println!("the benchmark failed: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        println!("  because: {cause}");
        source = cause.source();
    }
    ExitCode::FAILURE
}
