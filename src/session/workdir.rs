//! A directory of the host as the work directory.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, access};

use super::{Session, directory};
use crate::Workspace;
use crate::error::{Error, Kind};

/// Checks that the directory can be mounted for the container to write, and returns its real path.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let refused = |why: String| Err(unusable(path, why));
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) => return refused(error.to_string()),
    };
    if !real.is_dir() {
        return refused("it is not a directory".to_owned());
    }
    if let Err(error) = access(&real, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        return refused(format!("it cannot be written: {error}"));
    }
    if holds_ours(&real) {
        return refused(format!("{} holds what cellblock itself keeps on this machine", real.display()));
    }
    Ok(real)
}

/// Checks the path by which the engine is to find the work directory; what is there only the engine knows.
pub(super) fn check_bind(path: &Path, workspace: &Workspace) -> Result<(), Error> {
    let refused = |why: &str| {
        Err(Error::new(
            Kind::Usage,
            format!("cannot use {} as the engine's path of the work directory", path.display()),
        )
        .with_source(why.to_owned()))
    };
    if !matches!(workspace, Workspace::Host(_)) {
        return refused("the work directory is none of the host's");
    }
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return refused("it must be absolute and without `..`");
    }
    if holds_ours(path) { refused("cellblock itself keeps its files there") } else { Ok(()) }
}

/// Checks that what the engine has found by its path is the work directory: a file that is made here is seen there.
pub(super) async fn check_is_shared(session: &Session, here: &Path, there: &Path) -> Result<(), Error> {
    let name = format!(".cellblock-{}", uuid::Uuid::new_v4().simple());
    let marker = here.join(&name);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&marker)
        .map_err(|error| unusable(here, format!("it cannot be written: {error}")))?;
    let seen = session.files().stat(&name).await;
    if let Err(error) = std::fs::remove_file(&marker) {
        tracing::warn!(path = %marker.display(), %error, "a file of the start was left behind");
    }
    match seen {
        Err(error) if error.is_no_such_file() => {
            Err(unusable(here, format!("to the engine, {} is another directory", there.display())))
        }
        seen => seen.map(|_| ()),
    }
}

fn unusable(path: &Path, why: String) -> Error {
    Error::new(Kind::Usage, format!("cannot use {} as the work directory", path.display())).with_source(why)
}

/// Who could write there could lead our own sockets and files elsewhere.
fn holds_ours(real: &Path) -> bool {
    let ours = directory::bases().map(|path| real_path(&path));
    real == Path::new("/") || ours.iter().any(|ours| ours.starts_with(real) || real.starts_with(ours))
}

/// With the links on the way to what is there resolved.
fn real_path(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|above| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?)))
        .unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_followed_here_and_not_by_the_engine() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, directory.path().join("link")).unwrap();
        assert_eq!(resolve(&directory.path().join("link")).unwrap(), real);
        assert_eq!(resolve(&directory.path().join("link/../real/.")).unwrap(), real);
    }

    #[test]
    fn what_is_no_directory_or_ours_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut refused = vec![directory.path().join("missing"), file, PathBuf::from("/"), PathBuf::new()];
        refused.extend(directory::bases().iter().filter_map(|base| Some(base.parent()?.to_owned())));
        for path in refused {
            let error = resolve(&path).unwrap_err();
            assert!(error.is_usage(), "{}: {error}", path.display());
        }
    }
}
