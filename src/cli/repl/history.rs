//! The file of lines typed before.

use std::env;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use reedline::FileBackedHistory;

const ENTRIES: usize = 5000;

/// Opens `$XDG_STATE_HOME/cellblock/history`, which nobody else can read: code holds secrets.
pub(super) fn open() -> Result<FileBackedHistory> {
    let path = path(env::var_os("XDG_STATE_HOME").map(PathBuf::from), env::home_dir())
        .context("neither XDG_STATE_HOME nor HOME is an absolute path")?;
    let failed = || format!("cannot open `{}`", path.display());
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).with_context(failed)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).with_context(failed)?;
    let mut permissions = file.metadata().with_context(failed)?.permissions();
    permissions.set_mode(0o600);
    file.set_permissions(permissions).with_context(failed)?;
    FileBackedHistory::with_file(ENTRIES, path.clone()).with_context(failed)
}

fn path(state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let state = state.filter(|path| path.is_absolute());
    let state = state.or_else(|| home.filter(|path| path.is_absolute()).map(|home| home.join(".local/state")));
    Some(state?.join("cellblock/history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!(path(Some("/s".into()), None), Some("/s/cellblock/history".into()));
        assert_eq!(path(Some("relative".into()), Some("/h".into())), Some("/h/.local/state/cellblock/history".into()));
        assert_eq!(path(None, None), None);
    }
}
