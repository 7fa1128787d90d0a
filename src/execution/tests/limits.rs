//! What is kept of more output than there is room for.

use std::fs::read_to_string;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{BUSY, ending, feed, finished};
use crate::execution::{Collector, Limits, Output, SpillDirectory};

fn text(name: &str, text: &str) -> (&'static str, Value) {
    ("stream", json!({"name": name, "text": text}))
}

fn display(text: &str) -> (&'static str, Value) {
    ("display_data", json!({"data": {"text/plain": text}, "metadata": {}, "transient": {"display_id": "id"}}))
}

fn result(text: &str) -> (&'static str, Value) {
    ("execute_result", json!({"data": {"text/plain": text}, "metadata": {}, "execution_count": 1}))
}

fn collected_within(limits: Limits, messages: &[(&str, Value)]) -> crate::execution::Execution {
    let mut collector = Collector::new(limits, None);
    feed(&mut collector, messages);
    finished(collector)
}

#[test]
fn displays_are_bounded_by_count_and_the_result_is_kept() {
    let limits = Limits { outputs: 3, ..Limits::default() };
    let mut messages = vec![display("d"); 5];
    messages.push(result("42"));
    let execution = collected_within(limits, &messages);
    assert_eq!(execution.outputs.len(), 4);
    assert_eq!(execution.outputs_left_out, 2);
    assert_eq!(execution.text(), Some("42"));
}

#[test]
fn displays_are_bounded_by_bytes() {
    let limits = Limits { output_bytes: 10_000, ..Limits::default() };
    let long = "x".repeat(4_000);
    let longer = "x".repeat(20_000);
    let execution = collected_within(limits, &[display(&longer), display(&long), display(&long), display(&long)]);
    assert_eq!(execution.outputs.len(), 1);
    assert_eq!(execution.outputs_left_out, 3);

    // An update that does not fit leaves the old content; one that does makes room.
    let update = |text: &str| ("update_display_data", display(text).1);
    let execution = collected_within(limits, &[display(&long), update(&longer), update("new"), display(&long)]);
    assert_eq!(execution.outputs.len(), 2);
    assert_eq!(execution.outputs_left_out, 1);

    let clear = ("clear_output", json!({"wait": true}));
    let execution = collected_within(limits, &[display(&long), clear, display(&long)]);
    assert_eq!((execution.outputs.len(), execution.outputs_left_out), (1, 0));
}

#[test]
fn json_that_grows_when_it_is_read_is_weighed_first() {
    let limits = Limits { output_bytes: 1 << 20, ..Limits::default() };
    let mut collector = Collector::new(limits, None);
    let maps = r#"{"":0},"#.repeat(10_000);
    let content = format!(r#"{{"data":{{"application/json":[{maps}0]}}}}"#);
    assert!(collector.iopub("display_data", content.as_bytes(), BUSY).is_none());
    assert_eq!(finished(collector).outputs_left_out, 1);
}

#[test]
fn text_beyond_the_limit_is_in_its_streams_last_output() {
    let limits = Limits { outputs: 4, ..Limits::default() };
    let mut messages = Vec::new();
    for number in 0..10 {
        messages.extend([text("stdout", &number.to_string()), text("stderr", "e")]);
    }
    let execution = collected_within(limits, &messages);
    let texts: Vec<_> = execution
        .outputs
        .iter()
        .map(|output| if let Output::Stream { text, .. } = output { text.as_str() } else { "-" })
        .collect();
    assert_eq!(texts, ["0", "e", "123456789", "eeeeeeeee"]);
}

#[tokio::test]
async fn a_long_text_is_spilled_from_its_beginning() {
    let parent = tempfile::tempdir().expect("a directory");
    let spills = SpillDirectory::new(parent.path().join("spill"));
    let mut collector = Collector::new(Limits { text: 100, ..Limits::default() }, Some(spills.clone()));
    let mut whole = String::new();
    for number in 0..1_000 {
        let line = format!("line {number} €\n");
        feed(&mut collector, &[text("stdout", &line), text("stderr", "short")][..if number == 0 { 2 } else { 1 }]);
        whole.push_str(&line);
    }
    let execution = collector.finish(ending()).await;
    assert!(execution.stdout.truncated);
    assert_eq!(execution.stdout.total_bytes, whole.len() as u64);
    assert_eq!(execution.stdout.spill_bytes, Some(whole.len() as u64));
    let path = execution.stdout.spill.expect("a file");
    assert_eq!(read_to_string(&path).expect("readable"), whole);
    assert!(execution.stdout.text.starts_with("line 0 €\n") && execution.stdout.text.ends_with("line 999 €\n"));
    assert_eq!(execution.stderr.spill, None);
    assert!(!execution.stderr.truncated);
}

fn resident_bytes() -> u64 {
    let statm = read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

#[tokio::test]
async fn a_hundred_megabytes_of_text_take_little_memory() {
    let parent = tempfile::tempdir().expect("a directory");
    let spills = SpillDirectory::new(parent.path().join("spill"));
    let content = json!({"name": "stdout", "text": "0123456789abcde\n".repeat(1 << 14)}).to_string();
    let before = resident_bytes();
    let mut collector = Collector::new(Limits::default(), Some(spills));
    for _ in 0..400 {
        collector.iopub("stream", content.as_bytes(), BUSY);
    }
    let execution = collector.finish(ending()).await;
    assert!(resident_bytes() - before < 64 << 20);
    assert_eq!(execution.stdout.total_bytes, 100 << 20);
    assert!(execution.stdout.text.len() < (1 << 20) + 100);
    // How far it got depends on the disk.
    assert!(execution.stdout.spill_bytes.is_some_and(|bytes| bytes > 0));
}

proptest! {
    #[test]
    fn outputs_stay_within_their_limits_and_no_text_is_lost(
        steps in proptest::collection::vec((0..5, "[a-z\n]{1,30}"), 0..60),
        count in 1usize..6,
        kept in 0usize..400,
    ) {
        let limits = Limits { text: kept, outputs: count, output_bytes: 3_000, spill_file: 0 };
        let messages: Vec<_> = steps.iter().map(|(kind, content)| match kind {
            0 | 1 => text("stdout", content),
            2 => text("stderr", content),
            3 => display(content),
            _ => ("update_display_data", display(content).1),
        }).collect();
        let execution = collected_within(limits, &messages);
        let (mut streams, mut displays, mut stdout, mut bytes) = (0, 0, String::new(), 0);
        for output in &execution.outputs {
            match output {
                Output::Stream { name, text } => {
                    streams += 1;
                    if name == "stdout" { stdout.push_str(text); }
                }
                Output::DisplayData(bundle) => {
                    displays += 1;
                    bytes += bundle.weight();
                }
                _ => prop_assert!(false),
            }
        }
        prop_assert!(streams <= count + 1 && displays <= count && bytes <= 3_000);
        let whole: String = steps.iter().filter(|(kind, _)| *kind < 2).map(|(_, text)| text.as_str()).collect();
        prop_assert_eq!(execution.stdout.total_bytes, whole.len() as u64);
        if whole.len() <= kept {
            prop_assert_eq!(stdout, whole);
        }
    }
}
