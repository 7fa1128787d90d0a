//! What an execution has put out so far, for whoever looks at it while it runs.

use std::collections::VecDeque;

use cellblock::{Event, MimeBundle, Output, ScriptEvent};
use serde_json::{Map, Value};

use super::run::Happening;

/// A look at what runs needs its end, not all of it: that comes with the outcome.
const MOST_OUTPUTS: usize = 128;
const MOST_BYTES: usize = 4 << 20;
const MOST_TEXT: usize = 64 << 10;

/// The latest outputs, bounded in count and bytes.
#[derive(Debug, Default)]
pub(super) struct Live {
    shown: VecDeque<Shown>,
    bytes: usize,
    clear_pending: bool,
}

#[derive(Debug)]
struct Shown {
    output: Output,
    display_id: Option<String>,
    size: usize,
}

impl Live {
    pub(super) fn outputs(&self) -> Vec<Output> {
        self.shown.iter().map(|shown| shown.output.clone()).collect()
    }

    pub(super) fn note(&mut self, happening: &Happening) {
        match happening {
            Happening::Cell(event) => self.event(event),
            Happening::Script(ScriptEvent::Stdout(bytes)) => self.text("stdout", &String::from_utf8_lossy(bytes)),
            Happening::Script(ScriptEvent::Stderr(bytes)) => self.text("stderr", &String::from_utf8_lossy(bytes)),
            Happening::Script(_) | Happening::Blocks(_) => {}
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Stdout(text) => self.text("stdout", text),
            Event::Stderr(text) => self.text("stderr", text),
            Event::Display { bundle, display_id } => {
                self.push(Output::DisplayData(bundle.clone()), display_id.clone());
            }
            Event::UpdateDisplay { bundle, display_id } => self.update(bundle, display_id),
            Event::Result { bundle, execution_count } => {
                let (bundle, execution_count) = (bundle.clone(), *execution_count);
                self.push(Output::ExecuteResult { bundle, execution_count }, None);
            }
            Event::Error(error) => self.push(Output::Error(error.clone()), None),
            Event::ClearOutput { wait } => {
                self.clear_pending = *wait;
                if !wait {
                    self.clear();
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, stream: &str, more: &str) {
        self.clear_if_pending();
        if let Some(Shown { output: Output::Stream { name, text }, size, .. }) = self.shown.back_mut()
            && name == stream
        {
            text.push_str(more);
            // Cut at twice the length that is kept, so that few of many small texts move the rest.
            if text.len() > 2 * MOST_TEXT {
                let cut = text.ceil_char_boundary(text.len() - MOST_TEXT);
                text.drain(..cut);
            }
            self.bytes = self.bytes - *size + text.len();
            *size = text.len();
        } else {
            let text = more.get(more.ceil_char_boundary(more.len().saturating_sub(MOST_TEXT))..).unwrap_or_default();
            self.push(Output::Stream { name: stream.to_owned(), text: text.to_owned() }, None);
        }
        self.bound();
    }

    fn push(&mut self, output: Output, display_id: Option<String>) {
        self.clear_if_pending();
        let size = size(&output) + display_id.as_ref().map_or(0, String::len);
        self.bytes += size;
        self.shown.push_back(Shown { output, display_id, size });
        self.bound();
    }

    fn update(&mut self, new: &MimeBundle, id: &str) {
        let is_meant = |shown: &Shown| shown.display_id.as_deref() == Some(id);
        let size = size_of_bundle(new) + id.len();
        let size_then = |shown: &Shown| if is_meant(shown) { size } else { shown.size };
        self.bytes = self.shown.iter().map(size_then).sum();
        // One display may be shown many times: room is made before it is copied.
        while self.bytes > MOST_BYTES {
            let Some(oldest) = self.shown.pop_front() else { break };
            self.bytes -= size_then(&oldest);
        }
        for shown in self.shown.iter_mut().filter(|shown| is_meant(shown)) {
            if let Output::DisplayData(bundle) = &mut shown.output {
                bundle.clone_from(new);
                shown.size = size;
            }
        }
    }

    fn bound(&mut self) {
        while self.shown.len() > MOST_OUTPUTS || self.bytes > MOST_BYTES {
            let Some(oldest) = self.shown.pop_front() else { break };
            self.bytes -= oldest.size;
        }
    }

    fn clear_if_pending(&mut self) {
        if std::mem::take(&mut self.clear_pending) {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.shown.clear();
        self.bytes = 0;
    }
}

/// About the memory that an output takes.
pub(super) fn size(output: &Output) -> usize {
    match output {
        Output::Stream { text, .. } => text.len(),
        Output::DisplayData(bundle) | Output::ExecuteResult { bundle, .. } => size_of_bundle(bundle),
        Output::Error(error) => {
            error.ename.len() + error.evalue.len() + error.traceback.iter().map(|line| NODE + line.len()).sum::<usize>()
        }
        _ => 0,
    }
}

/// About what a value, a key or a line takes beside its text.
const NODE: usize = 56;
/// A map has room for so many members from its first one on.
const LEAST_MEMBERS: usize = 11;

/// A bundle's keys are the code's own, as its values are, and small values take more memory than text.
pub(super) fn size_of_bundle(bundle: &MimeBundle) -> usize {
    members(&bundle.data) + members(&bundle.metadata)
}

fn members(map: &Map<String, Value>) -> usize {
    map.iter().map(|(key, value)| NODE + key.len() + size_of_value(value)).sum()
}

fn size_of_value(value: &Value) -> usize {
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size_of_value).sum(),
        Value::Object(map) => LEAST_MEMBERS * NODE + members(map),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdout(text: &str) -> Happening {
        Happening::Cell(Event::Stdout(text.to_owned()))
    }

    fn display(text: &str, id: Option<&str>) -> Event {
        Event::Display { bundle: bundle(text), display_id: id.map(str::to_owned) }
    }

    fn bundle(text: &str) -> MimeBundle {
        let mut bundle = MimeBundle::default();
        bundle.data.insert("text/plain".to_owned(), text.into());
        bundle
    }

    fn texts(live: &Live) -> Vec<String> {
        let text = |output| match output {
            Output::Stream { text, .. } => text,
            Output::DisplayData(bundle) => bundle.text().unwrap_or_default().to_owned(),
            other => format!("{other:?}"),
        };
        live.outputs().into_iter().map(text).collect()
    }

    #[test]
    fn a_flood_takes_no_more_than_its_room() {
        let mut live = Live::default();
        for round in 0..2000 {
            live.note(&stdout(&"ü".repeat(50_000)));
            live.note(&Happening::Cell(Event::Stderr(format!("{round}\n"))));
            live.event(&display(&"x".repeat(10_000), None));
        }
        assert!(live.bytes <= MOST_BYTES && live.shown.len() <= MOST_OUTPUTS);
        assert_eq!(live.bytes, live.shown.iter().map(|shown| size(&shown.output)).sum::<usize>());
        assert!(texts(&live).contains(&"1999\n".to_owned()));
    }

    #[test]
    fn what_is_long_in_keys_or_much_in_small_values_takes_no_more_than_its_room() {
        let raw = |data: Value| {
            let mut bundle = MimeBundle::default();
            bundle.data = data.as_object().cloned().unwrap_or_default();
            Event::Display { bundle, display_id: None }
        };
        let mut live = Live::default();
        for round in 0..20 {
            live.event(&raw(serde_json::json!({ format!("{round}{}", "k".repeat(1_000_000)): "" })));
        }
        assert!(live.shown.len() <= 4, "{}", live.shown.len());
        live.event(&raw(serde_json::json!({ "a": vec![serde_json::json!({ "": 0 }); 10_000] })));
        assert!(live.shown.is_empty(), "ten thousand maps take more than 4 MiB");
    }

    #[test]
    fn an_update_of_a_display_that_is_shown_often_takes_no_more_than_its_room() {
        let mut live = Live::default();
        for _ in 0..MOST_OUTPUTS {
            live.event(&display("small", Some("bar")));
        }
        let update =
            |size: usize| Event::UpdateDisplay { bundle: bundle(&"x".repeat(size)), display_id: "bar".to_owned() };
        live.event(&update(1_000_000));
        assert_eq!(live.shown.len(), 4);
        assert!(live.bytes <= MOST_BYTES && live.shown.iter().map(|shown| shown.size).sum::<usize>() == live.bytes);
        live.event(&update(2 * MOST_BYTES));
        assert_eq!((live.shown.len(), live.bytes), (0, 0));
    }

    #[test]
    fn the_end_of_a_long_text_is_kept() {
        let mut live = Live::default();
        for round in 0..100_000 {
            live.note(&stdout(&format!("{round}\n")));
        }
        let [text] = &texts(&live)[..] else { panic!("one stretch of text") };
        assert!(text.ends_with("99999\n") && text.len() <= 2 * MOST_TEXT);
    }

    #[test]
    fn updates_and_clearing_are_applied() {
        let mut live = Live::default();
        live.event(&display("old", Some("bar")));
        live.event(&Event::UpdateDisplay { bundle: bundle("new"), display_id: "bar".to_owned() });
        live.event(&Event::UpdateDisplay { bundle: bundle("other"), display_id: "foo".to_owned() });
        assert_eq!(texts(&live), ["new"]);
        live.event(&Event::ClearOutput { wait: true });
        assert_eq!(texts(&live), ["new"]);
        live.note(&stdout("next"));
        assert_eq!(texts(&live), ["next"]);
        live.event(&Event::ClearOutput { wait: false });
        assert_eq!((texts(&live).len(), live.bytes), (0, 0));
    }
}
