//! Outputs are those that nbclient gives a notebook's cell, and what nbformat takes for valid.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json, to_value};

use super::support::{collected, feed, finished};
use crate::execution::{Collector, Limits};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/notebook_outputs.py");

/// A Python that has `nbclient`, where there is one.
fn python() -> Option<Command> {
    let mut command = Command::new(std::env::var_os("CELLBLOCK_TEST_PYTHON")?);
    command.arg(SCRIPT);
    Some(command)
}

fn compare(vectors: &str) {
    let vectors: Vec<Value> = serde_json::from_str(vectors).expect("JSON");
    assert!(vectors.len() > 40);
    for vector in vectors {
        let messages: Vec<(String, Value)> = serde_json::from_value(vector["messages"].clone()).expect("messages");
        let messages: Vec<_> = messages.iter().map(|(name, content)| (name.as_str(), content.clone())).collect();
        let execution = collected(&messages);
        assert_eq!(to_value(&execution.outputs).expect("it serialises"), vector["outputs"], "{messages:?}");
    }
}

#[test]
fn outputs_are_those_of_the_committed_vectors() {
    compare(include_str!("../../../tests/oracle/notebook_outputs.json"));
}

#[test]
fn outputs_are_those_that_nbclient_makes_today() {
    let Some(mut python) = python() else { return };
    let output = python.output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    compare(&String::from_utf8(output.stdout).expect("UTF-8"));
}

#[test]
fn nbformat_takes_them_for_valid_whatever_the_kernel_sent() {
    let Some(mut python) = python() else { return };
    let mut collector = Collector::new(Limits { text: 20, ..Limits::default() }, None);
    feed(
        &mut collector,
        &[
            ("stream", json!({"name": "weird", "text": ["a list", "of lines"]})),
            ("stream", json!({"name": "stderr", "text": "long ".repeat(20)})),
            ("display_data", json!({})),
            ("display_data", json!({"data": {"text/plain": 5, "image/png": [1], "application/json": 5, "x": {}}})),
            ("execute_result", json!({"data": {"text/html": ["a", "b"]}, "execution_count": -4})),
            ("error", json!({"ename": 5, "traceback": ["a", 5]})),
            ("error", json!({"traceback": "text"})),
        ],
    );
    let outputs = to_value(finished(collector).outputs).expect("it serialises");
    assert_eq!(outputs.as_array().map(Vec::len), Some(7));

    let mut child = python.arg("validate").stdin(Stdio::piped()).spawn().expect("Python runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(outputs.to_string().as_bytes()).expect("it reads");
    drop(stdin);
    assert!(child.wait().expect("it ends").success(), "{outputs:#}");
}
