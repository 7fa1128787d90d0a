//! Carries out the blocks of a message, one after the other.

use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};

use super::listing::Listing;
use super::outcome::{BlockOutcome, BlockResult, BlocksOutcome, Refusal};
use super::policy::{Handling, PYTHON, Policy, SHELLS, canonical};
use super::{CodeBlock, filename, infer_language, pip};
use crate::error::{Error, Kind, Ran};
use crate::session::check_span;
use crate::{Completeness, Event, ScriptEvent, Session, Shell};

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Session {
    /// Carries out the code blocks of a message in order, as the policy says, up to the first that fails. Blocks of Python are cells of the kernel by default, which
    /// keeps their variables for the next blocks and messages; scripts are files of the work directory, and run beside the kernel.
    ///
    /// - A block whose language is empty is taken for what [`infer_language`] says, or for Python if the kernel says that it is.
    /// - A comment in the first line names the block's file: `# filename: a/b.py`, `// filename: x.js`, `/* filename: x.css */`, `<!-- filename: x.html -->`. It is
    ///   in the work directory, or the block is refused. Other blocks that are to be a file get the name `tmp_code_<md5 of the code>.<language>`; others that run in
    ///   the kernel get none.
    /// - `pip install`, and `!pip install` and `%pip install` in Python, get `-qqq` where they begin a line.
    ///
    /// ```no_run
    /// # async fn example(session: cellblock::Session, message: &str) -> Result<(), cellblock::Error> {
    /// use cellblock::{Policy, extract_code_blocks};
    ///
    /// let outcome = session.run_blocks(&extract_code_blocks(message), &Policy::default()).await?;
    /// println!("{} (exit code {})", outcome.output, outcome.exit_code);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Nothing ran: there are no blocks, the timeout is out of range, the kernel could not be asked for a block's language, the session has ended, or the first
    /// block could not be begun for want of something. What goes wrong later is the outcome of a block, and what came before it is kept.
    pub fn run_blocks<'a>(&self, blocks: &'a [CodeBlock], policy: &Policy) -> RunBlocks<'a> {
        RunBlocks {
            session: self.clone(),
            blocks,
            policy: policy.clone(),
            timeout: None,
            keeps_going: false,
            observer: Box::new(|_| {}),
        }
    }
}

/// Something that happens while blocks are carried out.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum BlocksEvent<'a> {
    /// A block begins.
    Begun {
        /// Its place among the blocks.
        index: usize,
        /// Its language as the policy knows it.
        language: &'a str,
    },
    /// Something happens in the kernel; never [`Event::Done`].
    Cell(&'a Event),
    /// Something happens in a script; never [`ScriptEvent::Done`].
    Script(&'a ScriptEvent),
    /// The block has ended.
    Ended(&'a BlockOutcome),
}

type Observer<'a> = Box<dyn FnMut(BlocksEvent<'_>) + Send + 'a>;

/// Blocks to carry out; a future of their [`BlocksOutcome`].
///
/// # Cancel safety
///
/// When the future is dropped, the block that runs is interrupted, and no other is begun. The session is unharmed.
#[must_use = "blocks do nothing unless awaited"]
pub struct RunBlocks<'a> {
    session: Session,
    blocks: &'a [CodeBlock],
    policy: Policy,
    timeout: Option<Duration>,
    keeps_going: bool,
    observer: Observer<'a>,
}

impl<'a> RunBlocks<'a> {
    /// The total time that each block may take (default: the session's).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Goes on with the next block after one that fails, unless it was interrupted or the session has ended.
    pub fn keep_going(mut self, keep_going: bool) -> Self {
        self.keeps_going = keep_going;
        self
    }

    /// Is told what happens, as it happens.
    pub fn on_event(mut self, observer: impl FnMut(BlocksEvent<'_>) + Send + 'a) -> Self {
        self.observer = Box::new(observer);
        self
    }

    async fn carry_out(mut self) -> Result<BlocksOutcome, Error> {
        if self.blocks.is_empty() {
            return Err(Error::new(Kind::Usage, "there are no code blocks to run")
                .with_hint("a block stands between two fences: ```python"));
        }
        if let Some(timeout) = self.timeout {
            check_span("timeout", timeout, DAY)?;
        }
        let languages = languages(&self.session, self.blocks).await?;
        let mut outcomes: Vec<BlockOutcome> = Vec::new();
        let mut before = None;
        for (index, (block, language)) in self.blocks.iter().zip(languages).enumerate() {
            (self.observer)(BlocksEvent::Begun { index, language: &language });
            let outcome = self.block(&block.code, language, &mut before).await;
            let outcome = match outcome {
                BlockOutcome { result: BlockResult::Failed(error), .. } if outcomes.is_empty() && is_ours(&error) => {
                    return Err(error);
                }
                outcome => outcome,
            };
            (self.observer)(BlocksEvent::Ended(&outcome));
            let stops = outcome.is_final() || !(outcome.is_ok() || self.keeps_going);
            outcomes.push(outcome);
            if stops {
                break;
            }
        }
        Ok(BlocksOutcome::new(outcomes))
    }

    async fn block(&mut self, code: &str, language: String, before: &mut Option<Listing>) -> BlockOutcome {
        let Some(handling) = self.policy.handling(&language) else {
            return BlockOutcome::new(language.clone(), BlockResult::Refused(Refusal::Language(language)));
        };
        let code = match language.as_str() {
            PYTHON => pip::silenced(code, true),
            shell if SHELLS.contains(&shell) => pip::silenced(code, false),
            _ => code.to_owned(),
        };
        let file = match write(&self.session, &code, &language, &handling).await {
            Ok(file) => file,
            Err(result) => return BlockOutcome::new(language, result),
        };
        if handling == Handling::Save {
            // What is written later is no output of the next block.
            *before = None;
            return BlockOutcome { code_file: file, ..BlockOutcome::new(language, BlockResult::Saved) };
        }
        if before.is_none() {
            *before = Listing::take(&self.session).await;
        }
        let ran = match (handling, &file) {
            (Handling::Run(shell), Some(file)) => self.script(file, shell).await,
            _ => self.cell(code).await,
        };
        let mut outcome = BlockOutcome::new(language, ran.unwrap_or_else(BlockResult::Failed));
        outcome.code_file = file;
        if !outcome.is_final() {
            let after = Listing::take(&self.session).await;
            outcome.find_files(before.as_ref(), after.as_ref());
            *before = after;
        }
        outcome
    }

    async fn cell(&mut self, code: String) -> Result<BlockResult, Error> {
        let mut run = self.session.run_stream(code);
        if let Some(timeout) = self.timeout {
            run = run.timeout(timeout);
        }
        while let Some(event) = run.next().await {
            match event? {
                Event::Done(execution) => return Ok(BlockResult::Cell(execution)),
                event => (self.observer)(BlocksEvent::Cell(&event)),
            }
        }
        Err(lost())
    }

    async fn script(&mut self, file: &str, shell: Shell) -> Result<BlockResult, Error> {
        let none: [&str; 0] = [];
        let mut script = self.session.run_file(file, none).interpreter(shell);
        if let Some(timeout) = self.timeout {
            script = script.timeout(timeout);
        }
        let mut run = script.stream();
        while let Some(event) = run.next().await {
            match event? {
                ScriptEvent::Done(outcome) => return Ok(BlockResult::Script(outcome)),
                event => (self.observer)(BlocksEvent::Script(&event)),
            }
        }
        Err(lost())
    }
}

/// The languages of the blocks; the kernel is asked for those that nothing else tells.
async fn languages(session: &Session, blocks: &[CodeBlock]) -> Result<Vec<String>, Error> {
    let mut languages = Vec::new();
    for block in blocks {
        let named = match block.language.trim() {
            "" => infer_language(&block.code),
            language => Some(language),
        };
        languages.push(match named {
            Some(language) => canonical(language),
            None if is_python(session, &block.code).await? => PYTHON.to_owned(),
            None => String::new(),
        });
    }
    Ok(languages)
}

async fn is_python(session: &Session, code: &str) -> Result<bool, Error> {
    // Two ends of lines end an indented block, as they do at a prompt.
    Ok(session.is_complete(&format!("{code}\n\n")).await? == Completeness::Complete)
}

/// Writes the code to its file, if it is to have one.
async fn write(
    session: &Session,
    code: &str,
    language: &str,
    handling: &Handling,
) -> Result<Option<String>, BlockResult> {
    let outside = || BlockResult::Refused(Refusal::Filename);
    let file = match (filename::named(code).map_err(|_| outside())?, handling) {
        (Some(file), _) => file,
        (None, Handling::Kernel) => return Ok(None),
        // PowerShell runs files of no other name.
        (None, Handling::Run(Shell::Pwsh)) => filename::made_up(code, "ps1"),
        (None, _) => filename::made_up(code, language),
    };
    match session.files().put(&file, code.to_owned()).await {
        Ok(()) => Ok(Some(file)),
        Err(error) if error.kind() == Kind::Link => Err(outside()),
        Err(error) => Err(BlockResult::Failed(error)),
    }
}

/// Whether an error is no block's own, and nothing ran.
fn is_ours(error: &Error) -> bool {
    error.ran() == Ran::Never && !error.is_usage()
}

fn lost() -> Error {
    Error::new(Kind::Protocol, "cannot learn what came of the block").with_ran(Ran::Unknown)
}

impl fmt::Debug for RunBlocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunBlocks").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

impl<'a> IntoFuture for RunBlocks<'a> {
    type Output = Result<BlocksOutcome, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.carry_out().boxed()
    }
}
