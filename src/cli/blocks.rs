//! `cellblock blocks`.

use std::future::IntoFuture as _;
use std::sync::Arc;

use anyhow::{Context as _, Error, Result};
use cellblock::{
    BlockOutcome, BlockResult, BlocksEvent, BlocksOutcome, CodeBlock, Policy, PythonMode, Refusal, ScriptEvent,
    extract_code_blocks,
};
use tokio::sync::Notify;

use super::args::{BlocksArgs, Python};
use super::cells::Cell;
use super::exit::Exit;
use super::figures::Figures;
use super::interrupts::{Interrupts, WhenStuck};
use super::open::Opened;
use super::printer::{Printer, To, Usage};
use super::run::save_figures;
use super::shell::interpreter;
use super::view::{Screen, View};

const FILENAME_HINT: &str =
    "the name in its first line is relative to the work directory, has no `..`, and leads through no symbolic link";

pub(crate) async fn blocks(args: &BlocksArgs, printer: &mut Printer) -> Result<Exit> {
    let blocks = extract_code_blocks(&Cell::named(&args.message).read()?);
    if blocks.is_empty() {
        return Err(
            Usage("the message has no code blocks: they stand between fences, ```python and ```".to_owned()).into()
        );
    }
    let mut interrupts = Interrupts::listen(WhenStuck::Leave)?;
    let Some(opened) = Opened::open(&args.place, &mut interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    let ended = carry_out(args, &blocks, &opened, &mut interrupts, printer).await;
    opened.close(&mut interrupts, printer).await;
    ended
}

async fn carry_out(
    args: &BlocksArgs,
    blocks: &[CodeBlock],
    opened: &Opened,
    interrupts: &mut Interrupts,
    printer: &mut Printer,
) -> Result<Exit> {
    let policy = policy(args);
    let mut figures = Figures::new(args.figures.directory.as_deref())?;
    let failed = Arc::new(Notify::new());
    let mut show = Show {
        screen: Screen { printer, figures: &mut figures, labelled: false },
        total: blocks.len(),
        quiet: args.json,
        view: View::default(),
        failure: None,
        failed: Arc::clone(&failed),
    };
    let mut run = opened.session.run_blocks(blocks, &policy).keep_going(args.keep_going);
    if let Some(timeout) = args.timeout {
        run = run.timeout(timeout);
    }
    let ended = tokio::select! {
        ended = run.on_event(|event| show.event(event)).into_future() => Some(ended),
        // The block is interrupted, and no other begins.
        () = interrupts.next() => None,
        () = failed.notified() => None,
    };
    if let Some(failure) = show.failure {
        return Err(failure);
    }
    let Some(ended) = ended else {
        show.screen.printer.echoed_control();
        show.screen.printer.note("interrupted");
        return Ok(Exit::Interrupted);
    };
    let outcome = ended?;
    if args.json {
        if args.figures.directory.is_some() {
            save_all_figures(&outcome, &mut show.screen);
        }
        show.screen.printer.line(serde_json::to_string(&outcome).context("cannot write the outcome as JSON")?)?;
    } else {
        if !outcome.output_files.is_empty() {
            show.screen.printer.note(format_args!("files: {}", outcome.output_files.join(", ")));
        }
        let saved = outcome.blocks.iter().any(|block| matches!(block.result, BlockResult::Saved));
        if opened.owned && !args.place.container.has_own_work_directory() && (saved || !outcome.output_files.is_empty())
        {
            show.screen.printer.note("files go with the container: `--workdir DIR` or `--session NAME` keeps them");
        }
    }
    let of_figures = if show.screen.figures.failed { Exit::Failed } else { Exit::Ok };
    Ok(match u8::try_from(outcome.exit_code) {
        Ok(0) => of_figures,
        Ok(code) => Exit::Script(code),
        Err(_) => Exit::Failed,
    })
}

fn policy(args: &BlocksArgs) -> Policy {
    let policy = Policy::default().python(match args.python {
        Python::Kernel => PythonMode::Kernel,
        Python::File => PythonMode::File,
    });
    let add = |policy: Policy, (language, program): &(String, String)| policy.run(language, interpreter(program));
    args.interpreters.iter().fold(policy, add)
}

fn save_all_figures(outcome: &BlocksOutcome, screen: &mut Screen<'_>) {
    for block in &outcome.blocks {
        if let BlockResult::Cell(execution) = &block.result {
            save_figures(execution, screen);
        }
    }
}

/// Shows what happens, as it happens.
struct Show<'a> {
    screen: Screen<'a>,
    total: usize,
    quiet: bool,
    view: View,
    /// Why nothing can be shown any more.
    failure: Option<Error>,
    failed: Arc<Notify>,
}

impl Show<'_> {
    fn event(&mut self, event: BlocksEvent<'_>) {
        if self.quiet || self.failure.is_some() {
            return;
        }
        if let Err(error) = self.show(event) {
            self.failure = Some(error);
            self.failed.notify_one();
        }
    }

    fn show(&mut self, event: BlocksEvent<'_>) -> Result<()> {
        match event {
            BlocksEvent::Begun { index, language } => {
                self.view = View::default();
                let language = if language.is_empty() { "unknown language" } else { language };
                self.screen.printer.note(format_args!("block {} of {}: {language}", index + 1, self.total));
                Ok(())
            }
            BlocksEvent::Cell(event) => self.view.event(event, &mut self.screen),
            BlocksEvent::Script(ScriptEvent::Stdout(bytes)) => self.screen.printer.bytes(To::Stdout, bytes),
            BlocksEvent::Script(ScriptEvent::Stderr(bytes)) => self.screen.printer.bytes(To::Stderr, bytes),
            BlocksEvent::Ended(outcome) => self.ended(outcome),
            _ => Ok(()),
        }
    }

    fn ended(&mut self, outcome: &BlockOutcome) -> Result<()> {
        let file = outcome.code_file.as_deref().unwrap_or_default();
        match &outcome.result {
            BlockResult::Cell(execution) => {
                return std::mem::take(&mut self.view).done(execution, &mut self.screen);
            }
            BlockResult::Script(script) => {
                self.screen.printer.end_colour()?;
                if !script.is_ok() {
                    self.screen.printer.note(&script.status);
                }
            }
            BlockResult::Saved => self.screen.printer.note(format_args!("saved as {file} in the session")),
            BlockResult::Refused(refusal) => {
                self.screen.printer.error(&Error::msg(refusal.to_string()));
                match refusal {
                    Refusal::Filename => self.screen.printer.hint(FILENAME_HINT),
                    Refusal::Language(language) if !language.is_empty() => {
                        self.screen.printer.hint(format_args!("`--with {language}=PROGRAM` runs its blocks"));
                    }
                    _ => self.screen.printer.hint("name the block's language behind its fence: ```python"),
                }
            }
            BlockResult::Failed(error) => self.screen.printer.failure(error),
            _ => {}
        }
        Ok(())
    }
}
