#![doc = include_str!("../README.md")]

mod engine;
mod error;
mod execution;
mod kernel;
mod protocol;
mod session;
mod transport;

pub use engine::{BuildEvent, Image, ImageBuild, ImageTarget};
pub use engine::{
    ContainerId, ContainerSpec, ContainerSummary, Docker, Engine, Exec, ExecEnd, Exit, Network, Workspace,
};
pub use error::{Error, Ran};
pub use execution::{
    Death, Event, Execution, MimeBundle, Output, PythonError, Rung, State, Status, TerminalFilter, Text, Timing, Usage,
    colour_only,
};
pub use kernel::{OnDrop, StdinRequest};
pub use session::{
    Attach, Completeness, Completion, DEFAULT_IMAGE, Lease, LinkPolicy, Run, RunStream, Session, SessionBuilder,
    SessionSummary, Watch,
};
