//! Scripts: what runs them, what they are given, and what comes back.

use std::time::Duration;

use cellblock::{Error, Interpreter, Ran, ScriptEvent, ScriptOutcome, ScriptStatus, Session, Shell};
use futures_util::StreamExt as _;

use crate::lab::{Ask as _, Lab, tests};

tests! {
    python: [
        streams_are_apart_and_the_exit_code_is_the_scripts,
        a_signal_is_told,
        arguments_environment_directory_and_input_arrive_as_they_are,
        input_is_empty_unless_given,
        an_input_of_nothing_ends_at_once,
        a_long_input_passes_a_script_that_reads_slowly,
        a_script_and_a_cell_run_at_the_same_time,
        what_a_script_prints_is_seen_while_it_runs,
        a_flood_of_output_is_bounded,
        a_slow_reader_loses_nothing,
        a_script_in_latin_1_goes_through_as_it_is,
        a_script_of_5_mib,
        an_empty_script_does_nothing_well,
        other_interpreters_can_be_named,
        programs_run_without_a_shell,
        files_run_by_themselves_or_by_an_interpreter,
        files_that_cannot_run_say_why,
        a_windows_line_ending_in_the_first_line_is_named,
        a_missing_interpreter_is_named_and_nothing_ran,
        powershell_runs_where_it_is,
        a_missing_directory_is_named,
        what_no_program_can_be_given_is_refused,
        a_timeout_of_0_is_refused,
        the_scripts_file_is_gone_afterwards,
        a_script_has_the_usual_signals_and_is_the_first_to_go,
    ]
}

pub(crate) async fn ran(session: &Session, script: &str) -> ScriptOutcome {
    session.run_shell(script, Shell::Bash).await.expect("the call goes well")
}

/// Runs a script that must end well, for its output.
pub(crate) async fn said(session: &Session, script: &str) -> String {
    let outcome = ran(session, script).await;
    assert!(outcome.is_ok(), "{}\n{}", outcome.status, outcome.stderr);
    outcome.stdout.text
}

/// The whole of an error, as a person reads it.
fn whole(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    format!("{text}\n{}", error.hint().unwrap_or_default())
}

/// An error of a script that never ran, which names all of this.
fn refused(result: Result<ScriptOutcome, Error>, names: &[&str]) {
    let error = result.expect_err("it is refused");
    let text = whole(&error);
    assert_eq!(error.ran(), Ran::Never, "{text}");
    for name in names {
        assert!(text.contains(name), "{name:?} is not in {text:?}");
    }
}

async fn streams_are_apart_and_the_exit_code_is_the_scripts(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 41").await;
    let outcome = ran(&session, "echo out; echo err >&2; exit 3").await;
    assert_eq!(outcome.status, ScriptStatus::Exited(3));
    assert_eq!((outcome.stdout.text.as_str(), outcome.stderr.text.as_str()), ("out\n", "err\n"));
    assert_eq!(session.value("x + 1").await, "42");
    // The number that `timeout` speaks with is a script's like any other.
    let outcome = ran(&session, "exit 124").await;
    assert_eq!(outcome.status, ScriptStatus::Exited(124));
}

async fn a_signal_is_told(lab: &Lab) {
    let session = lab.session().await;
    let outcome = ran(&session, "kill -SEGV $$").await;
    assert_eq!((outcome.status.clone(), outcome.exit_code()), (ScriptStatus::Signaled(11), 139));
}

async fn arguments_environment_directory_and_input_arrive_as_they_are(lab: &Lab) {
    let session = lab.session().await;
    session.good("import os; os.mkdir('a dir')").await;
    let outcome = session
        .run_shell("printf '<%s>' \"$@\" \"$V\" \"${PWD##*/}\"; cat", "bash")
        .args(["two words", "$(echo no)", "", "ü\n", "-x"])
        .env("V", "a=b 'c'")
        .current_dir("a dir")
        .stdin("in\nput")
        .await
        .expect("it is there");
    assert_eq!(outcome.stdout.text, "<two words><$(echo no)><><ü\n><-x><a=b 'c'><a dir>in\nput");
}

async fn input_is_empty_unless_given(lab: &Lab) {
    let session = lab.session().await;
    assert_eq!(said(&session, "cat; read line; echo $?").await, "1\n");
}

async fn an_input_of_nothing_ends_at_once(lab: &Lab) {
    let session = lab.session().await;
    let outcome = session.run_shell("cat; echo done", Shell::Sh).stdin("").await.expect("the call goes well");
    assert_eq!((outcome.status, outcome.stdout.text.as_str()), (ScriptStatus::Exited(0), "done\n"));
}

async fn a_long_input_passes_a_script_that_reads_slowly(lab: &Lab) {
    let session = lab.session().await;
    let input = vec![b'x'; 5 << 20];
    let outcome = session
        .run_shell("head -c 1000 | wc -c; sleep 0.1; wc -c", Shell::Sh)
        .stdin(input.clone())
        .await
        .expect("the call goes well");
    let counts: Vec<usize> =
        outcome.stdout.text.split_whitespace().map(|count| count.parse().expect("it is there")).collect();
    // What `head` has read ahead is not there for `wc`.
    assert_eq!(counts[0], 1000);
    assert!(counts[1] > (5 << 20) - (128 << 10), "{counts:?}");
    // Nobody has to read it.
    let outcome = session.run_shell("exit 7", Shell::Sh).stdin(input).await.expect("the call goes well");
    assert_eq!(outcome.status, ScriptStatus::Exited(7));
}

async fn a_script_and_a_cell_run_at_the_same_time(lab: &Lab) {
    let session = lab.session().await;
    let script = "touch of-the-script; until test -e of-the-cell; do sleep 0.01; done; echo met";
    let cell = "import os, time\nwhile not os.path.exists('of-the-script'): time.sleep(0.01)\nopen('of-the-cell', 'w').close()";
    let (outcome, execution) = tokio::join!(said(&session, script), session.good(cell));
    assert_eq!(outcome, "met\n");
    assert!(execution.is_ok());
}

async fn what_a_script_prints_is_seen_while_it_runs(lab: &Lab) {
    let session = lab.session().await;
    let script = "echo begun; until test -e go; do sleep 0.01; done; echo over >&2";
    let mut stream = session.run_shell(script, Shell::Sh).stream();
    match stream.next().await {
        Some(Ok(ScriptEvent::Stdout(bytes))) => assert_eq!(bytes, "begun\n"),
        other => panic!("{other:?}"),
    }
    session.good("open('go', 'w').close()").await;
    match stream.next().await {
        Some(Ok(ScriptEvent::Stderr(bytes))) => assert_eq!(bytes, "over\n"),
        other => panic!("{other:?}"),
    }
    match stream.next().await {
        Some(Ok(ScriptEvent::Done(outcome))) => assert!(outcome.is_ok() && outcome.stdout.text == "begun\n"),
        other => panic!("{other:?}"),
    }
    assert!(stream.next().await.is_none());
}

async fn a_flood_of_output_is_bounded(lab: &Lab) {
    let session = lab.builder().output_limit(64 << 10).start().await.expect("a session");
    let outcome = ran(&session, "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last").await;
    let stdout = outcome.stdout;
    assert!(outcome.status == ScriptStatus::Exited(0) && stdout.truncated);
    assert!(stdout.text.len() < 80 << 10 && stdout.text.starts_with("first\n") && stdout.text.ends_with("\nlast\n"));
    assert_eq!(stdout.total_bytes, 20_000_000 + "first\n\nlast\n".len() as u64);
    let spilled = std::fs::metadata(stdout.spill.expect("a spill file")).expect("it is there");
    assert_eq!(spilled.len(), stdout.total_bytes);
}

async fn a_slow_reader_loses_nothing(lab: &Lab) {
    let session = lab.session().await;
    let mut stream = session.run_shell("seq 1000000; touch written", Shell::Sh).stream();
    let mut seen = Vec::new();
    match stream.next().await {
        Some(Ok(ScriptEvent::Stdout(bytes))) => seen.extend_from_slice(&bytes),
        other => panic!("{other:?}"),
    }
    // The script waits for its reader, as it would with a pipe.
    assert_eq!(session.value("import os; os.path.exists('written')").await, "False");
    while let Some(event) = stream.next().await {
        match event.expect("an event") {
            ScriptEvent::Stdout(bytes) => seen.extend_from_slice(&bytes),
            ScriptEvent::Done(outcome) => assert_eq!(outcome.stdout.total_bytes, seen.len() as u64),
            other => panic!("{other:?}"),
        }
    }
    let expected: String = (1..=1_000_000).map(|number| format!("{number}\n")).collect();
    assert!(seen == expected.as_bytes());
}

async fn a_script_in_latin_1_goes_through_as_it_is(lab: &Lab) {
    let session = lab.session().await;
    let mut stream = session.run_shell(&b"printf 'caf\xe9' | od -An -tx1; printf 'caf\xe9'"[..], Shell::Sh).stream();
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        match event.expect("an event") {
            ScriptEvent::Stdout(bytes) => seen.extend_from_slice(&bytes),
            ScriptEvent::Done(outcome) => assert_eq!(outcome.stdout.text, " 63 61 66 e9\ncaf\u{fffd}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, b" 63 61 66 e9\ncaf\xe9");
}

async fn a_script_of_5_mib(lab: &Lab) {
    let session = lab.session().await;
    let text = format!("wc -c <<'END'\n{}END\n", "0123456789abcde\n".repeat(5 << 16));
    assert_eq!(said(&session, &text).await.trim(), (5 << 20).to_string());
}

async fn an_empty_script_does_nothing_well(lab: &Lab) {
    let session = lab.session().await;
    assert_eq!(said(&session, "").await, "");
}

async fn other_interpreters_can_be_named(lab: &Lab) {
    let session = lab.session().await;
    let code = "import sys; print(sys.argv[1], sys.flags.isolated, sys.argv[0].endswith('.py'))";
    let python = Interpreter::new("python3").arg("-I");
    let outcome = session.run_shell(code, python).arg("one").await.expect("the call goes well");
    assert_eq!(outcome.stdout.text, "one 1 True\n", "{}", outcome.stderr);
}

async fn programs_run_without_a_shell(lab: &Lab) {
    let session = lab.session().await;
    let outcome = session.run_program(["printf", "%s", "$HOME; * `x`"]).await.expect("the call goes well");
    assert_eq!(outcome.stdout.text, "$HOME; * `x`");
    refused(session.run_program(["no-such-program"]).await, &["no-such-program", "image"]);
    refused(session.run_program(["./no-such-program"]).await, &["no-such-program"]);
    refused(session.run_program(Vec::<&str>::new()).await, &["no program"]);
}

async fn files_run_by_themselves_or_by_an_interpreter(lab: &Lab) {
    let session = lab.session().await;
    let make = "import os\n\
                open('a b.sh', 'w').write('#!/bin/sh\\necho \"by itself: $1\"\\n')\n\
                os.chmod('a b.sh', 0o755)\n\
                open('plain', 'w').write('echo \"by bash: $1 ${BASH_VERSION:+yes}\"')";
    session.good(make).await;
    let outcome = session.run_file("a b.sh", ["x y"]).current_dir("/tmp").await.expect("the call goes well");
    assert_eq!(outcome.stdout.text, "by itself: x y\n");
    let outcome = session.run_file("plain", ["z"]).interpreter(Shell::Bash).await.expect("the call goes well");
    assert_eq!(outcome.stdout.text, "by bash: z yes\n");
}

async fn files_that_cannot_run_say_why(lab: &Lab) {
    let session = lab.session().await;
    let make = "import os\n\
                os.mkdir('directory'); os.mkfifo('fifo')\n\
                open('plain', 'w').write('echo hello')\n\
                open('headless', 'w').write('echo hello'); os.chmod('headless', 0o755)\n\
                open('orphan', 'w').write('#!/no/such/program -x\\n'); os.chmod('orphan', 0o755)";
    session.good(make).await;
    let run = async |file: &str| session.run_file(file, [""; 0]).await;
    refused(run("missing").await, &["missing", "no such file"]);
    refused(run("directory").await, &["directory", "is a directory"]);
    refused(run("fifo").await, &["fifo", "not a regular file"]);
    refused(run("plain").await, &["plain", "executed", "interpreter"]);
    refused(run("headless").await, &["headless", "#!", "interpreter"]);
    refused(run("orphan").await, &["orphan", "/no/such/program", "image"]);
    let by_sh = session.run_file("directory", [""; 0]).interpreter("sh").await;
    refused(by_sh, &["directory", "is a directory"]);
    refused(session.run_file("missing", [""; 0]).interpreter("sh").await, &["missing", "no such file"]);
}

async fn a_windows_line_ending_in_the_first_line_is_named(lab: &Lab) {
    let session = lab.session().await;
    let windows = |first: &str| format!("{first}\r\necho hello\r\n");
    refused(session.run_shell(windows("#!/bin/bash"), Shell::Bash).await, &["#!/bin/bash", "Windows line ending"]);
    for first in ["#!/bin/sh", "#!/usr/bin/env bash"] {
        let make = format!("import os; open('w', 'wb').write({:?}.encode()); os.chmod('w', 0o755)", windows(first));
        session.good(make).await;
        refused(session.run_file("w", [""; 0]).await, &[first, "Windows line ending"]);
    }
    // Python itself takes them.
    let outcome =
        session.run_shell("#!/usr/bin/python3\r\nprint('hello')\r\n", "python3").await.expect("the call goes well");
    assert_eq!(outcome.stdout.text, "hello\n");
}

async fn a_missing_interpreter_is_named_and_nothing_ran(lab: &Lab) {
    let session = lab.session().await;
    let result = session.run_shell("Write-Output hello", Shell::Pwsh).await;
    refused(result, &["pwsh", lab.fixture().image(), "image build"]);
    refused(session.run_shell("1", "no-such-interpreter").await, &["no-such-interpreter"]);
}

/// Over a stand-in that tells how it was started: the image has no PowerShell.
async fn powershell_runs_where_it_is(lab: &Lab) {
    let session = lab.session().await;
    let make = "import os; os.mkdir('bin'); open('bin/pwsh', 'w').write('''#!/bin/sh\\n\
                while test $# -gt 2; do printf '%s ' \"$1\"; shift; done\\n\
                case $1 in *.ps1) cat \"$1\" ;; esac; printf ' %s' \"$2\"\\n'''); os.chmod('bin/pwsh', 0o755)";
    session.good(make).await;
    let path = session.value("os.environ['PATH'] + ':' + os.getcwd() + '/bin'").await;
    let outcome = session
        .run_shell("Write-Output", Shell::Pwsh)
        .arg("x")
        .env("PATH", path.trim_matches('\''))
        .await
        .expect("the call goes well");
    assert_eq!(outcome.stdout.text, "-NoLogo -NoProfile -NonInteractive -File Write-Output x", "{}", outcome.stderr);
}

async fn a_missing_directory_is_named(lab: &Lab) {
    let session = lab.session().await;
    refused(session.run_shell("true", Shell::Sh).current_dir("no/where").await, &["no/where", "No such file"]);
}

async fn what_no_program_can_be_given_is_refused(lab: &Lab) {
    let session = lab.session().await;
    let script = || session.run_shell("touch ran", Shell::Sh);
    refused(script().args(["fine", "a\0b"]).await, &["argument 2", "NUL"]);
    refused(script().env("A\0", "b").await, &["environment variable"]);
    refused(script().env("A=B", "b").await, &["A=B"]);
    refused(script().env("A", "b\0").await, &["\"A\""]);
    refused(script().current_dir("a\0").await, &["NUL"]);
    refused(session.run_file("a\0b", [""; 0]).await, &["a\\0b", "NUL"]);
    refused(session.run_program(["a\0b"]).await, &["NUL"]);
    refused(session.run_shell("1", "").await, &["interpreter"]);
    refused(script().arg("x".repeat(3 << 20)).await, &["2 MiB"]);
    refused(script().arg("x".repeat(1 << 20)).await, &["long"]);
    assert_eq!(session.value("import os; os.path.exists('ran')").await, "False");
}

async fn a_timeout_of_0_is_refused(lab: &Lab) {
    let session = lab.session().await;
    refused(session.run_shell("touch ran", Shell::Sh).timeout(Duration::ZERO).await, &["timeout", "more than 0"]);
    assert_eq!(session.value("import os; os.path.exists('ran')").await, "False");
}

async fn the_scripts_file_is_gone_afterwards(lab: &Lab) {
    let session = lab.session().await;
    let file = said(&session, "stat -c '%a %n' \"$0\"").await;
    let path = file.trim().strip_prefix("600 ").expect("it is ours alone");
    assert_eq!(session.value(&format!("import os; os.path.exists({path:?})")).await, "False");
}

async fn a_script_has_the_usual_signals_and_is_the_first_to_go(lab: &Lab) {
    let session = lab.session().await;
    assert_eq!(said(&session, "yes | head -n 1; echo ${PIPESTATUS[0]}").await, "y\n141\n");
    let outcome = session.run_program(["grep", "SigIgn", "/proc/self/status"]).await.expect("the call goes well");
    let ignored = u64::from_str_radix(outcome.stdout.text.trim().rsplit('\t').next().expect("it is there"), 16)
        .expect("it is there");
    assert_eq!(ignored & 0x7fff_ffff, 0, "{ignored:x}");
    assert_eq!(said(&session, "cat /proc/self/oom_score_adj").await, "1000\n");
}
