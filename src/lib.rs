//! Stateful Python in a locked container, driven from Rust.

mod engine;
mod error;
mod protocol;
mod transport;
pub use engine::{BuildEvent, Image, ImageBuild, ImageTarget};
pub use engine::{
    ContainerId, ContainerSpec, ContainerSummary, Docker, Engine, Exec, ExecEnd, Exit, Network, Workspace,
};
pub use error::{Error, Ran};
