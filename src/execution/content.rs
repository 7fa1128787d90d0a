//! The content of a kernel's message, read leniently: a missing field or a wrong type never fails.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::capture::clip;
use super::lenient;
use super::outcome::PythonError;
use super::output::MimeBundle;
use crate::protocol::lenient::mend;

const EVALUE_LIMIT: usize = 64 << 10;
const TRACEBACK_LIMIT: usize = 1 << 20;
const PAYLOAD_LIMIT: usize = 1 << 20;

/// What a reply asks of the front end: deprecated, and used by IPython all the same.
#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    keepkernel: Option<&'a RawValue>,
}

/// The fields of every message that an execution brings, each still unread.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    execution_state: Option<&'a RawValue>,
    #[serde(borrow)]
    execution_count: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    transient: Option<&'a RawValue>,
    #[serde(borrow)]
    wait: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    ename: Option<&'a RawValue>,
    #[serde(borrow)]
    evalue: Option<&'a RawValue>,
    #[serde(borrow)]
    traceback: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

impl<'a> Content<'a> {
    /// Reads a content; where it has to be repaired first, the repaired text goes to `repaired`.
    pub(super) fn read(content: &'a [u8], repaired: &'a mut String) -> serde_json::Result<Self> {
        if let Ok(text) = str::from_utf8(content)
            && !lenient::may_hold_surrogates(text)
            && let Ok(content) = serde_json::from_str(text)
        {
            return Ok(content);
        }
        let text = String::from_utf8_lossy(content);
        *repaired = mend(&text).unwrap_or_else(|| text.into_owned());
        serde_json::from_str(repaired)
    }

    pub(super) fn execution_state(&self) -> Option<String> {
        lenient::string(self.execution_state)
    }

    pub(super) fn execution_count(&self) -> Option<u32> {
        lenient::count(self.execution_count)
    }

    pub(super) fn name(&self) -> Option<String> {
        lenient::string(self.name)
    }

    pub(super) fn text(&self) -> Option<String> {
        lenient::string(self.text)
    }

    pub(super) fn wait(&self) -> bool {
        lenient::flag(self.wait)
    }

    pub(super) fn status(&self) -> Option<String> {
        lenient::string(self.status)
    }

    pub(super) fn display_id(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Transient<'a> {
            #[serde(borrow)]
            display_id: Option<&'a RawValue>,
        }
        lenient::string(serde_json::from_str::<Transient<'_>>(self.transient?.get()).ok()?.display_id)
    }

    /// The memory that the bundle will take.
    pub(super) fn bundle_weight(&self) -> usize {
        lenient::weight(self.data) + lenient::weight(self.metadata) + lenient::weight(self.transient)
    }

    pub(super) fn bundle(&self) -> MimeBundle {
        bundle(self.data, self.metadata)
    }

    /// The exception, its parts clipped: an exception's message can be as long as any output.
    pub(super) fn error(&self) -> PythonError {
        PythonError {
            ename: clip(lenient::string(self.ename).unwrap_or_default(), EVALUE_LIMIT),
            evalue: clip(lenient::string(self.evalue).unwrap_or_default(), EVALUE_LIMIT),
            traceback: traceback(self.traceback).unwrap_or_default(),
        }
    }

    /// Whether the code called `exit()`: the kernel ends after this reply.
    pub(super) fn asks_exit(&self) -> bool {
        self.payloads(PAYLOAD_LIMIT).iter().any(|payload| {
            lenient::string(payload.source).as_deref() == Some("ask_exit") && !lenient::truth(payload.keepkernel)
        })
    }

    fn payloads(&self, limit: usize) -> Vec<Payload<'a>> {
        let Some(payload) = self.payload.filter(|_| lenient::weight(self.payload) <= limit) else { return Vec::new() };
        serde_json::from_str(payload.get()).unwrap_or_default()
    }

    /// What `object?` shows in a pager: bundles that only the reply holds, if they weigh no more than `limit` together.
    pub(super) fn pages(&self, limit: usize) -> Vec<MimeBundle> {
        self.payloads(limit)
            .into_iter()
            .filter(|payload| lenient::string(payload.source).as_deref() == Some("page"))
            .map(|payload| bundle(payload.data, None))
            .collect()
    }
}

fn bundle(data: Option<&RawValue>, metadata: Option<&RawValue>) -> MimeBundle {
    let data = lenient::object(data).into_iter().filter_map(|(mime, value)| {
        let value = representation(&mime, value)?;
        Some((mime, value))
    });
    MimeBundle { data: data.collect::<Map<_, _>>(), metadata: lenient::object(metadata) }
}

/// nbformat's rule: anything for JSON types, text for all others.
fn representation(mime: &str, value: Value) -> Option<Value> {
    let is_json = mime.strip_prefix("application/").is_some_and(|name| name == "json" || name.ends_with("+json"));
    match value {
        value if is_json || value.is_string() => Some(value),
        Value::Null => None,
        Value::Array(lines) if lines.iter().all(Value::is_string) => {
            Some(lines.iter().filter_map(Value::as_str).collect::<String>().into())
        }
        value => Some(value.to_string().into()),
    }
}

fn traceback(raw: Option<&RawValue>) -> Option<Vec<String>> {
    let Some(parts) = lenient::strings(raw) else {
        return lenient::string(raw).map(|text| vec![clip(text, TRACEBACK_LIMIT)]);
    };
    let length = parts.iter().map(|part| part.len() + size_of::<String>()).sum::<usize>();
    Some(if length > TRACEBACK_LIMIT { vec![clip(parts.join("\n"), TRACEBACK_LIMIT)] } else { parts })
}
