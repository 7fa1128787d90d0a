//! A detached session whose kernel turned hostile while nobody held it.

use std::time::{Duration, Instant};

use cellblock::{Event, Execution, LinkPolicy, OnDrop, Session, State};
use futures_util::{StreamExt as _, stream};

use crate::attack::HIJACK;
use crate::memory;
use crate::places::{Place, say};

/// As long as a kernel gets to be ready, and more.
const BOUND: Duration = Duration::from_secs(90);
const MEMORY: u64 = 64 << 10;

/// What the kernel makes of the next controller's connections, and whether that one still has the variables.
const HANDOVERS: [Handover; 7] = [
    ("honest", "k.listen()\nk.end()", Some(true)),
    ("another protocol", "k.listen()\nk.welcome = lambda s: s.send(b'SSH-2.0-x\\r\\n' * 9)\nk.end()", Some(false)),
    ("closed at once", "k.listen()\nk.welcome = lambda s: s.sock.close()\nk.end()", Some(false)),
    ("a forged end", "k.listen()\nk.end_of_host()\nk.reply('error')\nk.idle()", None),
    (
        "a recording of noise",
        "k.listen()\nk.end_of_host()\nk.recorder()._memory[4096:] = os.urandom((8 << 20) - 4096)",
        None,
    ),
    (
        "a recording without end",
        "k.listen()\nk.end_of_host()\nfor at in range(24): k.recorder()._words[at] = (1 << 64) - 1",
        None,
    ),
    // Faster than its recording can be read.
    ("a cell that goes on printing", "", Some(true)),
];

/// These keep the next controller waiting for as long as a kernel may take to be ready, or nearly so.
const LATE: [Handover; 4] = [
    ("silence", "k.listen()\nheld = []\nk.welcome = held.append\nk.end()", Some(false)),
    ("another key", "k.listen()\nk.end()\nk.key = b'other'", Some(false)),
    ("dead listeners", "k.listen()\nk.listeners.clear()\nk.end()", Some(false)),
    ("a flood on IOPub before it is ready", FLOOD, Some(true)),
];

const PRINTING: &str = "\
import time
print('begun', flush=True)
end = time.monotonic() + 8
while time.monotonic() < end: print('x' * 200_000)";

const FLOOD: &str = "\
k.listen()
k.end()
def answer(channel, message):
    k.answer = plain
    for _ in range(20): k.say('iopub', 'stream', {'name': 'stdout', 'text': 'x' * 100_000}, times=100)
    k.answer(channel, message)
plain, k.answer = k.answer, answer";

pub(crate) type Handover = (&'static str, &'static str, Option<bool>);

pub(crate) fn all() -> Vec<Handover> {
    [&HANDOVERS[..], &LATE].concat()
}

/// Those that are over soon.
pub(crate) fn light() -> Vec<Handover> {
    HANDOVERS.to_vec()
}

/// Plays so many at once, each in a session of its own.
pub(crate) async fn play_all(place: &Place, handovers: Vec<Handover>, at_once: usize) {
    let count = handovers.len();
    memory::forget_peak();
    let before = memory::resident();
    let played = stream::iter(handovers).enumerate().map(|(number, (name, lines, kept))| async move {
        let played = tokio::time::timeout(BOUND + BOUND, play(place, number, lines, kept)).await;
        played.unwrap_or_else(|_| Err("no end".to_owned())).err().map(|wrong| format!("{name}: {wrong}"))
    });
    let played: Vec<_> = played.buffer_unordered(at_once).collect().await;
    let peak = memory::peak() - before;
    say(&format!("{count} handovers; memory grew by {peak} KiB at its peak"));
    let failures: Vec<_> = played.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(peak < MEMORY, "the handovers cost {peak} KiB");
}

async fn play(place: &Place, number: usize, lines: &str, kept: Option<bool>) -> Result<(), String> {
    let told =
        |error: cellblock::Error| format!("{error} {:?}", std::error::Error::source(&error).map(ToString::to_string));
    let id = format!("hostile-{number}-{}", std::process::id());
    let builder = place.builder(LinkPolicy::Auto).name(&id).detached(true).idle_timeout(BOUND + BOUND);
    let session = place.start(builder).await.map_err(told)?;
    session.run("marker = 1").await.map_err(told)?;
    let code = match lines {
        "" => PRINTING.to_owned(),
        lines => format!("{HIJACK}\nhijack().play({})", serde_json::Value::from(lines)),
    };
    if lines.is_empty() || lines.contains("end_of_host") {
        // The cell goes on when its controller leaves: what it has said shows that it has begun.
        let timeout = Duration::from_secs(if lines.is_empty() { 60 } else { 20 });
        begin(&session, code, timeout).await?;
    } else {
        let execution = session.run(code).await.map_err(told)?;
        if !execution.is_ok() {
            return Err(format!("the cell before: {}", execution.status));
        }
    }
    session.detach().await.map_err(told)?;
    let begun = Instant::now();
    let attached = Session::attach(&id).engine(place.engine()).await.map_err(told)?;
    if begun.elapsed() > BOUND {
        return Err(format!("attaching took {:?}", begun.elapsed()));
    }
    let left = attached.recovered().await.map_err(told)?;
    if let Some(left) = &left {
        bounded(left)?;
    }
    // Where its time was up before anybody was there again, its own result has said what that cost.
    let cost = left.is_some_and(|left| left.state == State::KernelRestarted);
    let after = attached.run("('marker' in globals(), 40 + 2)").await.map_err(told)?;
    let is_kept = after.state == State::Kept && !cost;
    let said = if is_kept { "(True, 42)" } else { "(False, 42)" };
    attached.stop().await.map_err(told)?;
    let right = after.text() == Some(said) && kept.is_none_or(|kept| kept == is_kept);
    if right { Ok(()) } else { Err(format!("{after:?}")) }
}

/// Starts a cell that is left running.
async fn begin(session: &Session, code: String, timeout: Duration) -> Result<(), String> {
    let mut stream = session.run_stream(code).on_drop(OnDrop::LeaveRunning).timeout(timeout);
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Stdout(text)) if text.contains("begun") => return Ok(()),
            Ok(Event::Done(execution)) => return Err(format!("it ended: {}", execution.status)),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("no event".to_owned())
}

fn bounded(left: &Execution) -> Result<(), String> {
    let kept = left.stdout.text.len();
    if kept < 2 << 20 { Ok(()) } else { Err(format!("{kept} bytes of the cell that was left")) }
}
