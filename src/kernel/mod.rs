//! The client of one running kernel: the driver, requests, replies, interrupts, stdin.

mod command;
mod connection;
mod container;
mod driver;
mod interrupt;
mod recovery;
mod running;
mod silence;

pub(crate) use command::{Cell, Command, Handle, ScriptFate, StdinQuestion, WeakHandle};
pub use command::{OnDrop, StdinRequest};
pub(crate) use container::Container;
pub(crate) use driver::{Driver, Settings};
pub(crate) use recovery::Recovered;
