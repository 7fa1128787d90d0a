//! What a download writes: under a temporary name beside its destination until all of it is there, and gone if it never is.
//!
//! Names are the host's own choice or were checked, each is created anew (`O_EXCL`), and directories are entered without following a link.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, linkat, mkdirat, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const CREATE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What a destination becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    File,
    Tree,
}

/// A destination on the host that is being written.
pub(super) struct Staging {
    parent: OwnedFd,
    name: OsString,
    temporary: String,
    overwrite: bool,
    shape: Option<Shape>,
    /// The directory that the last entry went to.
    current: Option<(String, OwnedFd)>,
}

impl Staging {
    /// Checks the destination. The parts of its path are the caller's own, links included; only the last one is made.
    pub(super) fn new(destination: &Path, overwrite: bool) -> io::Result<Self> {
        let name = destination.file_name().filter(|_| !destination.as_os_str().is_empty());
        let name =
            name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no name at its end"))?;
        let parent = match destination.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let parent = openat(CWD, parent, DIRECTORY, Mode::empty())?;
        let temporary = format!(".cellblock-{}", uuid::Uuid::new_v4().simple());
        let staging = Self { parent, name: name.to_owned(), temporary, overwrite, shape: None, current: None };
        staging.check(None)?;
        Ok(staging)
    }

    fn check(&self, shape: Option<Shape>) -> io::Result<()> {
        let there = match statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => FileType::from_raw_mode(there.st_mode),
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if there == FileType::Directory {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory already"));
        }
        if !self.overwrite || shape == Some(Shape::Tree) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists already"));
        }
        Ok(())
    }

    /// Begins a single file.
    pub(super) fn file(&mut self, executable: bool) -> io::Result<File> {
        self.check(Some(Shape::File))?;
        let file = create(&self.parent, OsStr::new(&self.temporary), executable)?;
        self.shape = Some(Shape::File);
        Ok(file)
    }

    /// Begins a tree.
    pub(super) fn tree(&mut self) -> io::Result<()> {
        self.check(Some(Shape::Tree))?;
        mkdirat(&self.parent, self.temporary.as_str(), Mode::from(0o777))?;
        self.shape = Some(Shape::Tree);
        Ok(())
    }

    /// Makes a file of the tree. The path was checked.
    pub(super) fn file_in_tree(&mut self, path: &str, executable: bool) -> io::Result<File> {
        let (directory, name) = self.place(path)?;
        create(directory, OsStr::new(name), executable)
    }

    /// Makes a directory of the tree. The path was checked.
    pub(super) fn directory_in_tree(&mut self, path: &str) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        Ok(mkdirat(directory, name, Mode::from(0o777))?)
    }

    fn place<'a, 'p>(&'a mut self, path: &'p str) -> io::Result<(&'a OwnedFd, &'p str)> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        if self.current.as_ref().is_none_or(|(current, _)| current != above) {
            let below = DIRECTORY.union(OFlags::NOFOLLOW);
            let mut directory = openat(&self.parent, self.temporary.as_str(), below, Mode::empty())?;
            for part in above.split('/').filter(|part| !part.is_empty()) {
                directory = openat(&directory, part, below, Mode::empty())?;
            }
            self.current = Some((above.to_owned(), directory));
        }
        let (_, directory) = self.current.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok((directory, name))
    }

    /// Puts what is complete into its place.
    pub(super) fn commit(mut self) -> io::Result<()> {
        let (from, to) = (OsString::from(&self.temporary), self.name.clone());
        let parent = self.parent.as_fd();
        if self.overwrite && self.shape == Some(Shape::File) {
            renameat(parent, &from, parent, &to)?;
        } else {
            match renameat_with(parent, &from, parent, &to, RenameFlags::NOREPLACE) {
                // Not every file system can. A directory takes the place of an empty one at most.
                Err(Errno::INVAL | Errno::NOSYS) if self.shape == Some(Shape::File) => {
                    linkat(parent, &from, parent, &to, AtFlags::empty())?;
                    unlinkat(parent, &from, AtFlags::empty())?;
                }
                Err(Errno::INVAL | Errno::NOSYS) => renameat(parent, &from, parent, &to)?,
                renamed => renamed?,
            }
        }
        self.shape = None;
        Ok(())
    }
}

impl Drop for Staging {
    /// Removes what was not committed.
    fn drop(&mut self) {
        let removed = match self.shape {
            None => return,
            Some(Shape::File) => {
                unlinkat(&self.parent, self.temporary.as_str(), AtFlags::empty()).map_err(io::Error::from)
            }
            Some(Shape::Tree) => {
                // By the descriptor: the path that led there may lead elsewhere by now.
                let parent = format!("/proc/self/fd/{}", self.parent.as_raw_fd());
                std::fs::remove_dir_all(Path::new(&parent).join(&self.temporary))
            }
        };
        if let Err(error) = removed {
            tracing::warn!(%error, name = self.temporary, "a part of a download was left behind");
        }
    }
}

fn create(directory: impl AsFd, name: &OsStr, executable: bool) -> io::Result<File> {
    let mode = if executable { 0o777 } else { 0o666 };
    Ok(openat(directory, name, CREATE, Mode::from(mode))?.into())
}
