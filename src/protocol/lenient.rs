//! Reading JSON that a kernel wrote: what another implementation would have read is read, what is broken is an error.
//!
//! Python writes two things that JSON does not have: escapes of lone surrogates (`"\ud800"`) and the numbers `NaN` and
//! `Infinity`. They are mended only where the strict reader refused, so honest traffic pays nothing for it.
//! The strict reader stops at 128 levels, which keeps deep nesting off the stack.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::Error;
use serde_json::error::Category;
use serde_json::value::RawValue;

/// What has a typed view is short; what is longer than this is not read.
const LONGEST: usize = 1 << 20;

/// Reads a value from bytes that ought to be JSON in UTF-8. Bytes that are no UTF-8 become U+FFFD.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    if bytes.len() > LONGEST {
        return Err(Error::custom("it is longer than 1 MiB"));
    }
    read_text(&String::from_utf8_lossy(bytes))
}

fn read_text<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    match serde_json::from_str(text) {
        Err(error) if error.classify() == Category::Syntax => match mend(text) {
            Some(mended) => serde_json::from_str(&mended),
            None => Err(error),
        },
        result => result,
    }
}

/// For `deserialize_with`: a field of the wrong type counts as absent. One that is no JSON is an error all the same.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    match read_text(raw.get()) {
        Err(error) if error.classify() == Category::Data => Ok(T::default()),
        Err(error) => Err(D::Error::custom(error)),
        Ok(value) => Ok(value),
    }
}

/// Like [`or_default`] for a list of strings, in which anything else stands as its JSON text.
pub(super) fn strings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    // Read raw first, since a list of values could take a hundred times the memory of its text.
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
    Ok(items.into_iter().map(|item| read_text(item.get()).unwrap_or_else(|_| item.get().to_owned())).collect())
}

/// Replaces escapes of lone surrogates by that of U+FFFD, and numbers that JSON does not have by null. None if there
/// are none.
pub(crate) fn mend(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    let mut in_string = false;
    let mut changed = false;
    loop {
        let (put, tail): (&[u8], &[u8]) = match rest {
            [] => break,
            [b'\\', b'u', tail @ ..] if in_string => match surrogate(tail) {
                Surrogate::None => rest.split_at_checked(2)?,
                Surrogate::Pair => rest.split_at_checked(12)?,
                Surrogate::Lone => (b"\\ufffd", tail.get(4..)?),
            },
            [b'\\', _, tail @ ..] if in_string => (rest.get(..2)?, tail),
            [b'"', tail @ ..] => {
                in_string = !in_string;
                (b"\"", tail)
            }
            [b'N', b'a', b'N', tail @ ..]
            | [b'-', b'I', b'n', b'f', b'i', b'n', b'i', b't', b'y', tail @ ..]
            | [b'I', b'n', b'f', b'i', b'n', b'i', b't', b'y', tail @ ..]
                if !in_string =>
            {
                (b"null", tail)
            }
            _ => rest.split_at_checked(1)?,
        };
        changed |= !rest.starts_with(put);
        out.extend_from_slice(put);
        rest = tail;
    }
    changed.then(|| String::from_utf8(out).ok()).flatten()
}

enum Surrogate {
    None,
    Pair,
    Lone,
}

/// What stands after a `\u`.
fn surrogate(text: &[u8]) -> Surrogate {
    let unit = |text: &[u8]| {
        let digits = text.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    match unit(text) {
        Some(0xd800..=0xdbff) => match text.get(4..) {
            Some([b'\\', b'u', low @ ..]) if matches!(unit(low), Some(0xdc00..=0xdfff)) => Surrogate::Pair,
            _ => Surrogate::Lone,
        },
        Some(0xdc00..=0xdfff) => Surrogate::Lone,
        _ => Surrogate::None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    fn value(text: &str) -> Value {
        read(text.as_bytes()).unwrap()
    }

    #[test]
    fn lone_surrogates_become_replacement_characters_and_pairs_stay() {
        assert_eq!(value(r#""a\ud800b""#), json!("a\u{fffd}b"));
        assert_eq!(value(r#""\udc00""#), json!("\u{fffd}"));
        assert_eq!(value(r#""\ud800\ud800\udc00""#), json!("\u{fffd}\u{10000}"));
        assert_eq!(value(r#""\ud83d\ude00\ud83d""#), json!("\u{1f600}\u{fffd}"));
        assert_eq!(value(r#""\\ud800\ud800""#), json!("\\ud800\u{fffd}"));
        assert_eq!(value(r#"["\ud800", "\"NaN\u0041"]"#), json!(["\u{fffd}", "\"NaNA"]));
    }

    #[test]
    fn numbers_that_json_lacks_become_null() {
        assert_eq!(
            value(r#"{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN"}"#),
            json!({"a": null, "b": [null, null], "c": "NaN"})
        );
    }

    #[test]
    fn bytes_that_are_no_utf_8_become_replacement_characters() {
        assert_eq!(read::<Value>(b"\"a\xffb\"").unwrap(), json!("a\u{fffd}b"));
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let closed = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for text in ["[".repeat(100_000), "{\"a\":".repeat(100_000), closed] {
            assert!(read::<Value>(text.as_bytes()).is_err());
            assert!(read::<Sample>(format!("{{\"map\": {{\"a\": {text}}}}}").as_bytes()).is_err());
        }
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Sample {
        #[serde(deserialize_with = "or_default")]
        text: String,
        #[serde(deserialize_with = "or_default")]
        count: Option<u32>,
        #[serde(deserialize_with = "or_default")]
        map: serde_json::Map<String, Value>,
        #[serde(deserialize_with = "strings")]
        list: Vec<String>,
    }

    #[test]
    fn a_field_of_the_wrong_type_counts_as_absent() {
        let sample: Sample =
            read(br#"{"text": 1, "count": -2.5, "map": [], "list": ["a", 1, null], "other": {}}"#).unwrap();
        assert_eq!(sample, Sample { list: vec!["a".into(), "1".into(), "null".into()], ..Sample::default() });
    }

    #[test]
    fn what_is_too_long_for_a_view_is_an_error() {
        let text = |len: usize| format!("\"{}\"", "x".repeat(len));
        assert!(read::<String>(text(LONGEST - 2).as_bytes()).is_ok());
        assert!(read::<String>(text(LONGEST - 1).as_bytes()).is_err());
    }

    #[test]
    fn a_field_with_a_lone_surrogate_is_still_read() {
        let sample: Sample = read(br#"{"text": "x\ud800", "count": 3, "list": ["\udc00"]}"#).unwrap();
        let list = vec!["\u{fffd}".to_owned()];
        assert_eq!(sample, Sample { text: "x\u{fffd}".into(), count: Some(3), list, ..Sample::default() });
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[\\\\u\"dD89aAfF0NaInfity\\-\\[\\]{},: ]{0,60}") {
            let _ = read::<Value>(text.as_bytes());
        }

        #[test]
        fn mended_strings_are_strings(units in proptest::collection::vec(any::<u16>(), 0..20)) {
            let text: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            prop_assert_eq!(value(&format!("\"{text}\"")), Value::String(String::from_utf16_lossy(&units)));
        }
    }
}
