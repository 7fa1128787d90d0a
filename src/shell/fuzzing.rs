//! What must hold of a script's attendance, whatever speaks in the place of `bridge script`.

#![expect(clippy::missing_panics_doc, clippy::unwrap_used, reason = "a property that does not hold ends the fuzzer")]

use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Attendance, Attended, End, Program, Request, ScriptStatus, Shell, attend};
use crate::execution::{Limits, Text};
use crate::{Exec, ExecEnd};

/// Limits that short inputs reach.
const SMALL: Limits = Limits { text: 64, outputs: 6, output_bytes: 1 << 16, spill_file: 0 };
/// On a clock that is put forward when nothing else happens: no answer may take longer, and none has to be waited for.
const PATIENCE: Duration = Duration::from_secs(90);

/// The bytes of a script's stdout. The first one says who listens, whether the stream ends, and in which pieces they come.
pub fn script(data: &[u8]) {
    let Some((how, said)) = data.split_first() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let whole = runtime.block_on(heard(*how, said, said.len()));
    let pieces = runtime.block_on(heard(*how, said, usize::from(how >> 3)));
    assert_eq!(told(&whole), told(&pieces), "pieces make a difference");
    for text in [&whole.stdout, &whole.stderr] {
        assert!(text.text.len() <= SMALL.text + 200, "{} bytes of text", text.text.len());
        assert!(text.total_bytes <= 3 * said.len() as u64 && text.truncated == (text.total_bytes > SMALL.text as u64));
    }
    match &whole.end {
        End::Told { status: ScriptStatus::Exited(code), .. } => assert!((0..=255).contains(code)),
        End::Told { status: ScriptStatus::Signaled(signal), .. } => assert!((1..=64).contains(signal)),
        End::Told { .. } => {}
        End::Refused(refusal) => assert!(refusal.code.len() <= 160 && refusal.detail.len() <= 800),
        End::Untold { why, .. } => assert!(why.len() <= 1200 && !why.contains(char::is_control), "{why:?}"),
    }
}

/// What does not depend on how much was there at a time, as the first words of an engine that could not start a program do.
fn told(attended: &Attended) -> (String, [&Text; 2], bool) {
    let end = match &attended.end {
        End::Untold { overdue, .. } => format!("untold, overdue: {overdue}"),
        end => format!("{end:?}"),
    };
    (end, [&attended.stdout, &attended.stderr], attended.out_of_memory)
}

async fn heard(how: u8, said: &[u8], piece: usize) -> Attended {
    let program = Program::Text { shell: Shell::Sh, text: Bytes::from_static(b"true") };
    let mut request = Request::new(program, Duration::from_secs(10), Duration::from_secs(2));
    request.stdin = Some(Bytes::from(vec![b'x'; 3 << 20]));
    let (stdin, mut theirs_in) = duplex(1 << 16);
    let (stdout, mut theirs_out) = duplex(1 << 16);
    let (stays_open, chunks) = (how & 1 == 1, said.chunks(piece.max(1)).map(<[u8]>::to_vec).collect::<Vec<_>>());
    let reading = tokio::spawn(async move { theirs_in.read_to_end(&mut Vec::new()).await });
    let saying = tokio::spawn(async move {
        for chunk in chunks {
            if theirs_out.write_all(&chunk).await.is_err() {
                return;
            }
        }
        if stays_open {
            pending::<()>().await;
        }
    });
    let exec = Exec::new(stdin, stdout, async { Ok(ExecEnd::new(Some(0), Vec::new())) });
    let (events, mut heard) = mpsc::channel(1);
    let slow = how & 4 == 4;
    let listening = tokio::spawn(async move {
        if slow {
            pending::<()>().await;
        }
        while heard.recv().await.is_some() {}
    });
    let events = (how & 2 == 2).then_some(events);
    let begun = Instant::now();
    let attended = attend(Attendance { exec, limits: SMALL, spills: None, events }, &request, pending()).await;
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    for task in [reading.abort_handle(), saying.abort_handle(), listening.abort_handle()] {
        task.abort();
    }
    attended
}
