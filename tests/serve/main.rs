//! `cellblock serve` from outside: a real process, real containers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod azure;
mod connections;
mod contract;
mod files;
mod native;
mod operations;
mod page;
mod refusals;
mod sessions;
mod support;
