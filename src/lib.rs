#![doc = include_str!("../README.md")]

mod blocks;
mod engine;
mod error;
mod execution;
mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod kernel;
mod protocol;
mod session;
mod shell;
mod transport;

pub use blocks::{
    BlockOutcome, BlockResult, BlocksEvent, BlocksOutcome, CodeBlock, Policy, PythonMode, Refusal, RunBlocks,
    extract_code_blocks, infer_language,
};
pub use engine::{BuildEvent, Image, ImageBuild, ImageTarget};
pub use engine::{
    ContainerId, ContainerSpec, ContainerSummary, Docker, Engine, Exec, ExecEnd, Exit, Network, Workspace,
};
pub use error::{Error, Ran};
pub use execution::{
    Death, Event, Execution, MimeBundle, Output, PythonError, Rung, State, Status, TerminalFilter, Text, Timing, Usage,
    colour_only,
};
pub use files::{Download, FileEntry, FileKind, FileReader, Files, Progress, SkipReason, Skipped, Transfer, Upload};
pub use kernel::{OnDrop, StdinRequest};
pub use session::{
    Attach, Completeness, Completion, DEFAULT_IMAGE, Lease, LinkPolicy, Run, RunStream, Script, ScriptStream, Session,
    SessionBuilder, SessionSummary, Watch,
};
pub use shell::{Interpreter, ScriptEvent, ScriptOutcome, ScriptStatus, ScriptTiming, Shell};
