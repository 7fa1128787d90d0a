//! What an execute request asks for, in any of the shapes in which clients write it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock::Shell;
use serde_json::{Map, Value};

use crate::serve::refusal::{Code, Refusal};
use crate::serve::runs::{Form, Work};

/// An execute request.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) work: Work,
    pub(super) asynchronous: bool,
    pub(super) timeout: Duration,
    pub(super) form: Form,
}

impl Call {
    /// Reads a body with or without a `properties` wrapper.
    pub(super) fn parse(body: &[u8], longest: Duration) -> Result<Self, Refusal> {
        let body: Value =
            serde_json::from_slice(body).map_err(|error| Refusal::invalid(format!("the body is not JSON: {error}")))?;
        let Value::Object(outer) = body else { return Err(Refusal::invalid("the body is no JSON object")) };
        let fields = match outer.get("properties") {
            Some(Value::Object(inner)) => inner,
            Some(Value::Null) | None => &outer,
            Some(_) => return Err(Refusal::invalid("`properties` is an object")),
        };
        let fields = Fields(fields);
        let seconds = fields.whole("timeoutInSeconds")?;
        // It asks for a kernel without libraries loaded ahead, which every one of ours is.
        fields.flag("useEmptyKernel")?;
        if seconds == Some(0) {
            return Err(Refusal::invalid("`timeoutInSeconds` is more than 0"));
        }
        Ok(Self {
            work: work(&fields)?,
            asynchronous: fields.word("executionType", &["synchronous", "asynchronous"])? == Some("asynchronous"),
            timeout: seconds.map_or(longest, Duration::from_secs).min(longest),
            form: Form {
                cut_at: fields.whole("outputStreamsMaxLength")?.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
                jupyter: fields.flag("returnJupyterFormatExecutionResult")? || fields.flag("returnJupyterFormat")?,
            },
        })
    }
}

fn work(fields: &Fields<'_>) -> Result<Work, Refusal> {
    let code = match fields.text("code")? {
        Some(code) => Some(code),
        None => fields.text("pythonCode")?,
    };
    let shell = fields.text("shellCommand")?;
    let argv = fields.texts("execCommandAndArgs")?;
    let stdin = || Ok::<_, Refusal>(fields.text("stdin")?.map(str::to_owned));
    match (code, shell, argv) {
        (Some(code), None, None) => {
            let base64 =
                fields.word("codeInputType", &["inline", "inlinebase64", "inlinetext"])? == Some("inlinebase64");
            Ok(Work::Cell(if base64 { decoded(code)? } else { code.to_owned() }))
        }
        (None, Some(command), None) => {
            Ok(Work::Script { text: command.to_owned(), shell: Shell::Bash, stdin: stdin()? })
        }
        (None, None, Some(argv)) if argv.first().is_some_and(|program| !program.is_empty()) => {
            Ok(Work::Program { argv, stdin: stdin()? })
        }
        (None, None, Some(_)) => Err(Refusal::invalid("`execCommandAndArgs` begins with the program's name")),
        (None, None, None) => Err(Refusal::new(
            Code::PropertiesMissing,
            "the body needs `code`, `shellCommand` or `execCommandAndArgs`, in `properties` or at its top",
        )),
        _ => Err(Refusal::invalid("the body has more than one of `code`, `shellCommand` and `execCommandAndArgs`")),
    }
}

fn decoded(code: &str) -> Result<String, Refusal> {
    let bytes = STANDARD.decode(code.trim()).map_err(|_| Refusal::invalid("`code` is not Base64"))?;
    String::from_utf8(bytes).map_err(|_| Refusal::invalid("`code` in its Base64 is not UTF-8"))
}

/// A JSON object's members, none of which has to be there. Null is as good as absent.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn get<T>(&self, name: &str, kind: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| Refusal::invalid(format!("`{name}` is {kind}"))),
        }
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        self.get(name, "a string", Value::as_str)
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Refusal> {
        self.get(name, "an array of strings", |value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        })
    }

    fn whole(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.get(name, "a whole number, at least 0", Value::as_u64)
    }

    fn flag(&self, name: &str) -> Result<bool, Refusal> {
        Ok(self.get(name, "true or false", Value::as_bool)?.unwrap_or_default())
    }

    /// One of these words, in whatever case.
    fn word(&self, name: &str, words: &[&'static str]) -> Result<Option<&'static str>, Refusal> {
        self.get(name, &format!("one of {}", words.join(", ")), |value| {
            let text = value.as_str()?;
            words.iter().copied().find(|word| word.eq_ignore_ascii_case(text))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(220);

    fn parse(body: &Value) -> Result<Call, Refusal> {
        Call::parse(body.to_string().as_bytes(), LONGEST)
    }

    #[test]
    fn every_shape_of_clients_is_read() {
        let python = || Work::Cell("1+1".into());
        for (body, work) in [
            (
                json!({"properties": {"codeInputType": "inline", "executionType": "synchronous", "code": "1+1"}}),
                python(),
            ),
            (json!({"code": "1+1"}), python()),
            (
                json!({"properties": null, "code": "1+1", "codeInputType": "Inline", "executionType": "Synchronous"}),
                python(),
            ),
            (json!({"properties": {"pythonCode": "1+1"}}), python()),
            (json!({"code": "MSsx", "codeInputType": "InlineBase64"}), python()),
            (json!({"shellCommand": "ls"}), Work::Script { text: "ls".into(), shell: Shell::Bash, stdin: None }),
            (
                json!({"execCommandAndArgs": ["cat", "-"], "stdin": "x"}),
                Work::Program { argv: vec!["cat".into(), "-".into()], stdin: Some("x".into()) },
            ),
        ] {
            let call = parse(&body).unwrap();
            assert_eq!(call.work, work);
            assert!(!call.asynchronous);
            assert_eq!(call.timeout, LONGEST);
        }
    }

    #[test]
    fn options_are_read_and_the_time_is_bounded() {
        let call = parse(&json!({"code": "", "executionType": "Asynchronous", "timeoutInSeconds": 100, "outputStreamsMaxLength": 9, "returnJupyterFormat": true})).unwrap();
        assert!(call.asynchronous && call.form.jupyter);
        assert_eq!((call.timeout, call.form.cut_at), (Duration::from_secs(100), Some(9)));
        assert_eq!(parse(&json!({"code": "", "timeoutInSeconds": 100_000})).unwrap().timeout, LONGEST);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_code() {
        for body in
            [json!({}), json!({"properties": {}}), json!({"properties": {"identifier": "x"}}), json!({"code": null})]
        {
            assert_eq!(parse(&body).unwrap_err().code(), Code::PropertiesMissing, "{body}");
        }
        for body in [
            json!([]),
            json!("code"),
            json!({"properties": 1}),
            json!({"code": 1}),
            json!({"code": "", "shellCommand": ""}),
            json!({"code": "?", "codeInputType": "InlineBase64"}),
            json!({"code": "", "codeInputType": "file"}),
            json!({"code": "", "executionType": "sometimes"}),
            json!({"code": "", "timeoutInSeconds": 0}),
            json!({"code": "", "timeoutInSeconds": -1}),
            json!({"code": "", "timeoutInSeconds": "1"}),
            json!({"code": "", "useEmptyKernel": "yes"}),
            json!({"execCommandAndArgs": []}),
            json!({"execCommandAndArgs": [""]}),
            json!({"execCommandAndArgs": [1]}),
        ] {
            assert_eq!(parse(&body).unwrap_err().code(), Code::RequestInvalid, "{body}");
        }
        assert!(Call::parse(b"{", LONGEST).is_err());
        assert!(Call::parse(b"\xff", LONGEST).is_err());
    }
}
