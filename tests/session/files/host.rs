//! The host's side of a download.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cellblock::{Error, Session};
use tempfile::TempDir;

use crate::lab::{Lab, tests};

tests! {
    process: [
        a_destination_that_is_taken_stays_as_it_is,
        a_file_is_overwritten_only_when_asked,
        a_destination_that_cannot_be_written_is_named,
    ]
}

/// A session with a file in a tree, and a directory of the host with another file and a directory in it.
async fn taken(lab: &Lab) -> (Session, TempDir) {
    let session = lab.session().await;
    session.files().put("tree/file", "new").await.expect("put");
    let host = tempfile::tempdir().expect("a directory");
    fs::write(host.path().join("file"), "old").expect("a file");
    fs::create_dir(host.path().join("directory")).expect("a directory");
    (session, host)
}

fn refused<T>(result: Result<T, Error>, destination: &Path) {
    let error = result.err().unwrap_or_else(|| panic!("{} is refused", destination.display()));
    assert!(error.is_usage(), "{error:?}");
    assert!(error.to_string().contains(&destination.display().to_string()), "it says where: {error}");
}

async fn a_destination_that_is_taken_stays_as_it_is(lab: &Lab) {
    let (session, host) = taken(lab).await;
    let files = session.files();
    let at = |name: &str| host.path().join(name);
    symlink("file", at("link")).expect("a link");
    symlink("directory", at("to_directory")).expect("a link");
    symlink("nothing", at("dangling")).expect("a link");
    for name in ["file", "directory", "link", "to_directory", "dangling"] {
        for path in ["tree", "tree/file"] {
            refused(files.download(path, at(name)).await, &at(name));
        }
    }
    assert_eq!(fs::read_to_string(at("file")).expect("it is there"), "old");
    assert_eq!(fs::read_link(at("dangling")).expect("it is there"), Path::new("nothing"));
    assert_eq!(host.path().read_dir().expect("it is there").count(), 5);
    // The way there is the caller's own, links included.
    files.download("tree/file", at("to_directory/got")).await.expect("download");
    assert_eq!(fs::read_to_string(at("directory/got")).expect("it is there"), "new");
}

async fn a_file_is_overwritten_only_when_asked(lab: &Lab) {
    let (session, host) = taken(lab).await;
    let files = session.files();
    let at = |name: &str| host.path().join(name);
    fs::write(at("target"), "untouched").expect("a file");
    symlink("target", at("link")).expect("a link");
    for name in ["file", "link"] {
        files.download("tree/file", at(name)).overwrite(true).await.expect("download");
        assert_eq!(fs::read_to_string(at(name)).expect("it is there"), "new");
    }
    assert_eq!(fs::read_to_string(at("target")).expect("it is there"), "untouched");
    assert!(!at("link").is_symlink());
    for (path, name) in [("tree/file", "directory"), ("tree", "directory"), ("tree", "file")] {
        refused(files.download(path, at(name)).overwrite(true).await, &at(name));
    }
    assert_eq!(host.path().read_dir().expect("it is there").count(), 4);
}

async fn a_destination_that_cannot_be_written_is_named(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    files.put("file", "new").await.expect("put");
    let host = tempfile::tempdir().expect("a directory");
    fs::write(host.path().join("file"), "old").expect("a file");
    let destinations = ["missing/got", "file/got", "..", "/", "", "/proc/got", "a\0b"];
    for destination in destinations {
        let destination = if destination.is_empty() { "".into() } else { host.path().join(destination) };
        refused(files.download("file", &destination).await, &destination);
    }
    assert_eq!(host.path().read_dir().expect("it is there").count(), 1);
}
