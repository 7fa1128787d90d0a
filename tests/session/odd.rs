//! Odd code and odd text.

use std::time::Instant;

use cellblock::{Ran, State};

use crate::lab::{Ask as _, Lab, SOON, tests};

tests! {
    links: [
        a_cell_of_5_mb_runs,
    ]
    everywhere: [
        text_of_any_script_comes_as_it_is,
    ]
    python_links: [
        ten_thousand_lines_at_once_are_all_there,
    ]
    python: [
        null_bytes_in_code_are_the_cells_problem_alone,
        lone_surrogates_printed_cost_nothing_else,
        lone_surrogates_in_values_and_errors_cost_nothing_else,
        control_characters_come_as_they_are,
        a_result_of_a_megabyte_on_one_line_is_whole,
        code_of_any_line_ending_runs,
        what_child_processes_print_is_the_cells,
        raw_bytes_on_stdout_are_text,
        magics_and_shell_escapes_work,
    ]
    process: [
        a_cell_that_is_too_long_is_refused,
    ]
}

async fn a_cell_of_5_mb_runs(lab: &Lab) {
    let session = lab.session().await;
    let code = format!("x = '{}'\nx + '!'", "a".repeat(5_000_000));
    session.good(format!("{code}\npass")).await;
    assert_eq!(session.value("x == 'a' * 5_000_000").await, "True");
}

async fn ten_thousand_lines_at_once_are_all_there(lab: &Lab) {
    let session = lab.session().await;
    let expected: String = (0..10_000).map(|i| format!("{i}\n")).collect();
    let lines = session.good("for i in range(10000): print(i)").await.stdout;
    assert_eq!(lines.text, expected);
    assert_eq!((lines.total_bytes, lines.truncated), (expected.len() as u64, false));
    let one_print = session.good("print('\\n'.join(str(i) for i in range(10000)))").await.stdout;
    assert_eq!(one_print.text, expected);
    let flushed = session.good("for i in range(2000): print(i, flush=True)").await.stdout;
    assert!(expected.starts_with(&flushed.text) && flushed.text.ends_with("\n1999\n"), "{:?}", flushed.total_bytes);
}

async fn text_of_any_script_comes_as_it_is(lab: &Lab) {
    let session = lab.session().await;
    for text in ["Grüße", "日本語", "עברית", "e\u{301}", "👩‍👩‍👧", "\u{10ffff}", "\u{feff}x", "a\u{2028}b"]
    {
        let execution = session.good(format!("print('{text}')\n'{text}' + ''")).await;
        assert_eq!(execution.stdout.text, format!("{text}\n"));
        assert_eq!(execution.stdout.total_bytes, text.len() as u64 + 1);
    }
}

async fn null_bytes_in_code_are_the_cells_problem_alone(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    for code in ["x = '\0'", "\0", "x = 2\0", "# \0 in a comment"] {
        let execution = session.cell(code).await;
        assert_eq!(execution.state, State::Kept, "{code:?}: {}", execution.status);
        assert!(execution.is_ok() || execution.error().is_some(), "{code:?}: {}", execution.status);
    }
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn lone_surrogates_printed_cost_nothing_else(lab: &Lab) {
    let session = lab.session().await;
    for odd in ["'\\ud800'", "'\\udcff'", "b'\\xff'.decode('utf8', 'surrogateescape')", "'\\udfff' * 3"] {
        for file in ["stdout", "stderr"] {
            let code = format!(
                "import sys\nprint('before', file=sys.{file})\nprint({odd}, file=sys.{file})\nprint('after', file=sys.{file})"
            );
            let execution = session.cell(code).await;
            assert_eq!(execution.state, State::Kept);
            let text = if file == "stdout" { &execution.stdout } else { &execution.stderr };
            if execution.is_ok() {
                assert!(
                    text.text.starts_with("before\n") && text.text.ends_with("\nafter\n"),
                    "{odd} on {file}: {text:?}"
                );
            } else {
                assert!(text.text.contains("before\n"), "{odd} on {file}: {text:?}");
            }
        }
    }
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn lone_surrogates_in_values_and_errors_cost_nothing_else(lab: &Lab) {
    let session = lab.session().await;
    assert_eq!(session.value("'\\ud800'").await, "'\\ud800'");
    let begun = Instant::now();
    let display = session.cell("display({'text/plain': 'a\\ud800b'}, raw=True)\nprint('after')").await;
    assert_eq!(display.state, State::Kept);
    // It may be the code's own error; a display or text lost without a word it may not be.
    let told = display.error().is_some_and(|error| error.ename == "UnicodeEncodeError");
    let shown = display.outputs.len() == 2 && display.stdout.text == "after\n";
    assert!(told || shown, "{display:?}");
    let value = session.cell("class Odd:\n    def __repr__(self): return 'a\\ud800b'\nOdd()").await;
    assert_eq!(value.state, State::Kept);
    let error = session.cell("raise ValueError('a\\udcffb')").await;
    assert_eq!(error.state, State::Kept);
    assert_eq!(error.error().map(|error| error.ename.as_str()), Some("ValueError"), "{}", error.status);
    assert!(begun.elapsed() < SOON, "each answers at once: {:?}", begun.elapsed());
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn control_characters_come_as_they_are(lab: &Lab) {
    let session = lab.session().await;
    let execution = session.good("print('a\\x00b\\x07\\x1b[31mred\\x1b[0m 10%\\r20%\\x7f', end='')").await;
    assert_eq!(execution.stdout.text, "a\0b\u{7}\u{1b}[31mred\u{1b}[0m 10%\r20%\u{7f}");
}

async fn a_result_of_a_megabyte_on_one_line_is_whole(lab: &Lab) {
    let session = lab.session().await;
    let execution = session.good("class Long:\n    def __repr__(self): return 'x' * (1 << 20)\nLong()").await;
    assert_eq!(execution.text().map(str::len), Some(1 << 20));
}

async fn code_of_any_line_ending_runs(lab: &Lab) {
    let session = lab.session().await;
    assert_eq!(session.value("a = 1\r\nb = 2\r\na + b\r\n").await, "3");
    assert_eq!(session.value("def f():\r\n    return 7\r\n\r\nf()").await, "7");
    assert_eq!(session.value("\n\n\n8").await, "8");
}

async fn what_child_processes_print_is_the_cells(lab: &Lab) {
    let session = lab.session().await;
    let code = "import subprocess, sys\nsubprocess.run(['echo', 'from a child'])\n\
                subprocess.run('echo to stderr >&2', shell=True)\nNone";
    let execution = session.good(code).await;
    assert_eq!((execution.stdout.text.as_str(), execution.stderr.text.as_str()), ("from a child\n", "to stderr\n"));
}

async fn raw_bytes_on_stdout_are_text(lab: &Lab) {
    let session = lab.session().await;
    let execution =
        session.good("import os\nos.write(1, b'bytes\\n')\nos.system('printf \"\\\\377\\\\n\"')\nNone").await;
    assert!(execution.stdout.text.starts_with("bytes\n"), "{:?}", execution.stdout);
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn magics_and_shell_escapes_work(lab: &Lab) {
    let session = lab.session().await;
    assert_eq!(session.good("!echo from the shell").await.stdout.text.replace('\r', ""), "from the shell\n");
    assert_eq!(session.value("lines = !printf 'a\\nb\\n'\nlen(lines)").await, "2");
    assert!(session.good("%timeit -n1 -r1 1 + 1").await.stdout.text.contains("loop"));
    let execution = session.cell("%no_such_magic").await;
    assert_eq!(execution.state, State::Kept);
}

async fn a_cell_that_is_too_long_is_refused(lab: &Lab) {
    let session = lab.session().await;
    let error = session.run("#".repeat((64 << 20) + 1)).await.expect_err("too long");
    assert!(error.is_usage() && error.hint().is_some(), "{error:?}");
    assert_eq!(error.ran(), Ran::Never);
    assert_eq!(session.value("1 + 1").await, "2");
}
