//! The table of attacks.

mod contents;
mod floods;
mod frames;
mod order;
mod relay;
mod signatures;
pub(crate) mod terminal;

use crate::attack::Attack;

/// All that are played on a kernel in the middle of a cell.
pub(crate) fn all() -> Vec<Attack> {
    // Those that are waited for come first.
    [
        order::attacks(),
        floods::attacks(),
        relay::attacks(),
        contents::attacks(),
        frames::attacks(),
        signatures::attacks(),
        terminal::attacks(),
    ]
    .concat()
}

/// All but those that move many megabytes, of which there are the floods, one on each channel.
pub(crate) fn light() -> Vec<Attack> {
    let is_chosen = |attack: &Attack| !attack.heavy || attack.name.starts_with("a flood of messages of this cell");
    all().into_iter().filter(is_chosen).collect()
}
