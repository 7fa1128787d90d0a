//! What became of a message's blocks.

use std::fmt;

use super::listing::Listing;
use crate::execution::plain;
use crate::{Error, Execution, MimeBundle, Output, ScriptOutcome, ScriptStatus, State, Status};

/// What became of the blocks of a message: each for itself, and joined as if they had been one program.
///
/// # JSON
///
/// It serialises to one object. Fields may be added to it under the same `v`. A block's `result` is `cell`, `script`, `saved`, `refused` or `failed`;
/// `execution` is that of an [`Execution`], `script` that of a [`ScriptOutcome`]; `reason` says why a block was refused or failed.
///
/// ```json
#[doc = include_str!("outcome.json")]
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct BlocksOutcome {
    /// The blocks that were come to, in order.
    pub blocks: Vec<BlockOutcome>,
    /// The exit code of the last block that was run or refused; 0 if all were saved.
    pub exit_code: i32,
    /// What the blocks have said, without terminal escapes, each from a line of its own on.
    pub output: String,
    /// Files of the work directory that were named in the output, or made or changed by the blocks.
    pub output_files: Vec<String>,
    /// The files of the work directory that hold the blocks' code.
    pub code_files: Vec<String>,
}

/// What became of one block.
#[derive(Debug)]
#[non_exhaustive]
pub struct BlockOutcome {
    /// The language as the [`Policy`](crate::Policy) knows it; empty if it is not known.
    pub language: String,
    /// What was done with it, and what came of that.
    pub result: BlockResult,
    /// The file of the work directory that holds its code, if it was written to one.
    pub code_file: Option<String>,
    /// Files of the work directory that were named in its output, or were made or changed while it ran.
    pub output_files: Vec<String>,
}

/// What was done with a block, and what came of that.
#[derive(Debug)]
#[non_exhaustive]
pub enum BlockResult {
    /// It ran in the kernel.
    Cell(Box<Execution>),
    /// It ran as a file.
    Script(Box<ScriptOutcome>),
    /// Its code was written to a file, and that was all.
    Saved,
    /// It was not taken.
    Refused(Refusal),
    /// cellblock could not carry it out; [`Error::ran`] says whether the code ran.
    Failed(Error),
}

/// Why a block was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its language is not in the policy; empty if it is not known.
    Language(String),
    /// The name in its first line is none of a file in the work directory.
    Filename,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Language(language) if language.is_empty() => f.write_str("Unsupported language unknown"),
            Self::Language(language) => write!(f, "Unsupported language {language}"),
            Self::Filename => f.write_str("Filename is not in the workspace"),
        }
    }
}

impl BlocksOutcome {
    pub(super) fn new(blocks: Vec<BlockOutcome>) -> Self {
        let exit_code = blocks.iter().rev().find_map(BlockOutcome::exit_code).unwrap_or(0);
        let mut output = String::new();
        for block in &blocks {
            append(&mut output, &block.output());
        }
        let mut output_files: Vec<String> = Vec::new();
        for file in blocks.iter().flat_map(|block| &block.output_files) {
            if !output_files.contains(file) {
                output_files.push(file.clone());
            }
        }
        let code_files = blocks.iter().filter_map(|block| block.code_file.clone()).collect();
        Self { blocks, exit_code, output, output_files, code_files }
    }

    /// Whether all blocks that were come to went well.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.blocks.iter().all(BlockOutcome::is_ok)
    }
}

impl BlockOutcome {
    pub(super) fn new(language: String, result: BlockResult) -> Self {
        Self { language, result, code_file: None, output_files: Vec::new() }
    }

    /// Its own file is no output, though a traceback names it.
    pub(super) fn find_files(&mut self, before: Option<&Listing>, after: Option<&Listing>) {
        let files = after.map(|after| after.outputs(before, &self.output())).unwrap_or_default();
        self.output_files = files.into_iter().filter(|file| Some(file) != self.code_file.as_ref()).collect();
    }

    /// Whether it was saved, or ran and ended with exit code 0.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.exit_code().unwrap_or(0) == 0
    }

    /// Its exit code by the shell's conventions; none if it was only saved.
    ///
    /// Of a script it is [`ScriptOutcome::exit_code`]. A cell has 0 or 1, or what it gave to `sys.exit`; 124 if its time was up, 130 if it was interrupted,
    /// that of the kernel if it died, and 137 if the container is gone. What was refused has 1; what no interpreter was found for 127.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match &self.result {
            BlockResult::Cell(execution) => Some(of_status(&execution.status)),
            BlockResult::Script(outcome) => Some(outcome.exit_code()),
            BlockResult::Saved => None,
            BlockResult::Refused(_) => Some(1),
            BlockResult::Failed(error) if error.is_usage() && self.code_file.is_some() => Some(127),
            BlockResult::Failed(_) => Some(1),
        }
    }

    /// What it has said, without terminal escapes: of a script stdout and then stderr, of a cell its outputs in order. What did not go well otherwise is told
    /// in a line at the end: `Timeout` if its time was up.
    #[must_use]
    pub fn output(&self) -> String {
        let mut text = String::new();
        match &self.result {
            BlockResult::Cell(execution) => {
                execution.outputs.iter().for_each(|output| say(&mut text, output));
                append(&mut text, &of_cell(&execution.status));
            }
            BlockResult::Script(outcome) => {
                text.push_str(&outcome.stdout.text);
                append(&mut text, &outcome.stderr.text);
                append(&mut text, &of_script(&outcome.status));
            }
            BlockResult::Saved => {
                text = format!("Code saved to {}\n", self.code_file.as_deref().unwrap_or_default());
            }
            BlockResult::Refused(refusal) => text = refusal.to_string(),
            BlockResult::Failed(error) => text = told(error),
        }
        plain(&text)
    }

    /// Nothing more can be run, or nothing more is wanted.
    pub(super) fn is_final(&self) -> bool {
        match &self.result {
            BlockResult::Cell(execution) => {
                execution.state == State::ContainerGone || execution.status == Status::Interrupted
            }
            BlockResult::Script(outcome) => {
                outcome.state == State::ContainerGone || outcome.status == ScriptStatus::Interrupted
            }
            BlockResult::Failed(error) => error.is_session_gone(),
            BlockResult::Saved | BlockResult::Refused(_) => false,
        }
    }
}

/// Adds a text that begins a line of its own.
fn append(output: &mut String, text: &str) {
    if !output.is_empty() && !output.ends_with('\n') && !text.is_empty() {
        output.push('\n');
    }
    output.push_str(text);
}

fn say(text: &mut String, output: &Output) {
    let shown = |bundle: &MimeBundle| bundle.text().map(|text| format!("{text}\n")).unwrap_or_default();
    match output {
        // The two streams share their lines.
        Output::Stream { text: piece, .. } => text.push_str(piece),
        Output::DisplayData(bundle) | Output::ExecuteResult { bundle, .. } => append(text, &shown(bundle)),
        Output::Error(error) => {
            let traceback = error.traceback.join("\n");
            append(text, &if traceback.is_empty() { error.to_string() } else { traceback });
        }
    }
}

fn of_status(status: &Status) -> i32 {
    match status {
        Status::Ok => 0,
        Status::Error(error) if error.ename == "SystemExit" => of_exit(&error.evalue),
        Status::Error(_) | Status::Aborted => 1,
        Status::TimedOut => 124,
        Status::Interrupted => 130,
        // Whatever it said: the variables are gone.
        Status::KernelDied(death) => death.signal.map(|signal| 128 + signal).or(death.code).unwrap_or(1).max(1),
        Status::ContainerGone(_) => 137,
    }
}

/// `sys.exit()` by the value that it got.
fn of_exit(value: &str) -> i32 {
    match value.trim() {
        "" | "None" | "False" => 0,
        value => value.parse::<i64>().map_or(1, |code| (code & 0xff) as i32),
    }
}

fn of_cell(status: &Status) -> String {
    match status {
        Status::Ok | Status::Error(_) | Status::Interrupted => String::new(),
        Status::TimedOut => TIMEOUT.to_owned(),
        status => status.to_string(),
    }
}

fn of_script(status: &ScriptStatus) -> String {
    match status {
        ScriptStatus::Exited(_) => String::new(),
        ScriptStatus::TimedOut => TIMEOUT.to_owned(),
        status => status.to_string(),
    }
}

const TIMEOUT: &str = "Timeout";

fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\n{hint}"));
    }
    text
}
