//! A directory of the host as the work directory.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::directory;
use crate::error::{Error, Kind};

/// Checks that the directory can be mounted for the container to write, and returns its real path.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let refused = |why: String| {
        Err(Error::new(Kind::Usage, format!("cannot use {} as the work directory", path.display())).with_source(why))
    };
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
    // Who could write there could lead our own sockets and files elsewhere.
    let ours = directory::bases().map(|path| real_path(&path));
    if real == Path::new("/") || ours.iter().any(|ours| ours.starts_with(&real) || real.starts_with(ours)) {
        return refused(format!("{} holds what cellblock itself keeps on this machine", real.display()));
    }
    Ok(real)
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
