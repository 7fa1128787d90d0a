//! What a session has on the host beside its container.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cellblock::ContainerSpec;
use rustix::fs::{FlockOperation, flock};

/// The directory of a session's sockets and lock, whose name is one of its labels.
pub(crate) fn directory(spec: &ContainerSpec) -> PathBuf {
    named(spec.labels.get("cellblock.directory").expect("a session's container says where its directory is"))
}

/// The directory of that name.
pub(crate) fn named(name: &str) -> PathBuf {
    let uid = rustix::process::getuid();
    let base = match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_absolute()) {
        _ if uid.is_root() => PathBuf::from("/run/cellblock"),
        Some(runtime) if runtime.len() <= 48 => Path::new(&runtime).join("cellblock"),
        _ => PathBuf::from(format!("/tmp/cellblock-{}", uid.as_raw())),
    };
    base.join(name)
}

/// Removes a directory that nobody holds any more; a driver that is about to end removes its own.
pub(crate) async fn remove_when_free(directory: &Path) {
    let begun = Instant::now();
    while directory.exists() && is_held(directory) && begun.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _ = fs::remove_dir_all(directory);
}

fn is_held(directory: &Path) -> bool {
    let Ok(lock) = File::open(directory.join("lock")) else { return false };
    flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
}
