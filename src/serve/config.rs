//! What a server is told when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cellblock::SessionBuilder;

use super::http::auth::Secret;

/// How the server listens, whom it lets in, and what it gives out.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) https: Option<(SocketAddr, Certificate)>,
    /// The tokens that are let in; none: anybody is.
    pub(crate) tokens: Option<Vec<Secret>>,
    /// The secret of the managed identity's endpoint, if there is one.
    pub(crate) identity: Option<Secret>,
    /// Names in `Host` besides addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// Origins of pages that may call, besides our own.
    pub(crate) origins: Vec<String>,
    pub(crate) sessions: Sessions,
    pub(crate) limits: Limits,
    /// How long running cells may go on when the server ends.
    pub(crate) shutdown_grace: Duration,
    /// Where it is kept which sessions the next start takes over.
    pub(crate) keep: Option<PathBuf>,
}

/// Where the certificate comes from.
#[derive(Debug)]
pub(crate) enum Certificate {
    /// One of our own, kept in this directory.
    SelfSigned(PathBuf),
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
}

/// What sessions are made of, how many there are and how long they last.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    pub(crate) template: SessionBuilder,
    pub(crate) ceiling: Ceiling,
    pub(crate) most: usize,
    pub(crate) warm: usize,
    pub(crate) idle: Duration,
    pub(crate) life: Duration,
    /// The time of a cell that names none, and the longest that one may name.
    pub(crate) timeout: Duration,
    /// Cells of one session that run or wait.
    pub(crate) queue: usize,
    /// No session is started when the machine has less memory to give than this, in bytes.
    pub(crate) memory_reserve: u64,
}

/// What the template's container may use, and no session more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ceiling {
    pub(crate) memory: u64,
    pub(crate) cpus: f64,
    pub(crate) pids: u32,
}

/// Bounds of requests.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The longest JSON body, in bytes.
    pub(crate) body: usize,
    /// The longest upload, in bytes.
    pub(crate) upload: u64,
    pub(crate) connections: usize,
    /// Requests a second, of all clients with a token together, of all viewers of the page, and of all others.
    pub(crate) rate: Option<u32>,
    /// How long a client may take for a request's head, between two parts of its body, and until it reads more of an answer.
    pub(crate) patience: Duration,
}
