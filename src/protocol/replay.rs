//! Refusing a message that was seen before.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// How many signatures are remembered. Jupyter's clients keep 65,536 of them whole, some 10 MiB; a session here is to
/// cost little, so it keeps hashes, and of the last 4,096 messages: about 100 KiB once it has seen so many, and nothing
/// before. A message is only as old as the channels it comes from, and every kernel has a key of its own.
const REMEMBERED: usize = 4096;

/// Signatures seen lately on the channels of one kernel.
#[derive(Debug, Default)]
pub(crate) struct ReplayHistory {
    // Keyed at random, so that nobody can choose signatures that collide.
    hasher: RandomState,
    seen: HashSet<u64>,
    order: VecDeque<u64>,
}

impl ReplayHistory {
    /// Notes a signature; false if it was seen before. An unsigned message is never a repeat.
    pub(crate) fn admit(&mut self, signature: &[u8]) -> bool {
        if signature.is_empty() {
            return true;
        }
        let hash = self.hasher.hash_one(signature);
        if !self.seen.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_is_refused_until_it_is_forgotten() {
        let mut history = ReplayHistory::default();
        assert!(history.admit(b"first"));
        assert!(!history.admit(b"first"));
        for number in 0..REMEMBERED {
            assert!(history.admit(number.to_string().as_bytes()));
        }
        assert!(history.admit(b"first"));
        assert!(!history.admit((REMEMBERED - 1).to_string().as_bytes()));
        assert_eq!(history.seen.len(), REMEMBERED);
        assert_eq!(history.order.len(), REMEMBERED);
    }

    #[test]
    fn unsigned_messages_are_not_remembered() {
        let mut history = ReplayHistory::default();
        assert!(history.admit(b"") && history.admit(b""));
    }
}
