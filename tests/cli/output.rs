//! What comes out of `cellblock run`, and where.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{cellblock, cells, ended, feed, image, run_cells};

/// The smallest PNG there is, as Python.
const PICTURE: &str = "
import base64
from IPython.display import Image, display
png = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')
";

#[test]
fn cells_share_their_variables_in_the_order_of_the_command_line() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("middle.py");
    fs::write(&file, "x.append(2)\n").unwrap();
    let command = cells(image, ["-c", "x = [1]", file.to_str().unwrap(), "-c", "x.append(3)", "-"]);
    let ended = feed(command, b"x.append(4)\nx\n");
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "[1, 2, 3, 4]\n", ""));
}

#[test]
fn stdout_stderr_and_results_go_their_ways() {
    let Some(image) = image() else { return };
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('open', end='')\n'result'";
    let ended = run_cells(image, ["-c", code, "-c", "None", "-c", "2"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "out\nopen\n'result'\n2\n", "err\n"));
}

#[test]
fn output_comes_while_the_cell_runs() {
    let Some(image) = image() else { return };
    let code = "import time\nprint('first', flush=True)\ntime.sleep(3)\nprint('second')";
    let mut child = cells(image, ["-c", code]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    let first = Instant::now();
    assert_eq!(lines.next().unwrap().unwrap(), "second");
    assert!(first.elapsed() > Duration::from_secs(1));
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_first_cell_that_fails_is_the_last_that_runs() {
    let Some(image) = image() else { return };
    let ended = run_cells(image, ["-c", "x = (", "-c", "print('next')"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("Error: "), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\x1b'), "a pipe gets no colours: {}", ended.stderr);
    let ended = run_cells(image, ["--keep-going", "-c", "x = (", "-c", "print('next')", "-c", "1/0"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, "next\n"), "{}", ended.stderr);
}

#[test]
fn tracebacks_are_coloured_if_asked_for() {
    let Some(image) = image() else { return };
    let ended = run_cells(image, ["--color", "always", "-c", "1/0"]);
    assert!(ended.stderr.contains("\x1b[31mZeroDivisionError"), "{}", ended.stderr);
}

#[test]
fn json_is_one_documented_line_per_cell() {
    let Some(image) = image() else { return };
    let ended = run_cells(
        image,
        ["--json", "--keep-going", "-c", "print('a'); 40 + 2", "-c", "1/0", "-c", "import os; os._exit(3)"],
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (1, ""), "{}", ended.stdout);
    let cells: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [ok, error, died] = cells.as_slice() else { panic!("{}", ended.stdout) };
    assert_eq!((&ok["v"], &ok["status"], &ok["state"]), (&1.into(), &"ok".into(), &"kept".into()));
    assert_eq!((&ok["stdout"]["text"], &ok["stdout"]["total_bytes"]), (&"a\n".into(), &2.into()));
    assert_eq!(ok["result"]["data"]["text/plain"], "42");
    assert_eq!(ok["outputs"][1]["output_type"], "execute_result");
    assert!(ok["timing"]["total_us"].as_u64().unwrap() > 0);
    assert_eq!((&error["status"], &error["error"]["ename"]), (&"error".into(), &"ZeroDivisionError".into()));
    assert_eq!((&died["status"], &died["state"]), (&"kernel_died".into(), &"kernel_restarted".into()));
    assert_eq!(died["death"]["code"], 3);
}

#[test]
fn figures_are_saved_and_files_that_are_there_are_left_alone() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("figure-1.png"), "mine").unwrap();
    let code = format!("{PICTURE}\ndisplay(Image(png))\nprint('text')");
    let ended = ended(&cells(image, ["-c", &code]).current_dir(directory.path()).output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "text\n", "saved figure-2.png\n"));
    assert_eq!(fs::read(directory.path().join("figure-1.png")).unwrap(), b"mine");
    assert!(fs::read(directory.path().join("figure-2.png")).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn figures_go_where_they_are_told() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    let code = format!("{PICTURE}\nImage(png)");
    let ended = ended(
        &cells(image, ["--json", "--figures", "a/b", "-c", &code]).current_dir(directory.path()).output().unwrap(),
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (0, "saved a/b/figure-1.png\n"));
    assert!(directory.path().join("a/b/figure-1.png").exists());
    let code = format!("{PICTURE}\nImage(png)");
    run_json_without_figures(image, &code);
}

fn run_json_without_figures(image: &str, code: &str) {
    let directory = tempfile::tempdir().unwrap();
    let ended = ended(&cells(image, ["--json", "-c", code]).current_dir(directory.path()).output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_figure_that_does_not_fit_leaves_nothing() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    let code = r#"from IPython.display import SVG, display; display(SVG('<svg xmlns="http://www.w3.org/2000/svg">' + ' ' * 200_000 + '</svg>'))"#;
    let command = cells(image, ["--figures", "figures", "-c", code]);
    // A full disk, as far as a process can have one of its own.
    let mut limited = Command::new("bash");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "-"])
        .arg(command.get_program())
        .args(command.get_args());
    let ended = ended(&limited.current_dir(directory.path()).output().unwrap());
    assert!(ended.code == 7 && ended.stderr.contains("cannot write `figures/figure-1.svg`: "), "{}", ended.stderr);
    assert_eq!(fs::read_dir(directory.path().join("figures")).unwrap().count(), 0);
}

#[test]
fn figures_that_cannot_be_saved_do_not_stop_the_code() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let figures = format!("{path}/figures");
    let code = format!("{PICTURE}\nimport os; os.rmdir('figures')\ndisplay(Image(png))\nprint('text')");
    let ended = run_cells(image, ["--workdir", path, "--figures", &figures, "-c", &code, "-c", "'next'"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (7, "text\n'next'\n"), "{}", ended.stderr);
    assert!(ended.stderr.starts_with(&format!("error: cannot write `{figures}/figure-1.png`: ")), "{}", ended.stderr);
}

#[test]
fn a_directory_of_figures_that_cannot_be_made_is_told_before_anything_runs() {
    let Some(image) = image() else { return };
    let ended = run_cells(image, ["--figures", "/dev/null/figures", "-c", "print('text')"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error: cannot create the directory `/dev/null/figures`: "), "{}", ended.stderr);
}

#[test]
fn input_reads_lines_of_stdin() {
    let Some(image) = image() else { return };
    let code = "import getpass\n[input('a? '), input(), getpass.getpass('b? ')]";
    let ended = feed(cells(image, ["-c", code]), "één\r\n\nsecret".as_bytes());
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "['één', '', 'secret']\n"), "{}", ended.stderr);
    assert_eq!(ended.stderr, "a? b? ", "prompts are not part of the data");
}

#[test]
fn endless_output_does_not_keep_a_prompt_back() {
    let Some(image) = image() else { return };
    let code = "
import threading, time
def talk():
    while not done:
        print('y')
        time.sleep(0.001)
done = []
threading.Thread(target=talk).start()
line = input('line? ')
done.append(1)";
    let ended = feed(cells(image, ["-c", code, "-c", "line"]), b"here");
    assert_eq!((ended.code, ended.stderr.as_str()), (0, "line? "));
    assert!(ended.stdout.ends_with("'here'\n"));
}

#[test]
fn input_at_the_end_of_stdin_is_an_eof_error() {
    let Some(image) = image() else { return };
    let ended = run_cells(image, ["-c", "input()"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("EOFError"), "{}", ended.stderr);
    // The code came from stdin: what follows it there is code too, and no answer.
    let ended = feed(cells(image, ["-"]), b"try:\n    input()\nexcept Exception as e:\n    print(type(e).__name__)\n");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "EOFError\n"), "{}", ended.stderr);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let Some(image) = image() else { return };
    let mut child =
        cells(image, ["-c", "while True: print('y')"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let ended = ended(&child.wait_with_output().unwrap());
    assert_eq!((&first, ended.code, ended.stderr.as_str()), (b"y\n", 0, ""));
}

#[test]
fn a_slow_reader_loses_nothing() {
    let Some(image) = image() else { return };
    // Far more than any buffer on the way holds, while nobody reads: most of it comes from the spill file.
    let code = "for i in range(3000):\n    print('line', i, 'é' * 10_000)\n'end'";
    let mut child = cells(image, ["-c", code]).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let rest = "é".repeat(10_000);
    for i in 0..3000 {
        assert!(lines.next().unwrap().unwrap() == format!("line {i} {rest}"), "line {i}");
    }
    assert_eq!(lines.next().unwrap().unwrap(), "'end'");
    assert!(lines.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_pipe_gets_bytes_as_they_are() {
    let Some(image) = image() else { return };
    let ended = run_cells(image, ["-c", r"print('\x1b]0;title\x07\x1b[31mred\x00')"]);
    assert_eq!(ended.stdout, "\x1b]0;title\x07\x1b[31mred\0\n");
}

#[test]
fn variables_of_the_environment_are_passed_on() {
    let Some(image) = image() else { return };
    let mut command = cellblock([
        "run",
        "--image",
        image,
        "--env",
        "A=1=2",
        "--env",
        "TEST_B",
        "-c",
        "import os\nos.environ['A'], os.environ['TEST_B']",
    ]);
    let ended = ended(&command.env("TEST_B", "here").output().unwrap());
    assert_eq!(ended.stdout, "('1=2', 'here')\n", "{}", ended.stderr);
}
