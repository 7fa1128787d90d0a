//! Signatures that are forged, repeated, or true of nonsense: the code owns the key.

use super::frames::CHANNELS;
use crate::attack::{Attack, Expect};

const STREAM: &str = "'stream', {'name': 'stdout', 'text': 'forged\\n'}";
const REPLY: &str = "'execute_reply', {'status': 'error', 'ename': 'Forged'}";

pub(crate) fn attacks() -> Vec<Attack> {
    let mut attacks = forged();
    attacks.extend(repeated());
    attacks.extend(nonsense());
    attacks
}

fn unharmed(name: impl Into<String>, lines: impl Into<String>, stdout: &str) -> Attack {
    Attack::new(name, format!("{}\nk.end()", lines.into()), Expect::Unharmed(stdout.into()))
}

fn forged() -> Vec<Attack> {
    let mut attacks = Vec::new();
    for (name, signature) in [
        ("no signature", "b''"),
        ("a signature of zeros", "b'0' * 64"),
        ("a signature in upper case", "s.upper()"),
        ("a signature in binary", "bytes.fromhex(s.decode())"),
        ("half a signature", "s[:32]"),
        ("a signature and more", "s + b'00'"),
        ("a signature with a newline", "s + b'\\n'"),
        ("a signature of odd length", "s[:63]"),
        ("a signature by another key", "hmac.new(b'', b''.join(f[2:6]), hashlib.sha256).hexdigest().encode()"),
        ("a signature by another hash", "hmac.new(k.key, b''.join(f[2:6]), hashlib.sha1).hexdigest().encode()"),
        ("a signature of other frames", "k.sign([b'{}'] * 4)"),
        ("a signature that is no text", "b'\\xff' * 64"),
    ] {
        for (channel, message) in [("iopub", STREAM), ("shell", REPLY)] {
            let lines =
                format!("f = k.frames({message})\ns = f[1]\nf[1] = {signature}\nk.raw('{channel}', multipart(f))");
            attacks.push(unharmed(format!("{name} on {channel}"), lines, "after\n"));
        }
    }
    attacks
}

fn repeated() -> Vec<Attack> {
    let again = format!("f = k.frames({STREAM})\nk.raw('iopub', multipart(f), times=1000)");
    let shuffled = format!(
        "f = k.frames({STREAM})\nk.raw('iopub', multipart(f))\nk.raw('iopub', multipart([b'other', *f, b'buffer']), times=100)"
    );
    let echo = "k.raw('shell', multipart(k.frames('execute_request', {'code': '1'}, parent={})), times=2)";
    let elsewhere = format!("f = k.frames({STREAM})\nfor c in NUMBERS: k.raw(c, multipart(f))");
    vec![
        unharmed("a message a thousand times", again, "forged\nafter\n"),
        unharmed("a message again with other identities", shuffled, "forged\nafter\n"),
        unharmed("a request as an answer", echo, "after\n"),
        Attack::new(
            "one message on all channels",
            format!("{elsewhere}\nk.end()"),
            Expect::Ended(|execution| {
                // Whichever channel is read first; on another than IOPub it is no output.
                execution.is_ok() && matches!(execution.stdout.text.as_str(), "after\n" | "forged\nafter\n")
            }),
        ),
    ]
}

/// The signature is true; what it signs is not what the protocol says.
fn nonsense() -> Vec<Attack> {
    let mut attacks = Vec::new();
    let deep = "b'[' * 32_000";
    for (name, header) in [
        ("is empty", "b''"),
        ("is a list", "b'[]'"),
        ("is null", "b'null'"),
        ("is a number", "b'7'"),
        ("is no JSON", "b'{'"),
        ("is no text", "b'\\xff\\xfe'"),
        ("is deep", deep),
        ("has fields of wrong types", "b'{\"msg_id\": 7, \"msg_type\": [], \"date\": {}}'"),
        ("has no type", "b'{}'"),
        ("has a type of 60 KB", "k.header('x' * 60_000)"),
        ("has a type that is nearly right", "k.header('execute_reply\\0')"),
    ] {
        for (part, channel) in [("header", "iopub"), ("parent", "iopub"), ("header", "shell")] {
            let message =
                if channel == "shell" { REPLY } else { "'comm_msg', {'name': 'stdout', 'text': 'forged\\n'}" };
            let lines = format!("k.say('{channel}', {message}, {part}={header})");
            attacks.push(unharmed(format!("a {part} that {name} on {channel}"), lines, "after\n"));
        }
    }
    for channel in CHANNELS {
        let lines = format!(
            "k.raw('{channel}', multipart([DELIMITER] * 3))\nk.raw('{channel}', multipart([DELIMITER, b'', b'']))"
        );
        attacks.push(unharmed(format!("missing frames on {channel}"), lines, "after\n"));
        let lines = format!("k.raw('{channel}', multipart(k.frames('x', {{}})[1:]))");
        attacks.push(unharmed(format!("no delimiter on {channel}"), lines, "after\n"));
    }
    attacks
}
