//! Whole lives of sessions in real containers: controllers that are killed, kernels that die with nobody there, engines that go away,
//! and what is left behind.
//!
//! Controllers that are killed are processes of the built command; the test's own process is the one that lives on beside them.
//! Where there is no engine the tests say so and are skipped, unless `CELLBLOCK_REQUIRE_ENGINE` is set.

mod controller;
mod lab;

mod deaths;
mod engine;
mod holders;
mod host;
mod leases;
mod leftovers;
mod outage;
mod pauses;
mod private;
mod reattach;
mod users;
