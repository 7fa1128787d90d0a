//! What is to run, and what came of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cellblock::{
    BlockOutcome, BlockResult, BlocksOutcome, CodeBlock, Execution, Policy, ScriptOutcome, ScriptStatus, Shell, State,
    Status,
};

use serde::{Serialize, Serializer};

use super::id::ExecutionId;

/// Something to run in a session.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: ExecutionId,
    pub(crate) work: Work,
    pub(crate) timeout: Duration,
    pub(crate) asynchronous: bool,
    pub(crate) form: Form,
}

/// How the result is to be written, where the request says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Form {
    /// Where to cut the streams.
    pub(crate) cut_at: Option<usize>,
    pub(crate) jupyter: bool,
}

/// What is to run.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Work {
    Cell(String),
    Script {
        text: String,
        shell: Shell,
        stdin: Option<String>,
    },
    Program {
        argv: Vec<String>,
        stdin: Option<String>,
    },
    /// The code blocks of a message.
    Blocks {
        blocks: Vec<CodeBlock>,
        policy: Policy,
        keep_going: bool,
    },
}

impl Work {
    pub(crate) fn is_cell(&self) -> bool {
        matches!(self, Self::Cell(_))
    }

    /// About the memory that it takes.
    pub(super) fn size(&self) -> usize {
        let (text, stdin) = match self {
            Self::Cell(text) => (text.len(), &None),
            Self::Script { text, stdin, .. } => (text.len(), stdin),
            Self::Program { argv, stdin } => (argv.iter().map(String::len).sum(), stdin),
            Self::Blocks { blocks, .. } => (blocks.iter().map(|block| block.code.len()).sum(), &None),
        };
        text + stdin.as_ref().map_or(0, String::len)
    }

    /// As a person would write it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Cell(text) | Self::Script { text, .. } => text.clone(),
            Self::Program { argv, .. } => argv.join(" "),
            Self::Blocks { blocks, .. } => {
                blocks.iter().map(|block| block.code.as_str()).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl fmt::Debug for Work {
    /// Without the code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cell(_) => "Cell",
            Self::Script { .. } => "Script",
            Self::Program { .. } => "Program",
            Self::Blocks { .. } => "Blocks",
        })
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Cell(Arc<Execution>),
    Script(Arc<ScriptOutcome>),
    Blocks(Arc<BlocksOutcome>, Duration),
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Cell(execution) => execution.serialize(serializer),
            Self::Script(outcome) => outcome.serialize(serializer),
            Self::Blocks(outcome, _) => outcome.serialize(serializer),
        }
    }
}

impl Outcome {
    pub(crate) fn total(&self) -> Duration {
        match self {
            Self::Cell(execution) => execution.timing.total,
            Self::Script(outcome) => outcome.timing.total,
            Self::Blocks(_, total) => *total,
        }
    }

    pub(crate) fn state(&self) -> State {
        match self {
            Self::Cell(execution) => execution.state,
            Self::Script(outcome) => outcome.state,
            Self::Blocks(outcome, _) => {
                outcome.blocks.iter().map(state).find(|state| *state != State::Kept).unwrap_or(State::Kept)
            }
        }
    }

    /// A word for logs and metrics, which never holds text of the code's.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Cell(execution) => match execution.status {
                Status::Ok => "ok",
                Status::Error(_) => "error",
                Status::TimedOut => "timed_out",
                Status::Interrupted => "interrupted",
                Status::Aborted => "aborted",
                Status::KernelDied(_) => "kernel_died",
                Status::ContainerGone(_) => "container_gone",
                _ => "other",
            },
            Self::Script(outcome) => match outcome.status {
                ScriptStatus::Exited(0) => "ok",
                ScriptStatus::Exited(_) | ScriptStatus::Signaled(_) => "error",
                ScriptStatus::TimedOut => "timed_out",
                ScriptStatus::Interrupted => "interrupted",
                ScriptStatus::Lost(_) => "lost",
                ScriptStatus::ContainerGone(_) => "container_gone",
                _ => "other",
            },
            Self::Blocks(outcome, _) if outcome.is_ok() => "ok",
            Self::Blocks(..) => "error",
        }
    }

    /// About the memory that it takes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Cell(execution) => size(execution),
            Self::Script(outcome) => outcome.stdout.text.len() + outcome.stderr.text.len(),
            Self::Blocks(outcome, _) => outcome.output.len() + outcome.blocks.iter().map(size_of_block).sum::<usize>(),
        }
    }
}

fn state(block: &BlockOutcome) -> State {
    match &block.result {
        BlockResult::Cell(execution) => execution.state,
        BlockResult::Script(outcome) => outcome.state,
        _ => State::Kept,
    }
}

fn size_of_block(block: &BlockOutcome) -> usize {
    match &block.result {
        BlockResult::Cell(execution) => size(execution),
        BlockResult::Script(outcome) => outcome.stdout.text.len() + outcome.stderr.text.len(),
        _ => 0,
    }
}

fn size(execution: &Execution) -> usize {
    let outputs: usize = execution.outputs.iter().map(super::live::size).sum();
    let result = execution.result.as_ref().map_or(0, super::live::size_of_bundle);
    execution.stdout.text.len() + execution.stderr.text.len() + outputs + result
}
