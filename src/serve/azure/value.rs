//! What `result` holds: the last expression's value, as far as JSON has it.

use cellblock::{Execution, MimeBundle, Output};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

const IMAGES: [(&str, &str); 2] = [("image/png", "png"), ("image/jpeg", "jpeg")];

/// The value of an execution that was ok.
///
/// It is read from the kernel's own text for it, as the service does: a client gets the same from both. What Python writes for a number, a truth value or a
/// string is that value, and everything else is text. An image that was displayed takes the value's place.
pub(super) fn of(execution: &Execution) -> Box<RawValue> {
    image(execution).unwrap_or_else(|| execution.text().map_or_else(|| raw(""), of_text))
}

/// The same with a value's text as Jupyter has it, where Azure's newest version is asked to.
pub(super) fn jupyter(execution: &Execution) -> Box<RawValue> {
    image(execution).unwrap_or_else(|| raw(&execution.text()))
}

/// No value.
pub(super) fn empty() -> Box<RawValue> {
    raw("")
}

pub(super) fn null() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

/// The last image of those that were displayed, or the one that is the value.
fn image(execution: &Execution) -> Option<Box<RawValue>> {
    let of_bundle = |bundle: &MimeBundle| {
        IMAGES.iter().find_map(|(mime, format)| {
            let data = bundle.get(mime)?.trim_end();
            Some(raw(&json!({ "type": "image", "format": format, "base64_data": data })))
        })
    };
    let displayed = execution.outputs.iter().rev().find_map(|output| match output {
        Output::DisplayData(bundle) => of_bundle(bundle),
        _ => None,
    });
    displayed.or_else(|| execution.result.as_ref().and_then(of_bundle))
}

fn of_text(text: &str) -> Box<RawValue> {
    match text {
        "True" => raw(&true),
        "False" => raw(&false),
        "nan" => null(),
        _ => number(text).or_else(|| unquoted(text).map(|text| raw(&text))).unwrap_or_else(|| raw(text)),
    }
}

/// A number with all its digits: Python's are longer than any of Rust's.
fn number(text: &str) -> Option<Box<RawValue>> {
    let first = text.bytes().next()?;
    if !(first.is_ascii_digit() || first == b'-') {
        return None;
    }
    // What Python writes for an int or a float is JSON, but for what is not finite.
    RawValue::from_string(text.to_owned()).ok()
}

/// The string that Python writes so; none if it is no single literal. A lone surrogate, which UTF-8 lacks, stays an escape.
fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut string = String::with_capacity(inside.len());
    let mut rest = inside.chars();
    while let Some(next) = rest.next() {
        match next {
            next if next == quote => return None,
            '\\' => {
                let digits = match rest.next()? {
                    'n' => {
                        string.push('\n');
                        continue;
                    }
                    'r' => {
                        string.push('\r');
                        continue;
                    }
                    't' => {
                        string.push('\t');
                        continue;
                    }
                    same @ ('\\' | '\'' | '"') => {
                        string.push(same);
                        continue;
                    }
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    _ => return None,
                };
                let hex = rest.as_str().get(..digits)?;
                let code = u32::from_str_radix(hex, 16).ok()?;
                match char::from_u32(code) {
                    Some(decoded) => string.push(decoded),
                    None => string.push_str(&format!("\\u{code:04x}")),
                }
                rest = rest.as_str().get(digits..)?.chars();
            }
            plain => string.push(plain),
        }
    }
    Some(string)
}

fn raw<T: serde::Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_writes_for_a_value_is_that_value() {
        for (text, json) in [
            ("2", "2"),
            ("-7", "-7"),
            ("1.5", "1.5"),
            ("1e+16", "1e+16"),
            ("1267650600228229401496703205376", "1267650600228229401496703205376"),
            ("True", "true"),
            ("False", "false"),
            ("nan", "null"),
            ("'nan'", r#""nan""#),
            ("'abc'", r#""abc""#),
            (r#""it's""#, r#""it's""#),
            (r#"'it\'s "x"'"#, r#""it's \"x\"""#),
        ] {
            assert_eq!(of_text(text).get(), json, "{text}");
        }
        assert_eq!(unquoted(r"'a\nb\\n\x1b\u200b\U000e0001'").unwrap(), "a\nb\\n\u{1b}\u{200b}\u{e0001}");
    }

    #[test]
    fn all_else_is_its_text() {
        for text in [
            "",
            "inf",
            "-inf",
            "[1, 2, 3]",
            "{'a': 1}",
            "('a', 'b')",
            "'a' 'b'",
            "'a",
            "'",
            "np.int64(5)",
            "1_000",
            "1 2",
            "-",
            "0x10",
            "1.",
            "b'x'",
            "2024-05-04",
            "True False",
            "NaN",
            "   a  b\n0  1  x",
            r"'\q'",
            r"'\x1'",
        ] {
            let decoded: String = serde_json::from_str(of_text(text).get()).unwrap();
            assert_eq!(decoded, text);
        }
    }

    #[test]
    fn a_lone_surrogate_stays_an_escape() {
        assert_eq!(unquoted(r"'\ud800'").unwrap(), r"\ud800");
    }
}
