//! Uploads into a work directory of the host that the bridge could not undo, because its container was gone first.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::names::WorkPath;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// An honest tree is no deeper.
const DEPTH_LIMIT: usize = 66;
/// So many are remembered. What was given up before them, the bridge has undone long since.
const REMEMBERED: usize = 4096;

/// The temporary names of uploads whose end was not heard of. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unfinished {
    /// The work directory, if it is the host's.
    directory: Option<PathBuf>,
    names: Arc<Mutex<VecDeque<(String, String)>>>,
}

impl Unfinished {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, names: Arc::default() }
    }

    /// Chooses the temporary name of an upload, which is beside its path.
    pub(super) fn begin(&self, path: &WorkPath) -> String {
        let name = format!(".cellblock-{}", uuid::Uuid::new_v4().simple());
        if self.directory.is_some() {
            let above = path.as_str().rsplit_once('/').map_or("", |(above, _)| above);
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            if names.len() == REMEMBERED {
                names.pop_front();
            }
            names.push_back((above.to_owned(), name.clone()));
        }
        name
    }

    /// It is in its place, or the bridge has undone it.
    pub(super) fn end(&self, name: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, known)| known != name);
    }

    /// Removes what bears the names. To be called when nothing of the container is left; takes as long as the disk does.
    pub(crate) fn remove(&self) {
        let names = std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(directory) = &self.directory else { return };
        for (above, name) in names {
            let removed = remove_below(directory, &above, &name);
            if let Err(error) = removed
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, name, "a part of an upload was left behind in the work directory");
            }
        }
    }
}

fn remove_below(directory: &Path, above: &str, name: &str) -> io::Result<()> {
    let mut parent = openat(CWD, directory, DIRECTORY, Mode::empty())?;
    let owner = writer(&std::fs::metadata(directory)?);
    for part in above.split('/').filter(|part| !part.is_empty()) {
        parent = openat(&parent, part, DIRECTORY, Mode::empty())?;
    }
    // Code in the session could have given the name to what it may move, but not remove.
    let name = CString::new(name)?;
    if statat(&parent, &*name, AtFlags::SYMLINK_NOFOLLOW)?.st_uid != owner {
        return Err(Errno::PERM.into());
    }
    remove(&parent, &name, owner, 0)
}

/// Whom the container's code runs as: as whoever started it, or, for root, as the directory's owner.
fn writer(directory: &Metadata) -> u32 {
    if geteuid().is_root() { directory.uid() } else { geteuid().as_raw() }
}

/// Removes no more than that user could.
fn remove(parent: &OwnedFd, name: &CStr, owner: u32, depth: usize) -> io::Result<()> {
    let status = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
        return Ok(unlinkat(parent, name, AtFlags::empty())?);
    }
    let directory = openat(parent, name, DIRECTORY, Mode::empty())?;
    if fstat(&directory)?.st_uid != owner || depth == DEPTH_LIMIT {
        return Err(Errno::PERM.into());
    }
    for entry in Dir::read_from(directory.as_fd())? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            remove(&directory, entry.file_name(), owner, depth + 1)?;
        }
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn begun(directory: &Path, path: &str) -> (Unfinished, PathBuf) {
        let unfinished = Unfinished::new(Some(directory.to_owned()));
        let name = unfinished.begin(&WorkPath::check(path).unwrap());
        let place = directory.join(path).with_file_name(name);
        (unfinished, place)
    }

    #[test]
    fn what_was_left_is_removed_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("sub/.cellblock-of-others"), "").unwrap();
        let (unfinished, place) = begun(directory.path(), "sub/tree");
        fs::create_dir_all(place.join("deep/er")).unwrap();
        fs::write(place.join("deep/file"), "").unwrap();
        symlink(outside.path(), place.join("deep/link")).unwrap();
        unfinished.remove();
        assert!(!place.exists());

        let (unfinished, place) = begun(directory.path(), "file");
        symlink(outside.path().join("kept"), &place).unwrap();
        unfinished.remove();
        assert!(place.symlink_metadata().is_err());

        symlink(outside.path(), directory.path().join("way")).unwrap();
        let (unfinished, place) = begun(directory.path(), "way/file");
        fs::write(&place, "").unwrap();
        unfinished.remove();
        assert!(place.exists(), "a link on the way");
        assert!(outside.path().join("kept").exists());
        assert!(directory.path().join("sub/.cellblock-of-others").exists());
    }

    #[test]
    fn what_has_ended_is_forgotten_and_what_is_forgotten_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (unfinished, place) = begun(directory.path(), "file");
        fs::write(&place, "").unwrap();
        unfinished.end(place.file_name().unwrap().to_str().unwrap());
        unfinished.remove();
        assert!(place.exists());
    }

    /// As root we could remove what the container's user cannot.
    #[test]
    fn what_belongs_to_others_is_left() {
        if !geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        chown(directory.path(), Some(1234), None).unwrap();
        let (unfinished, place) = begun(directory.path(), "tree");
        fs::create_dir_all(place.join("of-root")).unwrap();
        fs::write(place.join("of-root/file"), "").unwrap();
        unfinished.clone().remove();
        assert!(place.join("of-root/file").exists());

        let name = unfinished.begin(&WorkPath::check("tree").unwrap());
        fs::rename(&place, directory.path().join(&name)).unwrap();
        let place = directory.path().join(name);
        chown(&place, Some(1234), None).unwrap();
        unfinished.remove();
        assert!(place.join("of-root/file").exists());
    }
}
