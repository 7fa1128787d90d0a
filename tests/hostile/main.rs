//! Kernels whose five sockets hostile code has taken over, and what the host makes of them.
//!
//! Each attack is a cell: it takes the kernel's sockets away from it in the kernel's own process (`hijack.py`), plays, and
//! then answers like a small kernel, so that what the host says of the state can be checked. Ten other sessions of the same
//! process run cells all the while, and the process's memory is measured.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/process.rs"]
mod process;

mod arena;
mod attack;
mod attacks;
mod bystanders;
mod memory;
mod places;

use places::Place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_on_processes() {
    let Some(place) = Place::process() else { return };
    let attacks = attacks::all();
    arena::fight(&place, attacks, 6).await;
    place.clean_up();
}
