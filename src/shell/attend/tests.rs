//! What a forged `bridge script` can say, and what becomes of it here.

use std::future::pending;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::*;
use crate::shell::{Program, Shell};

fn request(stdin: Option<&'static [u8]>) -> Request {
    let program = Program::Text { shell: Shell::Sh, text: Bytes::from_static(b"true") };
    let mut request = Request::new(program, Duration::from_secs(1), Duration::from_secs(1));
    request.stdin = stdin.map(Bytes::from_static);
    request
}

fn frame(stream: u8, kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[stream, kind][..], &length, payload].concat()
}

/// What comes of a script of which just this is heard.
async fn heard(said: Vec<u8>) -> Attended {
    let (stdin, mut theirs_in) = duplex(1 << 16);
    let (stdout, mut theirs_out) = duplex(1 << 16);
    let exec = Exec::new(stdin, stdout, async { Ok(ExecEnd::new(Some(0), b"last words".to_vec())) });
    tokio::spawn(async move { theirs_in.read_to_end(&mut Vec::new()).await });
    tokio::spawn(async move { theirs_out.write_all(&said).await });
    let attendance = Attendance { exec, limits: Limits::default(), spills: None, events: None };
    attend(attendance, &request(Some(b"input")), pending()).await
}

fn untold(attended: &Attended) -> &str {
    match &attended.end {
        End::Untold { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_honest_end() {
    let started = frame(0, 0, b"type\0started\0");
    let end = frame(0, 0, b"type\0end\0exit\x007\0reason\0\0clean\x001\0oom\x000\0us\x0042\0");
    let attended = heard([started, frame(1, 0, b"out"), frame(2, 0, b"err"), end].concat()).await;
    match attended.end {
        End::Told { status: ScriptStatus::Exited(7), running, clean: true } => {
            assert_eq!(running, Duration::from_micros(42));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((attended.stdout.text.as_str(), attended.stderr.text.as_str()), ("out", "err"));
    assert!(attended.started.is_some() && !attended.out_of_memory);
}

#[tokio::test]
async fn nothing_at_all_is_no_end() {
    let attended = heard(Vec::new()).await;
    assert!(attended.started.is_none());
    match attended.end {
        End::Untold { interrupted: false, exec: Some(end), .. } => assert_eq!(end.stderr, b"last words"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_no_frame_is_refused_before_anything_is_reserved_for_it() {
    for broken in [
        frame(1, 9, b""),
        [&[1, 0][..], &u32::MAX.to_be_bytes()].concat(),
        frame(1, 0, &vec![b'x'; CHUNK + 1]),
        frame(9, 0, b"x"),
        frame(1, 1, b""),
        frame(0, 3, &[0; 4]),
        frame(3, 3, &[0; 3]),
        frame(3, 3, &u32::MAX.to_be_bytes()),
    ] {
        let attended = heard([frame(1, 0, b"before"), broken].concat()).await;
        assert!(!untold(&attended).is_empty());
        assert_eq!(attended.stdout.text, "before");
    }
}

#[tokio::test]
async fn words_that_make_no_sense_are_no_end() {
    for payload in [
        &b""[..],
        b"\xff\xfe",
        b"type",
        b"type\0",
        b"type\0end\0",
        b"type\0end\0exit\x00256\0us\x001\0",
        b"type\0end\0exit\0-1\0us\x001\0",
        b"type\0end\0signal\x0065\0us\x001\0",
        b"type\0end\0exit\x000\0signal\x009\0us\x001\0",
        b"type\0end\0exit\x000\0us\0-5\0",
        b"type\0end\0exit\x000\0",
    ] {
        let attended = heard(frame(0, 0, payload)).await;
        assert!(untold(&attended).contains("no sense"), "{payload:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_cut_to_a_size() {
    let payload =
        [&b"type\0refused\0code\0line-ending\0errno\x00x\0detail\0"[..], &vec![b'y'; 100_000], b"\0"].concat();
    match heard(frame(0, 0, &payload)).await.end {
        End::Refused(Refusal { code, errno: 0, detail }) => {
            assert_eq!((code.as_str(), detail.len()), ("line-ending", 200));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn endless_words_without_an_end_are_not_kept() {
    let empty = frame(1, 0, b"").repeat(1000);
    let started = frame(0, 0, b"type\0started\0").repeat(1000);
    let attended = heard([empty, started].concat()).await;
    assert!(attended.stdout.text.is_empty() && attended.started.is_some());
}

#[tokio::test]
async fn who_says_started_again_and_again_gets_no_more_time() {
    let (stdin, mut theirs_in) = duplex(1 << 16);
    let (stdout, mut theirs_out) = duplex(1 << 16);
    let exec = Exec::new(stdin, stdout, pending());
    tokio::spawn(async move { theirs_in.read_to_end(&mut Vec::new()).await });
    tokio::spawn(async move {
        while theirs_out.write_all(&frame(0, 0, b"type\0started\0")).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let attendance = Attendance { exec, limits: Limits::default(), spills: None, events: None };
    let begun = Instant::now();
    let mut request = request(None);
    (request.timeout, request.grace) = (Duration::from_millis(1), Duration::from_millis(1));
    let attended = attend(attendance, &request, pending()).await;
    assert!(matches!(attended.end, End::Untold { overdue: true, .. }));
    assert!(begun.elapsed() < 2 * SLACK);
}
