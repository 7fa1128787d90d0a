//! The JSON form.

use std::time::Duration;

use serde_json::{Value, json, to_value};

use super::support::{collected, feed};
use crate::execution::{Collector, Death, Ending, Event, Execution, Limits, PythonError, Rung, State, Status, Usage};

fn ended(status: Status) -> Value {
    to_value(Execution { status, ..collected(&[]) }).expect("it serialises")
}

#[test]
fn the_documented_example_is_what_comes_out() {
    let mut collector = Collector::new(Limits::default(), None);
    let error = json!({
        "status": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "execution_count": 3,
        "traceback": ["\u{1b}[31mZeroDivisionError\u{1b}[39m: division by zero"],
    });
    collector.iopub("status", br#"{"execution_state":"busy"}"#, "2026-01-02T03:04:05.000000Z");
    feed(
        &mut collector,
        &[
            ("execute_input", json!({"execution_count": 3})),
            ("stream", json!({"name": "stdout", "text": "hello\n"})),
            ("display_data", json!({"data": {"text/plain": "<Figure>", "image/png": "iVBORw0KGgo="}, "metadata": {}})),
            ("error", error.clone()),
        ],
    );
    collector.iopub("status", br#"{"execution_state":"idle"}"#, "2026-01-02T03:04:05.005210Z");
    collector.reply(error.to_string().as_bytes());
    let ending = Ending {
        status: None,
        state: State::Kept,
        rung: None,
        queued: Duration::from_micros(12),
        total: Duration::from_micros(6_034),
        usage: Usage {
            cpu: Some(Duration::from_micros(7_100)),
            memory: Some(61_079_552),
            memory_peak: Some(62_914_560),
        },
    };
    let execution = futures_util::FutureExt::now_or_never(collector.finish(ending)).expect("nothing to wait for");
    let example: Value = serde_json::from_str(include_str!("../execution.json")).expect("JSON");
    assert_eq!(to_value(&execution).expect("it serialises"), example);
}

#[test]
fn each_status_has_its_name_and_its_details() {
    for (status, name) in [
        (Status::Ok, "ok"),
        (Status::TimedOut, "timed_out"),
        (Status::Interrupted, "interrupted"),
        (Status::Aborted, "aborted"),
    ] {
        let json = ended(status);
        assert_eq!(json["status"], name);
        assert_eq!((&json["error"], &json["death"], &json["reason"]), (&Value::Null, &Value::Null, &Value::Null));
    }
    let json = ended(Status::KernelDied(Death { signal: Some(9), out_of_memory: true, ..Death::default() }));
    assert_eq!(json["status"], "kernel_died");
    assert_eq!(json["death"], json!({"code": null, "signal": 9, "out_of_memory": true, "reason": null}));
    let json = ended(Status::ContainerGone("removed".to_owned()));
    assert_eq!((&json["status"], &json["reason"]), (&json!("container_gone"), &json!("removed")));
}

#[test]
fn states_and_rungs_have_names() {
    assert_eq!(
        to_value([State::Kept, State::KernelRestarted, State::ContainerGone]).expect("it serialises"),
        json!(["kept", "kernel_restarted", "container_gone"])
    );
    assert_eq!(
        to_value([Rung::Interrupt, Rung::KernelRestart, Rung::ContainerKill]).expect("it serialises"),
        json!(["interrupt", "kernel_restart", "container_kill"])
    );
}

#[test]
fn an_event_is_one_flat_object() {
    let mut collector = Collector::new(Limits::default(), None);
    let mut events = feed(
        &mut collector,
        &[
            ("execute_input", json!({"execution_count": 1})),
            ("stream", json!({"name": "stdout", "text": "a"})),
            ("stream", json!({"name": "stderr", "text": "b"})),
            ("display_data", json!({"data": {"text/plain": "x"}, "metadata": {"k": 1}})),
            ("update_display_data", json!({"data": {}, "transient": {"display_id": "id"}})),
            ("execute_result", json!({"data": {}, "execution_count": 1})),
            ("error", json!({"ename": "E", "evalue": "v", "traceback": ["\u{1b}[1mt\u{1b}[0m"]})),
            ("clear_output", json!({"wait": true})),
        ],
    );
    events.push(Event::Paused { container: "c".to_owned() });
    events.push(Event::Lagged { events: 3 });
    assert_eq!(
        to_value(&events).expect("it serialises"),
        json!([
            {"event": "started", "execution_count": 1},
            {"event": "stdout", "text": "a"},
            {"event": "stderr", "text": "b"},
            {"event": "display", "data": {"text/plain": "x"}, "metadata": {"k": 1}, "display_id": null},
            {"event": "update_display", "data": {}, "metadata": {}, "display_id": "id"},
            {"event": "result", "data": {}, "metadata": {}, "execution_count": 1},
            {"event": "error", "ename": "E", "evalue": "v", "traceback": ["\u{1b}[1mt\u{1b}[0m"], "traceback_plain": ["t"]},
            {"event": "clear_output", "wait": true},
            {"event": "paused", "container": "c"},
            {"event": "lagged", "events": 3},
        ])
    );
    let done = to_value(Event::Done(Box::new(collected(&[])))).expect("it serialises");
    assert_eq!((&done["event"], &done["execution"]["status"]), (&json!("done"), &json!("ok")));
}

#[test]
fn outcomes_read_as_text() {
    let error = PythonError { ename: "ValueError".into(), evalue: "no".into(), traceback: Vec::new() };
    assert_eq!(Status::Error(error).to_string(), "ValueError: no");
    let exit = |code, signal, out_of_memory| {
        Status::KernelDied(Death { code, signal, out_of_memory, ..Death::default() }).to_string()
    };
    assert_eq!(exit(Some(3), None, false), "the kernel died: exit code 3");
    assert_eq!(exit(None, Some(11), false), "the kernel died: signal 11");
    assert_eq!(exit(None, Some(9), true), "the kernel died: out of memory");
}

#[test]
fn a_path_that_is_no_unicode_does_not_lose_the_execution() {
    use std::os::unix::ffi::OsStringExt;
    let mut execution = collected(&[]);
    execution.stdout.spill = Some(std::ffi::OsString::from_vec(b"/run/\xff".to_vec()).into());
    assert_eq!(to_value(&execution).expect("it serialises")["stdout"]["spill"], "/run/\u{fffd}");
}
