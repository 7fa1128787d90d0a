//! The `cellblock` command from outside: the built binary, real pipes, a real terminal, and where one answers a real engine.
//!
//! Where there is no engine its tests say so and are skipped, unless `CELLBLOCK_REQUIRE_ENGINE` is set.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod blocks;
mod faults;
mod files;
mod inside;
mod interrupts;
mod listing;
mod output;
mod repl;
mod sessions;
mod shell;
mod support;
mod terminal;
mod usage;
