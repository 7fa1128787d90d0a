//! The embedded files of the kernel image, packed as a build context.

use std::io;

use sha2::{Digest as _, Sha256};

macro_rules! embed {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../../kernel-image/", $path)))),*]
    };
}

/// Path and content of each file that makes the image. A test compares the list with the directory.
const FILES: &[(&str, &[u8])] = embed![
    "Dockerfile",
    "bin/bridge",
    "bridge/__init__.py",
    "bridge/__main__.py",
    "bridge/beneath.py",
    "bridge/cells.py",
    "bridge/cgroup.py",
    "bridge/command.py",
    "bridge/files.py",
    "bridge/frames.py",
    "bridge/init.py",
    "bridge/interruptible.py",
    "bridge/interrupts.py",
    "bridge/keeper.py",
    "bridge/kernels.py",
    "bridge/last_words.py",
    "bridge/launcher.py",
    "bridge/lease.py",
    "bridge/links.py",
    "bridge/linux.py",
    "bridge/locks.py",
    "bridge/names.py",
    "bridge/packing.py",
    "bridge/page.py",
    "bridge/peer.py",
    "bridge/preload.py",
    "bridge/reading.py",
    "bridge/recorder.py",
    "bridge/recording.py",
    "bridge/relay.py",
    "bridge/removal.py",
    "bridge/script.py",
    "bridge/scripts.py",
    "bridge/shell.py",
    "bridge/shield.py",
    "bridge/sockets.py",
    "bridge/staging.py",
    "bridge/streams.py",
    "bridge/sweep.py",
    "bridge/threads.py",
    "bridge/waker.py",
    "bridge/wire.py",
    "bridge/zygote.py",
    "install",
    "requirements/base.in",
    "requirements/base.txt",
    "requirements/compile",
    "requirements/data.in",
    "requirements/data.txt",
];

/// Packs the build context as a tar archive, with the CA bundle if there is one.
pub(super) fn pack(ca_bundle: Option<&[u8]>) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let bundle = ca_bundle.map(|content| ("ca-bundle.pem", content));
    for (path, content) in FILES.iter().copied().chain(bundle) {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len().try_into().map_err(io::Error::other)?);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_mode(if is_program(path) { 0o755 } else { 0o644 });
        archive.append_data(&mut header, path, content)?;
    }
    archive.into_inner()
}

/// Names the files and what is in them: the image's label `dev.cellblock.content`, as `kernel-image/quickstart` computes it.
pub(super) fn content_hash() -> String {
    let mut files = FILES.to_vec();
    files.sort_unstable_by_key(|(path, _)| *path);
    let list = files.iter().fold(String::new(), |list, (path, content)| list + &sha256(content) + "  " + path + "\n");
    let mut hash = sha256(list.as_bytes());
    hash.truncate(16);
    hash
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_program(path: &str) -> bool {
    ["install", "requirements/compile"].contains(&path) || path.starts_with("bin/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    use super::*;

    fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel-image")
    }

    fn names(subdirectory: &str, ending: &str) -> Vec<String> {
        let entries = fs::read_dir(directory().join(subdirectory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(ending)).map(|name| format!("{subdirectory}/{name}")).collect()
    }

    #[test]
    fn every_file_of_the_image_is_embedded() {
        let mut expected = BTreeSet::from(["Dockerfile".to_owned(), "install".to_owned()]);
        expected.extend(names("bin", ""));
        expected.extend(names("bridge", ".py"));
        expected.extend(names("requirements", ""));
        let embedded: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(embedded, expected);
    }

    #[test]
    fn quickstart_computes_the_same_content() {
        let script = "image_dir=$PWD; eval \"$(sed -n '/^content_hash()/,/^}/p' quickstart)\"; content_hash";
        let mut shell = std::process::Command::new("bash");
        let output = shell.args(["-ec", script]).env("LC_ALL", "C").current_dir(directory()).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), content_hash());
    }

    #[test]
    fn the_context_holds_the_files_as_they_are() {
        let context = pack(Some(b"certificates")).unwrap();
        let mut archive = tar::Archive::new(context.as_slice());
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().into_owned();
            assert_eq!((entry.header().uid().unwrap(), entry.header().mtime().unwrap()), (0, 0));
            if path != Path::new("ca-bundle.pem") {
                let is_program = fs::metadata(directory().join(&path)).unwrap().permissions().mode() & 0o111 != 0;
                assert_eq!(entry.header().mode().unwrap() & 0o111 != 0, is_program, "{path:?}");
            }
            seen.push(path);
        }
        assert_eq!(seen.len(), FILES.len() + 1);
        assert_eq!(seen.last().unwrap(), Path::new("ca-bundle.pem"));
    }
}
