//! Ctrl-C, as the signal that a terminal sends.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Detached, cellblock, cells, ended, eventually, image, interrupt, run};

const STUBBORN: &str = "
import time
print('began', flush=True)
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print('no', flush=True)
";

/// Starts a command and waits until its cell has printed a line.
fn begin(mut command: Command) -> (Child, impl Iterator<Item = String>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "began");
    (child, lines)
}

#[test]
fn once_interrupts_the_cell_and_keeps_the_variables() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "once");
    assert_eq!(session.run("x = 41").code, 0);
    let code = "import time; print('began', flush=True); time.sleep(60)";
    let (mut child, lines) =
        begin(cellblock(["run", "--session", &session.0, "-c", code, "-c", "print('not reached')"]));
    interrupt(&child);
    assert_eq!(lines.count(), 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(session.run("x + 1").stdout, "42\n");
}

#[test]
fn twice_leaves_at_once() {
    let Some(image) = image() else { return };
    let (mut child, mut lines) = begin(cells(image, ["-c", STUBBORN]));
    interrupt(&child);
    assert_eq!(lines.next().unwrap(), "no");
    let second = Instant::now();
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // Far less than the time that the code has, which ends it too.
    assert!(second.elapsed() < Duration::from_secs(20), "{:?}", second.elapsed());
}

#[test]
fn twice_leaves_also_while_nobody_reads_stdout() {
    let Some(image) = image() else { return };
    let (stdout, theirs) = std::io::pipe().unwrap();
    let mut child = cells(image, ["-c", "while True: print('y' * 1000)"]).stdout(theirs).spawn().unwrap();
    // Its last page may take no whole line any more.
    eventually("the pipe is full", || rustix::io::ioctl_fionread(&stdout).unwrap() > 15 * 4096);
    interrupt(&child);
    // Presses that come too soon one after the other are one.
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn as_a_session_starts_leaves_none() {
    let Some(image) = image() else { return };
    let name = format!("test-cli-given-up-{}", std::process::id());
    let mut command = cellblock(["session", "start", &name, "--image", image]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let session = Detached(name);
    eventually("it is being made", || run(["session", "list"]).stdout.contains(&session.0));
    interrupt(&child);
    let left = ended(&child.wait_with_output().unwrap());
    // It may have been ready just before.
    let made = left.stdout.contains(&session.0);
    assert_eq!(left.code, if made { 0 } else { 130 }, "{}", left.stderr);
    assert_eq!(run(["session", "list"]).stdout.contains(&session.0), made);
}
