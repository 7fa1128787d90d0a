//! The list of outputs as a front end would show it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::capture::Captured;
use super::outcome::PythonError;
use super::output::{MimeBundle, Output};
use super::stream::StreamName;

/// What a bundle is: a display, or the value of the last expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BundleKind {
    Display,
    Result { execution_count: Option<u32> },
}

#[derive(Debug)]
enum Entry {
    /// A place in the stream's text, which the capture keeps: nothing is stored twice.
    Stream {
        name: StreamName,
        place: Range<u64>,
    },
    /// After an update displays share their bundle, so that updating many of them costs little.
    Bundle {
        kind: BundleKind,
        bundle: Arc<MimeBundle>,
        weight: usize,
    },
    Error(PythonError),
}

/// Outputs in order: text merged, displays updated, clearing done, within limits of count and bytes.
///
/// Beyond `count` stretches of text, text goes on the end of its stream's last stretch: it is still there, but its
/// order relative to other outputs is not. Beyond `count` displays, or `bytes` of them, a display is left out and
/// counted. The first result, if it is small, is never left out.
#[derive(Debug)]
pub(super) struct Outputs {
    count: usize,
    bytes: usize,
    entries: Vec<Entry>,
    displays: HashMap<String, Vec<usize>>,
    last_stdout: Option<usize>,
    last_stderr: Option<usize>,
    streams: usize,
    bundles: usize,
    results: usize,
    errors: usize,
    weight: usize,
    clear_pending: bool,
    left_out: u64,
}

/// A result up to this size is kept, however many displays came before it.
const SMALL_RESULT: usize = 1 << 20;

impl Outputs {
    pub(super) fn new(count: usize, bytes: usize) -> Self {
        Self {
            count,
            bytes,
            entries: Vec::new(),
            displays: HashMap::new(),
            last_stdout: None,
            last_stderr: None,
            streams: 0,
            bundles: 0,
            results: 0,
            errors: 0,
            weight: 0,
            clear_pending: false,
            left_out: 0,
        }
    }

    pub(super) fn stream(&mut self, name: StreamName, place: Range<u64>) {
        self.clear_if_pending();
        let full = self.streams >= self.count;
        let last_entry = self.entries.len().checked_sub(1);
        let last = match name {
            StreamName::Stdout => &mut self.last_stdout,
            StreamName::Stderr => &mut self.last_stderr,
        };
        let merge_into = last.filter(|index| full || Some(*index) == last_entry);
        if let Some(Entry::Stream { place: earlier, .. }) = merge_into.and_then(|index| self.entries.get_mut(index)) {
            earlier.end = place.end;
        } else {
            *last = Some(self.entries.len());
            self.streams += 1;
            self.entries.push(Entry::Stream { name, place });
        }
    }

    /// Takes room for a display or a result of this weight that comes now, or counts it as left out.
    pub(super) fn admit(&mut self, kind: BundleKind, weight: usize) -> bool {
        self.clear_if_pending();
        let fits = self.bundles < self.count && self.weight.saturating_add(weight) <= self.bytes;
        let first_result = matches!(kind, BundleKind::Result { .. }) && self.results == 0;
        let admitted = fits || (first_result && weight <= SMALL_RESULT);
        if !admitted {
            self.left_out += 1;
        }
        admitted
    }

    /// Appends what was admitted.
    pub(super) fn bundle(&mut self, kind: BundleKind, bundle: MimeBundle, display_id: Option<String>, weight: usize) {
        self.bundles += 1;
        self.results += usize::from(matches!(kind, BundleKind::Result { .. }));
        self.weight += weight;
        if let Some(id) = display_id {
            self.displays.entry(id).or_default().push(self.entries.len());
        }
        self.entries.push(Entry::Bundle { kind, bundle: Arc::new(bundle), weight });
    }

    /// Gives every display with this id a new content, if there is room for it.
    pub(super) fn update(&mut self, id: &str, new: &MimeBundle, new_weight: usize) {
        let Some(shown) = self.displays.get(id) else { return };
        let old = shown.iter().filter_map(|index| self.entries.get(*index)).map(Entry::weight).sum();
        let weight = self.weight.saturating_sub(old).saturating_add(new_weight.saturating_mul(shown.len()));
        if weight > self.bytes {
            self.left_out += 1;
            return;
        }
        let new = Arc::new(new.clone());
        for index in shown {
            if let Some(Entry::Bundle { bundle, weight, .. }) = self.entries.get_mut(*index) {
                bundle.clone_from(&new);
                *weight = new_weight;
            }
        }
        self.weight = weight;
    }

    pub(super) fn error(&mut self, error: PythonError) {
        self.clear_if_pending();
        // An execution raises one exception; a few more do no harm, a flood of them does.
        if self.errors >= 8 {
            self.left_out += 1;
        } else {
            self.errors += 1;
            self.entries.push(Entry::Error(error));
        }
    }

    pub(super) fn clear(&mut self, wait: bool) {
        self.clear_pending = wait;
        if !wait {
            self.clear_now();
        }
    }

    fn clear_if_pending(&mut self) {
        if std::mem::take(&mut self.clear_pending) {
            self.clear_now();
        }
    }

    fn clear_now(&mut self) {
        let left_out = self.left_out;
        *self = Self { left_out, ..Self::new(self.count, self.bytes) };
    }

    /// Counts an output that came and could not be taken.
    pub(super) fn leave_out(&mut self) {
        self.left_out += 1;
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(super) fn finish(self, stdout: &Captured, stderr: &Captured) -> Vec<Output> {
        let text = |name, place: &Range<u64>| match name {
            StreamName::Stdout => stdout.part(place),
            StreamName::Stderr => stderr.part(place),
        };
        self.entries
            .into_iter()
            .map(|entry| match entry {
                Entry::Stream { name, place } => {
                    Output::Stream { name: name.as_str().to_owned(), text: text(name, &place) }
                }
                Entry::Bundle { kind: BundleKind::Display, bundle, .. } => {
                    Output::DisplayData(Arc::unwrap_or_clone(bundle))
                }
                Entry::Bundle { kind: BundleKind::Result { execution_count }, bundle, .. } => {
                    Output::ExecuteResult { bundle: Arc::unwrap_or_clone(bundle), execution_count }
                }
                Entry::Error(error) => Output::Error(error),
            })
            .collect()
    }
}

impl Entry {
    fn weight(&self) -> usize {
        match self {
            Self::Bundle { weight, .. } => *weight,
            Self::Stream { .. } | Self::Error(_) => 0,
        }
    }
}
