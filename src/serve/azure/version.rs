//! The `api-version` of a request.

use crate::serve::query::Query;
use crate::serve::refusal::{Code, Refusal};

/// A version: its date, without `-preview`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32, u32);

impl Version {
    /// The first with `executions`.
    pub(super) const EXECUTIONS: Self = Self(2024, 10, 2);
    /// The first with `session`, `listSessions`, `metadata` and shell executions.
    pub(super) const SESSIONS: Self = Self(2025, 2, 2);
    /// The first that cuts output streams.
    pub(super) const CUT_STREAMS: Self = Self(2025, 10, 2);

    /// Any well-formed one: command-line tools send versions of other services, too.
    pub(super) fn of(query: &Query<'_>) -> Result<Self, Refusal> {
        let text = query.text("api-version")?.ok_or_else(|| Refusal::invalid("the query needs an `api-version`"))?;
        Self::parse(text).ok_or_else(|| Refusal::invalid("`api-version` is a date such as `2025-10-02-preview`"))
    }

    fn parse(text: &str) -> Option<Self> {
        let date = text.strip_suffix("-preview").unwrap_or(text);
        let mut parts = [0; 3];
        let mut given = date.split('-');
        for (part, length) in parts.iter_mut().zip([4, 2, 2]) {
            let digits = given.next()?;
            *part = (digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| digits.parse::<u32>().ok())??;
        }
        let [year, month, day] = parts;
        (given.next().is_none() && (1..=12).contains(&month) && (1..=31).contains(&day))
            .then_some(Self(year, month, day))
    }

    /// Refuses an operation that came with a later version.
    pub(super) fn at_least(self, first: Self, operation: &str) -> Result<(), Refusal> {
        if self >= first {
            return Ok(());
        }
        let Self(year, month, day) = first;
        Err(Refusal::new(
            Code::RequestNotSupported,
            format!("`{operation}` came with the api-version {year}-{month:02}-{day:02}-preview"),
        ))
    }

    /// Refuses an operation that later versions no longer have.
    pub(super) fn before_executions(self, operation: &str, instead: &str) -> Result<(), Refusal> {
        if self < Self::EXECUTIONS {
            return Ok(());
        }
        Err(Refusal::new(Code::RequestNotSupported, format!("`{operation}` is `{instead}` in this api-version")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_date() {
        for good in ["2024-02-02-preview", "2025-10-02", "2026-01-31-preview"] {
            assert!(Version::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "preview",
            "2024",
            "2024-2-2",
            "2024-13-01",
            "2024-02-32",
            "2024-02-02-beta",
            "2024-02-02-preview-preview",
            "+024-02-02",
            "2024-02-02-02",
        ] {
            assert!(Version::parse(bad).is_none(), "{bad}");
        }
        assert!(Version::parse("2024-08-02-preview") < Some(Version::EXECUTIONS));
        assert_eq!(Version::parse("2024-10-02-preview"), Some(Version::EXECUTIONS));
    }
}
