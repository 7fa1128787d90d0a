//! What was sent to the kernel and is not taken by it: hostile code can make the host answer without end, and not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::Channel;

/// On shell callers ask, with code of any length; what goes to the others is short, and the kernel decides how much of it.
const SHELL: u64 = 16 << 20;
const OTHERS: u64 = 256 << 10;

/// Bytes that wait on each channel.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(Arc<[AtomicU64; 4]>);

impl Unread {
    fn of(&self, channel: Channel) -> Option<&AtomicU64> {
        self.0.get(usize::from(channel.number()).checked_sub(1)?)
    }

    /// Counts a message that is about to be sent; false if too much waits before it.
    pub(super) fn admit(&self, channel: Channel, frames: &[Bytes]) -> bool {
        let limit = if channel == Channel::Shell { SHELL } else { OTHERS };
        let Some(waiting) = self.of(channel).filter(|waiting| waiting.load(Ordering::Relaxed) <= limit) else {
            return false;
        };
        let header = |len: u64| if len > 255 { 9 } else { 2 };
        let sizes = frames.iter().map(|frame| u64::try_from(frame.len()).unwrap_or(u64::MAX));
        let bytes = sizes.fold(0_u64, |sum, len| sum.saturating_add(len).saturating_add(header(len)));
        waiting.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Bytes that were written to the kernel. The greeting, which nobody admitted, is taken when nothing waits.
    pub(super) fn taken(&self, channel: Channel, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if let Some(waiting) = self.of(channel) {
            let less = |waiting: u64| Some(waiting.saturating_sub(bytes));
            let _ = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_makes_room_and_what_is_not_does_not() {
        let unread = Unread::default();
        let message = [Bytes::from(vec![0; 1000]), Bytes::from_static(b"short")];
        unread.taken(Channel::Stdin, 64);
        for _ in 0..10_000 {
            assert!(unread.admit(Channel::Stdin, &message));
            unread.taken(Channel::Stdin, 1000 + 9 + 5 + 2);
        }
        let admitted = (0..10_000).take_while(|_| unread.admit(Channel::Stdin, &message)).count();
        assert_eq!(admitted, (256 << 10) / 1016 + 1);
        assert!(unread.admit(Channel::Control, &message), "each channel for itself");
    }

    #[test]
    fn one_message_may_be_of_any_length() {
        let unread = Unread::default();
        assert!(unread.admit(Channel::Shell, &[Bytes::from(vec![0; 20 << 20])]));
        assert!(!unread.admit(Channel::Shell, &[Bytes::new()]));
    }
}
