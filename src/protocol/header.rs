//! The header of a message.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::lenient;

/// A message's header, or its parent's. A field that is absent or of the wrong type is empty: kernels leave out some.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Header {
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) msg_id: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) session: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) username: String,
    /// ISO 8601; see [`timestamp`].
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) date: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) msg_type: String,
    /// The sender's protocol version. Not to be trusted: ipykernel 7.4 says 5.3 and speaks 5.5.
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) version: String,
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub(crate) subshell_id: Option<String>,
}

/// The date of a header. Kernels write RFC 3339 or, old ones, the same without a zone: then only differences mean something.
pub(crate) fn timestamp(date: &str) -> Option<Timestamp> {
    date.parse().ok().or_else(|| {
        let local: DateTime = date.parse().ok()?;
        local.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(date: &str) -> Option<i64> {
        timestamp(date).map(Timestamp::as_microsecond)
    }

    #[test]
    fn dates_are_read_in_all_the_forms_that_kernels_write() {
        let expected = Some(1_735_689_600_123_456);
        assert_eq!(at("2025-01-01T00:00:00.123456Z"), expected);
        assert_eq!(at("2025-01-01T00:00:00.123456+00:00"), expected);
        assert_eq!(at("2025-01-01T01:00:00.123456+01:00"), expected);
        assert_eq!(at("2025-01-01T00:00:00.123456"), expected);
        for wrong in ["", "yesterday", "2025-13-01T00:00:00Z", "9999999999-01-01T00:00:00Z"] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn absent_and_odd_fields_are_empty() {
        let header: Header =
            lenient::read(br#"{"msg_id": 7, "msg_type": "status", "date": null, "more": []}"#).unwrap();
        assert_eq!(header, Header { msg_type: "status".into(), ..Header::default() });
    }
}
