//! Why an operation failed, and what is told of it.

use std::io;

use crate::Error;
use crate::engine::ExecEnd;
use crate::error::{Kind, Ran};
use crate::kernel::Handle;

/// How much of what the container says is quoted.
const QUOTE: usize = 300;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// `bridge files` could not be started.
    #[error(transparent)]
    Start(Error),
    /// Our own side failed: complete as it is.
    #[error(transparent)]
    Own(#[from] Error),
    /// The bridge refused, by a code of its own.
    #[error("refused")]
    Refused { code: String, text: String },
    #[error("the bridge ended before it had answered")]
    Ended(Option<ExecEnd>),
    #[error("the container broke the protocol: {0}")]
    Broken(&'static str),
    #[error("nothing moved for {0} s")]
    Stalled(u64),
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Nobody waits for it any more.
    #[error("it was given up")]
    Abandoned,
}

impl Failure {
    /// There is more than the host takes.
    pub(super) fn many() -> Self {
        Self::Refused { code: "many".to_owned(), text: String::new() }
    }
}

/// What is being attempted, for errors.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    text: String,
    handle: Handle,
}

impl Attempt {
    pub(super) fn new(text: String, handle: &Handle) -> Self {
        Self { text, handle: handle.clone() }
    }

    pub(super) fn error(&self, kind: Kind) -> Error {
        Error::new(kind, self.text.as_str())
    }

    /// The error of an operation that changed nothing.
    pub(super) fn fail(&self, failure: Failure) -> Error {
        self.explain(failure, Ran::Never)
    }

    /// The error of an operation that may have been done.
    pub(super) fn fail_unknown(&self, failure: Failure) -> Error {
        self.explain(failure, Ran::Unknown)
    }

    fn explain(&self, failure: Failure, lost: Ran) -> Error {
        match failure {
            Failure::Own(error) => error,
            Failure::Refused { code, text } => self.refused(&code, &text),
            Failure::Start(error) if error.is_session_gone() || self.handle.has_ended() => {
                self.handle.gone(&self.text, Ran::Never)
            }
            Failure::Start(error) => self.error(error.kind()).with_source(error),
            _ if self.handle.has_ended() => self.handle.gone(&self.text, lost),
            Failure::Ended(end) => self.ended(end).with_ran(lost),
            failure @ Failure::Broken(_) => self.error(Kind::Protocol).with_source(failure).with_ran(lost),
            failure => self.error(Kind::Io).with_source(failure).with_ran(lost),
        }
    }

    fn ended(&self, end: Option<ExecEnd>) -> Error {
        let Some(code) = end.as_ref().and_then(|end| end.code) else {
            return self.handle.gone(&self.text, Ran::Never);
        };
        let said = quote(&String::from_utf8_lossy(&end.map(|end| end.stderr).unwrap_or_default()));
        let error =
            self.error(Kind::Protocol).with_source(format!("`bridge files` ended with exit code {code}: {said}"));
        if [64, 126, 127].contains(&code) {
            return error.with_hint("the session's image may be older than this cellblock: `cellblock image build`");
        }
        error
    }

    fn refused(&self, code: &str, text: &str) -> Error {
        let with = |kind, why: &str| self.error(kind).with_source(why);
        match code {
            "missing" => with(Kind::NoSuchFile, "there is no such file or directory in the session"),
            "directory" => with(Kind::Usage, "it is a directory").with_hint("name a file in it"),
            "not_directory" => with(Kind::Usage, "a part of the path is a file and no directory"),
            "link" => with(Kind::Link, "it is, or leads through, a symbolic link, and none is followed"),
            "other" => with(Kind::Usage, "it is no regular file, but a pipe, a socket or a device"),
            "exists" => with(Kind::Usage, "there is something of that name already")
                .with_hint("remove it first, or choose another name"),
            "name" => with(Kind::Usage, "the file system does not take that name"),
            "many" => {
                with(Kind::Usage, "there are too many files").with_hint("pack them into an archive in the session")
            }
            "large" => with(Kind::Usage, "there is more data than the limit").with_hint(
                "`open` and `download` take more than `get`, and a download's limit can be raised: `max_bytes`, `--max-size`",
            ),
            "deep" => with(Kind::Usage, "the tree is too deep").with_hint("pack it into an archive in the session"),
            "full" => with(Kind::NoSpace, "no space is left in the session's work directory"),
            "denied" => with(Kind::Denied, "the file's permissions in the session do not let us"),
            "changed" => with(Kind::Io, "it was changed while it was read").with_hint("try again"),
            _ => self.error(Kind::Io).with_source(format!("the bridge refused: {}", quote(text))),
        }
    }
}

fn quote(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(QUOTE).collect()
}
