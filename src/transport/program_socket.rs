//! A socket of the host for one program in the container, whose bytes then need not go through the engine.
//!
//! It is in the directory that is mounted, where all code of the container can dial it. The program that the engine started tells, on its own stdout, the
//! token that it has sent over its connection: that one is taken, and the others are closed.

use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{RecvFlags, recv};
use tokio::net::UnixStream;

/// What its names begin with.
const PREFIX: &str = "f-";
/// The token is so many hex digits.
const TOKEN: usize = 32;
/// How many callers are looked at. The queue of a socket holds fewer.
const CALLERS: usize = 1 << 14;
/// What may be on its way, if the system allows so much.
const ROOM: usize = 1 << 20;

/// A listening socket. Its path goes with it.
#[derive(Debug)]
pub(crate) struct ProgramSocket {
    listener: UnixListener,
    path: PathBuf,
    name: String,
}

impl ProgramSocket {
    pub(crate) fn bind(mounted: &Path) -> io::Result<Self> {
        let name = format!("{PREFIX}{}", uuid::Uuid::new_v4().simple().to_string().split_off(16));
        let path = mounted.join(&name);
        let socket = Self { listener: UnixListener::bind(&path)?, path, name };
        socket.listener.set_nonblocking(true)?;
        // The container's user need not be ours.
        std::fs::set_permissions(&socket.path, std::fs::Permissions::from_mode(0o666))?;
        Ok(socket)
    }

    /// Its name in the directory.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Takes the connection over which this token has come, and listens no longer. Waits for nobody: the program dials before it tells the token.
    pub(crate) fn take(self, token: &str) -> io::Result<UnixStream> {
        for _ in 0..CALLERS {
            let (caller, _) = self.listener.accept()?;
            caller.set_nonblocking(true)?;
            let mut said = [0; TOKEN];
            let heard = recv(&caller, &mut said, RecvFlags::empty());
            if heard.is_ok_and(|(_, length)| length == TOKEN) && said == token.as_bytes() {
                set_socket_send_buffer_size(&caller, ROOM)?;
                return UnixStream::from_std(caller);
            }
            // Not told louder: code in the container can do so as often as it likes.
            tracing::debug!("a process dialled the socket of another program");
        }
        Err(ErrorKind::ConnectionRefused.into())
    }
}

impl Drop for ProgramSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes the sockets of a controller that was killed. The caller holds the session.
pub(crate) fn remove_left(mounted: &Path) {
    for entry in std::fs::read_dir(mounted).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    const GIVEN: &str = "0123456789abcdef0123456789abcdef";

    fn dial(socket: &ProgramSocket, token: &str) -> UnixStream {
        let mut caller = UnixStream::connect(&socket.path).unwrap();
        caller.write_all(token.as_bytes()).unwrap();
        caller
    }

    #[tokio::test]
    async fn callers_that_say_nothing_or_the_wrong_thing_neither_hang_nor_win() {
        let directory = tempfile::tempdir().unwrap();
        let socket = ProgramSocket::bind(directory.path()).unwrap();
        let strangers = ["", &GIVEN[1..], &GIVEN.replace('0', "1")].map(|token| dial(&socket, token));
        let mut ours = dial(&socket, GIVEN);
        let late = dial(&socket, GIVEN);
        ours.write_all(b"!").unwrap();
        let mut taken = socket.take(GIVEN).unwrap();
        assert_eq!(taken.read_u8().await.unwrap(), b'!', "the token's own connection, after the token");
        for mut stranger in strangers.into_iter().chain([late]) {
            assert!(matches!(stranger.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_program_that_says_that_it_has_dialled_and_has_not_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        for token in [GIVEN, "", "short"] {
            let socket = ProgramSocket::bind(directory.path()).unwrap();
            let _silent = dial(&socket, "");
            assert_eq!(socket.take(token).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn what_a_killed_controller_left_is_removed_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(directory.path().join(format!("{PREFIX}left"))).unwrap());
        std::fs::write(directory.path().join("bridge.sock"), "").unwrap();
        remove_left(directory.path());
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["bridge.sock"]);
    }
}
