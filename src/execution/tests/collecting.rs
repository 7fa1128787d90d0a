//! From messages to an execution.

use std::time::Duration;

use serde_json::json;

use super::support::{BUSY, IDLE, collected, feed, finished};
use crate::execution::{Collector, Event, Limits, Output, Status};

fn stream(name: &str, text: &str) -> Output {
    Output::Stream { name: name.to_owned(), text: text.to_owned() }
}

#[test]
fn a_cell_that_prints_and_returns() {
    let mut collector = Collector::new(Limits::default(), None);
    assert!(collector.iopub("status", br#"{"execution_state":"busy"}"#, BUSY).is_none());
    let events = feed(
        &mut collector,
        &[
            ("execute_input", json!({"code": "...", "execution_count": 4})),
            ("stream", json!({"name": "stdout", "text": "a"})),
            ("stream", json!({"name": "stdout", "text": "b"})),
            ("execute_result", json!({"data": {"text/plain": "42"}, "metadata": {}, "execution_count": 4})),
        ],
    );
    assert!(matches!(
        events.as_slice(),
        [Event::Started { execution_count: Some(4) }, Event::Stdout(_), Event::Stdout(_), Event::Result { .. }]
    ));
    assert!(!collector.is_idle());
    collector.iopub("status", br#"{"execution_state":"idle"}"#, IDLE);
    assert!(collector.is_idle() && !collector.has_reply());
    collector.reply(br#"{"status":"ok","execution_count":4,"payload":[],"user_expressions":{}}"#);
    assert!(collector.has_reply());

    let execution = finished(collector);
    assert!(execution.is_ok());
    assert_eq!(execution.text(), Some("42"));
    assert_eq!(execution.execution_count, Some(4));
    assert_eq!(execution.stdout.text, "ab");
    assert_eq!(execution.stdout.total_bytes, 2);
    assert!(!execution.stdout.truncated);
    assert_eq!(execution.timing.kernel, Some(Duration::from_micros(250_002)));
    assert_eq!(execution.outputs.len(), 2);
    assert_eq!(execution.outputs[0], stream("stdout", "ab"));
}

#[test]
fn text_merges_with_the_same_stream_only() {
    let text = |name: &str, text: &str| ("stream", json!({"name": name, "text": text}));
    let display = ("display_data", json!({"data": {}, "metadata": {}}));
    let execution = collected(&[
        text("stdout", "1"),
        text("stdout", "2"),
        text("stderr", "3"),
        text("stdout", "4"),
        display,
        text("stdout", "5"),
    ]);
    let shape: Vec<_> = execution
        .outputs
        .iter()
        .map(|output| match output {
            Output::Stream { name, text } => format!("{name} {text}"),
            _ => "-".to_owned(),
        })
        .collect();
    assert_eq!(shape, ["stdout 12", "stderr 3", "stdout 4", "-", "stdout 5"]);
}

#[test]
fn without_a_reply_the_error_message_tells() {
    let execution = collected(&[
        ("execute_input", json!({"code": "1/0", "execution_count": 7})),
        (
            "error",
            json!({"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\u{1b}[31mx\u{1b}[0m"]}),
        ),
    ]);
    let error = execution.error().expect("an error");
    assert_eq!(error.to_string(), "ZeroDivisionError: division by zero");
    assert_eq!(error.traceback_plain(), ["x"]);
    assert_eq!(execution.execution_count, Some(7));
    assert!(matches!(execution.outputs.as_slice(), [Output::Error(_)]));
}

#[test]
fn an_aborted_cell_has_no_count() {
    let mut collector = Collector::new(Limits::default(), None);
    collector.reply(br#"{"status":"aborted"}"#);
    let execution = finished(collector);
    assert_eq!(execution.status, Status::Aborted);
    assert_eq!(execution.execution_count, None);
    assert_eq!(execution.timing.kernel, None);
}

fn display(id: &str, text: &str) -> (&'static str, serde_json::Value) {
    ("display_data", json!({"data": {"text/plain": text}, "metadata": {}, "transient": {"display_id": id}}))
}

fn update(id: &str, text: &str) -> (&'static str, serde_json::Value) {
    ("update_display_data", json!({"data": {"text/plain": text}, "metadata": {}, "transient": {"display_id": id}}))
}

fn texts(execution: &crate::execution::Execution) -> Vec<&str> {
    execution
        .outputs
        .iter()
        .map(|output| match output {
            Output::Stream { text, .. } => text,
            Output::DisplayData(bundle) | Output::ExecuteResult { bundle, .. } => bundle.text().unwrap_or("-"),
            Output::Error(error) => &error.ename,
        })
        .collect()
}

#[test]
fn an_update_replaces_every_display_with_its_id() {
    let execution = collected(&[
        display("a", "1"),
        display("b", "2"),
        display("a", "3"),
        update("a", "4"),
        update("elsewhere", "5"),
        display("a", "6"),
    ]);
    assert_eq!(texts(&execution), ["4", "2", "4", "6"]);
    assert_eq!(execution.outputs_left_out, 0);
}

#[test]
fn clearing_is_done_at_once_or_before_the_next_output() {
    let text = |text: &str| ("stream", json!({"name": "stdout", "text": text}));
    let clear = |wait: bool| ("clear_output", json!({"wait": wait}));

    assert!(texts(&collected(&[text("1"), clear(false)])).is_empty());
    assert_eq!(texts(&collected(&[text("1"), clear(true)])), ["1"]);
    assert_eq!(texts(&collected(&[text("1"), clear(true), text("2")])), ["2"]);
    assert_eq!(texts(&collected(&[text("1"), clear(true), clear(false), text("2"), text("3")])), ["23"]);
    // An update changes what is there, and is no output of its own.
    assert_eq!(texts(&collected(&[display("a", "1"), clear(true), update("a", "2")])), ["2"]);

    let execution = collected(&[text("1"), clear(false), text("2")]);
    assert_eq!(execution.stdout.text, "12");
    assert_eq!(execution.stdout.total_bytes, 2);
}

#[test]
fn a_result_outlives_clearing() {
    let result = ("execute_result", json!({"data": {"text/plain": "42"}, "metadata": {}, "execution_count": 1}));
    let execution = collected(&[result, ("clear_output", json!({"wait": false}))]);
    assert!(execution.outputs.is_empty());
    assert_eq!(execution.text(), Some("42"));
}

#[test]
fn a_pagers_page_comes_after_output_that_its_reply_overtook() {
    let mut collector = Collector::new(Limits::default(), None);
    let reply = json!({"status": "ok", "payload": [
        {"source": "page", "data": {"text/plain": "Signature: len(obj, /)"}, "start": 0},
        {"source": "set_next_input", "text": "x"},
    ]});
    collector.reply(reply.to_string().as_bytes());
    collector.iopub("display_data", br#"{"data": {"text/plain": "late"}, "metadata": {}}"#, "");
    assert!(matches!(collector.show_pages().as_slice(), [Event::Display { .. }]));
    assert_eq!(texts(&finished(collector)), ["late", "Signature: len(obj, /)"]);
}

#[test]
fn what_the_driver_knows_overrides_what_the_messages_tell() {
    let mut collector = Collector::new(Limits::default(), None);
    collector.reply(br#"{"status":"error","ename":"KeyboardInterrupt","evalue":"","traceback":[]}"#);
    let ending = crate::execution::Ending { status: Some(Status::Interrupted), ..super::support::ending() };
    let execution = futures_util::FutureExt::now_or_never(collector.finish(ending)).expect("nothing to wait for");
    assert_eq!(execution.status, Status::Interrupted);
}

#[test]
fn a_kernels_clock_may_say_anything() {
    let elapsed = |busy: &str, idle: &str| {
        let mut collector = Collector::new(Limits::default(), None);
        collector.iopub("status", br#"{"execution_state":"busy"}"#, busy);
        collector.iopub("status", br#"{"execution_state":"idle"}"#, idle);
        finished(collector).timing.kernel
    };
    let second = Some(Duration::from_secs(1));
    assert_eq!(elapsed("2026-01-01T00:00:00Z", "2026-01-01T00:00:01+00:00"), second);
    assert_eq!(elapsed("2026-01-01T02:00:00.5+02:00", "2026-01-01T00:00:01.500000Z"), second);
    assert_eq!(elapsed("2026-01-01T00:00:00.1", "2026-01-01T00:00:01.1"), second);
    assert_eq!(elapsed("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"), None);
    assert_eq!(elapsed("yesterday", "2026-01-01T00:00:00Z"), None);
    assert_eq!(elapsed("-009990-01-01T00:00:00Z", "9999-12-30T00:00:00Z").map(|long| long.as_secs() > 0), Some(true));
    assert_eq!(elapsed("", ""), None);
}
