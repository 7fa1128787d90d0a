//! Terminal escapes in text from the container: colour may reach the user's terminal, nothing else.
//!
//! Of the control characters only newline, tab and carriage return pass (progress bars need the last). Everything
//! that begins with ESC or a C1 control is taken out with its payload: titles, clipboards, queries, cursor movement,
//! links. What is left of escapes are complete SGR sequences: colours and styles.

use std::borrow::Cow;

/// Longer parameters than any colour needs.
const PARAMETERS: usize = 128;

/// The text without any escape or control character, newline, tab and carriage return excepted.
pub(crate) fn plain(text: &str) -> String {
    if is_clean(text) {
        return text.to_owned();
    }
    Filter { keep_colour: false, ..Filter::default() }.push(text)
}

/// The text with no escapes but colour. A sequence that the text leaves open is taken out.
pub fn colour_only(text: &str) -> Cow<'_, str> {
    if is_clean(text) { Cow::Borrowed(text) } else { Cow::Owned(TerminalFilter::default().push(text)) }
}

fn is_clean(text: &str) -> bool {
    !text.chars().any(|character| is_control(character) && !is_layout(character))
}

fn is_control(character: char) -> bool {
    matches!(character, '\0'..='\x1f' | '\x7f'..='\u{9f}')
}

fn is_layout(character: char) -> bool {
    matches!(character, '\n' | '\t' | '\r')
}

/// [`colour_only`] for text that comes in pieces: a sequence may begin in one and end in another.
#[derive(Debug, Default)]
pub struct TerminalFilter {
    filter: Filter,
}

impl TerminalFilter {
    /// What of this piece may go to the terminal.
    pub fn push(&mut self, text: &str) -> String {
        self.filter.push(text)
    }

    /// What to send after the last piece: a reset, if colour is still on.
    pub fn end(&mut self) -> &'static str {
        let coloured = self.filter.coloured;
        *self = Self::default();
        if coloured { "\x1b[0m" } else { "" }
    }
}

#[derive(Debug)]
struct Filter {
    keep_colour: bool,
    state: State,
    coloured: bool,
}

impl Default for Filter {
    fn default() -> Self {
        Self { keep_colour: true, state: State::default(), coloured: false }
    }
}

/// Where in a sequence the text is, as ECMA-48 and the terminals that follow it read it.
#[derive(Debug, Default)]
enum State {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate: one more character ends it.
    Intermediate,
    /// In a control sequence, none if it can be no colour any more.
    Control(Option<String>),
    /// In a string with a payload: an operating system command and its like.
    Payload,
    /// After an ESC in such a string.
    PayloadEscape,
}

impl Filter {
    fn push(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for character in text.chars() {
            self.state = match std::mem::take(&mut self.state) {
                State::Ground => ground(character, &mut out),
                State::Escape => escape(character, &mut out),
                State::Intermediate => match character {
                    ' '..='/' => State::Intermediate,
                    '0'..='~' => State::Ground,
                    _ => ground(character, &mut out),
                },
                State::Control(parameters) => self.control(parameters, character, &mut out),
                State::Payload => payload(character, &mut out),
                State::PayloadEscape => match character {
                    '\\' => State::Ground,
                    _ => escape(character, &mut out),
                },
            }
        }
        out
    }

    fn control(&mut self, parameters: Option<String>, character: char, out: &mut String) -> State {
        match character {
            '0'..='9' | ';' | ':' => {
                State::Control(parameters.filter(|kept| kept.len() < PARAMETERS).map(|mut kept| {
                    kept.push(character);
                    kept
                }))
            }
            // Private markers and intermediates: a sequence of another meaning, even where it ends in `m`.
            ' '..='?' => State::Control(None),
            'm' => {
                if let Some(parameters) = parameters.filter(|_| self.keep_colour) {
                    out.extend(["\x1b[", &parameters, "m"]);
                    self.coloured = !parameters.trim_matches(['0', ';']).is_empty();
                }
                State::Ground
            }
            '@'..='~' => State::Ground,
            _ => ground(character, out),
        }
    }
}

fn ground(character: char, out: &mut String) -> State {
    match character {
        '\x1b' => State::Escape,
        '\u{9b}' => State::Control(Some(String::new())),
        '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => State::Payload,
        _ => {
            if !is_control(character) || is_layout(character) {
                out.push(character);
            }
            State::Ground
        }
    }
}

fn escape(character: char, out: &mut String) -> State {
    match character {
        '[' => State::Control(Some(String::new())),
        'P' | 'X' | ']' | '^' | '_' => State::Payload,
        ' '..='/' => State::Intermediate,
        '0'..='~' => State::Ground,
        _ => ground(character, out),
    }
}

/// Ends where terminals end it, and at a line's end too: text that leaves a string open would hide all that follows.
fn payload(character: char, out: &mut String) -> State {
    match character {
        '\x07' | '\u{9c}' | '\x18' | '\x1a' => State::Ground,
        '\x1b' => State::PayloadEscape,
        '\n' => ground(character, out),
        _ => State::Payload,
    }
}

#[cfg(test)]
mod tests;
