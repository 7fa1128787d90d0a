//! Kernels whose five sockets hostile code has taken over, and what the host makes of them.
//!
//! Each attack is a cell: it takes the kernel's sockets away from it in the kernel's own process (`hijack.py`), plays, and
//! then answers like a small kernel, so that what the host says of the state can be checked. Ten other sessions of the same
//! process run cells all the while, and the process's memory is measured.
//!
//! In real containers those that move many megabytes, or keep the host waiting for a kernel, are played only with
//! `CELLBLOCK_ATTACKS=all`. `CELLBLOCK_ATTACK=WORDS` plays those whose names contain the words, and tells how long each takes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/alone.rs"]
mod alone;
#[path = "../support/memory.rs"]
mod memory;
#[path = "../support/process.rs"]
mod process;

mod arena;
mod attack;
mod attacks;
mod births;
mod bystanders;
mod handovers;
mod places;
mod queries;
mod terminals;

use alone::alone;
use places::Place;

fn wants_all() -> bool {
    std::env::var("CELLBLOCK_ATTACKS").is_ok_and(|which| which == "all")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_on_processes() {
    let Some(place) = Place::process() else { return };
    if alone("attacks_on_processes") {
        let attacks = attacks::all();
        assert!(attacks.len() > 200);
        arena::fight(&place, &place, attacks, 4).await;
    }
    place.clean_up();
}

/// What a real container changes is the way to the kernel and what the code may do to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_on_containers() {
    let (Some(place), Some(around)) = (Place::container().await, Place::process()) else { return };
    if alone("attacks_on_containers") {
        let attacks = if wants_all() { attacks::all() } else { attacks::light() };
        assert!(attacks.len() > 200);
        arena::fight(&place, &around, attacks, 4).await;
    }
    around.clean_up();
}

#[tokio::test]
async fn nothing_but_colour_reaches_the_terminal() {
    let Some(place) = Place::container().await else { return };
    terminals::all(&place);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kernels_that_are_born_hostile() {
    let Some(place) = Place::process() else { return };
    if alone("kernels_that_are_born_hostile") {
        let births = births::all();
        let count = births.len();
        births::play_all(&place, births, count).await;
    }
    place.clean_up();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kernels_that_are_born_hostile_in_containers() {
    let Some(place) = Place::container().await else { return };
    if alone("kernels_that_are_born_hostile_in_containers") {
        let births = if wants_all() { births::all() } else { births::light() };
        births::play_all(&place, births, 4).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kernels_that_turn_hostile_between_two_controllers() {
    let Some(place) = Place::process() else { return };
    if alone("kernels_that_turn_hostile_between_two_controllers") {
        let handovers = handovers::all();
        let count = handovers.len();
        handovers::play_all(&place, handovers, count).await;
    }
    place.clean_up();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kernels_that_turn_hostile_between_two_controllers_of_a_container() {
    let Some(place) = Place::container().await else { return };
    if alone("kernels_that_turn_hostile_between_two_controllers_of_a_container") {
        let handovers = if wants_all() { handovers::all() } else { handovers::light() };
        handovers::play_all(&place, handovers, 4).await;
    }
}

#[tokio::test]
async fn odd_answers_to_questions() {
    let Some(place) = Place::process() else { return };
    queries::all(&place).await;
    place.clean_up();
}

#[tokio::test]
async fn odd_answers_to_questions_from_a_container() {
    let Some(place) = Place::container().await else { return };
    queries::all(&place).await;
}
