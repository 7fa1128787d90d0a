//! Why a script was not run, in words.

use std::io;
use std::os::unix::ffi::OsStrExt as _;

use super::attend::Refusal;
use super::interpreter::Shell;
use super::request::{Program, Request, quoted};
use crate::error::{Error, Kind};

const ENOENT: i32 = 2;
const ENOEXEC: i32 = 8;
const EACCES: i32 = 13;
const EISDIR: i32 = 21;
const ENOSPC: i32 = 28;
const ENOTSUP: i32 = 95;

pub(crate) const PROCESSES_HINT: &str =
    "the session may have reached its limit of processes: end some, or start it with a higher one";

impl Refusal {
    /// The error of a call whose script never ran. What the bridge says chooses the words; none of them is its own but a script's first line.
    pub(crate) fn error(&self, request: &Request, image: &str) -> Error {
        let Self { code, errno, detail } = self;
        let failed = |kind, why: String| Error::new(kind, request.attempted()).with_source(why);
        let system = || io::Error::from_raw_os_error(*errno);
        let name_one = "name an interpreter, or begin the file with a `#!` line and make it executable";
        match (code.as_str(), *errno) {
            ("program", errno) => self.program(request, image, errno),
            ("file", ENOENT) => failed(Kind::Usage, "there is no such file in the session".to_owned())
                .with_hint("names are relative to the work directory, /workspace"),
            ("file", EISDIR) => failed(Kind::Usage, "it is a directory".to_owned()),
            ("file", ENOTSUP) => failed(Kind::Usage, "it is not a regular file".to_owned()),
            ("file", EACCES) => failed(Kind::Usage, "it may not be executed".to_owned()).with_hint(name_one),
            ("file", ENOEXEC) => {
                failed(Kind::Usage, "it is no program, and has no `#!` line".to_owned()).with_hint(name_one)
            }
            ("file", _) => failed(Kind::Usage, format!("{}", system())),
            ("line-ending", _) => {
                failed(Kind::Usage, format!("its first line, {detail:?}, ends in a Windows line ending"))
                    .with_hint("save it with Unix line endings: `sed -i 's/\\r$//' FILE`")
            }
            ("first-line", _) => {
                failed(Kind::Usage, format!("its first line, {detail:?}, names what is not in the image {image}"))
                    .with_hint(base_hint())
            }
            ("cwd", _) => {
                let directory = request.current_dir.as_ref().map_or_else(String::new, |path| quoted(path.as_os_str()));
                failed(Kind::Usage, format!("the directory {directory} cannot be entered: {}", system()))
            }
            ("write", ENOSPC) => failed(Kind::Io, "there is no room for it in the container's /tmp".to_owned())
                .with_hint("remove files there, or give the session more memory"),
            ("write", _) => failed(Kind::Io, format!("it cannot be written to the container's /tmp: {}", system())),
            ("fork", _) => failed(Kind::Start, format!("no process can be made in the container: {}", system()))
                .with_hint(PROCESSES_HINT),
            _ => failed(Kind::Protocol, format!("the bridge refused it: {code:?}")),
        }
    }

    fn program(&self, request: &Request, image: &str, errno: i32) -> Error {
        let named = match (&request.program, request.shell()) {
            (_, Some(shell)) => format!("{:?}", shell.program()),
            (Program::Arguments, None) => request.args.first().map_or_else(String::new, |arg| quoted(arg)),
            (_, None) => "its interpreter".to_owned(),
        };
        let why = match errno {
            ENOENT => format!("there is no {named} in the image {image}"),
            EACCES => format!("{named} in the image {image} may not be executed"),
            _ => format!("{named} in the image {image} cannot be executed: {}", io::Error::from_raw_os_error(errno)),
        };
        let error = Error::new(Kind::Usage, request.attempted()).with_source(why);
        let from_the_image = request.shell().is_some_and(|shell| *shell != Shell::Sh)
            || request.args.first().is_some_and(|program| !program.as_bytes().contains(&b'/'));
        if errno == ENOENT && from_the_image { error.with_hint(base_hint()) } else { error }
    }
}

fn base_hint() -> &'static str {
    "`cellblock image build --base IMAGE` builds on an image that has it"
}
