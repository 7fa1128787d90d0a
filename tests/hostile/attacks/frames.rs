//! ZMTP itself: lengths, flags, commands, counts, and streams that end where they should not.

use crate::attack::{Attack, Expect};

/// The channels that the host reads.
pub(super) const CHANNELS: [&str; 4] = ["shell", "iopub", "control", "stdin"];

pub(crate) fn attacks() -> Vec<Attack> {
    let mut attacks = lengths();
    for channel in ["shell", "iopub"] {
        attacks.extend(flags(channel));
        attacks.extend(parts(channel));
        attacks.extend(counts(channel));
        attacks.extend(pieces(channel));
    }
    attacks.extend(ends());
    attacks
}

fn cut(what: &str, channel: &str, bytes: &str, reason: &'static str) -> Attack {
    Attack::new(format!("{what} on {channel}"), format!("k.raw('{channel}', {bytes})"), Expect::Cut(reason))
}

fn lengths() -> Vec<Attack> {
    let mut attacks = Vec::new();
    for channel in CHANNELS {
        for (name, length) in [("2^34", "1 << 34"), ("2^46", "1 << 46"), ("2^63", "1 << 63"), ("2^64", "(1 << 64) - 1")]
        {
            let bytes = format!("b'\\2' + ({length}).to_bytes(8, 'big')");
            attacks.push(cut(&format!("a frame of {name} bytes"), channel, &bytes, "announced a frame of"));
        }
    }
    attacks
}

fn flags(channel: &str) -> Vec<Attack> {
    let mut attacks: Vec<_> = ["08", "10", "20", "40", "80", "f9"]
        .map(|flag| cut(&format!("flags {flag}"), channel, &format!("b'\\x{flag}\\0'"), "reserved flags"))
        .into();
    for (name, bytes, reason) in [
        ("a PING", "command(b'PING')", "a command later"),
        ("a second READY", &format!("ready('{channel}')"), "a command later"),
        ("an ERROR", "command(b'ERROR')", "a command later"),
        ("a SUBSCRIBE", "command(b'SUBSCRIBE')", "a command later"),
        ("an empty command", "b'\\4\\0'", "a command later"),
        ("a command with more to come", "b'\\5\\0'", "a command later"),
        ("a second greeting", "GREETING", "reserved flags"),
        ("a command of 1 MiB", "frame(bytes(1 << 20), flags=4)", "a command of 1048576 bytes"),
    ] {
        attacks.push(cut(name, channel, bytes, reason));
    }
    attacks
}

fn parts(channel: &str) -> Vec<Attack> {
    let honest = "k.frames('stream', {'name': 'stdout', 'text': 'forged'})";
    let with = |at: usize, len: &str| {
        format!("multipart([bytes({len}) if at == {at} else f for at, f in enumerate({honest})])")
    };
    vec![
        cut("a long topic", channel, "multipart([bytes(1025), DELIMITER])", "a routing identity of 1025 bytes"),
        cut("a long signature", channel, &with(1, "1025"), "a signature of 1025 bytes"),
        cut("a long header", channel, &with(2, "65537"), "a header of 65537 bytes"),
        cut("a long parent", channel, &with(3, "65537"), "a parent header of 65537 bytes"),
        cut("a long metadata", channel, &with(4, "(1 << 20) + 1"), "a metadata of 1048577 bytes"),
        cut("a header of a gibibyte, announced", channel, "b'\\3' + (1 << 30).to_bytes(8, 'big')", "1073741824 bytes"),
    ]
}

fn counts(channel: &str) -> Vec<Attack> {
    vec![
        cut(
            "nine identities",
            channel,
            "multipart([b'i'] * 9 + k.frames('stream', {}))",
            "too many routing identities",
        ),
        cut("identities without end", channel, "bytes([1, 0]) * 500_000", "too many routing identities"),
        cut("delimiters without end", channel, "frame(DELIMITER, more=True) * 2000", "too many frames"),
        cut("1025 buffers", channel, "multipart(k.frames('stream', {}, buffers=[b''] * 1025))", "too many frames"),
        cut(
            "a multipart message of empty buffers without end",
            channel,
            "b''.join(frame(f, more=True) for f in k.frames('stream', {})) + bytes([1, 0]) * 500_000",
            "too many frames",
        ),
        Attack::new(
            format!("100,000 empty messages on {channel}"),
            format!("k.raw('{channel}', bytes(200_000))\nk.end()"),
            Expect::Unharmed("after\n".into()),
        ),
    ]
}

/// What comes in pieces, and is otherwise as it should be.
fn pieces(channel: &str) -> Vec<Attack> {
    let honest = match channel {
        "shell" => "k.frames('execute_reply', {'status': 'ok', 'execution_count': 1})",
        _ => "k.frames('stream', {'name': 'stdout', 'text': 'dripped\\n'}, topic=[b't'])",
    };
    let rest = match channel {
        "shell" => "k.stdout('after\\n')\nk.idle()",
        _ => "k.end()",
    };
    let stdout = if channel == "shell" { "after\n" } else { "dripped\nafter\n" };
    let whole = |name: &str, lines: String| Attack::new(name, lines, Expect::Unharmed(stdout.into()));
    vec![
        whole(
            &format!("a message byte by byte on {channel}"),
            format!("k.drip('{channel}', multipart({honest}))\n{rest}"),
        ),
        whole(
            &format!("long headers of short frames on {channel}"),
            format!(
                "frames = {honest}\nk.raw('{channel}', b''.join(bytes([2 | (at < len(frames) - 1)]) \
                 + len(f).to_bytes(8, 'big') + f for at, f in enumerate(frames)))\n{rest}"
            ),
        ),
        whole(
            &format!("eight identities on {channel}"),
            format!("k.raw('{channel}', multipart([b'i'] * (8 - {honest}.index(DELIMITER)) + {honest}))\n{rest}"),
        ),
    ]
}

/// Streams that end, or stall, in the middle.
fn ends() -> Vec<Attack> {
    let mut attacks = Vec::new();
    for channel in CHANNELS {
        attacks.push(Attack::new(format!("{channel} is closed"), format!("k.close('{channel}')"), Expect::Closed));
    }
    for (name, bytes) in [("a header", "b'\\2\\0'"), ("a frame", "b'\\1\\x40half'"), ("a message", "b'\\1\\1t'")] {
        let lines = format!("k.raw('iopub', {bytes})\nk.close('iopub')");
        attacks.push(Attack::new(format!("{name} is cut short on iopub"), lines, Expect::Closed));
        let lines = format!("k.raw('shell', {bytes})\nk.stdout('after\\n')\nimport time\nwhile True: time.sleep(9)");
        attacks.push(Attack::new(format!("{name} stalls on shell"), lines, Expect::TimedOut).brief());
    }
    attacks.push(Attack::new("all are closed", "for c in NUMBERS: k.close(c)", Expect::Closed));
    attacks
}
