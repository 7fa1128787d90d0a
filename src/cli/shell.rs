//! `cellblock shell`.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cellblock::{Interpreter, ScriptEvent, ScriptOutcome, ScriptStream, Session, Shell};
use futures_util::StreamExt as _;

use super::args::ShellArgs;
use super::exit::Exit;
use super::interrupts::{Interrupts, WhenStuck};
use super::open::Opened;
use super::outcome;
use super::printer::{Printer, To, Usage};

pub(crate) async fn shell(args: &ShellArgs, printer: &mut Printer) -> Result<Exit> {
    let script = read_script(args)?;
    let stdin = if args.stdin { Some(read_stdin()?) } else { None };
    let mut interrupts = Interrupts::listen(WhenStuck::Leave)?;
    let Some(opened) = Opened::open(&args.place, &mut interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    let stream = describe(args, &opened.session, script, stdin);
    let ended = attend(stream, args.json, &mut interrupts, printer).await;
    // Who pressed Ctrl-C twice does not want to wait; the container ends by itself.
    let Ok(None) = ended else {
        opened.close(&mut interrupts, printer).await;
        return finish(ended, args.json, printer);
    };
    Ok(Exit::Interrupted)
}

fn read_script(args: &ShellArgs) -> Result<Vec<u8>> {
    match (&args.script, args.file.as_deref()) {
        (Some(script), _) => Ok(script.clone().into_bytes()),
        (None, Some(path)) if path == Path::new("-") => {
            if args.stdin {
                return Err(
                    Usage("stdin can be read once: it holds the script, and `--stdin` asks for it too".into()).into()
                );
            }
            read_stdin()
        }
        (None, Some(path)) => {
            let bytes = std::fs::read(path).map_err(|error| Usage(error.to_string()));
            bytes.with_context(|| format!("cannot read `{}`", path.display()))
        }
        (None, None) => Err(Usage("no script is named".into()).into()),
    }
}

fn read_stdin() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("cannot read stdin")?;
    Ok(bytes)
}

fn describe(args: &ShellArgs, session: &Session, script: Vec<u8>, stdin: Option<Vec<u8>>) -> ScriptStream {
    let mut script = session.run_shell(script, interpreter(&args.shell)).args(&args.args);
    if let Some(timeout) = args.timeout {
        script = script.timeout(timeout);
    }
    if let Some(directory) = &args.cwd {
        script = script.current_dir(directory);
    }
    if let Some(stdin) = stdin {
        script = script.stdin(stdin);
    }
    script.stream()
}

/// An interpreter as it is typed: a program, and what stands between its name and the file's.
pub(crate) fn interpreter(typed: &str) -> Shell {
    let mut words = typed.split_whitespace();
    let program = words.next().unwrap_or_default();
    let args: Vec<&str> = words.collect();
    if args.is_empty() {
        return program.into();
    }
    args.into_iter().fold(Interpreter::new(program), Interpreter::arg).into()
}

/// Shows what the script writes. None if Ctrl-C was pressed twice.
async fn attend(
    mut stream: ScriptStream,
    json: bool,
    interrupts: &mut Interrupts,
    printer: &mut Printer,
) -> Result<Option<Box<ScriptOutcome>>> {
    let mut interrupted = false;
    loop {
        tokio::select! {
            event = stream.next() => match event {
                Some(Ok(ScriptEvent::Done(outcome))) => return Ok(Some(outcome)),
                Some(Ok(ScriptEvent::Stdout(bytes))) if !json => printer.bytes(To::Stdout, &bytes)?,
                Some(Ok(ScriptEvent::Stderr(bytes))) if !json => printer.bytes(To::Stderr, &bytes)?,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => bail!("the script's events ended without an outcome"),
            },
            () = interrupts.next() => {
                printer.echoed_control();
                if interrupted {
                    return Ok(None);
                }
                interrupted = true;
                stream.interrupt();
            }
        }
    }
}

fn finish(ended: Result<Option<Box<ScriptOutcome>>>, json: bool, printer: &mut Printer) -> Result<Exit> {
    let Some(outcome) = ended? else { return Ok(Exit::Interrupted) };
    printer.end_colour()?;
    if json {
        printer.line(serde_json::to_string(&outcome).context("cannot write the outcome as JSON")?)?;
    }
    if let Some(words) = outcome::describe_script(&outcome) {
        printer.note(words);
    }
    Ok(Exit::of_script(&outcome.status))
}
