//! The table of attacks.

mod contents;
mod floods;
mod frames;
mod order;
mod signatures;
pub(crate) mod terminal;

use crate::attack::Attack;

/// All that are played on a kernel in the middle of a cell.
pub(crate) fn all() -> Vec<Attack> {
    [
        frames::attacks(),
        signatures::attacks(),
        contents::attacks(),
        order::attacks(),
        floods::attacks(),
        terminal::attacks(),
    ]
    .concat()
}
