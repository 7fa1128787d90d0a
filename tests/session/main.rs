//! Sessions, from their contract: the same assertions over a fake kernel, one as a plain process, and one in a real container.
//!
//! `CELLBLOCK_TEST_PYTHON` names the Python of the processes. What cannot run says so and passes, unless
//! `CELLBLOCK_REQUIRE_PYTHON` or `CELLBLOCK_REQUIRE_ENGINE` is set.

#[path = "../support/fake/mod.rs"]
mod fake;
#[path = "../support/judged.rs"]
mod judged;
#[path = "../support/process.rs"]
mod process;

mod follow;
mod host;
mod lab;
mod lossy;
mod places;
mod recording;

mod blocks;
mod bounds;
mod cells;
mod crashes;
mod deaths;
mod detached;
mod drops;
mod events;
mod files;
mod interrupts;
mod ladder;
mod lifecycle;
mod links;
mod locks;
mod losses;
mod matrix;
mod odd;
mod order;
mod outputs;
mod queries;
mod ran;
mod recovery;
mod refusals;
mod script_ends;
mod scripts;
mod stdin;
mod tampering;
mod tapeagents;
mod workdirs;
