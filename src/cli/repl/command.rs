//! The REPL's own commands: none of them is Python.

/// What a line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// It is code.
    Run,
    Help,
    Restart,
    Quit,
    /// It begins as a command does, and is none.
    Unknown,
}

pub(super) const HELP: &str = "\
Enter       run the cell, or begin a new line if it is not complete; a blank line ends an indented block
Alt-Enter   begin a new line in any case
Tab         complete, or indent where nothing is written yet
Ctrl-C      clear the line; while a cell runs, interrupt it and keep the variables
Ctrl-D      leave
Ctrl-R      search the history
x?  x??     help on x, and its source; %time, %who, %%timeit and IPython's other magics work too
:restart    restart the kernel: variables are gone, files are kept
:help       this text
:quit       leave, as exit and quit do";

impl Command {
    pub(super) fn of(line: &str) -> Self {
        match line.trim() {
            ":help" | ":h" | ":?" => Self::Help,
            ":restart" => Self::Restart,
            ":quit" | ":q" | "exit" | "quit" | "exit()" | "quit()" => Self::Quit,
            other if other.starts_with(':') => Self::Unknown,
            _ => Self::Run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_no_python() {
        assert_eq!(Command::of(" :restart\n"), Command::Restart);
        assert_eq!(Command::of("exit"), Command::Quit);
        assert_eq!(Command::of(":nonsense"), Command::Unknown);
        assert_eq!(Command::of("x[:1]"), Command::Run);
        assert_eq!(Command::of("exit(1) if x else None"), Command::Run);
    }
}
