//! `cellblock run` on a terminal.

use crate::support::{Terminal, cells, image};

#[test]
fn only_colour_reaches_the_terminal() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    let code = r"print('\x1b]0;pwned\x07\x1b[31mred\x1b[0m\x1b[2J\x1b[5;5Hmoved \x1b[6n|')
import sys
print('\x1b[32', end='', flush=True)
print('mgreen\x9b2J', file=sys.stdout)
raise ValueError('\x1b]0;pwned\x07 plain')";
    let Some(terminal) = Terminal::open("colour", directory.path(), &cells(image, ["-c", code])) else { return };
    terminal.contains("ended with 1");
    let screen = terminal.screen();
    assert!(screen.starts_with("redmoved |\ngreen\n"), "{screen}");
    assert!(screen.contains("ValueError:  plain"), "{screen}");
    let coloured = terminal.coloured();
    assert!(coloured.contains("\x1b[31mred"), "{coloured}");
    assert!(coloured.contains("\x1b[32mgreen"), "{coloured}");
    assert!(!terminal.title().contains("pwned"));
}

#[test]
fn passwords_are_not_shown() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    let code = "import getpass\nname = input('name: ')\nword = getpass.getpass('word: ')\nprint(name, len(word))";
    let Some(terminal) = Terminal::open("password", directory.path(), &cells(image, ["-c", code])) else { return };
    terminal.ends_with("name:");
    terminal.enter("ada");
    terminal.ends_with("word:");
    terminal.enter("hunter2");
    terminal.ends_with("ended with 0");
    assert_eq!(terminal.screen(), "name: ada\nword:\nada 7\nended with 0");
}

#[test]
fn ctrl_c_ends_the_wait_for_a_line_and_leaves_the_terminal_as_it_was() {
    let Some(image) = image() else { return };
    let directory = tempfile::tempdir().unwrap();
    let code = "import getpass\ngetpass.getpass('word: ')";
    let mut command = cells(image, ["-c", code]);
    // What is typed afterwards is to be shown again.
    command = {
        let mut shell = std::process::Command::new("sh");
        let line = format!(
            "trap : INT; {} {}; cat",
            quoted(command.get_program()),
            command.get_args().map(quoted).collect::<Vec<_>>().join(" ")
        );
        shell.args(["-c", &line]);
        shell
    };
    let Some(terminal) = Terminal::open("leave", directory.path(), &command) else { return };
    terminal.ends_with("word:");
    terminal.write("half");
    terminal.press("C-c");
    terminal.contains("interrupted; variables are kept");
    terminal.write("visible");
    terminal.ends_with("visible");
    assert!(!terminal.screen().contains("half"));
}

fn quoted(word: &std::ffi::OsStr) -> String {
    format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''"))
}
