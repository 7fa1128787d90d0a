//! What to run, and its form on the way to `bridge script`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::interpreter::Shell;
use crate::error::{Error, Kind};
use crate::transport::{Frame, MAX_PAYLOAD};

pub(super) const CONTROL: u8 = 0;
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;
pub(super) const STDIN: u8 = 3;
const TEXT: u8 = 4;

/// The longest script and the longest input that are taken, in bytes.
const LIMIT: usize = 64 << 20;
/// The most that Linux lets a program be started with, by default.
const ARGUMENTS_LIMIT: usize = 2 << 20;

/// What is to be run.
pub(crate) enum Program {
    /// A script that we make a file of.
    Text { shell: Shell, text: Bytes },
    /// A file of the session; one that can be executed if there is no interpreter.
    File { path: OsString, shell: Option<Shell> },
    /// The first argument is the program.
    Arguments,
}

/// A script or program with all that it is started with.
pub(crate) struct Request {
    pub(crate) program: Program,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) current_dir: Option<PathBuf>,
    pub(crate) stdin: Option<Bytes>,
    pub(crate) timeout: Duration,
    pub(crate) grace: Duration,
}

/// Without the script, its arguments and its environment, which may hold secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Request {
    pub(crate) fn new(program: Program, timeout: Duration, grace: Duration) -> Self {
        Self { program, args: Vec::new(), env: Vec::new(), current_dir: None, stdin: None, timeout, grace }
    }

    /// What is being attempted, for errors.
    pub(crate) fn attempted(&self) -> String {
        match &self.program {
            Program::Text { .. } => "cannot run the script".to_owned(),
            Program::File { path, .. } => format!("cannot run the file {}", quoted(path)),
            Program::Arguments => {
                format!("cannot run the program {}", quoted(self.args.first().map_or(OsStr::new(""), |arg| arg)))
            }
        }
    }

    /// Refuses what no program can be started with.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::new(Kind::Usage, self.attempted()).with_source(why));
        let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
        if let Program::File { path, .. } = &self.program
            && (path.is_empty() || has_nul(path))
        {
            return refuse("a file's name is not empty and holds no NUL".to_owned());
        }
        if self.shell().is_some_and(|shell| !shell.is_valid()) {
            return refuse("the interpreter has no valid name or arguments".to_owned());
        }
        if matches!(self.program, Program::Arguments) && self.args.first().is_none_or(|program| program.is_empty()) {
            return refuse("no program is named".to_owned());
        }
        if let Some(index) = self.args.iter().position(|arg| has_nul(arg)) {
            return refuse(format!("argument {} holds a NUL, which no program can be given", index + 1));
        }
        for (name, value) in &self.env {
            if name.is_empty() || has_nul(name) || name.as_bytes().contains(&b'=') || has_nul(value) {
                return refuse(format!("the environment variable {} has no valid name or value", quoted(name)));
            }
        }
        if self.current_dir.as_ref().is_some_and(|path| path.as_os_str().is_empty() || has_nul(path.as_os_str())) {
            return refuse("a directory's name is not empty and holds no NUL".to_owned());
        }
        let text = if let Program::Text { text, .. } = &self.program { text.len() } else { 0 };
        if text > LIMIT || self.stdin.as_ref().is_some_and(|stdin| stdin.len() > LIMIT) {
            return Err(Error::new(Kind::Usage, self.attempted())
                .with_source("a script, or its stdin, of more than 64 MiB")
                .with_hint("put the data into a file of the session and read it from there"));
        }
        let words = self.args.iter().map(|arg| arg.len()).chain(self.env.iter().map(|(k, v)| k.len() + v.len()));
        if words.sum::<usize>() > ARGUMENTS_LIMIT {
            return refuse("its arguments and environment have more than 2 MiB together".to_owned());
        }
        Ok(())
    }

    pub(super) fn shell(&self) -> Option<&Shell> {
        match &self.program {
            Program::Text { shell, .. } => Some(shell),
            Program::File { shell, .. } => shell.as_ref(),
            Program::Arguments => None,
        }
    }

    /// All that is sent before the script starts.
    pub(super) fn frames(&self) -> Vec<Frame> {
        let mut fields = Fields::default();
        fields.put("timeout", format!("{:.3}", self.timeout.as_secs_f64()).as_bytes());
        fields.put("grace", format!("{:.3}", self.grace.as_secs_f64()).as_bytes());
        for word in self.shell().map(Shell::argv).unwrap_or_default() {
            fields.put("run", word.as_bytes());
        }
        let mut text = Bytes::new();
        match &self.program {
            Program::Text { shell, text: script } => {
                fields.put("suffix", shell.suffix().as_bytes());
                text.clone_from(script);
            }
            Program::File { path, .. } => fields.put("file", path.as_bytes()),
            Program::Arguments => {}
        }
        self.args.iter().for_each(|arg| fields.put("arg", arg.as_bytes()));
        for (name, value) in &self.env {
            fields.put("env", &[name.as_bytes(), b"=", value.as_bytes()].concat());
        }
        if let Some(path) = &self.current_dir {
            fields.put("cwd", path.as_os_str().as_bytes());
        }
        if self.stdin.is_some() {
            fields.put("stdin", b"");
        }
        let fields = pieces(fields.0.freeze()).map(|piece| Frame::data(CONTROL, piece));
        // A script may be empty; a file is made of it all the same.
        let empty = matches!(self.program, Program::Text { .. }) && text.is_empty();
        let text = pieces(text).chain(empty.then(Bytes::new)).map(|piece| Frame::data(TEXT, piece));
        fields.chain(text).chain([Frame::close(TEXT)]).collect()
    }
}

pub(super) fn quoted(text: &OsStr) -> String {
    format!("{:?}", text.to_string_lossy())
}

/// `name NUL value NUL` …
#[derive(Default)]
struct Fields(BytesMut);

impl Fields {
    fn put(&mut self, name: &str, value: &[u8]) {
        self.0.put_slice(name.as_bytes());
        self.0.put_u8(0);
        self.0.put_slice(value);
        self.0.put_u8(0);
    }
}

/// What fits into frames.
pub(super) fn pieces(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(MAX_PAYLOAD))))
}
