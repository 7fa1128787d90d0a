//! What is done with the blocks of each language.

use std::collections::BTreeMap;

use crate::{Interpreter, Shell};

/// How blocks of Python run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PythonMode {
    /// As cells of the kernel (the default): variables are kept between blocks and between messages.
    #[default]
    Kernel,
    /// As files, each in a process of its own.
    File,
}

/// What is done with the blocks of each language.
///
/// | language | by default |
/// | --- | --- |
/// | `python`, `py`, `python3`, `ipython` | runs as [`PythonMode`] says |
/// | `bash`; `sh`, `shell` | runs as a file by Bash; by the POSIX shell |
/// | `pwsh`, `powershell`, `ps1` | runs as a file by PowerShell, if the image has it |
/// | `javascript`, `js`; `html`; `css` | is saved |
/// | any other | is unsupported |
///
/// Names are the same in any case. [`run`](Self::run) and [`save`](Self::save) say otherwise for a language:
///
/// ```
/// # use cellblock::{Policy, PythonMode};
/// let policy = Policy::default().python(PythonMode::File).run("javascript", "node").run("r", "Rscript").save("json");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Policy {
    python: PythonMode,
    languages: BTreeMap<String, Handling>,
}

/// What is done with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Handling {
    Kernel,
    Run(Shell),
    Save,
}

impl Default for Policy {
    fn default() -> Self {
        let run = |language: &str, shell| (language.to_owned(), Handling::Run(shell));
        let save = |language: &str| (language.to_owned(), Handling::Save);
        let languages = [
            run("bash", Shell::Bash),
            run("sh", Shell::Sh),
            run("shell", Shell::Sh),
            run("pwsh", Shell::Pwsh),
            run("powershell", Shell::Pwsh),
            run("ps1", Shell::Pwsh),
            save("javascript"),
            save("html"),
            save("css"),
        ];
        Self { python: PythonMode::default(), languages: languages.into() }
    }
}

impl Policy {
    /// How blocks of Python run.
    pub fn python(mut self, mode: PythonMode) -> Self {
        self.python = mode;
        self
    }

    /// Runs the blocks of a language as files, with this interpreter.
    pub fn run(mut self, language: impl AsRef<str>, interpreter: impl Into<Shell>) -> Self {
        self.languages.insert(canonical(language.as_ref()), Handling::Run(interpreter.into()));
        self
    }

    /// Saves the blocks of a language as files, and does not run them.
    pub fn save(mut self, language: impl AsRef<str>) -> Self {
        self.languages.insert(canonical(language.as_ref()), Handling::Save);
        self
    }

    /// What is done with blocks of this language, by its canonical name; none if it is not supported.
    pub(super) fn handling(&self, language: &str) -> Option<Handling> {
        let by_mode = || match self.python {
            PythonMode::Kernel => Handling::Kernel,
            PythonMode::File => Handling::Run(Interpreter::new("python").into()),
        };
        self.languages.get(language).cloned().or_else(|| (language == PYTHON).then(by_mode))
    }
}

pub(super) const PYTHON: &str = "python";
/// The languages in which `pip` is a command.
pub(super) const SHELLS: [&str; 6] = ["bash", "sh", "shell", "pwsh", "powershell", "ps1"];

/// A language's name as the policy knows it.
pub(super) fn canonical(language: &str) -> String {
    let name = language.trim().to_lowercase();
    match name.as_str() {
        "py" | "python3" | "ipython" | "ipython3" => PYTHON.to_owned(),
        "js" => "javascript".to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handling(policy: &Policy, language: &str) -> Option<Handling> {
        policy.handling(&canonical(language))
    }

    #[test]
    fn languages_go_by_their_names_in_any_case() {
        let policy = Policy::default();
        for python in ["python", "Python", "py", "PYTHON3", " python "] {
            assert_eq!(handling(&policy, python), Some(Handling::Kernel), "{python}");
        }
        assert_eq!(handling(&policy, "Bash"), Some(Handling::Run(Shell::Bash)));
        assert_eq!(handling(&policy, "shell"), Some(Handling::Run(Shell::Sh)));
        assert_eq!(handling(&policy, "PowerShell"), Some(Handling::Run(Shell::Pwsh)));
        assert_eq!(handling(&policy, "js"), Some(Handling::Save));
        for unknown in ["", "rust", "pythonic", "json"] {
            assert_eq!(handling(&policy, unknown), None, "{unknown}");
        }
    }

    #[test]
    fn an_entry_overrides() {
        let policy = Policy::default().run("js", "node").save("Bash").save("json");
        assert_eq!(handling(&policy, "javascript"), Some(Handling::Run(Interpreter::new("node").into())));
        assert_eq!(handling(&policy, "bash"), Some(Handling::Save));
        assert_eq!(handling(&policy, "json"), Some(Handling::Save));
        assert_eq!(handling(&policy.clone().save("py"), "python"), Some(Handling::Save));
        let by_file = Some(Handling::Run(Interpreter::new("python").into()));
        assert_eq!(handling(&policy.python(PythonMode::File), "python"), by_file);
    }
}
