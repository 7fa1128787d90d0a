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

/// Some of each kind, among them a flood on each channel, and all on the relay.
pub(crate) fn sample() -> Vec<Attack> {
    let (heavy, light): (Vec<_>, Vec<_>) = all().into_iter().partition(|attack| attack.heavy);
    let floods = heavy.into_iter().filter(|attack| attack.name.starts_with("a flood of messages of this cell"));
    let light = light.into_iter().enumerate();
    let chosen = light.filter(|(number, attack)| number % 16 == 0 || attack.link.is_some()).map(|(_, attack)| attack);
    floods.chain(chosen).collect()
}
