//! Values of JSON that a kernel wrote, each read by itself: one that is odd does not take the others with it.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A list of text that would take more memory than this is not read.
const LIST: usize = 64 << 20;

/// Whether the text may hold an escaped surrogate, lone or in a pair.
pub(super) fn may_hold_surrogates(json: &str) -> bool {
    json.contains("\\ud") || json.contains("\\uD")
}

/// A value read as text: a string, or a list of strings as nbformat allows it.
pub(super) fn string(raw: Option<&RawValue>) -> Option<String> {
    if let Some(parts) = strings(raw) {
        return Some(parts.concat());
    }
    serde_json::from_str(raw?.get()).ok()
}

/// A value read as a list of strings.
pub(super) fn strings(raw: Option<&RawValue>) -> Option<Vec<String>> {
    // An empty string in a list takes eight times its own length.
    let json = raw.filter(|raw| raw.get().starts_with('[') && weight(Some(raw)) <= LIST)?.get();
    serde_json::from_str(json).ok()
}

pub(super) fn count(raw: Option<&RawValue>) -> Option<u32> {
    serde_json::from_str(raw?.get()).ok()
}

pub(super) fn flag(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

/// Whether Python takes a value of any type for true.
pub(super) fn truth(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "0" | "0.0" | "\"\"" | "[]" | "{}"))
}

/// A value read as an object, less the members that cannot be read.
pub(super) fn object(raw: Option<&RawValue>) -> Map<String, Value> {
    let Some(json) = raw.map(RawValue::get).filter(|json| json.starts_with('{')) else { return Map::new() };
    serde_json::from_str(json).unwrap_or_else(|_| {
        let members: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap_or_default();
        members.into_iter().filter_map(|(key, raw)| Some((key, serde_json::from_str(raw.get()).ok()?))).collect()
    })
}

/// About the memory that the value will take once it is read: nested JSON can take eighty times its own length.
pub(super) fn weight(raw: Option<&RawValue>) -> usize {
    const NODE: usize = size_of::<Value>();
    // A map, however small, has a tree node with room for eleven members.
    const MAP: usize = 11 * (size_of::<String>() + NODE);

    let json = raw.map_or("", RawValue::get);
    let mut extra = NODE;
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => extra += MAP,
            b'[' => extra += 4 * NODE,
            b',' => extra += 2 * (NODE + size_of::<String>()),
            _ => {}
        }
    }
    json.len() + extra
}

#[cfg(test)]
mod tests;
