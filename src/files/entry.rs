//! What there is to know about a file.

use std::time::{Duration, SystemTime};

/// A file, a directory, or something else in a session's work directory, as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileEntry {
    /// Relative to the work directory, which is itself `.`. What is not UTF-8 in it is shown as U+FFFD; such a name cannot be used with
    /// [`Files`](crate::Files). Code in the session chose it: it may hold escape sequences.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Bytes of a file, else 0. A sparse file takes less room than that.
    pub size: u64,
    /// When its content was last changed, if that can be told.
    pub modified: Option<SystemTime>,
    /// The permission bits.
    pub mode: u32,
}

/// What a [`FileEntry`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link. None is ever followed.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// A time as nanoseconds since 1970.
pub(super) fn time(nanoseconds: i64) -> Option<SystemTime> {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    match nanoseconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(distance),
        _ => SystemTime::UNIX_EPOCH.checked_sub(distance),
    }
}
