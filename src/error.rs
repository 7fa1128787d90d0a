//! The library's error: what was attempted, why it failed, whether the code ran, and what to do.

use std::fmt;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A failure of cellblock itself. A Python exception is not one: it is the outcome of a successful call.
///
/// The text names what was being attempted; [`source`](std::error::Error::source) goes on to the cause.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    attempted: String,
    hint: Option<String>,
    ran: Ran,
    source: Option<Source>,
}

/// What kind of failure it was; users ask by the predicates of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    EngineUnreachable,
    Engine,
    ImageMissing,
    NameTaken,
    NoSuchSession,
    NoSuchFile,
    NoSpace,
    Denied,
    Held,
    Gone,
    Start,
    Protocol,
    Usage,
    /// A path that leads through a symbolic link: a usage error too.
    Link,
    /// The engine does not find the session's directory: a usage error too.
    Mount,
    Io,
}

/// Whether the code of a failed call ran: an agent must not repeat a side effect.
///
/// cellblock itself repeats no call: what is worth another try, and when, only the caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ran {
    /// It never ran, or the call had none: trying again repeats nothing.
    Never,
    /// It ran, at least in part.
    Yes,
    /// It may have run: it was handed over, and no word came of its end, or the session was let go before.
    Unknown,
}

impl Error {
    pub(crate) fn new(kind: Kind, attempted: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, attempted: attempted.into(), hint: None, ran: Ran::Never, source: None }))
    }

    /// A failure of a container engine, for those who implement [`Engine`](crate::Engine).
    pub fn engine(attempted: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(Kind::Engine, attempted).with_source(source)
    }

    /// An engine has a container of that name already, for those who implement [`Engine`](crate::Engine).
    pub fn name_taken(name: &str) -> Self {
        Self::new(Kind::NameTaken, format!("there is a container {name} already"))
    }

    /// An engine has no such image, for those who implement [`Engine`](crate::Engine).
    pub fn image_missing(image: &str) -> Self {
        Self::new(Kind::ImageMissing, format!("there is no image {image}"))
    }

    pub(crate) fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_ran(mut self, ran: Ran) -> Self {
        self.0.ran = ran;
        self
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What the person in front of it can do, in a sentence or a command.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Whether the code ran. Try a call again by itself only where this is [`Ran::Never`].
    #[must_use]
    pub fn ran(&self) -> Ran {
        self.0.ran
    }

    /// No container engine answered.
    #[must_use]
    pub fn is_engine_unreachable(&self) -> bool {
        self.kind() == Kind::EngineUnreachable
    }

    /// The image is not there.
    #[must_use]
    pub fn is_image_missing(&self) -> bool {
        self.kind() == Kind::ImageMissing
    }

    /// A session of that name exists already.
    #[must_use]
    pub fn is_name_taken(&self) -> bool {
        self.kind() == Kind::NameTaken
    }

    /// There is no session of that name.
    #[must_use]
    pub fn is_no_such_session(&self) -> bool {
        self.kind() == Kind::NoSuchSession
    }

    /// There is no such file or directory in the session.
    #[must_use]
    pub fn is_no_such_file(&self) -> bool {
        self.kind() == Kind::NoSuchFile
    }

    /// No space is left in the session's work directory.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        self.kind() == Kind::NoSpace
    }

    /// A file's permissions in the session do not let us.
    #[must_use]
    pub fn is_permission_denied(&self) -> bool {
        self.kind() == Kind::Denied
    }

    /// Another controller holds the session.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.kind() == Kind::Held
    }

    /// The session has ended: it was stopped, or its container is gone.
    #[must_use]
    pub fn is_session_gone(&self) -> bool {
        self.kind() == Kind::Gone
    }

    /// An argument is wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self.kind(), Kind::Usage | Kind::Link | Kind::Mount)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.attempted)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
