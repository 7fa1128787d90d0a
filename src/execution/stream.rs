//! One stream's text: bounded in memory, and from its beginning on in a spill file where that is too little.

use std::ops::Range;

use super::capture::{Capture, Captured};
use super::collector::Limits;
use super::outcome::Text;
use super::spill::{Spill, SpillDirectory};

/// One of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamName {
    Stdout,
    Stderr,
}

impl StreamName {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Takes a stream's text.
#[derive(Debug)]
pub(crate) struct TextStream {
    name: StreamName,
    limits: Limits,
    spills: Option<SpillDirectory>,
    capture: Capture,
    spill: Option<Spill>,
}

impl TextStream {
    pub(crate) fn new(name: StreamName, limits: Limits, spills: Option<SpillDirectory>) -> Self {
        Self { name, limits, spills, capture: Capture::new(limits.text), spill: None }
    }

    pub(super) fn name(&self) -> StreamName {
        self.name
    }

    /// Appends the text, and returns the place that it has in the whole, counted in bytes.
    pub(crate) fn push(&mut self, text: &str) -> Range<u64> {
        let first_to_be_lost = self.spill.is_none() && self.capture.would_truncate(text.len());
        if let Some(spills) = self.spills.as_ref().filter(|_| first_to_be_lost) {
            let mut spill = spills.start(self.name.as_str(), self.limits.spill_file);
            spill.write(self.capture.kept());
            self.spill = Some(spill);
        }
        if let Some(spill) = &mut self.spill {
            spill.write(text.to_owned());
        }
        self.capture.push(text)
    }

    /// What was kept. Where text was spilled, waits until the spill file has it all.
    pub(crate) async fn text(self) -> Text {
        self.finish().await.1
    }

    pub(super) async fn finish(self) -> (Captured, Text) {
        let captured = self.capture.finish();
        let spilled = match self.spill {
            Some(spill) => spill.finish().await,
            None => None,
        };
        let text = Text {
            text: captured.text(),
            total_bytes: captured.total(),
            truncated: captured.is_truncated(),
            spill_bytes: spilled.as_ref().map(|spilled| spilled.bytes),
            spill: spilled.map(|spilled| spilled.path),
        };
        (captured, text)
    }
}
