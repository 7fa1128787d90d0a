//! What `jupyter_client` reads and refuses is read and refused here alike, and the other way round.

use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{DELIMITER, Key, Message, Parsed, content, encode, encode_answer, parse, timestamp};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/jupyter_messages.py");

/// A Python that has `jupyter_client`, where there is one.
fn python() -> Option<Command> {
    let mut command = Command::new(std::env::var_os("CELLBLOCK_TEST_PYTHON")?);
    command.arg(SCRIPT);
    Some(command)
}

fn base64(frames: &[Bytes]) -> Value {
    frames.iter().map(|frame| STANDARD.encode(frame)).collect()
}

/// What we read, in the form in which the oracle tells what it read.
fn told(message: &Message) -> Value {
    json!({
        "header": {
            "msg_id": message.header.msg_id,
            "session": message.header.session,
            "username": message.header.username,
            "msg_type": message.header.msg_type,
            "version": message.header.version,
        },
        "date": timestamp(&message.header.date).map(|date| date.as_microsecond() as f64 / 1e6),
        "parent_id": message.parent_id(),
        "content": message.content_as::<Value>().unwrap(),
    })
}

fn compare(vectors: &str) {
    let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
    assert!(vectors.len() > 40);
    for vector in vectors {
        let frames: Vec<Bytes> = vector["frames"]
            .as_array()
            .unwrap()
            .iter()
            .map(|frame| STANDARD.decode(frame.as_str().unwrap()).unwrap().into())
            .collect();
        let read = match parse(&frames, &Key::new(vector["key"].as_str().unwrap())) {
            Ok(Parsed::Message(message)) => told(&message),
            Ok(Parsed::Elided { .. }) | Err(_) => Value::Null,
        };
        assert_eq!(read, vector["read"], "{}", vector["name"]);
    }
}

#[test]
fn messages_of_jupyter_client_are_read_as_it_reads_them() {
    compare(include_str!("../../tests/oracle/jupyter_messages.json"));
}

#[test]
fn messages_of_the_jupyter_client_at_hand_are_read_as_it_reads_them() {
    let Some(mut python) = python() else { return };
    let output = python.arg("write").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    compare(std::str::from_utf8(&output.stdout).unwrap());
}

#[test]
fn jupyter_client_reads_our_messages_as_we_do() {
    let Some(mut python) = python() else { return };
    let mut items = Vec::new();
    let mut expected = Vec::new();
    for text in ["secret", "k", &"long".repeat(50), ""] {
        let key = Key::new(text);
        let execute = encode("execute_request", "s", "m1", &content::ExecuteRequest::new("é\u{1f600}\0\n\"\\"), &key);
        let Parsed::Message(asked) = parse(&execute, &key).unwrap() else { panic!("elided") };
        let answer = content::InputReply { value: "yes" };
        let mut answered = vec![Bytes::from_static(b"identity")];
        answered.extend(encode_answer("input_reply", "s", "m2", &asked.header, &answer, &key));
        assert_eq!(answered[1], DELIMITER);
        for frames in [execute, answered] {
            let Parsed::Message(message) = parse(&frames, &key).unwrap() else { panic!("elided") };
            expected.push(told(&message));
            items.push(json!({"key": text, "frames": base64(&frames)}));
        }
    }
    let mut child = python.arg("read").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(Value::from(items).to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let read: Vec<Value> =
        serde_json::Deserializer::from_slice(&output.stdout).into_iter().map(Result::unwrap).collect();
    assert_eq!(read, expected);
}
