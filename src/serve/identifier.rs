//! What a client calls its session.

use std::fmt;
use std::sync::Arc;

/// A session's identifier as a client spells it: 1 to 256 characters, none of them a control character.
///
/// Two identifiers are one only if every character is the same. No path, no container and no log is named by it: whoever knows it can use the
/// session.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identifier(Arc<str>);

impl Identifier {
    pub(crate) const LONGEST: usize = 256;

    /// None if it is not one.
    pub(crate) fn new(text: &str) -> Option<Self> {
        // Counted no further than needed: the text may be as long as a request.
        let length = text.chars().take(Self::LONGEST + 1).count();
        ((1..=Self::LONGEST).contains(&length) && !text.chars().any(char::is_control)).then(|| Self(text.into()))
    }

    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string().into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identifier(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_1_to_256_characters_without_control_characters() {
        for good in ["a", "..", "a/b", "ä", "A|-&^%$#(){}[];<>", &"x".repeat(256), &"ü".repeat(256)] {
            assert!(Identifier::new(good).is_some(), "{good}");
        }
        for bad in ["", "a\0b", "a\n", "\u{7f}", &"x".repeat(257)] {
            assert!(Identifier::new(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn no_two_spellings_are_one() {
        let spellings = ["session", "Session", "session/", "./session", "session ", "ses\u{200b}sion", "s%65ssion"];
        for (at, one) in spellings.iter().enumerate() {
            for other in &spellings[at + 1..] {
                assert_ne!(Identifier::new(one), Identifier::new(other));
            }
        }
    }

    #[test]
    fn it_is_not_shown() {
        assert!(!format!("{:?}", Identifier::new("capability").unwrap()).contains("capability"));
    }
}
