//! Whether Enter runs the cell or begins a new line.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cellblock::Completeness;
use reedline::{ValidationResult, Validator};

use super::command::Command;
use super::kernel::Kernel;
use super::lexer::lex;

/// The indent of a line that was just begun, on its way from the validator, which may not edit, to the editor's thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Indent {
    text: Arc<Mutex<String>>,
    /// Makes the editor return, so that the thread can put the indent in.
    pub(super) ready: Arc<AtomicBool>,
}

impl Indent {
    fn set(&self, indent: String) {
        if !indent.is_empty() {
            *self.text.lock().unwrap_or_else(PoisonError::into_inner) = indent;
            self.ready.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn take(&self) -> String {
        std::mem::take(&mut self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Asks the kernel, and guesses where it does not answer in time.
pub(super) struct AskKernel {
    pub(super) kernel: Kernel,
    pub(super) indent: Indent,
}

impl Validator for AskKernel {
    fn validate(&self, buffer: &str) -> ValidationResult {
        if buffer.trim().is_empty() || !matches!(Command::of(buffer), Command::Run) {
            return ValidationResult::Complete;
        }
        let answer = self.kernel.is_complete(buffer).unwrap_or(Completeness::Unknown);
        match if answer == Completeness::Unknown { guess(buffer) } else { answer } {
            Completeness::Incomplete { indent } => {
                // It comes from the container: nothing but blanks goes into the line.
                self.indent.set(indent.chars().take_while(|c| matches!(c, ' ' | '\t')).take(80).collect());
                ValidationResult::Incomplete
            }
            _ => ValidationResult::Complete,
        }
    }
}

/// Reads the code as far as it can be read without Python.
fn guess(code: &str) -> Completeness {
    let last = code.lines().next_back().unwrap_or_default();
    let blank: String = last.chars().take_while(|c| c.is_whitespace()).collect();
    let more = |indent| Completeness::Incomplete { indent };
    if lex(code).open || last.ends_with('\\') {
        return more(String::new());
    }
    if last.trim_end().ends_with(':') {
        return more(blank + "    ");
    }
    let ends_blank = code.ends_with('\n') || last.trim().is_empty();
    let in_block = !ends_blank && (!blank.is_empty() || last.starts_with('@'));
    if in_block { more(blank) } else { Completeness::Complete }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses() {
        let more = |indent: &str| Completeness::Incomplete { indent: indent.into() };
        assert_eq!(guess("x = 1"), Completeness::Complete);
        assert_eq!(guess("f("), more(""));
        assert_eq!(guess("x = \\"), more(""));
        assert_eq!(guess("for i in x:"), more("    "));
        assert_eq!(guess("for i in x:\n    f(i)"), more("    "));
        assert_eq!(guess("for i in x:\n    if i:"), more("        "));
        assert_eq!(guess("for i in x:\n    f(i)\n    "), Completeness::Complete);
        assert_eq!(guess("@cache"), more(""));
        assert_eq!(guess("s = '''\n\n"), more(""));
        assert_eq!(guess(""), Completeness::Complete);
    }

    #[test]
    fn an_indent_is_taken_once() {
        let indent = Indent::default();
        indent.set(String::new());
        assert!(!indent.ready.load(Ordering::Relaxed));
        indent.set("    ".into());
        assert!(indent.ready.load(Ordering::Relaxed));
        assert_eq!(indent.take(), "    ");
        assert_eq!(indent.take(), "");
    }
}
