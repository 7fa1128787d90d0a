//! What runs in sessions, and what is remembered of it.

mod blocks;
mod history;
mod id;
mod live;
mod run;
mod work;

pub(crate) use self::history::{End, History, Record};
pub(crate) use self::id::ExecutionId;
pub(crate) use self::run::{Happening, Run};
pub(crate) use self::work::{Form, Outcome, Request, Work};
