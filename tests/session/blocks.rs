//! The code blocks of messages, carried out.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellblock::{
    BlockResult, BlocksEvent, BlocksOutcome, CodeBlock, Interpreter, Policy, PythonMode, Ran, Refusal, ScriptStatus,
    Session, Status, extract_code_blocks,
};

use crate::judged;
use crate::lab::{Ask as _, Lab, tests};
use crate::places::Place;

tests! {
    python: [
        a_message_is_carried_out_whole,
        variables_are_kept_between_messages,
        the_first_failure_is_the_last_block,
        after_a_failure_the_rest_runs_if_asked_for,
        python_runs_as_files_if_asked_for,
        a_comment_names_the_file,
        a_name_outside_is_refused_and_nothing_is_written,
        a_name_through_a_link_is_refused,
        unsupported_languages_stop,
        saved_languages_are_saved,
        other_interpreters_are_added,
        powershell_blocks_run_where_it_is,
        an_interpreter_that_is_missing_is_told,
        unnamed_code_is_judged_by_the_kernel,
        the_kernel_knows_python,
        a_timeout_is_told_and_an_exit_code_of_124_is_none,
        exit_codes_are_those_of_programs,
        output_files_are_found_both_ways,
        files_that_a_program_changes_are_found,
        escapes_are_taken_out_of_the_joined_output,
        no_blocks_and_no_time_are_refused,
        a_block_of_5_mb_runs,
        pip_is_silenced,
        events_are_told_as_they_come,
        a_dropped_call_begins_no_other_block,
        a_session_that_has_ended_is_told,
    ]
}

async fn message(session: &Session, message: &str) -> BlocksOutcome {
    blocks(session, &extract_code_blocks(message), &Policy::default()).await
}

async fn blocks(session: &Session, blocks: &[CodeBlock], policy: &Policy) -> BlocksOutcome {
    session.run_blocks(blocks, policy).await.expect("the call goes well")
}

fn block(language: &str, code: &str) -> CodeBlock {
    CodeBlock::new(code, language)
}

async fn content(session: &Session, path: &str) -> String {
    String::from_utf8(session.files().get(path).await.expect("the file").to_vec()).expect("text")
}

async fn a_message_is_carried_out_whole(lab: &Lab) {
    let session = lab.session().await;
    let outcome = message(
        &session,
        "First a directory:\n\n```bash\nmkdir -p out && echo made\n```\n\nThen the numbers:\n\n```python\ntotal = 6 * 7\n\
         open('out/total.txt', 'w').write(str(total))\nprint('total', total)\ntotal\n```\n\n```sh\ncat out/total.txt\n```\n",
    )
    .await;
    assert_eq!((outcome.exit_code, outcome.is_ok()), (0, true), "{outcome:?}");
    assert_eq!(outcome.output, "made\ntotal 42\n42\n42");
    assert_eq!(outcome.output_files, ["out/total.txt"]);
    let [bash, python, sh] = outcome.blocks.as_slice() else { panic!("{:?}", outcome.blocks) };
    assert!(matches!(&bash.result, BlockResult::Script(script) if script.status == ScriptStatus::Exited(0)));
    assert!(matches!(&python.result, BlockResult::Cell(cell) if cell.text() == Some("42")));
    assert_eq!((python.language.as_str(), &python.code_file), ("python", &None));
    assert_eq!((sh.exit_code(), sh.output()), (Some(0), "42".to_owned()));
    // The names are TapeAgents'.
    assert_eq!(
        outcome.code_files,
        ["tmp_code_59d49e300a63ae5bb37d654f659007bc.bash", "tmp_code_32aa22cf76014c64f757793acf1b5632.sh"]
    );
    assert_eq!(content(&session, &outcome.code_files[1]).await, "cat out/total.txt");
}

async fn variables_are_kept_between_messages(lab: &Lab) {
    let session = lab.session().await;
    message(&session, "```python\nx = 20\n```\n```py\nx += 1\n```").await;
    session.good("x *= 2").await;
    assert_eq!(message(&session, "```Python\nprint(x)\n```").await.output, "42\n");
    assert_eq!(session.value("x").await, "42");
}

async fn the_first_failure_is_the_last_block(lab: &Lab) {
    let session = lab.session().await;
    let outcome = message(&session, "```python\nprint('one')\n1 / 0\n```\n```bash\necho two\n```").await;
    assert_eq!((outcome.exit_code, outcome.blocks.len()), (1, 1));
    assert!(outcome.output.starts_with("one\n") && outcome.output.contains("ZeroDivisionError: division by zero"));
    assert!(!outcome.output.contains('\x1b'), "{:?}", outcome.output);
    let outcome =
        message(&session, "```bash\necho one; echo two >&2; exit 3\n```\n```python\nprint('three')\n```").await;
    assert_eq!((outcome.exit_code, outcome.blocks.len(), outcome.output.as_str()), (3, 1, "one\ntwo\n"));
    assert!(!outcome.is_ok());
}

async fn after_a_failure_the_rest_runs_if_asked_for(lab: &Lab) {
    let session = lab.session().await;
    let list = [block("bash", "echo one; exit 3"), block("fortran", "x"), block("python", "print('two')")];
    let outcome = session.run_blocks(&list, &Policy::default()).keep_going(true).await.expect("the call goes well");
    assert_eq!(outcome.output, "one\nUnsupported language fortran\ntwo\n");
    // That of the last one; that all was not well is told beside it.
    assert_eq!((outcome.exit_code, outcome.is_ok(), outcome.blocks.len()), (0, false, 3));
}

async fn python_runs_as_files_if_asked_for(lab: &Lab) {
    let session = lab.session().await;
    let policy = Policy::default().python(PythonMode::File);
    let list = [block("py", "x = 1\nprint(__name__)"), block("python", "print(x)")];
    let outcome = blocks(&session, &list, &policy).await;
    assert_eq!((outcome.exit_code, outcome.blocks.len()), (1, 2));
    assert!(outcome.output.starts_with("__main__\n") && outcome.output.contains("NameError"), "{}", outcome.output);
    assert_eq!(outcome.code_files[0], "tmp_code_07f27bb0544df8c8fab9e05cebf5df49.python");
    // A traceback names the code's own file.
    assert!(outcome.output.contains(&outcome.code_files[1]) && outcome.output_files.is_empty(), "{outcome:?}");
}

async fn a_comment_names_the_file(lab: &Lab) {
    let session = lab.session().await;
    let list = [
        block(
            "python",
            "# filename: pkg/tool.py\ndef answer():\n    return 42\nif __name__ == '__main__':\n    print(answer())",
        ),
        block("sh", "python pkg/tool.py"),
        block("python", "# filename: /mnt/data/late.py\nlate = 1"),
        block("bash", "# filename: -dash.sh\necho dash"),
    ];
    let outcome = blocks(&session, &list, &Policy::default()).await;
    assert_eq!((outcome.exit_code, outcome.output.as_str()), (0, "42\n42\ndash\n"), "{outcome:?}");
    assert_eq!(outcome.code_files.len(), 4);
    assert_eq!((outcome.code_files[0].as_str(), outcome.code_files[2].as_str()), ("pkg/tool.py", "late.py"));
    assert_eq!(outcome.code_files[3], "-dash.sh");
    assert!(content(&session, "pkg/tool.py").await.starts_with("# filename: pkg/tool.py\n"));
    assert_eq!(session.value("late").await, "1");
}

async fn a_name_outside_is_refused_and_nothing_is_written(lab: &Lab) {
    let session = lab.session().await;
    for name in ["../escaped.sh", "a/../../escaped.sh", "/etc/escaped.sh", "a\0b.sh", "/workspace", "..", "a/"] {
        let list = [block("bash", &format!("# filename: {name}\necho ran")), block("bash", "echo next")];
        let outcome = blocks(&session, &list, &Policy::default()).await;
        assert!(
            matches!(outcome.blocks.as_slice(), [one] if matches!(one.result, BlockResult::Refused(Refusal::Filename)))
        );
        assert_eq!((outcome.exit_code, outcome.output.as_str()), (1, "Filename is not in the workspace"), "{name:?}");
        assert!(outcome.code_files.is_empty());
    }
    let python = blocks(&session, &[block("python", "# filename: ../x.py\nescaped = 1")], &Policy::default()).await;
    assert_eq!(python.output, "Filename is not in the workspace");
    assert_eq!(session.value("'escaped' in globals()").await, "False");
    assert_eq!(session.files().list_tree(".").await.expect("a listing"), []);
}

async fn a_name_through_a_link_is_refused(lab: &Lab) {
    let session = lab.session().await;
    session.good("import os, tempfile\nplace = tempfile.mkdtemp()\nos.symlink(place, 'way')").await;
    let outcome = blocks(&session, &[block("sh", "# filename: way/out.sh\necho ran")], &Policy::default()).await;
    assert_eq!((outcome.exit_code, outcome.output.as_str()), (1, "Filename is not in the workspace"));
    assert_eq!(session.value("os.listdir(place)").await, "[]");
    // A link in the place of the file itself is replaced, and its target is as it was.
    session.good("open(place + '/kept', 'w').write('kept')\nos.symlink(place + '/kept', 'run.sh')").await;
    let outcome = blocks(&session, &[block("sh", "# filename: run.sh\necho ran")], &Policy::default()).await;
    assert_eq!((outcome.exit_code, outcome.output.as_str()), (0, "ran\n"));
    assert_eq!(session.value("open(place + '/kept').read()").await, "'kept'");
    // What is a directory already is told as it is.
    session.good("os.mkdir('there')").await;
    let outcome = blocks(&session, &[block("sh", "# filename: there\necho ran")], &Policy::default()).await;
    assert!(matches!(outcome.blocks[0].result, BlockResult::Failed(_)), "{outcome:?}");
    assert!(outcome.exit_code != 0 && outcome.output.contains("directory"), "{}", outcome.output);
}

async fn unsupported_languages_stop(lab: &Lab) {
    let session = lab.session().await;
    let list = [block("Rust", "fn main() {}"), block("python", "ran = 1")];
    let outcome = blocks(&session, &list, &Policy::default()).await;
    assert_eq!((outcome.exit_code, outcome.output.as_str()), (1, "Unsupported language rust"));
    assert_eq!((outcome.blocks.len(), outcome.blocks[0].language.as_str()), (1, "rust"));
    assert_eq!(session.value("'ran' in globals()").await, "False");
}

async fn saved_languages_are_saved(lab: &Lab) {
    let session = lab.session().await;
    let outcome = message(
        &session,
        "```html\n<!-- filename: site/index.html -->\n<p>\n```\n```css\np {}\n```\n```js\n// filename: app.js\n1\n```",
    )
    .await;
    assert_eq!((outcome.exit_code, outcome.is_ok()), (0, true));
    let css = "tmp_code_c3ee3d7a4380d6f58c98915781b09375.css";
    assert_eq!(outcome.code_files, ["site/index.html", css, "app.js"]);
    assert_eq!(outcome.output, format!("Code saved to site/index.html\nCode saved to {css}\nCode saved to app.js\n"));
    assert!(outcome.blocks.iter().all(|block| matches!(block.result, BlockResult::Saved)));
    assert_eq!(content(&session, "site/index.html").await, "<!-- filename: site/index.html -->\n<p>");
    let policy = Policy::default().save("bash");
    let outcome = blocks(&session, &[block("bash", "echo ran")], &policy).await;
    assert!(matches!(outcome.blocks[0].result, BlockResult::Saved));
}

async fn other_interpreters_are_added(lab: &Lab) {
    let session = lab.session().await;
    let policy = Policy::default().run("awk", Interpreter::new("awk").arg("-f")).run("perl", "perl");
    let policy = policy.run("js", "cat").run("python", "cat");
    let list = [
        block("awk", "BEGIN { print 6 * 7 }"),
        block("Perl", "# filename: a.pl\nprint join('-', 1 .. 3), \"\\n\"; print STDERR 'why'; exit 0"),
        block("javascript", "// x"),
        block("py", "x = 1"),
    ];
    let outcome = blocks(&session, &list, &policy).await;
    assert_eq!((outcome.exit_code, outcome.output.as_str()), (0, "42\n1-2-3\nwhy\n// x\nx = 1"), "{outcome:?}");
    assert_eq!(outcome.code_files[1], "a.pl");
    let outcome = blocks(&session, &[block("awk", "BEGIN { exit 3 }"), block("perl", "print 1")], &policy).await;
    assert_eq!((outcome.exit_code, outcome.blocks.len()), (3, 1));
    assert!(outcome.blocks.iter().all(|block| matches!(block.result, BlockResult::Script(_))));
}

/// Over a stand-in that tells how it was started: the image has no PowerShell.
async fn powershell_blocks_run_where_it_is(lab: &Lab) {
    let session = lab.builder().env("PATH", "bin:/usr/local/bin:/usr/bin:/bin").start().await.expect("a session");
    let make = "import os\nos.mkdir('bin')\nopen('bin/pwsh', 'w').write('''#!/bin/sh\necho \"$@\"; cat \"$5\"; exit 5''')\n\
                os.chmod('bin/pwsh', 0o755)";
    session.good(make).await;
    let place = session.value("os.getcwd()").await;
    for language in ["pwsh", "PowerShell", "ps1"] {
        let list = [block(language, "# filename: a.ps1\nGet-Date")];
        let outcome = blocks(&session, &list, &Policy::default()).await;
        let told = "-NoLogo -NoProfile -NonInteractive -File WORKSPACE/a.ps1\n# filename: a.ps1\nGet-Date";
        assert_eq!(
            (outcome.exit_code, outcome.output.replace(place.trim_matches('\''), "WORKSPACE").as_str()),
            (5, told)
        );
    }
}

async fn an_interpreter_that_is_missing_is_told(lab: &Lab) {
    let session = lab.session().await;
    for (language, program) in [("powershell", "pwsh"), ("r", "Rscript")] {
        let policy = Policy::default().run("r", "Rscript");
        let list = [block(language, "1"), block("bash", "echo next")];
        let outcome = blocks(&session, &list, &policy).await;
        assert_eq!((outcome.exit_code, outcome.blocks.len()), (127, 1), "{outcome:?}");
        assert!(outcome.output.contains(&format!("there is no \"{program}\" in the image")), "{}", outcome.output);
        assert!(outcome.output.contains("cannot run the file \"tmp_code_"), "{}", outcome.output);
    }
}

async fn unnamed_code_is_judged_by_the_kernel(lab: &Lab) {
    let session = lab.session().await;
    let list = [
        block("", "for i in range(2):\n    print(i)"),
        block(" ", "%matplotlib --list"),
        block("", "# first\nls -d ."),
        block("", "Dear reader,"),
    ];
    let outcome = blocks(&session, &list[2..], &Policy::default()).await;
    assert_eq!((outcome.exit_code, outcome.output.as_str()), (1, ".\nUnsupported language unknown"));
    assert_eq!(outcome.blocks.iter().map(|block| block.language.as_str()).collect::<Vec<_>>(), ["sh", ""]);
    let outcome = blocks(&session, &list[..1], &Policy::default()).await;
    assert_eq!((outcome.exit_code, outcome.output.as_str()), (0, "0\n1\n"));
    // Nothing was run to find out.
    let count = session.good("1").await.execution_count;
    blocks(&session, &[block("", "print('ran') and")], &Policy::default()).await;
    assert_eq!(session.good("2").await.execution_count, count.map(|count| count + 1));
}

async fn the_kernel_knows_python(lab: &Lab) {
    let session = lab.session().await;
    // Nothing is run.
    let policy = Policy::default().save("python");
    let language = async |code: &str| {
        let outcome = blocks(&session, &[block("", code)], &policy).await;
        outcome.blocks.into_iter().next().expect("a block").language
    };
    for code in judged::PYTHON {
        assert_eq!(language(code).await, "python", "{code:?}");
    }
    for code in judged::NOT_PYTHON {
        assert_eq!(language(code).await, "", "{code:?}");
    }
}

async fn a_timeout_is_told_and_an_exit_code_of_124_is_none(lab: &Lab) {
    let session = lab.session().await;
    let short = Duration::from_millis(1500);
    for (language, code) in
        [("python", "print('begun', flush=True)\nwhile True: pass"), ("bash", "echo begun; sleep 60")]
    {
        let list = [block(language, code), block("bash", "echo next")];
        let outcome = session.run_blocks(&list, &Policy::default()).timeout(short).await.expect("the call goes well");
        assert_eq!((outcome.exit_code, outcome.blocks.len()), (124, 1), "{outcome:?}");
        assert!(outcome.output.starts_with("begun\n") && outcome.output.ends_with("\nTimeout"), "{}", outcome.output);
    }
    let outcome = message(&session, "```bash\necho done; exit 124\n```").await;
    assert_eq!((outcome.exit_code, outcome.output.as_str()), (124, "done\n"));
}

async fn exit_codes_are_those_of_programs(lab: &Lab) {
    let session = lab.session().await;
    for (language, code, expected) in [
        ("python", "import sys; sys.exit(3)", 3),
        ("python", "raise SystemExit", 0),
        ("python", "import sys; sys.exit('no')", 1),
        ("python", "import sys; sys.exit(256 + 7)", 7),
        ("python", "exit()", 0),
        ("python", "import os; os._exit(0)", 1),
        ("python", "import os; os.kill(os.getpid(), 9)", 137),
        ("bash", "kill -9 $$", 137),
        ("sh", "exit 7", 7),
    ] {
        let outcome = blocks(&session, &[block(language, code)], &Policy::default()).await;
        assert_eq!(outcome.exit_code, expected, "{code}: {}", outcome.output);
    }
    let outcome = message(&session, "```python\nraise SystemExit(0)\n```\n```bash\necho next\n```").await;
    assert!(outcome.is_ok() && outcome.output.ends_with("next\n"), "{outcome:?}");
    let outcome = message(&session, "```python\nimport os; os.kill(os.getpid(), 9)\n```").await;
    assert!(outcome.output.contains("the kernel died: signal 9"), "{}", outcome.output);
    assert!(
        matches!(&outcome.blocks[0].result, BlockResult::Cell(cell) if matches!(cell.status, Status::KernelDied(_)))
    );
}

async fn output_files_are_found_both_ways(lab: &Lab) {
    let session = lab.session().await;
    session
        .good("open('old.png', 'w').write('x'); open('jpg', 'w').write('x'); open('unnamed.txt', 'w').write('x')")
        .await;
    let outcome = message(
        &session,
        "```python\nimport os\nos.makedirs('a/b')\nopen('a/b/new.csv', 'w').write('1')\nopen('unnamed.txt', 'a').write('2')\n\
         print('see `old.png`, a jpg, and gone.png')\n```\n```bash\necho x > 'made here.txt'\n```\n```html\n<p>\n```",
    )
    .await;
    assert_eq!(outcome.blocks[0].output_files, ["a/b/new.csv", "old.png", "unnamed.txt"]);
    assert_eq!(outcome.blocks[1].output_files, ["made here.txt"]);
    assert_eq!(outcome.output_files, ["a/b/new.csv", "old.png", "unnamed.txt", "made here.txt"]);
    assert_eq!(outcome.code_files.len(), 2);
    let nothing = message(&session, "```python\nx = 1\n```").await;
    assert_eq!(nothing.output_files, [""; 0]);
}

async fn files_that_a_program_changes_are_found(lab: &Lab) {
    let session = lab.session().await;
    let outcome = message(
        &session,
        "```bash\ntrue\n```\n```html\n<!-- filename: page.html -->\n<p>\n```\n```bash\necho '<p>' >> page.html\n```\n",
    )
    .await;
    assert_eq!(outcome.output_files, ["page.html"], "{outcome:?}");
    // The same size, at another time.
    session.good("open('same', 'w').write('a')").await;
    let outcome = message(&session, "```python\nopen('same', 'w').write('b')\n```").await;
    assert_eq!(outcome.output_files, ["same"]);
}

async fn escapes_are_taken_out_of_the_joined_output(lab: &Lab) {
    let session = lab.session().await;
    let outcome = message(&session, "```bash\nprintf '\\033[31mred\\033[0m\\033]0;title\\007'\n```").await;
    assert_eq!(outcome.output, "red");
    assert!(
        matches!(&outcome.blocks[0].result, BlockResult::Script(script) if script.stdout.text.contains("\x1b[31m"))
    );
    let outcome = message(&session, "```python\nprint('\\033[31mred\\033[0m', end='')\n```").await;
    assert_eq!(outcome.output, "red");
}

async fn no_blocks_and_no_time_are_refused(lab: &Lab) {
    let session = lab.session().await;
    let error = session.run_blocks(&[], &Policy::default()).await.expect_err("no blocks");
    assert!(error.is_usage() && error.to_string().contains("no code blocks"), "{error}");
    let list = [block("python", "ran = 1"), block("bash", "touch ran")];
    for timeout in [Duration::ZERO, Duration::from_secs(100 * 3600)] {
        let error = session.run_blocks(&list, &Policy::default()).timeout(timeout).await.expect_err("no time");
        assert!(error.is_usage(), "{error}");
    }
    assert_eq!(session.value("'ran' in globals(), __import__('os').listdir()").await, "(False, [])");
}

async fn a_block_of_5_mb_runs(lab: &Lab) {
    let session = lab.session().await;
    let text = "x".repeat(5 << 20);
    let list = [
        block("python", &format!("s = '{text}'\nprint(len(s))")),
        block("sh", &format!("# {text}\necho end")),
        block("html", &text),
    ];
    let outcome = blocks(&session, &list, &Policy::default()).await;
    let saved = outcome.code_files.last().expect("a file").clone();
    assert_eq!(outcome.output, format!("5242880\nend\nCode saved to {saved}\n"));
    assert_eq!(session.files().stat(&saved).await.expect("the file").size, 5 << 20);
}

async fn pip_is_silenced(lab: &Lab) {
    let session = lab.session().await;
    let policy = Policy::default().run("bash", "cat").save("python");
    let list =
        [block("bash", "pip install a"), block("bash", "pip install -qqq b"), block("python", "! pip install c")];
    let outcome = blocks(&session, &list, &policy).await;
    assert_eq!(content(&session, &outcome.code_files[2]).await, "! pip install -qqq c");
    let shell = Policy::default().save("bash");
    let outcome = blocks(&session, &list[..2], &shell).await;
    assert_eq!(content(&session, &outcome.code_files[0]).await, "pip install -qqq a");
    assert_eq!(content(&session, &outcome.code_files[1]).await, "pip install -qqq b");
    // The name is that of what is run.
    assert_eq!(outcome.code_files[0], "tmp_code_0bfd23d8c60eda8719503d14f83df848.bash");
}

async fn events_are_told_as_they_come(lab: &Lab) {
    let session = lab.session().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = Arc::clone(&told);
    let list = [block("python", "print('one')"), block("bash", "echo two"), block("html", "<p>")];
    let run = session.run_blocks(&list, &Policy::default()).on_event(move |event| {
        let word = match event {
            BlocksEvent::Begun { index, language } => format!("{index} {language}"),
            BlocksEvent::Cell(cellblock::Event::Stdout(text)) => text.trim().to_owned(),
            BlocksEvent::Script(cellblock::ScriptEvent::Stdout(bytes)) => {
                String::from_utf8_lossy(bytes).trim().to_owned()
            }
            BlocksEvent::Ended(outcome) => format!("ended {:?}", outcome.exit_code()),
            _ => return,
        };
        teller.lock().expect("no panic").push(word);
    });
    run.await.expect("the call goes well");
    let expected = ["0 python", "one", "ended Some(0)", "1 bash", "two", "ended Some(0)", "2 html", "ended None"];
    assert_eq!(*told.lock().expect("no panic"), expected);
}

async fn a_dropped_call_begins_no_other_block(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    let (sender, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let list =
        [block("python", "print('begun', flush=True)\nimport time\ntime.sleep(60)"), block("bash", "touch next")];
    let run = session.run_blocks(&list, &Policy::default()).on_event(move |event| {
        if matches!(event, BlocksEvent::Cell(cellblock::Event::Stdout(_))) {
            let _ = sender.send(());
        }
    });
    let mut run = run.into_future();
    tokio::select! {
        outcome = &mut run => panic!("{outcome:?}"),
        _ = begun.recv() => {}
    }
    drop(run);
    assert_eq!(session.value("x, __import__('os').path.exists('next')").await, "(1, False)");
}

async fn a_session_that_has_ended_is_told(lab: &Lab) {
    let session = lab.session().await;
    session.stop().await.expect("it stops");
    let place = lab.fixture().place();
    for language in ["python", "bash", "html", ""] {
        let error = session.run_blocks(&[block(language, "1")], &Policy::default()).await.expect_err("it has ended");
        assert_eq!(error.ran(), Ran::Never, "{language:?}: {error:?}");
        // The engine of plain processes has no word for it.
        let by_kernel = !matches!(language, "bash" | "html");
        assert!(error.is_session_gone() || (place == Place::Process && !by_kernel), "{language:?}: {error:?}");
    }
}
