//! `cellblock repl`: Python line by line.

mod command;
mod complete;
mod completer;
mod dedent;
mod editor;
mod history;
mod kernel;
mod lexer;
mod look;

use std::io::{IsTerminal as _, stdin};
use std::process;

use anyhow::{Context as _, Result};
use cellblock::{State, Status};
use tokio::signal::unix::{SignalKind, signal};

use self::command::{Command, HELP};
use self::editor::{Editor, Line};
use self::kernel::Kernel;
use self::look::InPrompt;
use super::args::ReplArgs;
use super::cell::{Attendant, Attended, Manner};
use super::exit::Exit;
use super::figures::Figures;
use super::input::Input;
use super::interrupts::{Interrupts, WhenStuck};
use super::open::Opened;
use super::outcome;
use super::printer::{Printer, To, Usage};
use super::terminal_mode::TerminalMode;
use super::view::Screen;

pub(crate) async fn repl(args: &ReplArgs, printer: &mut Printer) -> Result<Exit> {
    if !(stdin().is_terminal() && printer.is_terminal(To::Stdout) && printer.is_terminal(To::Stderr)) {
        return Err(Usage("`cellblock repl` needs a terminal; `cellblock run -` takes code from a pipe".into()).into());
    }
    let mut interrupts = Interrupts::listen(WhenStuck::Wait)?;
    restore_when_ended()?;
    let Some(opened) = Opened::open(&args.place, &mut interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    let version = env!("CARGO_PKG_VERSION");
    match opened.owned {
        true => printer
            .note(format_args!("cellblock {version}: Python in a container of its own; :help helps, Ctrl-D leaves")),
        false => printer.note(format_args!(
            "cellblock {version}: session `{}`, which goes on when you leave; :help helps, Ctrl-D leaves",
            opened.session.name(),
        )),
    }
    let exit = converse(args, &opened, &mut interrupts, printer).await;
    opened.close(&mut interrupts, printer).await;
    exit
}

async fn converse(
    args: &ReplArgs,
    opened: &Opened,
    interrupts: &mut Interrupts,
    printer: &mut Printer,
) -> Result<Exit> {
    let history = history::open();
    if let Err(error) = &history {
        printer.note(format_args!("no history is kept: {error:#}"));
    }
    let editor = Editor::start(Kernel::new(opened.session.clone()), history.ok(), printer.is_coloured(To::Stderr))?;
    let input = Input::start().context("cannot read from the terminal")?;
    let mut figures = Figures::new(args.figures.as_deref())?;
    let mut screen = Screen { printer, figures: &mut figures, labelled: true };
    let mut number = opened.owned.then_some(1);
    loop {
        screen.printer.begin_line(To::Stdout)?;
        let code = match editor.read(InPrompt::new(number)).await? {
            Line::Typed(code) => code,
            Line::Cleared => continue,
            Line::Closed => return Ok(Exit::Ok),
        };
        match Command::of(&code) {
            Command::Run if code.trim().is_empty() => continue,
            Command::Run => {}
            Command::Quit => return Ok(Exit::Ok),
            Command::Help => {
                screen.printer.line(HELP)?;
                continue;
            }
            Command::Unknown => {
                screen.printer.note("there is no such command; `:help` lists them");
                continue;
            }
            Command::Restart => {
                match opened.session.restart().await {
                    Ok(()) => screen.printer.note(outcome::state(State::KernelRestarted)),
                    Err(error) => screen.printer.error(&error.into()),
                }
                number = Some(1);
                continue;
            }
        }
        // A Ctrl-C that came between two cells was meant for none of them.
        interrupts.forget();
        let mut attendant = Attendant {
            session: &opened.session,
            timeout: Some(args.timeout),
            input: Some(&input),
            interrupts,
            manner: Manner::Repl,
        };
        let execution = match attendant.run(&code, &mut screen).await {
            Ok(Attended::Done(execution)) => execution,
            Ok(Attended::Left) => continue,
            Err(error) if Exit::of_error(&error) == Exit::Failed => {
                screen.printer.error(&error);
                continue;
            }
            Err(error) => return Err(error),
        };
        // A kernel that died between two cells was restarted before this one ran.
        let ran_after = matches!(execution.status, Status::Ok | Status::Error(_));
        match execution.state {
            State::ContainerGone => return Ok(Exit::ContainerGone),
            State::KernelRestarted if !ran_after => number = Some(1),
            _ => number = execution.execution_count.map(|count| count.saturating_add(1)).or(number),
        }
    }
}

/// Sees to it that a signal that ends the command finds the terminal as it was, not as the editor or a cell needs it.
fn restore_when_ended() -> Result<()> {
    for (kind, number) in [(SignalKind::terminate(), 15), (SignalKind::hangup(), 1)] {
        let mut signals = signal(kind).context("cannot listen for signals")?;
        let mode = TerminalMode::keep();
        tokio::spawn(async move {
            signals.recv().await;
            drop(mode);
            process::exit(128 + number);
        });
    }
    Ok(())
}
