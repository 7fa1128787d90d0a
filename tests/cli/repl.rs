//! The REPL, in a terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use crate::support::{Detached, Terminal, cellblock, eventually, image, run};

fn open(test: &str, args: &[&str]) -> Option<(Terminal, TempDir)> {
    let image = image()?;
    let directory = tempfile::tempdir().unwrap();
    let shape: &[&str] = if args.contains(&"--session") { &[] } else { &["--image", image] };
    let command = cellblock(["repl"].iter().chain(shape).chain(args));
    let terminal = Terminal::open(test, directory.path(), &command)?;
    Some((terminal, directory))
}

#[test]
fn a_cell_ends_where_the_kernel_says() {
    let Some((terminal, _directory)) = open("multi", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("x = 40");
    terminal.ends_with("In [2]:");
    terminal.enter("x +");
    terminal.contains("SyntaxError");
    terminal.ends_with("In [3]:");
    terminal.enter("for i in range(2):");
    // The new line comes with its indent.
    terminal.ends_with("   ...:");
    terminal.enter("x += 1");
    terminal.ends_with("   ...:");
    terminal.press("Enter");
    terminal.ends_with("In [4]:");
    terminal.enter("(x,");
    terminal.ends_with("   ...:");
    terminal.enter("1)");
    terminal.ends_with("Out[4]: (42, 1)\nIn [5]:");
    terminal.enter("if x > 99:");
    terminal.ends_with("...:");
    terminal.enter("'big'");
    terminal.ends_with("...:");
    // The indent goes as one.
    terminal.press("BSpace");
    terminal.enter("else:");
    terminal.ends_with("   ...: else:\n   ...:");
    terminal.enter("print('small')");
    terminal.ends_with("...:");
    terminal.press("Enter");
    terminal.ends_with("\nsmall\nIn [6]:");
    terminal.enter("print('open', end='')");
    terminal.ends_with("open\nIn [7]:");
    terminal.press("C-d");
    terminal.ends_with("ended with 0");
}

#[test]
fn ctrl_c_clears_the_line_or_interrupts_the_cell() {
    let Some((terminal, _directory)) = open("ctrl-c", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("x = 41");
    terminal.ends_with("In [2]:");
    terminal.write("never run");
    terminal.ends_with("never run");
    terminal.press("C-c");
    terminal.ends_with("In [2]:");
    terminal.enter("import time; print('began'); time.sleep(60)");
    terminal.ends_with("\nbegan");
    terminal.press("C-c");
    terminal.ends_with("interrupted; variables are kept\nIn [3]:");
    terminal.enter("input('line? ')");
    terminal.ends_with("line?");
    terminal.press("C-c");
    terminal.ends_with("interrupted; variables are kept\nIn [4]:");
    // Nothing of the line that was given up eats what comes now.
    terminal.enter("x + 1");
    terminal.ends_with("Out[4]: 42\nIn [5]:");
}

#[test]
fn a_cell_that_heeds_no_interrupt_can_be_left_with_the_kernel() {
    let Some((terminal, _directory)) = open("stubborn", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("import time");
    terminal.ends_with("In [2]:");
    terminal.enter("while True:");
    terminal.ends_with("...:");
    terminal.enter("try: print('again'); time.sleep(60)");
    terminal.ends_with("...:");
    terminal.enter("except KeyboardInterrupt: pass");
    terminal.ends_with("...:");
    terminal.press("Enter");
    terminal.ends_with("\nagain");
    terminal.press("C-c");
    terminal.ends_with("the cell goes on; Ctrl-C again restarts the kernel, and variables are gone then");
    terminal.press("C-c");
    terminal.ends_with("variables are gone, files are kept\nIn [1]:");
    terminal.enter("1 + 1");
    terminal.ends_with("Out[1]: 2\nIn [2]:");
}

#[test]
fn what_is_typed_ahead_is_for_the_next_prompts() {
    let Some((terminal, _directory)) = open("ahead", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("import time; print('began'); time.sleep(2)");
    terminal.ends_with("\nbegan");
    terminal.enter("x = 41");
    terminal.enter("x + 1");
    terminal.write("'un' 'finished'");
    terminal.ends_with("\nbegan\nIn [2]: x = 41\nIn [3]: x + 1\nOut[3]: 42\nIn [4]: 'un' 'finished'");
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let Some((terminal, _directory)) = open("signal", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("import time; print('began'); time.sleep(60)");
    terminal.ends_with("\nbegan");
    terminal.terminate();
    terminal.ends_with("ended with 143");
    // It is shown as it is typed again.
    terminal.write("visible");
    terminal.ends_with("ended with 143\nvisible");
}

#[test]
fn lines_and_passwords_are_asked_for() {
    let Some((terminal, _directory)) = open("input", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("name = input('name: ')");
    terminal.ends_with("name:");
    terminal.enter("ada");
    terminal.ends_with("In [2]:");
    terminal.enter("import getpass; word = getpass.getpass('word: ')");
    terminal.ends_with("word:");
    terminal.enter("hunter2");
    terminal.ends_with("In [3]:");
    assert!(!terminal.screen().contains("hunter2"));
    terminal.enter("name, word[::-1]");
    terminal.ends_with("Out[3]: ('ada', '2retnuh')\nIn [4]:");
    // The kernel sends no prompt then.
    terminal.enter("word = getpass.getpass()");
    terminal.ends_with("\nPassword:");
    terminal.press("Enter");
    terminal.ends_with("In [5]:");
}

#[test]
fn what_follows_ctrl_d_at_a_question_begins_a_line() {
    let Some((terminal, _directory)) = open("question", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("input('name: ')");
    terminal.ends_with("\nname:");
    terminal.press("C-d");
    terminal.ends_with("EOFError:\nIn [2]:");
    assert!(terminal.screen().contains("\nname:\n---"), "{}", terminal.screen());
}

#[test]
fn tab_completes_from_the_kernel() {
    let Some((terminal, _directory)) = open("tab", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("zebra_one = zebra_two = 'é'");
    terminal.ends_with("In [2]:");
    terminal.write("'é', zeb");
    terminal.press("Tab");
    // What they share is put in, and the menu shows them.
    terminal.contains("In [2]: 'é', zebra_\nzebra_one");
    terminal.write("t");
    terminal.ends_with("In [2]: 'é', zebra_t\nzebra_two");
    terminal.press("Tab");
    terminal.contains("In [2]: 'é', zebra_two");
    terminal.press("Enter");
    terminal.ends_with("Out[2]: ('é', 'é')\nIn [3]:");
}

#[test]
fn the_screen_is_safe_from_the_container() {
    let Some((terminal, _directory)) = open("escape", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter(r"print('\x1b]0;pwned\x07\x1b[2J\x1b[31mred')");
    terminal.ends_with("\nred\nIn [2]:");
    terminal.enter(r"class E(Exception): __qualname__ = __name__ = '\x1b[2Jgone'");
    terminal.press("Enter");
    terminal.ends_with("In [3]:");
    terminal.enter("raise E()");
    terminal.ends_with("In [4]:");
    // `globals()` takes any name, and a completion would put it into the line.
    terminal.enter(r"globals()['qq\x1b]0;pwned\x07'] = 1");
    terminal.ends_with("In [5]:");
    terminal.write("qq");
    terminal.press("Tab");
    terminal.ends_with("In [5]: qq\nNO RECORDS FOUND");
    assert!(terminal.screen().contains("In [1]:"), "{}", terminal.screen());
    assert!(!terminal.title().contains("pwned"));
}

#[test]
fn a_kernel_that_dies_is_told_of() {
    let Some((terminal, _directory)) = open("dies", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("x = 1");
    terminal.ends_with("In [2]:");
    terminal.enter("import os; os._exit(3)");
    let words = "the kernel was restarted: variables are gone, files are kept\nIn [1]:";
    terminal.ends_with(&format!("the kernel died: exit code 3; {words}"));
    terminal.enter("x = 2");
    terminal.ends_with("In [2]:");
    terminal.enter(":restart");
    terminal.ends_with(words);
    terminal.enter("'x' in globals()");
    terminal.ends_with("Out[1]: False\nIn [2]:");
    terminal.enter(":help");
    terminal.contains("leave, as exit and quit do");
    terminal.enter("exit");
    terminal.ends_with("ended with 0");
}

/// What the cell after it was run by is the new kernel, whose first it was.
#[test]
fn a_kernel_that_died_between_two_cells_does_not_confuse_the_numbers() {
    let Some((terminal, _directory)) = open("between", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("import os; os.kill(os.getppid(), 9)");
    terminal.contains("In [1]: import os; os.kill(os.getppid(), 9)\n");
    terminal.enter("7 * 6");
    terminal.contains("Out[1]: 42");
    terminal.ends_with("In [2]:");
}

#[test]
fn a_session_that_was_there_goes_on() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "repl");
    assert_eq!(session.run("x = 41").code, 0);
    let Some((terminal, _directory)) = open("attached", &["--session", &session.0]) else { return };
    terminal.ends_with("In [ ]:");
    terminal.enter("x += 1");
    terminal.ends_with("In [3]:");
    terminal.press("C-d");
    terminal.ends_with("ended with 0");
    assert_eq!(session.run("x").stdout, "42\n");
}

#[test]
fn a_session_of_its_own_ends_with_it() {
    let Some((terminal, _directory)) = open("owned", &["--env", "MARK=repl-owned"]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("import socket; 'host=' + socket.gethostname()");
    terminal.ends_with("In [2]:");
    let screen = terminal.screen();
    let (_, host) = screen.split_once("Out[1]: 'host=").expect("the container's name");
    let host = host[..12].to_owned();
    let listed = || run(["session", "list", "--json"]).stdout.contains(&host);
    assert!(listed());
    terminal.press("C-d");
    terminal.ends_with("ended with 0");
    eventually("the container is removed", || !listed());
}

#[test]
fn history_is_kept_and_private() {
    let Some((terminal, directory)) = open("history", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal.enter("first = 'typed'");
    terminal.ends_with("In [2]:");
    let file = directory.path().join("state/cellblock/history");
    assert_eq!(fs::read_to_string(&file).unwrap(), "first = 'typed'\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    terminal.press("Up");
    terminal.ends_with("In [2]: first = 'typed'");
}

#[test]
fn figures_are_saved() {
    let Some((terminal, directory)) = open("figures", &[]) else { return };
    terminal.ends_with("In [1]:");
    terminal
        .enter("from IPython.display import SVG, display; display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))");
    terminal.contains("saved figure-1.svg");
    assert!(fs::read_to_string(directory.path().join("figure-1.svg")).unwrap().starts_with("<svg"));
}
