//! The commands, the REPL and the one printer.

mod args;
mod blocks;
mod cell;
mod cells;
mod container;
mod exit;
mod figures;
mod files;
mod follow;
mod image;
mod input;
mod interrupts;
mod open;
mod outcome;
mod printer;
mod repl;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod shell;
mod terminal_mode;
mod units;
mod view;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use tokio::runtime::Builder;
use tracing_subscriber::EnvFilter;

use self::args::{Cli, Command};
pub(crate) use self::exit::Exit;
use self::printer::Printer;

/// Reads the command line, does what it says, and tells of what failed.
pub(crate) fn main() -> Exit {
    let cli = Cli::parse();
    let mut printer = Printer::new(cli.global.color);
    trace(&cli, &printer);
    match act(&cli.command, &mut printer) {
        Ok(exit) => exit,
        Err(error) => {
            let exit = Exit::of_error(&error);
            if exit != Exit::Ok {
                printer.error(&error);
            }
            exit
        }
    }
}

fn act(command: &Command, printer: &mut Printer) -> Result<Exit> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().context("cannot start threads")?;
    let exit = runtime.block_on(async {
        match command {
            Command::Run(args) => Box::pin(run::run(args, printer)).await,
            Command::Shell(args) => Box::pin(shell::shell(args, printer)).await,
            Command::Blocks(args) => Box::pin(blocks::blocks(args, printer)).await,
            Command::Session(command) => Box::pin(session::session(command, printer)).await,
            Command::Files(command) => Box::pin(files::files(command, printer)).await,
            Command::Prune => session::prune(printer).await,
            Command::Repl(args) => Box::pin(repl::repl(args, printer)).await,
            #[cfg(feature = "serve")]
            Command::Serve(args) => Box::pin(serve::serve(args, printer)).await,
            Command::Image(command) => Box::pin(image::image(command, printer)).await,
            Command::Completions { shell } => {
                printer.bytes(printer::To::Stdout, &Cli::completions(*shell)).map(|()| Exit::Ok)
            }
        }
    });
    // Whatever may still block must not keep the command from ending.
    runtime.shutdown_background();
    exit
}

fn trace(cli: &Cli, printer: &Printer) {
    let log = Log::of(&cli.command, printer);
    let level = match cli.global.verbose + u8::from(log != Log::Messages) {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter =
        EnvFilter::try_from_env("CELLBLOCK_LOG").unwrap_or_else(|_| EnvFilter::new(format!("cellblock={level}")));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(printer.is_coloured(printer::To::Stderr));
    match log {
        Log::Messages => subscriber.without_time().init(),
        #[cfg(feature = "serve")]
        Log::Text => subscriber.init(),
        #[cfg(feature = "serve")]
        Log::Json => subscriber.json().flatten_event(true).with_span_list(false).init(),
    }
}

/// What is written to stderr besides our own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    /// Messages to the person who typed the command.
    Messages,
    #[cfg(feature = "serve")]
    Text,
    #[cfg(feature = "serve")]
    Json,
}

impl Log {
    #[cfg_attr(not(feature = "serve"), expect(unused_variables, reason = "only a server keeps a log"))]
    fn of(command: &Command, printer: &Printer) -> Self {
        #[cfg(feature = "serve")]
        if let Command::Serve(args) = command {
            return match args.log_format {
                Some(serve::LogFormat::Text) => Self::Text,
                None if printer.is_terminal(printer::To::Stderr) => Self::Text,
                Some(serve::LogFormat::Json) | None => Self::Json,
            };
        }
        Self::Messages
    }
}
