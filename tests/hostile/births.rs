//! Kernels that are hostile before they are ready: code in the container writes the configuration that the next kernel runs.

use std::time::{Duration, Instant};

use cellblock::{Execution, LinkPolicy, Session, State, Status};
use futures_util::{StreamExt as _, stream};

use crate::attack::HIJACK;
use crate::memory;
use crate::places::{Place, say};

/// A kernel that is not ready by then is given up.
const READY: Duration = Duration::from_secs(60);
const SLACK: Duration = Duration::from_secs(25);
const MEMORY: u64 = 64 << 10;

/// What the new kernel does with its listeners. `k.welcome` is called with each connection.
const BIRTHS: [(&str, &str); 16] = [
    ("honest", "pass"),
    ("another protocol", "k.welcome = lambda s: s.send(b'HTTP/1.1 400 Bad Request\\r\\n' * 9)"),
    ("an older ZMTP", "k.welcome = lambda s: s.send(GREETING[:10] + b'\\1' + GREETING[11:])"),
    ("another mechanism", "k.welcome = lambda s: s.send(GREETING[:12] + b'CURVE'.ljust(20, b'\\0') + bytes(32))"),
    ("a mechanism that is none", "k.welcome = lambda s: s.send(GREETING[:12] + b'\\xff' * 20 + bytes(32))"),
    ("zeros", "k.welcome = lambda s: s.send(bytes(100_000))"),
    ("no READY but a message", "k.welcome = lambda s: s.send(GREETING + frame(b'x'))"),
    ("ERROR", "k.welcome = lambda s: s.send(GREETING + command(b'ERROR'))"),
    ("READY without a socket type", "k.welcome = lambda s: s.send(GREETING + command(b'READY'))"),
    ("READY of another socket type", "k.welcome = lambda s: s.send(GREETING + command(b'READY', Socket_Type=b'PAIR'))"),
    ("READY with a cut property", "k.welcome = lambda s: s.send(GREETING + frame(b'\\5READY\\xffSocket', flags=4))"),
    (
        "READY with a property of 4 GiB",
        "k.welcome = lambda s: s.send(GREETING + frame(b'\\5READY\\1a\\xff\\xff\\xff\\xff', flags=4))",
    ),
    (
        "READY with a property that is no text",
        "k.welcome = lambda s: s.send(GREETING + frame(b'\\5READY\\1\\xff\\0\\0\\0\\0', flags=4))",
    ),
    ("READY of a mebibyte", "k.welcome = lambda s: s.send(GREETING + frame(b'\\5READY' + bytes(1 << 20), flags=4))"),
    (
        "an identity of 4,000 bytes",
        "k.welcome = lambda s: s.send(GREETING + command(b'READY', Socket_Type=b'ROUTER', Identity=b'i' * 4000))",
    ),
    ("connections that are closed at once", "k.welcome = lambda s: s.sock.close()"),
];

/// These keep the host waiting for as long as a kernel may take to be ready, or nearly so.
const LATE: [(&str, &str); 5] = [
    ("connections that nobody accepts", "k.listeners.clear()"),
    ("silence", "held = []\nk.welcome = held.append"),
    (
        "a greeting byte by byte",
        "import time\nk.welcome = lambda s: [(s.send(GREETING[i:i+1]), time.sleep(2)) for i in range(63)]",
    ),
    ("a flood on IOPub before it is ready", FLOOD_IOPUB),
    ("a flood of replies before it is ready", FLOOD_CONTROL),
];

const FLOOD_IOPUB: &str = "\
def answer(channel, message):
    while any(s.channel == 'iopub' for s in k.streams):
        k.say('iopub', 'stream', {'name': 'stdout', 'text': 'x' * 200_000}, parent=k.header('execute_request'), times=100)
        if not [s for s in k.streams if s.channel == 'iopub' and s.sock.fileno() >= 0 and not gone(s)]: os._exit(4)
def gone(s):
    try: return s.sock.send(b'') < 0
    except OSError: return True
k.answer = answer";

const FLOOD_CONTROL: &str = "\
def answer(channel, message):
    for _ in range(2000):
        k.say('control', 'status_reply', {'x': 'x' * 200_000})
    os._exit(4)
k.answer = answer";

pub(crate) type Birth = (&'static str, &'static str);

pub(crate) fn all() -> Vec<Birth> {
    [&BIRTHS[..], &LATE].concat()
}

/// Those that are over soon.
pub(crate) fn light() -> Vec<Birth> {
    BIRTHS.to_vec()
}

/// Plays so many at once, each in a session of its own; a session beside them goes on.
pub(crate) async fn play_all(place: &Place, births: Vec<Birth>, at_once: usize) {
    let bystander = place.builder(LinkPolicy::Auto).start().await.unwrap();
    let count = births.len();
    memory::forget_peak();
    let before = memory::resident();
    let played = stream::iter(births).enumerate().map(|(number, (name, lines))| {
        let link = if number % 2 == 0 { LinkPolicy::Auto } else { LinkPolicy::Relay };
        play(place, link, name, lines)
    });
    let mut played = std::pin::pin!(played.buffer_unordered(at_once).collect::<Vec<_>>());
    let mut beat = tokio::time::interval(Duration::from_millis(500));
    let played = loop {
        tokio::select! {
            played = &mut played => break played,
            _ = beat.tick() => {
                let begun = Instant::now();
                assert_eq!(bystander.run("40 + 2").await.unwrap().text(), Some("42"));
                assert!(begun.elapsed() < SLACK, "the bystander waited {:?}", begun.elapsed());
            }
        }
    };
    let peak = memory::peak() - before;
    say(&format!("{count} births; memory grew by {peak} KiB at its peak"));
    let failures: Vec<_> = played.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(peak < MEMORY, "the births cost {peak} KiB");
}

async fn play(place: &Place, link: LinkPolicy, name: &str, lines: &str) -> Result<(), String> {
    let session = place.start(place.builder(link)).await.map_err(|error| format!("{name}: {error}"))?;
    let source = serde_json::Value::from(HIJACK);
    let code = format!("{HIJACK}\nmarker = 1\nrebirth({source}, {})", serde_json::Value::from(lines));
    let begun = Instant::now();
    let execution = tokio::time::timeout(READY + SLACK, session.run(code)).await;
    let execution = execution.map_err(|_| format!("{name}: no answer within {:?}", begun.elapsed()))?;
    let execution = execution.map_err(|error| format!("{name}: {error}"))?;
    judge(&session, &execution)
        .await
        .map_err(|wrong| format!("{name}: {wrong} ({:?}, {:?})", execution.status, execution.state))
}

async fn judge(session: &Session, execution: &Execution) -> Result<(), String> {
    let after = tokio::time::timeout(SLACK, session.run("('marker' in globals(), 40 + 2)").timeout(SLACK / 2)).await;
    let after = after.map_err(|_| "the cell after was not answered")?;
    match (&execution.status, execution.state) {
        (Status::KernelDied(death), State::KernelRestarted) if death.code == Some(3) => {
            let after = after.map_err(|error| format!("then {error}"))?;
            let right = after.is_ok() && after.text() == Some("(False, 42)") && after.state == State::Kept;
            if right { Ok(()) } else { Err(format!("then {after:?}")) }
        }
        (Status::ContainerGone(why), State::ContainerGone) if why.contains("could not be restarted") => {
            if after.is_err_and(|error| error.is_session_gone()) { Ok(()) } else { Err("it is not gone".to_owned()) }
        }
        _ => Err("neither a new kernel nor an end that is explained".to_owned()),
    }
}
