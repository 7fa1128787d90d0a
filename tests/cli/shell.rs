//! `cellblock shell`.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Detached, cellblock, ended, feed, image, interrupt, run};

fn shell<const N: usize>(image: &str, args: [&str; N]) -> Command {
    cellblock(["shell", "--image", image].into_iter().chain(args))
}

#[test]
fn streams_and_the_exit_code_are_the_scripts() {
    let Some(image) = image() else { return };
    let script = "printf '%s|' \"$@\" $PWD; echo err >&2; exit 124";
    let ended = ended(&shell(image, ["-c", script, "--cwd", "/tmp", "--", "a b", "-c"]).output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (124, "a b|-c|/tmp|", "err\n"));
}

#[test]
fn a_timeout_is_told_apart_from_the_scripts_own_codes() {
    let Some(image) = image() else { return };
    let ended = ended(&shell(image, ["-c", "echo begun; sleep 100", "--timeout", "1"]).output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str()), (3, "begun\n"), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("timed out after "), "{}", ended.stderr);
}

#[test]
fn bytes_go_through_as_they_are() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("latin.sh");
    fs::write(&file, b"printf 'caf\xe9\\0'; cat").unwrap();
    let mut command = shell(image, ["--shell", "sh", "--stdin", file.to_str().unwrap()]);
    let input: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let stdin = directory.path().join("stdin");
    fs::write(&stdin, &input).unwrap();
    let output = command.stdin(fs::File::open(stdin).unwrap()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout == [b"caf\xe9\0", &input[..]].concat());
}

#[test]
fn a_script_on_stdin_and_its_outcome_as_json() {
    let Some(image) = image() else { return };
    let ended =
        feed(shell(image, ["-", "--json", "--shell", "python3 -I"]), b"import os; print(1); os.kill(os.getpid(), 9)");
    assert_eq!((ended.code, ended.stderr.as_str()), (137, "signal 9\n"));
    let outcome: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&outcome["v"], &outcome["status"], &outcome["signal"]), (&1.into(), &"signaled".into(), &9.into()));
}

#[test]
fn a_missing_interpreter_is_named_with_what_to_do() {
    let Some(image) = image() else { return };
    let ended = ended(&shell(image, ["-c", "Get-Date", "--shell", "pwsh"]).output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    for part in ["\"pwsh\"", image, "hint: `cellblock image build --base"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[test]
fn ctrl_c_ends_the_script_and_says_so() {
    let Some(image) = image() else { return };
    let mut child =
        shell(image, ["-c", "echo begun; sleep 100"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 6]).unwrap();
    interrupt(&child);
    let ended = ended(&child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (130, "interrupted\n"));
}

#[test]
fn a_session_keeps_the_files_and_its_variables() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "shell");
    session.run("x = 41");
    let made = run(["shell", "--session", &session.0, "-c", "echo one > file; sleep 100 & exit 0"]);
    assert_eq!((made.code, made.stderr.as_str()), (0, ""));
    let seen = run(["shell", "--session", &session.0, "-c", "cat file"]);
    assert_eq!(seen.stdout, "one\n");
    assert_eq!(session.run("x + 1").stdout, "42\n");
}

#[test]
fn a_workdir_holds_what_scripts_make() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let ended = ended(&shell(image, ["--workdir", path, "-c", "echo made > file"]).output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let file = directory.path().join("file");
    assert_eq!(fs::read_to_string(&file).unwrap(), "made\n");
    assert_eq!(fs::metadata(file).unwrap().uid(), fs::metadata(directory.path()).unwrap().uid());
}
