//! Stateful Python in a locked container, driven from Rust.

mod error;
mod protocol;
pub use error::{Error, Ran};
