//! Trees: those of a container may be anything, and those of the host are not all plain.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use cellblock::{SkipReason, Transfer};

use super::all;
use crate::lab::{Ask as _, Lab, tests};

tests! {
    python_links: [a_tree_goes_in_and_comes_out]
    python: [
        what_is_not_plain_in_a_containers_tree_is_left_out_and_told,
        what_is_not_plain_in_a_hosts_tree_is_left_out_and_told,
        a_sparse_terabyte_is_refused_before_it_is_sent,
        a_tree_too_deep_to_take_can_be_removed,
        a_tree_takes_no_place_that_is_taken,
    ]
    process: [more_files_than_are_taken_can_be_removed]
}

/// A temporary directory of the host and its path.
fn host() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, content).expect("a file");
}

fn skipped(transfer: &Transfer) -> Vec<(&str, SkipReason)> {
    let mut skipped: Vec<_> = transfer.skipped.iter().map(|skipped| (skipped.path.as_str(), skipped.reason)).collect();
    skipped.sort_unstable_by_key(|(path, _)| *path);
    assert_eq!(skipped.len() as u64, transfer.skipped_total);
    skipped
}

async fn a_tree_goes_in_and_comes_out(lab: &Lab) {
    let session = lab.session().await;
    let (files, host) = (session.files(), host());
    let source = host.path().join("source");
    for number in 0..40 {
        write(&source.join(format!("{}/{number}/file {number}", number % 3)), &format!("content {number}"));
    }
    write(&source.join("program"), "#!/bin/sh\necho ran");
    fs::set_permissions(source.join("program"), fs::Permissions::from_mode(0o4755)).expect("a program");
    fs::create_dir(source.join("empty")).expect("a directory");
    let (sender, progress) = std::sync::mpsc::channel();
    let sent = files
        .upload(&source, "deep/in/side")
        .progress(move |now| {
            let _ = sender.send(now);
        })
        .await
        .expect("upload");
    assert_eq!((sent.files, sent.directories, sent.skipped_total), (41, 45, 0));
    assert_eq!(progress.iter().last().map(|last| (last.files, last.bytes)), Some((41, sent.bytes)));
    let program = "import subprocess, os; subprocess.run('deep/in/side/program', capture_output=True).stdout, os.stat('deep/in/side/program').st_mode & 0o7000";
    assert_eq!(session.value(program).await, "(b'ran\\n', 0)");
    let back = host.path().join("back");
    let got = files.download("deep/in/side", &back).await.expect("download");
    assert_eq!(got, sent);
    let diff = std::process::Command::new("diff").arg("-r").args([&source, &back]).output().expect("diff");
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    assert_eq!(fs::metadata(back.join("program")).expect("it is there").mode() & 0o4700, 0o700);
    assert_eq!(fs::metadata(back.join("0/0/file 0")).expect("it is there").mode() & 0o111, 0);
}

async fn what_is_not_plain_in_a_containers_tree_is_left_out_and_told(lab: &Lab) {
    let session = lab.session().await;
    let (files, host) = (session.files(), host());
    session
        .good(
            "import os, socket\nos.makedirs('out/deep'); os.chdir('out')\n\
             open('file', 'w').write('plain'); os.link('file', 'hard'); open('deep/file', 'w').write('deep')\n\
             os.symlink('/etc', 'absolute'); os.symlink('../..', 'upwards'); os.symlink('file', 'beside'); os.symlink('deep', 'to_directory')\n\
             os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('socket')\n\
             open(b'not utf-8 \\xff', 'w').close(); os.mkdir('new\\nline'); open('new\\nline/file', 'w').close()\n\
             open('\\x1b]0;title\\x07', 'w').close(); open('\\x9b31m', 'w').close(); open('...', 'w').close(); os.chdir('..')",
        )
        .await;
    let back = host.path().join("back");
    let transfer = files.download("out", &back).await.expect("download");
    assert_eq!(
        skipped(&transfer),
        [
            ("\u{1b}]0;title\u{7}", SkipReason::Name),
            ("absolute", SkipReason::Symlink),
            ("beside", SkipReason::Symlink),
            ("new\nline", SkipReason::Name),
            ("not utf-8 \u{fffd}", SkipReason::Name),
            ("pipe", SkipReason::Special),
            ("socket", SkipReason::Special),
            ("to_directory", SkipReason::Symlink),
            ("upwards", SkipReason::Symlink),
            ("\u{9b}31m", SkipReason::Name),
        ]
    );
    let mut names: Vec<_> =
        back.read_dir().expect("it is there").map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["...", "deep", "file", "hard"]);
    assert_eq!(fs::read_to_string(back.join("hard")).expect("it is there"), "plain");
    assert_eq!(fs::metadata(back.join("hard")).expect("it is there").nlink(), 1, "each hard link is a file of its own");
    assert_eq!(host.path().read_dir().expect("it is there").count(), 1);
}

async fn what_is_not_plain_in_a_hosts_tree_is_left_out_and_told(lab: &Lab) {
    let session = lab.session().await;
    let (files, host) = (session.files(), host());
    let source = host.path().join("source");
    write(&source.join("file"), "plain");
    write(&host.path().join("secret"), "secret");
    symlink("../secret", source.join("link")).expect("a link");
    symlink("..", source.join("upwards")).expect("a link");
    rustix::fs::mknodat(rustix::fs::CWD, source.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("a pipe");
    write(&source.join("new\nline"), "");
    let odd = std::os::unix::ffi::OsStrExt::from_bytes(b"odd \xff");
    write(&source.join::<&std::ffi::OsStr>(odd), "");
    let transfer = files.upload(&source, "in").await.expect("upload");
    assert_eq!(
        skipped(&transfer),
        [
            ("link", SkipReason::Symlink),
            ("new\nline", SkipReason::Name),
            ("odd \u{fffd}", SkipReason::Name),
            ("pipe", SkipReason::Special),
            ("upwards", SkipReason::Symlink),
        ]
    );
    assert_eq!(all(&files).await, ["in", "in/file"]);
    // What the caller names is followed.
    symlink("source", host.path().join("named")).expect("a link");
    files.upload(host.path().join("named"), "named").await.expect("upload");
    assert_eq!(files.get("named/file").await.expect("get"), "plain");
    for path in ["source/pipe", "source/nothing"] {
        assert!(files.upload(host.path().join(path), "x").await.is_err_and(|error| error.is_usage()), "{path}");
    }
    assert_eq!(all(&files).await, ["in", "in/file", "named", "named/file"]);
}

async fn a_sparse_terabyte_is_refused_before_it_is_sent(lab: &Lab) {
    let session = lab.session().await;
    let (files, host) = (session.files(), host());
    session.good("import os\nos.mkdir('out'); os.close(os.open('out/sparse', os.O_CREAT | os.O_WRONLY)); os.truncate('out/sparse', 1 << 40)").await;
    assert_eq!(files.stat("out/sparse").await.expect("stat").size, 1 << 40);
    assert!(files.get("out/sparse").await.is_err_and(|error| error.is_usage()));
    for path in ["out", "out/sparse"] {
        assert!(files.download(path, host.path().join("x")).await.is_err_and(|error| error.is_usage()), "{path}");
    }
    assert!(host.path().read_dir().expect("it is there").next().is_none());
    // One that is read piece by piece is given up at any time.
    let mut reader = files.open("out/sparse").await.expect("open");
    assert!(reader.chunk().await.expect("a piece").is_some_and(|piece| piece.iter().all(|byte| *byte == 0)));
}

async fn a_tree_too_deep_to_take_can_be_removed(lab: &Lab) {
    let session = lab.session().await;
    let (files, host) = (session.files(), host());
    session
        .good(
            "import os\nhere = os.getcwd()\nos.mkdir('deep'); os.chdir('deep')\n\
             for _ in range(500):\n    os.mkdir('d'); os.mkdir('e'); open('f', 'w').close(); os.chdir('d')\nos.chdir(here)",
        )
        .await;
    assert!(files.download("deep", host.path().join("deep")).await.is_err_and(|error| error.is_usage()));
    assert!(host.path().read_dir().expect("it is there").next().is_none());
    assert!(files.list_tree("deep").await.is_err_and(|error| error.is_usage()));
    assert_eq!(files.list("deep").await.expect("one level").len(), 3);
    files.remove_tree("deep").await.expect("remove");
    assert_eq!(all(&files).await, [""; 0]);
}

async fn a_tree_takes_no_place_that_is_taken(lab: &Lab) {
    let session = lab.session().await;
    let (files, host) = (session.files(), host());
    write(&host.path().join("source/file"), "new");
    files.put("full/other", "kept").await.expect("put");
    files.put("file", "kept").await.expect("put");
    session.good("import os; os.mkdir('empty'); os.symlink('empty', 'link')").await;
    for path in ["full", "file", "link", "."] {
        let upload = files.upload(host.path().join("source"), path).await;
        assert!(upload.is_err_and(|error| error.is_usage()), "{path}");
    }
    files.upload(host.path().join("source"), "empty").await.expect("an empty directory is no loss");
    assert_eq!(all(&files).await, ["empty", "empty/file", "file", "full", "full/other", "link"]);
}

async fn more_files_than_are_taken_can_be_removed(lab: &Lab) {
    let session = lab.session().await;
    let (files, host) = (session.files(), host());
    session
        .good("import os\nos.mkdir('many')\nfor n in range(5_000): os.close(os.open(f'many/{n}', os.O_CREAT))")
        .await;
    assert_eq!(files.list("many").await.expect("a listing").len(), 5_000);
    let download = files.download("many", host.path().join("many")).max_entries(4_000);
    assert!(download.await.is_err_and(|error| error.is_usage()));
    assert!(host.path().read_dir().expect("it is there").next().is_none());
    files.remove_tree("many").await.expect("remove");
    assert_eq!(all(&files).await, [""; 0]);
}
