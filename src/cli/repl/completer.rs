//! Completion by Tab, from the kernel.

use std::time::Duration;

use cellblock::Completion;
use reedline::{Completer, CompletionResult, CompletionStatus, Span, Suggestion};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::kernel::Kernel;

/// More is not looked through by anybody.
const MAX_MATCHES: usize = 500;
const MAX_LENGTH: usize = 200;

/// How long a key press waits for the answer. A kernel's first completion takes seconds, and then typing goes on meanwhile.
const AT_ONCE: Duration = Duration::from_millis(150);

pub(super) struct FromKernel {
    kernel: Kernel,
    asked: Option<Asked>,
    answered: Option<(Question, Completion)>,
}

/// The text up to the cursor.
type Question = String;

struct Asked {
    question: Question,
    answer: oneshot::Receiver<Completion>,
}

impl FromKernel {
    pub(super) fn new(kernel: Kernel) -> Self {
        Self { kernel, asked: None, answered: None }
    }

    fn settle(&mut self, completion: Completion) {
        self.answered = self.asked.take().map(|asked| (asked.question, completion));
    }
}

impl Completer for FromKernel {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let before = line.get(..position).unwrap_or(line);
        if let Some(indent) = indent(before) {
            return CompletionResult::fresh(vec![suggestion(indent, position..position)]);
        }
        if let Some((question, completion)) = &self.answered
            && question == before
        {
            return CompletionResult::fresh(suggestions(before, completion.clone()));
        }
        if self.asked.as_ref().is_none_or(|asked| asked.question != before) {
            self.asked = Some(Asked { question: before.to_owned(), answer: self.kernel.complete(before) });
        }
        if let Some(asked) = &mut self.asked
            && let Some(completion) = self.kernel.wait(&mut asked.answer, AT_ONCE)
        {
            self.settle(completion.clone());
            return CompletionResult::fresh(suggestions(before, completion));
        }
        CompletionResult::Pending
    }

    fn poll_completion(&mut self) -> CompletionStatus {
        let Some(asked) = &mut self.asked else { return CompletionStatus::Idle };
        match asked.answer.try_recv() {
            Err(TryRecvError::Empty) => CompletionStatus::Pending,
            answer => {
                self.settle(answer.unwrap_or_default());
                CompletionStatus::Ready
            }
        }
    }
}

/// At the beginning of a line Tab indents.
fn indent(before: &str) -> Option<String> {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars().all(|c| c == ' ').then(|| " ".repeat(4 - line.len() % 4))
}

fn suggestions(line: &str, completion: Completion) -> Vec<Suggestion> {
    let start = byte_of(line, completion.start);
    let end = byte_of(line, completion.end).max(start);
    let usable = completion.matches.into_iter().filter(|text| {
        // They come from the container, and go to the terminal and into the line.
        text.len() <= MAX_LENGTH && !text.chars().any(char::is_control)
    });
    usable.take(MAX_MATCHES).map(|text| suggestion(text, start..end)).collect()
}

fn suggestion(value: String, span: std::ops::Range<usize>) -> Suggestion {
    Suggestion { value, span: Span { start: span.start, end: span.end }, ..Suggestion::default() }
}

/// From Jupyter's code points to reedline's bytes.
fn byte_of(line: &str, code_points: usize) -> usize {
    line.char_indices().nth(code_points).map_or(line.len(), |(byte, _)| byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(matches: &[&str], start: usize, end: usize) -> Completion {
        let mut completion = Completion::default();
        completion.matches = matches.iter().map(|text| (*text).to_owned()).collect();
        (completion.start, completion.end) = (start, end);
        completion
    }

    #[test]
    fn spans_are_in_bytes() {
        let found = suggestions("é = été.up", completion(&["upper"], 8, 10));
        assert_eq!((found[0].span.start, found[0].span.end), (11, 13));
    }

    #[test]
    fn absurd_answers_do_no_harm() {
        let found = suggestions("ab", completion(&["x\x1b]0;t\x07", "a\nb", "ok"], 9, 1));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].value, "ok");
        assert_eq!((found[0].span.start, found[0].span.end), (2, 2));
    }

    #[test]
    fn tab_indents_where_nothing_is_written() {
        assert_eq!(indent("").as_deref(), Some("    "));
        assert_eq!(indent("if x:\n  ").as_deref(), Some("  "));
        assert_eq!(indent("if x"), None);
    }
}
