//! Bounded capture of text: of a long one, head and tail are kept.

use std::collections::VecDeque;
use std::ops::Range;

/// Takes text of any length in constant memory. Nothing is allocated before there is text.
#[derive(Debug)]
pub(super) struct Capture {
    limit: usize,
    head: String,
    /// The head has met a character that did not fit; all that follows belongs to the tail.
    head_is_full: bool,
    /// UTF-8, from a character's start on.
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, head: String::new(), head_is_full: false, tail: VecDeque::new(), total: 0 }
    }

    /// Appends the text, and returns the place that it has in the whole, counted in bytes.
    pub(super) fn push(&mut self, text: &str) -> Range<u64> {
        let start = self.total;
        self.total += text.len() as u64;
        let rest = self.fill_head(text);
        self.fill_tail(rest);
        start..self.total
    }

    fn fill_head<'a>(&mut self, text: &'a str) -> &'a str {
        if self.head_is_full {
            return text;
        }
        let room = (self.limit / 2).saturating_sub(self.head.len());
        let (head, rest) = text.split_at_checked(text.floor_char_boundary(room)).unwrap_or(("", text));
        self.head.push_str(head);
        self.head_is_full = !rest.is_empty();
        rest
    }

    fn fill_tail(&mut self, text: &str) {
        let room = self.limit.saturating_sub(self.head.len());
        let cut = text.ceil_char_boundary(text.len().saturating_sub(room));
        let (left_out, text) = text.split_at_checked(cut).unwrap_or((text, ""));
        let excess = (self.tail.len() + text.len()).saturating_sub(room);
        // All of the old tail goes if some of the new text does, even where a few bytes would fit: a tail has no gap.
        self.tail.drain(..if left_out.is_empty() { excess } else { self.tail.len() });
        while self.tail.front().is_some_and(|byte| is_continuation(*byte)) {
            self.tail.pop_front();
        }
        self.tail.extend(text.as_bytes());
    }

    /// Whether more text of this length would make something be left out.
    pub(super) fn would_truncate(&self, more: usize) -> bool {
        self.total + more as u64 > self.limit as u64
    }

    /// All that is kept; everything so far, as long as nothing was left out.
    pub(super) fn kept(&self) -> String {
        let mut kept = self.head.clone();
        let (first, second) = self.tail.as_slices();
        kept.push_str(&String::from_utf8_lossy(&[first, second].concat()));
        kept
    }

    pub(super) fn finish(self) -> Captured {
        let tail = Vec::from(self.tail);
        let tail =
            String::from_utf8(tail).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Captured { head: self.head, tail, total: self.total }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// What was kept of a text.
#[derive(Debug)]
pub(super) struct Captured {
    head: String,
    tail: String,
    total: u64,
}

impl Captured {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.left_out().end > self.left_out().start
    }

    fn left_out(&self) -> Range<u64> {
        self.head.len() as u64..self.total.saturating_sub(self.tail.len() as u64)
    }

    /// The whole text, with a line for what is missing.
    pub(super) fn text(&self) -> String {
        self.part(&(0..self.total))
    }

    /// The part of the text with this place in the whole, with a line for what is missing of it.
    pub(super) fn part(&self, place: &Range<u64>) -> String {
        let gap = self.left_out();
        let head = slice(&self.head, place.start..place.end.min(gap.start));
        let tail = slice(&self.tail, place.start.saturating_sub(gap.end)..place.end.saturating_sub(gap.end));
        let missing = place.end.min(gap.end).saturating_sub(place.start.max(gap.start));
        let mut text = String::with_capacity(head.len() + tail.len() + if missing > 0 { 64 } else { 0 });
        text.push_str(head);
        if missing > 0 {
            if !matches!(head.chars().next_back(), None | Some('\n')) {
                text.push('\n');
            }
            text.push_str(&notice(missing));
        }
        text.push_str(tail);
        text
    }
}

fn slice(text: &str, range: Range<u64>) -> &str {
    let index = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(text.len());
    text.get(index(range.start)..index(range.end)).unwrap_or_default()
}

/// The line that stands for text that was left out.
fn notice(bytes: u64) -> String {
    format!("[… {} bytes left out …]\n", grouped(bytes))
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The text itself if it is within the limit, else its head and tail.
pub(super) fn clip(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let mut capture = Capture::new(limit);
    capture.push(&text);
    capture.finish().text()
}

#[cfg(test)]
mod tests;
