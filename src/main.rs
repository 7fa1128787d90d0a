//! The `cellblock` command.

mod cli;
#[cfg(feature = "serve")]
mod serve;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main().into()
}
