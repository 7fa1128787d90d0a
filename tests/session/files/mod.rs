//! Files in and out of the work directory.

mod ends;
mod host;
mod paths;
mod sockets;
mod trees;

use cellblock::{FileEntry, Files};

/// The names that a recursive listing of the work directory shows.
pub(crate) async fn all(files: &Files) -> Vec<String> {
    let entries = files.list_tree(".").await.expect("a listing");
    entries.into_iter().map(|FileEntry { path, .. }| path).collect()
}
