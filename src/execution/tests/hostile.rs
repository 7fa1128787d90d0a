//! Contents that no honest kernel sends.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{BUSY, collected, finished};
use crate::execution::{Collector, Limits, Output, Status};

const TYPES: [&str; 11] = [
    "status",
    "execute_input",
    "stream",
    "display_data",
    "execute_result",
    "update_display_data",
    "error",
    "clear_output",
    "execute_reply",
    "comm_open",
    "",
];

const FIELDS: [&str; 15] = [
    "execution_state",
    "execution_count",
    "name",
    "text",
    "data",
    "metadata",
    "transient",
    "wait",
    "status",
    "ename",
    "evalue",
    "traceback",
    "payload",
    "source",
    "display_id",
];

#[test]
fn lone_surrogates_and_stray_bytes_are_replaced() {
    let mut collector = Collector::new(Limits::default(), None);
    collector.iopub("stream", br#"{"name":"stdout","text":"a\ud83db"}"#, BUSY);
    collector.iopub("stream", b"{\"name\":\"stdout\",\"text\":\"\xff\"}", BUSY);
    collector.iopub("display_data", br#"{"data":{"text/plain":"\udc00","application/json":{"a":NaN}}}"#, BUSY);
    let execution = finished(collector);
    assert_eq!(execution.stdout.text, "a\u{fffd}b\u{fffd}");
    assert_eq!(execution.stdout.total_bytes, 8);
    let Output::DisplayData(bundle) = &execution.outputs[1] else { panic!("no display") };
    assert_eq!(bundle.text(), Some("\u{fffd}"));
    assert_eq!(bundle.data["application/json"], json!({"a": null}));
    assert_eq!(execution.outputs_left_out, 0);
}

#[test]
fn wrong_types_count_as_missing() {
    let execution = collected(&[
        ("stream", json!({"name": 1, "text": "to stdout"})),
        ("stream", json!({"text": {"a": 1}})),
        ("display_data", json!({"data": [], "metadata": 1, "transient": []})),
        ("display_data", json!({"data": {"text/plain": 5, "text/html": ["a", "b"], "image/png": null}})),
        ("execute_result", json!({"data": {}, "execution_count": -1})),
        ("error", json!({"ename": null, "evalue": [], "traceback": "all in one"})),
        ("clear_output", json!({"wait": "yes", "more": 1})),
        ("update_display_data", json!({"transient": {"display_id": 1}})),
    ]);
    assert_eq!(execution.stdout.text, "to stdout");
    assert!(execution.outputs.is_empty());
    assert_eq!(execution.error().map(|error| error.traceback.clone()), Some(vec!["all in one".to_owned()]));
    assert_eq!(execution.execution_count, None);
}

#[test]
fn what_is_no_text_becomes_text_where_the_type_is_none_of_jsons() {
    let execution = collected(&[(
        "display_data",
        json!({"data": {
            "text/plain": 5, "text/html": ["a", "b"], "image/png": null, "text/x": {"a": 1},
            "application/json": 5, "application/vnd.x+json": null, "other/x+json": 5,
        }}),
    )]);
    let Output::DisplayData(bundle) = &execution.outputs[0] else { panic!("no display") };
    assert_eq!(
        Value::Object(bundle.data.clone()),
        json!({
            "text/plain": "5", "text/html": "ab", "text/x": "{\"a\":1}",
            "application/json": 5, "application/vnd.x+json": null, "other/x+json": "5",
        })
    );
}

#[test]
fn unreadable_outputs_are_counted() {
    let mut collector = Collector::new(Limits::default(), None);
    let deep = "[".repeat(100_000);
    for msg_type in TYPES {
        for content in ["", "null", "{", "{\"text\": }", &deep] {
            assert!(collector.iopub(msg_type, content.as_bytes(), BUSY).is_none());
        }
    }
    for msg_type in TYPES {
        collector.left_out(msg_type);
    }
    assert!(collector.has_reply());
    let execution = finished(collector);
    assert_eq!(execution.outputs_left_out, 6 * 5);
    assert!(matches!(&execution.status, Status::Error(error) if error.ename.is_empty()));
}

#[test]
fn nesting_is_read_as_far_as_the_stack_is_safe() {
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut collector = Collector::new(Limits::default(), None);
    let content = format!(r#"{{"data":{{"application/json":{nested},"text/plain":"good"}},"metadata":{nested}}}"#);
    collector.iopub("execute_result", content.as_bytes(), BUSY);
    assert_eq!(finished(collector).text(), Some("good"));
}

#[test]
fn a_reply_that_says_nothing_leaves_it_to_the_messages() {
    for reply in [&b"{}"[..], b"null", b"\xff", br#"{"status":"splendid"}"#] {
        let mut collector = Collector::new(Limits::default(), None);
        collector.reply(reply);
        assert!(collector.has_reply());
        assert!(finished(collector).is_ok());

        let mut collector = Collector::new(Limits::default(), None);
        collector.iopub("error", br#"{"ename":"E"}"#, BUSY);
        collector.reply(reply);
        assert!(finished(collector).error().is_some_and(|error| error.ename == "E"));
    }
}

#[test]
fn an_exception_of_any_size_is_clipped() {
    let long = "x".repeat(4 << 20);
    let execution = collected(&[("error", json!({"ename": long, "evalue": long, "traceback": [long, long]}))]);
    let error = execution.error().expect("an error");
    assert!(error.ename.len() < 65 << 10 && error.evalue.len() < 65 << 10);
    assert_eq!(error.traceback.len(), 1);
    assert!(error.traceback[0].len() < (1 << 20) + 100);
    let flood = vec![("error", json!({"ename": "E"})); 1_000];
    let execution = collected(&flood);
    assert!(execution.outputs.len() < 10 && execution.outputs_left_out > 900);
}

fn json_value() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "null",
        "true",
        "0",
        "-1",
        "1e400",
        "NaN",
        "\"stdout\"",
        "\"busy\"",
        "\"idle\"",
        "\"error\"",
        "\"\\ud800\"",
        "\"page\"",
        "\"\u{1f600}\"",
        "[\"a\",\"b\"]",
        "{}",
        "[]",
        "\"",
        "{",
        "18446744073709551616",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(3, 20, 4, |inner| {
        let field = (proptest::sample::select(FIELDS.to_vec()), inner.clone());
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec(field, 0..4).prop_map(object),
        ]
    })
}

#[expect(clippy::needless_pass_by_value, reason = "as prop_map calls it")]
fn object(members: Vec<(&str, String)>) -> String {
    let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

proptest! {
    #[test]
    fn any_message_is_taken(messages in proptest::collection::vec(
        (
            proptest::sample::select(TYPES.to_vec()),
            proptest::collection::vec((proptest::sample::select(FIELDS.to_vec()), json_value()), 0..6).prop_map(object),
        ),
        0..20,
    )) {
        let limits = Limits { text: 16, outputs: 3, output_bytes: 2_000, spill_file: 0 };
        let mut collector = Collector::new(limits, None);
        for (msg_type, content) in &messages {
            collector.iopub(msg_type, content.as_bytes(), content);
            if *msg_type == "execute_reply" {
                collector.reply(content.as_bytes());
            }
        }
        let json = serde_json::to_value(finished(collector)).expect("it serialises");
        prop_assert_eq!(&json["v"], 1);
    }

    #[test]
    fn any_bytes_are_taken(msg_type in proptest::sample::select(TYPES.to_vec()), content in any::<Vec<u8>>()) {
        let mut collector = Collector::new(Limits::default(), None);
        collector.iopub(msg_type, &content, "");
        collector.reply(&content);
        finished(collector);
    }
}
