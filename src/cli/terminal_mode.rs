//! What the terminal does with keys while they are not read by the line editor.

use std::io::{IsTerminal as _, stdin};

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A setting of the terminal on stdin, until dropped.
pub(crate) struct TerminalMode {
    before: Termios,
}

impl TerminalMode {
    /// A line is asked for: it is shown as it is typed, unless it is a password.
    pub(crate) fn asking(password: bool) -> Option<Self> {
        Self::set(|mode| {
            mode.input_modes.insert(InputModes::ICRNL);
            mode.local_modes.set(LocalModes::ECHO, !password);
        })
    }

    /// Nothing is asked for: what is typed is for the line editor, later. It is not shown twice, and Enter stays the key Enter,
    /// which the editor would not know from Ctrl-J otherwise.
    pub(crate) fn typing_ahead() -> Option<Self> {
        Self::set(|mode| {
            mode.input_modes.remove(InputModes::ICRNL);
            mode.local_modes.remove(LocalModes::ECHO);
        })
    }

    /// As it is now, whatever comes.
    pub(crate) fn keep() -> Option<Self> {
        Self::set(|_| {})
    }

    fn set(change: impl FnOnce(&mut Termios)) -> Option<Self> {
        let stdin = stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut mode = before.clone();
        change(&mut mode);
        tcsetattr(&stdin, OptionalActions::Drain, &mode).ok()?;
        Some(Self { before })
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.before);
    }
}
