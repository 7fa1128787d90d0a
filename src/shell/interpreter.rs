//! What runs a script.

/// What runs a script. `"node".into()` is the interpreter of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shell {
    /// The POSIX shell.
    Sh,
    /// Bash.
    Bash,
    /// PowerShell, without a profile and without prompts.
    Pwsh,
    /// Any other interpreter.
    Other(Interpreter),
}

/// An interpreter that takes a script's file as its argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    program: String,
    args: Vec<String>,
    suffix: String,
}

impl Interpreter {
    /// A program of the image, by its name or its absolute path: `node`, `Rscript`, `ruby` …
    pub fn new(program: impl Into<String>) -> Self {
        let program = program.into();
        let suffix = match program.rsplit('/').next().unwrap_or_default() {
            "node" => ".js",
            "Rscript" => ".R",
            "ruby" => ".rb",
            "perl" => ".pl",
            name if name.starts_with("python") => ".py",
            _ => "",
        };
        Self { suffix: suffix.to_owned(), args: Vec::new(), program }
    }

    /// Adds an argument that stands before the script's file.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// How the names of its scripts end, where it asks for that: `.js`. Known already for the usual ones.
    #[must_use]
    pub fn suffix(mut self, suffix: impl Into<String>) -> Self {
        self.suffix = suffix.into();
        self
    }
}

impl From<&str> for Shell {
    fn from(name: &str) -> Self {
        match name {
            "sh" => Self::Sh,
            "bash" => Self::Bash,
            "pwsh" => Self::Pwsh,
            other => Self::Other(Interpreter::new(other)),
        }
    }
}

impl From<Interpreter> for Shell {
    fn from(interpreter: Interpreter) -> Self {
        Self::Other(interpreter)
    }
}

impl Shell {
    /// The program that it needs.
    #[must_use]
    pub fn program(&self) -> &str {
        match self {
            Self::Sh => "sh",
            Self::Bash => "bash",
            Self::Pwsh => "pwsh",
            Self::Other(interpreter) => &interpreter.program,
        }
    }

    /// All that stands before the script's file.
    pub(super) fn argv(&self) -> Vec<&str> {
        let args: Vec<&str> = match self {
            Self::Sh | Self::Bash => Vec::new(),
            Self::Pwsh => vec!["-NoLogo", "-NoProfile", "-NonInteractive", "-File"],
            Self::Other(interpreter) => interpreter.args.iter().map(String::as_str).collect(),
        };
        [vec![self.program()], args].concat()
    }

    pub(super) fn suffix(&self) -> &str {
        match self {
            Self::Sh | Self::Bash => ".sh",
            Self::Pwsh => ".ps1",
            Self::Other(interpreter) => &interpreter.suffix,
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        let words = self.argv();
        !self.program().is_empty()
            && !words.iter().any(|word| word.contains('\0'))
            && !self.suffix().contains(['/', '\0'])
    }
}
