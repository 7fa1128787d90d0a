//! Output without end: what is kept, what is counted, where the rest is.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use cellblock::{Event, Rung, State, Status, Text};
use futures_util::StreamExt as _;

use crate::lab::{Ask as _, Lab, SOON, tests};

tests! {
    python_links: [
        a_print_of_20_mb_is_kept_at_both_ends_and_whole_on_disk,
    ]
    python: [
        stderr_is_bounded_by_itself,
        the_limit_can_be_set,
        text_of_exactly_the_limit_is_whole,
        characters_are_never_cut,
        a_flood_is_stopped_by_the_timeout,
        a_slow_consumer_is_told_what_it_missed,
        spill_files_go_with_the_session,
        a_flood_costs_the_host_little_memory,
    ]
}

const NUMBERS: &str = "''.join('%07d\\n' % i for i in range(2_500_000))";
const MEGABYTE: usize = 1 << 20;

fn is_bounded_and_spilled(text: &Text, expected: &str) {
    assert_eq!((text.total_bytes, text.truncated), (expected.len() as u64, true));
    assert!(text.text.len() <= MEGABYTE + 200, "{} bytes are kept", text.text.len());
    let (head, tail) = (&text.text[..400_000], &text.text[text.text.len() - 400_000..]);
    assert!(expected.starts_with(head) && expected.ends_with(tail));
    let path = text.spill.as_ref().expect("a spill file");
    assert_eq!(text.spill_bytes, Some(text.total_bytes));
    assert!(std::fs::read_to_string(path).expect("readable") == expected, "the file is the whole text");
    let metadata = std::fs::metadata(path).expect("a file");
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    let directory = std::fs::metadata(path.parent().expect("a directory")).expect("a directory");
    assert_eq!(directory.permissions().mode() & 0o077, 0, "nobody else looks in");
}

async fn a_print_of_20_mb_is_kept_at_both_ends_and_whole_on_disk(lab: &Lab) {
    let session = lab.session().await;
    let expected: String = (0..2_500_000).map(|i| format!("{i:07}\n")).collect();
    let execution = session.good(format!("print({NUMBERS}, end='')")).await;
    is_bounded_and_spilled(&execution.stdout, &expected);
    assert_eq!((execution.stderr.total_bytes, execution.outputs_left_out), (0, 0));
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn stderr_is_bounded_by_itself(lab: &Lab) {
    let session = lab.session().await;
    let expected: String = (0..500_000).map(|i| format!("{i:07}\n")).collect();
    let code = "import sys\nprint('quiet')\nsys.stderr.write(''.join('%07d\\n' % i for i in range(500_000)))\nNone";
    let execution = session.good(code).await;
    is_bounded_and_spilled(&execution.stderr, &expected);
    assert_eq!((execution.stdout.text.as_str(), execution.stdout.truncated), ("quiet\n", false));
}

async fn the_limit_can_be_set(lab: &Lab) {
    let session = lab.builder().output_limit(1000).start().await.expect("a session");
    let text = session.good("print('a' * 5000 + 'b' * 5000)").await.stdout;
    assert_eq!((text.total_bytes, text.truncated), (10_001, true));
    assert!(text.text.len() <= 1200, "{}", text.text.len());
    assert!(text.text.starts_with("aaaa") && text.text.ends_with("bbb\n"), "{}", text.text);
    let note = text.text.lines().find(|line| line.contains("left out")).expect("a line says what is missing");
    let missing: u64 = note.chars().filter(char::is_ascii_digit).collect::<String>().parse().expect("a number");
    assert_eq!(text.text.len() as u64 + missing, 10_001 + note.len() as u64 + 2, "{note}");
    assert_eq!(std::fs::metadata(text.spill.expect("a spill file")).expect("it is there").len(), 10_001);
}

async fn text_of_exactly_the_limit_is_whole(lab: &Lab) {
    let session = lab.builder().output_limit(1000).start().await.expect("a session");
    for (length, truncated) in [(999, false), (1000, false), (1001, true)] {
        let text = session.good(format!("print('x' * {length}, end='')")).await.stdout;
        assert_eq!((text.total_bytes, text.truncated), (length, truncated));
        assert_eq!(text.spill.is_some(), truncated, "{text:?}");
    }
}

async fn characters_are_never_cut(lab: &Lab) {
    let session = lab.builder().output_limit(1000).start().await.expect("a session");
    for shift in 0..4 {
        let text = session.good(format!("print('x' * {shift} + '\\U0001f600' * 1000, end='')")).await.stdout;
        assert_eq!((text.total_bytes, text.truncated), (4000 + shift, true));
        assert!(!text.text.contains('\u{fffd}') && text.text.ends_with('\u{1f600}'), "{:?}", text.text);
    }
}

async fn a_flood_is_stopped_by_the_timeout(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    let begun = Instant::now();
    let execution = session.run("while True: print('x' * 1000)").timeout(Duration::from_secs(2)).await.expect("a call");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!((&execution.status, execution.rung), (&Status::TimedOut, Some(Rung::Interrupt)));
    assert_eq!(execution.state, State::Kept);
    let text = &execution.stdout;
    assert!(text.truncated && text.text.len() <= MEGABYTE + 200 && text.total_bytes > 2 * MEGABYTE as u64);
    assert!(text.spill_bytes.is_some_and(|bytes| bytes <= 256 << 20));
    assert_eq!(session.value("x").await, "1");
}

async fn a_slow_consumer_is_told_what_it_missed(lab: &Lab) {
    let session = lab.session().await;
    let mut stream = session.run_stream("for i in range(40): print(str(i % 10) * 1_000_000, flush=True)");
    // Begun, and then not read until another cell has run, which means that this one has ended.
    let first = stream.next().await.expect("an event").expect("the call goes well");
    assert!(matches!(first, Event::Started { .. }), "{first:?}");
    assert_eq!(session.value("1 + 1").await, "2");
    let (mut lagged, mut text, mut done) = (0, 0, None);
    while let Some(event) = stream.next().await {
        match event.expect("the call goes well") {
            Event::Lagged { events } => lagged += events,
            Event::Stdout(part) => text += part.len(),
            Event::Done(execution) => done = Some(*execution),
            other => panic!("{other:?}"),
        }
    }
    let execution = done.expect("Done is the last event");
    assert!(lagged > 0 && text < 16 * MEGABYTE, "{lagged} events left out, {text} bytes");
    assert!(execution.is_ok());
    assert_eq!(execution.stdout.total_bytes, 40 * 1_000_001);
    assert_eq!(execution.stdout.spill_bytes, Some(40 * 1_000_001));
}

async fn spill_files_go_with_the_session(lab: &Lab) {
    let session = lab.builder().output_limit(100).start().await.expect("a session");
    let first = session.good("print('x' * 1000)").await.stdout.spill.expect("a spill file");
    let second = session.good("print('y' * 1000)").await.stdout.spill.expect("a spill file");
    assert!(first != second && first.exists() && second.exists(), "they live as long as the session");
    session.stop().await.expect("it stops");
    assert!(!first.exists() && !second.exists());
    assert!(!first.parent().expect("a directory").exists(), "the session's directory goes too");
}

async fn a_flood_costs_the_host_little_memory(lab: &Lab) {
    let session = lab.session().await;
    session.good("print('warm')").await;
    let before = resident_peak();
    let execution = session.good("for i in range(100): print('x' * 1_000_000)").await;
    assert_eq!(execution.stdout.total_bytes, 100 * 1_000_001);
    let endless = session.run("while True: print('x' * 1000)").timeout(Duration::from_secs(3));
    assert_eq!(endless.await.expect("a call").status, Status::TimedOut);
    let grown = resident_peak() - before;
    assert!(grown < 64 << 10, "floods of output cost {grown} KiB");
}

/// The most memory that this process has had, in KiB.
fn resident_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
