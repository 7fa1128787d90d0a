//! Stateful Python in a locked container, driven from Rust.

mod error;
mod protocol;
mod transport;
pub use error::{Error, Ran};
