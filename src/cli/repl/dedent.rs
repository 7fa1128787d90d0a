//! Backspace takes a whole indent where nothing but an indent is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reedline::{EditCommand, EditMode, Emacs, PromptEditMode, ReedlineEvent, ReedlineRawEvent};

/// The spaces before the cursor if nothing else is, as of the last painting. An edit mode sees keys and not the line.
#[derive(Debug, Clone, Default)]
pub(super) struct Blank(Arc<AtomicUsize>);

impl Blank {
    pub(super) fn note(&self, line: &str, cursor: usize) {
        let before = line.get(..cursor).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
        let spaces = if before.chars().all(|c| c == ' ') { before.len() } else { 0 };
        self.0.store(spaces, Ordering::Relaxed);
    }

    /// How many spaces the key takes. Further keys of the same batch know of none: the line may be another one by then.
    fn take(&self) -> usize {
        match self.0.swap(0, Ordering::Relaxed) {
            0 => 1,
            spaces => (spaces - 1) % 4 + 1,
        }
    }
}

pub(super) struct Dedenting {
    pub(super) keys: Emacs,
    pub(super) blank: Blank,
}

impl EditMode for Dedenting {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        match self.keys.parse_event(event) {
            ReedlineEvent::Edit(edits) if edits == [EditCommand::Backspace] => {
                ReedlineEvent::Edit(vec![EditCommand::Backspace; self.blank.take()])
            }
            event => event,
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.keys.edit_mode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_indent_at_a_time() {
        let blank = Blank::default();
        for (line, cursor, takes) in
            [("if x:\n        ", 14, 4), ("      ", 6, 2), ("    ", 4, 4), ("  x", 3, 1), ("", 0, 1)]
        {
            blank.note(line, cursor);
            assert_eq!(blank.take(), takes, "{line:?}");
            assert_eq!(blank.take(), 1, "the rest of a batch");
        }
    }
}
