//! From the client's errors to ours: what was attempted, and whether the engine is still there.

use bollard::errors::Error as ClientError;

use crate::Error;
use crate::error::Kind;

/// The error of a failed request. A lost engine is [`Kind::EngineUnreachable`], whatever was attempted.
pub(in crate::engine) fn failed(kind: Kind, attempted: impl Into<String>, error: ClientError) -> Error {
    if is_lost(&error) {
        return Error::new(Kind::EngineUnreachable, attempted)
            .with_source(error)
            .with_hint("the container engine was lost: is it still running?");
    }
    Error::new(kind, attempted).with_source(error)
}

/// Whether the engine answered with this status.
pub(in crate::engine) fn is_status(error: &ClientError, status: u16) -> bool {
    matches!(error, ClientError::DockerResponseServerError { status_code, .. } if *status_code == status)
}

/// What the engine said, if it answered.
pub(super) fn message(error: &ClientError) -> Option<&str> {
    match error {
        ClientError::DockerResponseServerError { message, .. } => Some(message),
        _ => None,
    }
}

/// Whether the engine misses the network: Docker says so when the container starts, Podman when it is created.
pub(super) fn is_missing_network(error: &ClientError) -> bool {
    message(error).is_some_and(|text| text.contains("network") && text.contains("not found"))
}

/// Whether the container's own program is not in its image, in the words of runc or of crun.
pub(super) fn is_missing_program(error: &ClientError) -> bool {
    message(error).is_some_and(|text| {
        text.contains("executable file") && text.contains("not found")
            || text.contains("exec:") && text.contains("no such file or directory")
    })
}

pub(super) const PROGRAM_HINT: &str = "the image is none of cellblock's: `cellblock image build` builds one";

/// Whether an engine's words, in lower case, are about a directory that it does not find: Docker's, Podman's, Docker Desktop's.
pub(super) fn is_missing_mount(text: &str) -> bool {
    ["bind source path does not exist", "no such file or directory", "mounts denied"]
        .iter()
        .any(|words| text.contains(words))
}

pub(super) const NETWORK_HINT: &str = "`docker network ls` lists the networks there are";

/// Whether the engine could not be reached or went away in the middle of a request.
pub(super) fn is_lost(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::HyperLegacyError { .. }
            | ClientError::HyperResponseError { .. }
            | ClientError::SocketNotFoundError(_)
            | ClientError::IOError { .. }
    )
}
