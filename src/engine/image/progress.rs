//! From the builder's text to steps, lines, and the place where it failed.

use std::collections::VecDeque;

use super::BuildEvent;

/// How many of the last lines an error shows.
const LINES_KEPT: usize = 20;

/// A line that grows beyond this is passed on in pieces.
const LINE_LIMIT: usize = 8 * 1024;

/// What has been seen of a build.
#[derive(Debug, Default)]
pub(super) struct Progress {
    step: u32,
    total: u32,
    instruction: String,
    lines: VecDeque<String>,
    unfinished: String,
}

impl Progress {
    /// Takes a piece of text, which need not end with a line.
    pub(super) fn take(&mut self, text: &str, progress: &mut impl FnMut(BuildEvent)) {
        for piece in text.split_inclusive('\n') {
            self.unfinished.push_str(piece);
            if piece.ends_with('\n') || self.unfinished.len() > LINE_LIMIT {
                self.finish(progress);
            }
        }
    }

    /// Passes on a last line without an end.
    pub(super) fn finish(&mut self, progress: &mut impl FnMut(BuildEvent)) {
        let line = plain(&std::mem::take(&mut self.unfinished));
        let line = line.trim_end();
        if line.is_empty() || is_the_builders_own(line) {
            return;
        }
        let text = if let Some((step, total, instruction)) = parse_step(line) {
            (self.step, self.total) = (step, total);
            instruction.clone_into(&mut self.instruction);
            self.lines.clear();
            instruction
        } else {
            if self.lines.len() == LINES_KEPT {
                self.lines.pop_front();
            }
            self.lines.push_back(line.to_owned());
            line
        };
        progress(BuildEvent { step: self.step, total: self.total, text: text.to_owned() });
    }

    pub(super) fn step(&self) -> u32 {
        self.step
    }

    pub(super) fn instruction(&self) -> &str {
        &self.instruction
    }

    /// The step that is running, in words.
    pub(super) fn place(&self) -> String {
        let mut instruction: String = self.instruction.chars().take(80).collect();
        if instruction.len() < self.instruction.len() {
            instruction.push('…');
        }
        format!("step {} of {} ({instruction})", self.step, self.total)
    }

    /// The last lines of the running step, and then the error.
    pub(super) fn last_lines(&self, error: &str) -> String {
        let (unfinished, error) = (plain(&self.unfinished), plain(error));
        let lines = self.lines.iter().map(String::as_str).chain([unfinished.trim_end(), error.trim_end()]);
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// Ids of layers and containers, which tell a reader nothing.
fn is_the_builders_own(line: &str) -> bool {
    [" ---> ", "--> ", "Removing intermediate container "].iter().any(|start| line.starts_with(start))
}

/// Docker colours what a step writes to stderr.
fn plain(text: &str) -> String {
    crate::execution::plain(text).replace('\r', "")
}

/// Docker's `Step 3/20 : RUN x`, Podman's `STEP 3/20: RUN x` or, with several stages, `[2/4] STEP 3/9: RUN x`, where the
/// stages are what is counted.
fn parse_step(line: &str) -> Option<(u32, u32, &str)> {
    let (stage, line) = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((stage, rest)) => (Some(stage), rest),
        None => (None, line),
    };
    let rest = line.strip_prefix("Step ").or_else(|| line.strip_prefix("STEP "))?;
    let (numbers, instruction) = rest.split_once(':')?;
    let (step, total) = stage.unwrap_or(numbers).trim().split_once('/')?;
    Some((step.parse().ok()?, total.parse().ok()?, instruction.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(progress: &mut Progress, text: &str) -> Vec<(u32, u32, String)> {
        let mut events = Vec::new();
        progress.take(text, &mut |event| events.push((event.step, event.total, event.text)));
        events
    }

    #[test]
    fn text_in_pieces_becomes_lines_of_steps() {
        let mut progress = Progress::default();
        assert_eq!(take(&mut progress, "Step 1/3 : FROM a AS"), []);
        assert_eq!(take(&mut progress, " b\n\n ---> 0123\n"), [(1, 3, "FROM a AS b".to_owned())]);
        assert_eq!(
            take(&mut progress, "STEP 2/3: RUN x\nCollecting p\r\nError"),
            [(2, 3, "RUN x".to_owned()), (2, 3, "Collecting p".to_owned())]
        );
        assert_eq!(progress.place(), "step 2 of 3 (RUN x)");
        assert_eq!(
            progress.last_lines("returned a non-zero code: 1"),
            "Collecting p\nError\nreturned a non-zero code: 1"
        );
    }

    #[test]
    fn steps_are_counted_as_the_builder_does() {
        assert_eq!(parse_step("Step 3/20 : RUN a: b"), Some((3, 20, "RUN a: b")));
        assert_eq!(parse_step("STEP 3/20: RUN x"), Some((3, 20, "RUN x")));
        assert_eq!(parse_step("[2/4] STEP 3/9: RUN x"), Some((2, 4, "RUN x")));
        for text in ["Step by step: 3/4", "[2/4] text", "Stepping 1/2 : x", "Step 1/x : y", ""] {
            assert_eq!(parse_step(text), None, "{text}");
        }
    }

    #[test]
    fn lines_are_plain_text() {
        assert_eq!(plain("\u{1b}[91mERROR: é\u{1b}[0m\u{1b}]0;title\u{7}\r\n\tx\u{1b}["), "ERROR: é\n\tx");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut progress = Progress::default();
        for _ in 0..1000 {
            take(&mut progress, &"x".repeat(10_000));
        }
        assert!(progress.last_lines("").len() < (LINES_KEPT + 1) * (LINE_LIMIT + 10_001));
        take(&mut progress, "\nStep 1/1 : RUN true\n");
        assert_eq!(progress.last_lines("e"), "e");
    }
}
