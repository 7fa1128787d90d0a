//! `cellblock files`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Detached, Ended, Terminal, cellblock, ended, eventually, feed, image, interrupt, run};

impl Detached {
    fn files<const N: usize>(&self, args: [&str; N]) -> Ended {
        ended(&self.command(args).output().unwrap())
    }

    fn command<const N: usize>(&self, args: [&str; N]) -> std::process::Command {
        cellblock(["files"].into_iter().chain(args).chain(["--session", &self.0]))
    }

    /// What is in the work directory.
    fn names(&self) -> String {
        self.run("import os; print(*sorted(os.listdir()))").stdout.trim_end().to_owned()
    }
}

#[track_caller]
fn quiet(ended: &Ended) {
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""));
}

#[test]
fn files_go_in_and_come_out() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "files");
    let host = tempfile::tempdir().unwrap();
    let at = |name: &str| host.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(at("tree")).unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    fs::write(at("tree/data.bin"), &bytes).unwrap();

    quiet(&session.files(["put", &at("tree/data.bin"), "."]));
    quiet(&session.files(["put", &at("tree/data.bin")]));
    quiet(&session.files(["put", &at("tree"), "/mnt/data/made/"]));
    quiet(&feed(session.command(["put", "-", "stdin.bin"]), &bytes));
    assert_eq!(session.names(), "data.bin made stdin.bin");
    assert_eq!(session.run("open('data.bin', 'rb').read() == open('stdin.bin', 'rb').read()").stdout, "True\n");

    fs::create_dir(at("got")).unwrap();
    quiet(&session.files(["get", "made/tree", &at("got")]));
    assert!(fs::read(at("got/tree/data.bin")).unwrap() == bytes);
    quiet(&session.files(["get", "/workspace/stdin.bin", &at("got/named")]));
    let printed = session.command(["get", "stdin.bin", "-"]).output().unwrap();
    assert!(printed.stdout == bytes && printed.stderr.is_empty());
    let again = session.files(["get", "stdin.bin", &at("got/named")]);
    assert_eq!(again.code, 2, "{}", again.stderr);
    for part in ["exists already", "got/named", "--force"] {
        assert!(again.stderr.contains(part), "{part}: {}", again.stderr);
    }
    let onto = session.files(["put", &at("tree/data.bin"), "made"]);
    assert!(onto.code == 2 && onto.stderr.ends_with("it is a directory\nhint: name a file in it\n"), "{}", onto.stderr);
    quiet(&session.files(["get", "--force", "stdin.bin", &at("got/named")]));

    let listed = session.files(["ls", "--recursive"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let lines: Vec<_> = listed.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{}", listed.stdout);
    assert!(
        lines[3].starts_with("-rw-r--r--  293 KiB  20") && lines[3].ends_with("  made/tree/data.bin"),
        "{}",
        lines[3]
    );
    let json: Value = serde_json::from_str(&session.files(["list", "made", "--json"]).stdout).unwrap();
    assert_eq!(json["v"], 1);
    assert_eq!((&json["files"][0]["path"], &json["files"][0]["kind"]), (&"made/tree".into(), &"directory".into()));

    let refused = session.files(["rm", "made", "data.bin", "no\u{1b}[2Jne"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("it is a directory") && !refused.stderr.contains('\u{1b}'), "{}", refused.stderr);
    assert!(refused.stderr.contains("\nhint: `remove_tree`, or `rm --recursive`"), "{}", refused.stderr);
    quiet(&session.files(["rm", "-r", "made", "stdin.bin"]));
    assert_eq!(session.names(), "");
}

#[test]
fn what_cannot_be_copied_is_named() {
    let Some(image) = image() else { return };
    let unnamed = run(["files", "put", "-", "--session", "any"]);
    assert_eq!((unnamed.code, unnamed.stdout.as_str()), (2, ""), "{}", unnamed.stderr);
    let missing = run(["files", "list", "--session", "no-such-session"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (7, ""), "{}", missing.stderr);

    let session = Detached::start(image, "named");
    let host = tempfile::tempdir().unwrap();
    let to = host.path().to_str().unwrap();
    for (args, why) in [
        (["get", "nothing", to], "there is no such file"),
        (["get", "../secret", to], "`..`"),
        (["get", "/etc/passwd", to], "work directory"),
        (["get", ".", to], "say where to copy it to"),
        (["put", "/no/such/file", "x"], "cannot put /no/such/file into the session as \"x\": it cannot be read here: "),
        (["put", to, ".."], "`..`"),
    ] {
        let ended = session.files(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{args:?}: {}", ended.stderr);
    }
    assert!(host.path().read_dir().unwrap().next().is_none());
    session.run("import os; os.mkdir('tree'); os.symlink('/etc/passwd', 'tree/link'); open('tree/file', 'w').close()");
    let partly = session.files(["get", "tree", to]);
    assert_eq!((partly.code, partly.stderr.as_str()), (0, "left out: link: a symbolic link\n"));
}

#[test]
fn a_session_in_use_is_told_with_what_to_do() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "in-use");
    let mut running = cellblock(["run", "--session", &session.0, "-c", "print('begun', flush=True); input()"]);
    let mut running = running.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    running.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let held = session.files(["list"]);
    assert_eq!((held.code, held.stdout.as_str()), (7, ""));
    for part in [&format!("hold of the session {}", session.0), "hint: stop that controller", "session watch"] {
        assert!(held.stderr.contains(part), "{part}: {}", held.stderr);
    }
    // An end of the input ends the cell.
    drop(running.stdin.take());
    running.wait().unwrap();
    quiet(&session.files(["list"]));
}

#[test]
fn names_do_nothing_to_a_terminal() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "names");
    session.run(
        r"for name in ['\x1b]0;pwned\x07', 'two\nlines', '\x1b[31mred']: open(name, 'w').write('\x1b]0;pwned\x07text')",
    );
    let directory = tempfile::tempdir().unwrap();
    let Some(terminal) = Terminal::open("names", directory.path(), &session.command(["list"])) else { return };
    terminal.contains("ended with 0");
    let screen = terminal.screen();
    let names: Vec<_> = screen.lines().take(3).map(|line| line.rsplit("  ").next().unwrap()).collect();
    assert_eq!(names, [r"\u{1b}[31mred", r"\u{1b}]0;pwned\u{7}", r"two\nlines"], "{screen}");
    assert!(!terminal.title().contains("pwned"));
    drop(terminal);
    let show = session.command(["get", "two\nlines", "-"]);
    let Some(terminal) = Terminal::open("shown", directory.path(), &show) else { return };
    terminal.ends_with("text\nended with 0");
    assert!(!terminal.title().contains("pwned"));
}

#[test]
fn a_killed_upload_leaves_nothing() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "killed");
    let mut put = session.command(["put", "-", "into/this"]).stdin(Stdio::piped()).spawn().unwrap();
    // More than there is room for on the way: the beginning has arrived.
    put.stdin.as_mut().unwrap().write_all(&vec![7; 20 << 20]).unwrap();
    put.kill().unwrap();
    put.wait().unwrap();
    eventually("nothing is left of it", || session.names().is_empty());
}

#[test]
fn ctrl_c_during_a_download_leaves_nothing() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "stopped");
    session.run("open('large', 'wb').truncate(100 << 30)");
    let host = tempfile::tempdir().unwrap();
    let to = host.path().to_str().unwrap();
    let mut get = session.command(["get", "large", to, "--max-size", "1t"]).spawn().unwrap();
    eventually("the download has begun", || host.path().read_dir().unwrap().next().is_some());
    interrupt(&get);
    assert_eq!(get.wait().unwrap().code(), Some(130));
    assert!(host.path().read_dir().unwrap().next().is_none(), "something is left");
    assert_eq!(session.names(), "large");
}
