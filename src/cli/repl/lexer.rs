//! As much of Python's lexical structure as colouring takes, and as guessing whether a cell is complete takes.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Keyword,
    Number,
    Text,
    Comment,
    Other,
}

/// The pieces of a source text, and what is open at its end.
#[derive(Debug, Default)]
pub(super) struct Lexed {
    /// They follow each other without gaps.
    pub(super) pieces: Vec<(Kind, Range<usize>)>,
    /// A bracket or a triple-quoted string is open.
    pub(super) open: bool,
}

const KEYWORDS: [&str; 38] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "case", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "match",
    "nonlocal", "not", "or", "pass", "raise", "return", "try", "type", "while", "with", "yield",
];

pub(super) fn lex(source: &str) -> Lexed {
    let mut lexed = Lexed::default();
    let mut depth = 0_i32;
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let Piece { kind, length, open } = piece(rest);
        lexed.open |= open;
        match rest.as_bytes().first() {
            Some(b'(' | b'[' | b'{') => depth += 1,
            Some(b')' | b']' | b'}') => depth -= 1,
            _ => {}
        }
        match lexed.pieces.last_mut() {
            Some((last, range)) if *last == kind => range.end = at + length,
            _ => lexed.pieces.push((kind, at..at + length)),
        }
        at += length;
    }
    lexed.open |= depth > 0;
    lexed
}

struct Piece {
    kind: Kind,
    length: usize,
    /// It is a triple-quoted string without its end.
    open: bool,
}

/// What `source`, which is not empty, begins with.
fn piece(source: &str) -> Piece {
    let word = source.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(source.len());
    let (name, after) = source.split_at(word);
    if after.starts_with(['"', '\'']) && name.len() <= 2 && name.bytes().all(|b| b"rRbBuUfFtT".contains(&b)) {
        let (length, open) = text(after);
        return Piece { kind: Kind::Text, length: word + length, open };
    }
    let (kind, length) = match name.chars().next() {
        Some(first) if first.is_ascii_digit() => (Kind::Number, word),
        Some(_) if KEYWORDS.contains(&name) => (Kind::Keyword, word),
        Some(_) => (Kind::Other, word),
        None if source.starts_with('#') => (Kind::Comment, source.find('\n').unwrap_or(source.len())),
        None => (Kind::Other, source.chars().next().map_or(1, char::len_utf8)),
    };
    Piece { kind, length, open: false }
}

/// The length of the string that `source` begins with, its quotes included, and whether another line may bring its end.
fn text(source: &str) -> (usize, bool) {
    let triple = source.starts_with("\"\"\"") || source.starts_with("'''");
    let quotes = source.get(..if triple { 3 } else { 1 }).unwrap_or_default();
    let mut at = quotes.len();
    while let Some(rest) = source.get(at..) {
        let Some(character) = rest.chars().next() else { break };
        if rest.starts_with(quotes) {
            return (at + quotes.len(), false);
        }
        if character == '\n' && !triple {
            return (at, false);
        }
        at += character.len_utf8();
        if character == '\\' {
            at += rest.chars().nth(1).map_or(0, char::len_utf8);
        }
    }
    (source.len(), triple)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<(Kind, &str)> {
        lex(source).pieces.into_iter().map(|(kind, range)| (kind, &source[range])).collect()
    }

    #[test]
    fn pieces() {
        use Kind::{Comment, Keyword, Number, Other, Text};
        let expected = [
            (Keyword, "if"),
            (Other, " été["),
            (Number, "10"),
            (Other, "] == "),
            (Text, "rb'a\\'b'"),
            (Other, ": "),
            (Comment, "# it's"),
            (Other, "\n  "),
            (Keyword, "pass"),
        ];
        assert_eq!(kinds("if été[10] == rb'a\\'b': # it's\n  pass"), expected);
    }

    #[test]
    fn what_is_open() {
        for open in ["f(", "x = [1,\n2", "'''abc", "f\"\"\"a\n\"", "'''", "{'a': (1)", "\"\"\"\\\"\"\""] {
            assert!(lex(open).open, "{open}");
        }
        for closed in ["f()", "'(' # [", "'''abc'''", "'''a\n'''\n", "'unfinished", "''", "''''''", "x)"] {
            assert!(!lex(closed).open, "{closed}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_byte_is_in_one_piece(source in "[\\PC\\n\"'\\\\#(\\[]{0,60}") {
            let mut end = 0;
            for (_, range) in lex(&source).pieces {
                assert_eq!(range.start, end);
                assert!(range.end > range.start);
                end = range.end;
            }
            assert_eq!(end, source.len());
        }
    }
}
