//! Entrances for `tests/fuzz`, which ordinary builds do not have. Each takes any bytes, and panics where a promise is broken.

#![expect(clippy::unwrap_used, reason = "a property that does not hold ends the fuzzer")]

use bytes::Bytes;
use futures_util::FutureExt as _;

use crate::execution::{Collector, Ending, Limits};
pub use crate::files::fuzzing::files;
use crate::protocol::content::{CompleteReply, InputRequest, IsCompleteReply};
use crate::protocol::{DELIMITER, Inbox, Key, ParseError, Parsed, lenient, timestamp};
pub use crate::shell::fuzzing::script;
pub use crate::transport::fuzzing::{guard, link};
use crate::{Execution, Output, Status, colour_only};

/// Limits that short inputs reach.
const SMALL: Limits = Limits { text: 64, outputs: 6, output_bytes: 1 << 16, spill_file: 0 };

/// Messages on their way into one execution: for each a byte that says how it comes, the lengths of its frames, the frames.
pub fn protocol(data: &[u8]) {
    let key = Key::new("fuzz");
    let mut inbox = Inbox::new(key.clone());
    let mut collector = Collector::new(SMALL, None);
    let mut rest = data;
    while let Some((how, frames)) = message(&mut rest) {
        let frames = sealed(&key, how, frames);
        match inbox.read(&frames) {
            Ok(parsed) => {
                take(&mut collector, &parsed, how);
                let again = inbox.read(&frames);
                assert!(matches!(again, Err(ParseError::Replayed)) || matches!(parsed, Parsed::Elided { .. }));
            }
            Err(_) => assert!(inbox.read(&frames).is_err()),
        }
    }
    is_bounded(&collector.finish(Ending::as_told()).now_or_never().unwrap());
}

/// Cuts one message off: a byte, then six frames, each after its length in two bytes.
fn message<'a>(rest: &mut &'a [u8]) -> Option<(u8, Vec<&'a [u8]>)> {
    let (how, mut tail) = rest.split_first()?;
    let mut frames = Vec::new();
    for _ in 0..=usize::from(how >> 5) {
        let (length, more) = tail.split_first_chunk::<2>().unwrap_or((&[0; 2], &[]));
        let (frame, more) = more.split_at(usize::from(u16::from_be_bytes(*length)).min(more.len()));
        frames.push(frame);
        tail = more;
    }
    *rest = tail;
    Some((*how, frames))
}

/// With a true signature if the lowest bit says so: the code in the container owns the key.
fn sealed(key: &Key, how: u8, frames: Vec<&[u8]>) -> Vec<Bytes> {
    let mut sealed = Vec::new();
    if how & 1 == 1
        && let [header, parent, metadata, content, ..] = frames[..]
    {
        let signature = key.sign([header, parent, metadata, content]);
        sealed.extend([Bytes::from_static(DELIMITER), signature.into()]);
    }
    sealed.extend(frames.into_iter().map(Bytes::copy_from_slice));
    sealed
}

fn take(collector: &mut Collector, parsed: &Parsed, how: u8) {
    let _ = (parsed.parent_id(), timestamp(&parsed.header().date));
    match parsed {
        Parsed::Elided { header, .. } => collector.left_out(&header.msg_type),
        Parsed::Message(message) => {
            let _ = lenient::read::<InputRequest>(&message.content);
            let _ = lenient::read::<CompleteReply>(&message.content);
            let _ = lenient::read::<IsCompleteReply>(&message.content);
            if how & 2 == 0 {
                // The type by a few bits, so that the fuzzer need not spell it.
                let types = ["stream", "display_data", "execute_result", "error", "status", "update_display_data"];
                let kind = types.get(usize::from(how >> 2 & 7)).copied().unwrap_or(message.msg_type());
                let _ = collector.iopub(kind, &message.content, &message.header.date);
            } else {
                collector.reply(&message.content);
            }
        }
    }
}

fn is_bounded(execution: &Execution) {
    for text in [&execution.stdout, &execution.stderr] {
        assert!(text.text.len() <= SMALL.text + 200, "{} bytes of text", text.text.len());
        assert!(text.truncated == (text.total_bytes > SMALL.text as u64));
        is_clean(&text.text);
    }
    assert!(execution.outputs.len() <= 3 * SMALL.outputs + 8, "{} outputs", execution.outputs.len());
    for output in &execution.outputs {
        if let Output::DisplayData(bundle) | Output::ExecuteResult { bundle, .. } = output {
            bundle.text().into_iter().for_each(is_clean);
        }
    }
    if let Status::Error(error) = &execution.status {
        error.traceback.iter().for_each(|part| is_clean(part));
        assert!(error.traceback_plain().iter().all(|part| !part.contains('\x1b')));
    }
    let json = serde_json::to_string(execution).unwrap();
    serde_json::from_str::<serde_json::Value>(&json).unwrap();
}

/// Of what may go to a terminal, only colour is left of escapes.
fn is_clean(text: &str) {
    let filtered = colour_only(text);
    let mut rest = &*filtered;
    while let Some(at) = rest.find(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        let sequence = rest[at..].strip_prefix("\x1b[").unwrap();
        let end = sequence.find(|c: char| !c.is_ascii_digit() && !matches!(c, ';' | ':')).unwrap();
        rest = sequence[end..].strip_prefix('m').unwrap();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    type Target = fn(&[u8]);
    const TARGETS: [(&str, Target); 5] =
        [("guard", guard), ("protocol", protocol), ("link", link), ("script", script), ("files", files)];

    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let directory = format!("{}/tests/fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(directory).unwrap();
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    /// What fuzzing found once, and what it begins with, holds in every run of the tests.
    #[test]
    fn the_corpus_holds() {
        for (name, target) in TARGETS {
            let corpus = corpus(name);
            assert!(!corpus.is_empty(), "no corpus of {name}");
            corpus.iter().for_each(|input| target(input));
        }
    }

    /// Where a corpus's bytes are changed, and into what.
    fn changes() -> impl Strategy<Value = Vec<(Index, Vec<u8>, usize)>> {
        proptest::collection::vec((any::<Index>(), proptest::collection::vec(any::<u8>(), 0..9), 0..9_usize), 0..6)
    }

    proptest! {
        #[test]
        fn what_is_near_the_corpus_holds(
            (target, input) in proptest::sample::select(TARGETS.to_vec()).prop_flat_map(|(name, target)| {
                (Just(target), proptest::sample::select(corpus(name)))
            }),
            changes in changes(),
        ) {
            let mut input = input;
            for (at, bytes, replaced) in changes {
                let at = at.index(input.len() + 1);
                input.splice(at..(at + replaced).min(input.len()), bytes);
            }
            target(&input);
        }
    }
}
