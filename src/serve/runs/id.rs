//! The name of an execution.

use std::fmt;

/// Given by the client, or random.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutionId(String);

impl ExecutionId {
    /// Letters, digits, `.`, `_` and `-`; at most 64. None for anything else: it goes into headers and logs.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        ((1..=64).contains(&text.len()) && text.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
