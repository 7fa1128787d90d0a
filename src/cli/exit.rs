//! Exit codes of the `cellblock` command: a stable interface, listed in `--help` and in the README.

use std::process::ExitCode;

use cellblock::{Error, ScriptStatus, Status};

use super::printer::{Closed, Usage};

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All cells ran to their end.
    Ok,
    /// A cell raised a Python exception.
    PythonError,
    /// The command line, or a file that it names, is not usable; nothing ran.
    Usage,
    /// A cell's time was up.
    TimedOut,
    /// The kernel process ended during a cell, out of memory included.
    KernelDied,
    /// The container ended.
    ContainerGone,
    /// No container engine answered.
    EngineUnreachable,
    /// cellblock itself failed: image missing, name taken, session held by another …
    Failed,
    /// A cell was interrupted, or Ctrl-C ended the command.
    Interrupted,
    /// A script, or the blocks of a message, ended by itself with this code, or was ended by the signal whose number and 128 this is.
    Script(u8),
}

/// The table for `--help`.
pub(crate) const HELP: &str = "\
Exit codes (of several cells, that of the first which is not ok):
    0  ok
    1  Python error
    2  usage: nothing ran
    3  timed out
    4  the kernel died, out of memory included
    5  the container is gone
    6  no container engine answered
    7  cellblock itself failed: image missing, name taken, session held …
  130  interrupted";

/// The table of `cellblock shell`.
pub(crate) const SHELL_HELP: &str = "\
Exit codes: the script's own, or 128 and the signal's number if one ended it. Besides these, where stderr (and `status` with --json) says so:
    2  usage: nothing ran
    3  timed out
    5  the container is gone
    6  no container engine answered
    7  cellblock itself failed: image missing, name taken, session held …
  130  interrupted";

impl Exit {
    /// The process's exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::PythonError => 1,
            Self::Usage => 2,
            Self::TimedOut => 3,
            Self::KernelDied => 4,
            Self::ContainerGone => 5,
            Self::EngineUnreachable => 6,
            Self::Failed => 7,
            Self::Interrupted => 130,
            Self::Script(code) => code,
        }
    }

    /// The code for a script that ended so.
    pub(crate) fn of_script(status: &ScriptStatus) -> Self {
        match status {
            ScriptStatus::Exited(0) => Self::Ok,
            ScriptStatus::Exited(code) => u8::try_from(*code).map_or(Self::Failed, Self::Script),
            ScriptStatus::Signaled(signal) => u8::try_from(128 + signal).map_or(Self::Failed, Self::Script),
            ScriptStatus::TimedOut => Self::TimedOut,
            ScriptStatus::Interrupted => Self::Interrupted,
            ScriptStatus::ContainerGone(_) => Self::ContainerGone,
            _ => Self::Failed,
        }
    }

    /// The code for a cell that ended so.
    pub(crate) fn of_status(status: &Status) -> Self {
        match status {
            Status::Ok => Self::Ok,
            Status::Error(_) | Status::Aborted => Self::PythonError,
            Status::TimedOut => Self::TimedOut,
            Status::Interrupted => Self::Interrupted,
            Status::KernelDied(_) => Self::KernelDied,
            Status::ContainerGone(_) => Self::ContainerGone,
            _ => Self::Failed,
        }
    }

    /// The code for a failure, by the first cause that has one of its own.
    ///
    /// A reader of stdout that has seen enough, such as `head`, is no failure.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        let specific = |cause: &(dyn std::error::Error + 'static)| {
            if cause.is::<Closed>() {
                return Some(Self::Ok);
            }
            if cause.is::<Usage>() {
                return Some(Self::Usage);
            }
            let error = cause.downcast_ref::<Error>()?;
            match () {
                () if error.is_engine_unreachable() => Some(Self::EngineUnreachable),
                () if error.is_session_gone() => Some(Self::ContainerGone),
                () if error.is_usage() || error.is_no_such_file() => Some(Self::Usage),
                () => None,
            }
        };
        error.chain().find_map(specific).unwrap_or(Self::Failed)
    }

    /// The code of a run of several: the first that is not ok.
    pub(crate) fn or(self, next: Self) -> Self {
        if self == Self::Ok { next } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn the_help_lists_every_code() {
        for exit in [
            Exit::Ok,
            Exit::PythonError,
            Exit::Usage,
            Exit::TimedOut,
            Exit::KernelDied,
            Exit::ContainerGone,
            Exit::EngineUnreachable,
            Exit::Failed,
            Exit::Interrupted,
        ] {
            assert!(HELP.contains(&format!("{:>3}  ", exit.code())), "{exit:?}");
        }
    }

    #[test]
    fn the_first_failure_decides() {
        assert_eq!(Exit::Ok.or(Exit::TimedOut), Exit::TimedOut);
        assert_eq!(Exit::TimedOut.or(Exit::Ok), Exit::TimedOut);
        assert_eq!(Exit::PythonError.or(Exit::TimedOut), Exit::PythonError);
    }

    #[test]
    fn causes_are_found_under_contexts() {
        let closed = Err::<(), _>(Closed).context("cannot print").unwrap_err();
        assert_eq!(Exit::of_error(&closed), Exit::Ok);
        let usage = Err::<(), _>(Usage("no".into())).context("cannot begin").unwrap_err();
        assert_eq!(Exit::of_error(&usage), Exit::Usage);
        assert_eq!(Exit::of_error(&anyhow!("odd")), Exit::Failed);
    }
}
