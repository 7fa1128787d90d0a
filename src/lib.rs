//! Stateful Python in a locked container, driven from Rust.

mod error;
pub use error::{Error, Ran};
