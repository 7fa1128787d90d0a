//! What is wrong before anything runs, and what the command says then.

use std::fs;
use std::process::Command;

use crate::support::{cellblock, ended, run};

/// Runs the command where no engine is, so that whoever connects before checking is found out by the exit code.
fn without_engine<const N: usize>(args: [&str; N]) -> (i32, String) {
    let ended = ended(&cellblock(args).env("DOCKER_HOST", "unix:///nonexistent/engine.sock").output().unwrap());
    assert_eq!(ended.stdout, "", "{args:?}");
    (ended.code, ended.stderr)
}

#[track_caller]
fn is_usage_error<const N: usize>(args: [&str; N], says: &str) {
    let (code, stderr) = without_engine(args);
    assert_eq!(code, 2, "{args:?}: {stderr}");
    assert!(stderr.contains(says), "{args:?}: {stderr}");
}

#[test]
fn flags_that_make_no_sense() {
    is_usage_error([], "Usage");
    is_usage_error(["run"], "required");
    is_usage_error(["run", "-c", "1", "--timeout", "1x"], "1m30s");
    is_usage_error(["run", "-c", "1", "--timeout", "0"], "--timeout");
    is_usage_error(["run", "-c", "1", "--memory", "lots"], "512m");
    is_usage_error(["run", "-c", "1", "--cpus", "none"], "cores");
    is_usage_error(["run", "-c", "1", "--pids", "0"], "--pids");
    is_usage_error(["run", "-c", "1", "--network", ""], "network");
    is_usage_error(["run", "-c", "1", "--env", "CELLBLOCK_TEST_UNSET"], "CELLBLOCK_TEST_UNSET");
    is_usage_error(["run", "-c", "1", "--env", "=1"], "NAME=VALUE");
    is_usage_error(["run", "-c", "1", "--workspace", "disk", "--workspace-size", "1m"], "--workspace-size");
    is_usage_error(["run", "-c", "1", "--session", "a", "--memory", "1g"], "`--memory` shapes a new container");
    is_usage_error(["run", "-c", "1", "--workdir", "/nonexistent"], "/nonexistent");
    is_usage_error(["run", "-c", "1", "--workdir", "/tmp", "--workspace", "disk"], "--workdir");
    is_usage_error(["run", "-c", "1", "--bind-dir", "/tmp"], "--workdir");
    is_usage_error(["run", "-c", "1", "--workdir", "/tmp", "--bind-dir", "here"], "absolute path, not `here`");
    is_usage_error(["blocks", "-", "--with", "awk= "], "js=node");
    is_usage_error(["run", "-", "-"], "twice");
    is_usage_error(["shell"], "required");
    is_usage_error(["shell", "-c", "1", "file"], "cannot be used with");
    is_usage_error(["shell", "-", "--stdin"], "once");
    is_usage_error(["shell", "/nonexistent.sh"], "/nonexistent.sh`: No such file");
    is_usage_error(["shell", "/"], "directory");
    is_usage_error(["shell", "-c", "1", "--timeout", "0"], "--timeout");
    is_usage_error(["session", "stop"], "required");
    is_usage_error(["session", "stop", "--all", "a"], "--all");
    is_usage_error(["session", "start"], "required");
    is_usage_error(["image", "build", "--target", "all"], "base");
    is_usage_error(["nonsense"], "nonsense");
}

#[test]
fn files_that_cannot_be_run() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.py");
    is_usage_error(["run", missing.to_str().unwrap()], "missing.py`: No such file");
    is_usage_error(["run", directory.path().to_str().unwrap()], "directory");
    let latin = directory.path().join("latin.py");
    fs::write(&latin, b"x = '\xe9'").unwrap();
    is_usage_error(["run", latin.to_str().unwrap()], "not UTF-8");
}

#[test]
fn a_repl_needs_a_terminal() {
    is_usage_error(["repl"], "`cellblock run -`");
}

#[test]
fn no_engine_is_one_clear_message() {
    for args in
        [["run", "-c", "1"].as_slice(), &["session", "list"], &["session", "stop", "--all"], &["image", "build"]]
    {
        let mut command = cellblock(args);
        let ended = ended(&command.env("DOCKER_HOST", "unix:///nonexistent/engine.sock").output().unwrap());
        assert_eq!((ended.code, ended.stdout.as_str()), (6, ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
        assert!(ended.stderr.contains("/nonexistent/engine.sock"), "{}", ended.stderr);
        assert!(ended.stderr.contains("\nhint: "), "{}", ended.stderr);
        assert!(!ended.stderr.contains('\x1b'), "{}", ended.stderr);
    }
}

#[test]
fn messages_are_coloured_only_if_asked_for() {
    let mut command = cellblock(["--color", "always", "run", "-c", "1"]);
    let ended = ended(&command.env("DOCKER_HOST", "unix:///nonexistent/engine.sock").output().unwrap());
    assert!(ended.stderr.starts_with("\x1b[1;31merror\x1b[0m: "), "{}", ended.stderr);
}

#[test]
fn a_shell_completes_what_the_command_takes() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(["completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (0, ""), "{shell}");
        assert!(script.stdout.contains("idle-timeout"), "{shell}");
    }
    is_usage_error(["completions", "tcsh"], "zsh");
    let complete = "eval \"$0\"; COMP_WORDS=(cellblock session st); COMP_CWORD=2; _cellblock cellblock st session; echo ${COMPREPLY[@]}";
    let bash = Command::new("bash").args(["-c", complete, &run(["completions", "bash"]).stdout]).output().unwrap();
    assert_eq!(ended(&bash).stdout, "start stop\n");
}

#[test]
fn help_tells_of_every_command_and_exit_code() {
    let help = run(["--help"]);
    assert_eq!(help.code, 0);
    for part in ["run", "session", "repl", "image", "Exit codes", "130  interrupted"] {
        assert!(help.stdout.contains(part), "{part}");
    }
    for command in [["run"].as_slice(), &["session", "start"], &["session", "list"], &["repl"], &["image", "build"]] {
        let help = ended(&cellblock(command.iter().chain(&["--help"])).output().unwrap());
        assert_eq!(help.code, 0, "{command:?}");
    }
    assert!(!run(["repl", "--help"]).stdout.contains("--json"), "it has no such option");
    assert_eq!(run(["--version"]).stdout, format!("cellblock {}\n", env!("CARGO_PKG_VERSION")));
}
