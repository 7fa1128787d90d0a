//! A `cellblock` that itself runs in a container, with the engine outside of it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;

use cellblock::Docker;

use crate::support::{Ended, ended, image, skip};

/// The engine's socket, and a `docker` that starts containers by it; none, with a word about it, where they are not.
fn socket() -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let engine = runtime.block_on(Docker::connect()).unwrap();
    let socket = engine.address().strip_prefix("unix://")?.to_owned();
    if Command::new("docker").arg("--version").output().is_err() {
        skip("no `docker`, which starts the container that the command runs in");
        return None;
    }
    Some(socket)
}

/// Runs a script with the command at hand, as this user, in a container where the directory is `/project`.
fn inside(image: &str, socket: &str, directory: &Path, uid: u32, script: &str) -> Ended {
    let group = fs::metadata(socket).unwrap().gid();
    let binary = env!("CARGO_BIN_EXE_cellblock");
    let mut docker = Command::new("docker");
    docker
        .args(["--host", &format!("unix://{socket}"), "run", "--rm", "--network", "none", "--entrypoint", "/bin/sh"])
        .args(["--user", &format!("{uid}:{uid}"), "--group-add", &group.to_string()])
        // The image has one that is another user's.
        .args(["--tmpfs", "/run/cellblock:mode=0700"])
        .args(["--volume", &format!("{socket}:/var/run/docker.sock")])
        .args(["--volume", &format!("{binary}:/usr/local/bin/cellblock:ro")])
        .args(["--volume", &format!("{}:/project", directory.display())])
        .args([image, "-c", script]);
    ended(&docker.output().unwrap())
}

#[test]
fn a_controller_in_a_container_names_its_directory_to_the_engine() {
    let Some(image) = image() else { return };
    let Some(socket) = socket() else { return };
    let us = rustix::process::geteuid();
    for uid in if us.is_root() { vec![0, 4321] } else { vec![us.as_raw()] } {
        let directory = tempfile::tempdir().unwrap();
        chown(directory.path(), Some(uid), Some(uid)).unwrap();
        let script = format!(
            "cellblock run --image {image} --workdir /project --bind-dir {} -c \"open('made', 'w').write('by a cell')\" && \
             cat /project/made",
            directory.path().display()
        );
        let ended = inside(image, &socket, directory.path(), uid, &script);
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "9\nby a cell"), "{}", ended.stderr);
        let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["made"]);
        assert_eq!(fs::metadata(directory.path().join("made")).unwrap().uid(), uid);
    }
}

#[test]
fn a_controller_in_a_container_is_told_what_the_engine_does_not_see() {
    let Some(image) = image() else { return };
    let Some(socket) = socket() else { return };
    let directory = tempfile::tempdir().unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let script = format!("cellblock run --image {image} --workdir /project -c 1");
    let ended = inside(image, &socket, directory.path(), uid, &script);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{}", ended.stderr);
    for part in ["cannot mount the work directory /project", "hint: ", "`--bind-dir`"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    // Without one, nothing has to be told.
    let script = format!("cellblock run --image {image} -c 'print(6 * 7)'");
    let ended = inside(image, &socket, directory.path(), uid, &script);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "42\n", ""));
}
