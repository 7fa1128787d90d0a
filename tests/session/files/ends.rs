//! Transfers that do not come to their end.

use std::sync::Arc;

use cellblock::{Files, Ran, Workspace};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::all;
use crate::lab::{Ask as _, Lab, tests, until};

tests! {
    python_links: [
        a_dropped_put_leaves_nothing,
        a_bridge_that_is_killed_is_an_error_and_nothing_whole,
        a_file_that_is_cut_while_it_is_read_is_no_success,
    ]
    python: [
        a_dropped_upload_leaves_nothing,
        a_dropped_download_leaves_nothing,
        a_restart_of_the_kernel_is_no_end_of_a_transfer,
    ]
    container: [an_upload_to_a_full_disk_leaves_nothing]
}

async fn nothing_but(files: &Files, names: &[&str]) {
    until("what was given up is gone", async || all(files).await == names).await;
}

async fn a_dropped_put_leaves_nothing(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    files.put("kept", "before").await.expect("put");
    for path in ["kept", "made/for/it"] {
        let (mut source, reader) = tokio::io::duplex(1 << 16);
        let put = {
            let files = files.clone();
            tokio::spawn(async move { files.put_reader(path, reader, None).await })
        };
        source.write_all(&vec![7; 3 << 20]).await.expect("it is taken");
        until("the upload has begun", async || all(&files).await.iter().any(|name| name.contains(".cellblock-"))).await;
        put.abort();
        nothing_but(&files, &["kept"]).await;
    }
    assert_eq!(files.get("kept").await.expect("get"), "before");
}

async fn a_dropped_upload_leaves_nothing(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    let host = tempfile::tempdir().expect("a directory");
    for number in 0..3 {
        std::fs::write(host.path().join(number.to_string()), vec![0; 4 << 20]).expect("a file");
    }
    let begun = Arc::new(tokio::sync::Notify::new());
    let (notify, mut told) = (Arc::clone(&begun), false);
    // It waits, so that there is something to drop; the drop is what lets it go on.
    let (gate, wait) = std::sync::mpsc::channel::<()>();
    let upload = files.upload(host.path(), "in").progress(move |progress| {
        if progress.files > 0 && !std::mem::replace(&mut told, true) {
            notify.notify_one();
            let _ = wait.recv();
        }
    });
    let upload = tokio::spawn(upload.into_future());
    begun.notified().await;
    upload.abort();
    let _ = upload.await;
    drop(gate);
    nothing_but(&files, &[]).await;
}

async fn a_dropped_download_leaves_nothing(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    session.good("import os\nos.mkdir('out')\nfor n in range(3): open(f'out/{n}', 'wb').write(bytes(16 << 20))").await;
    let host = tempfile::tempdir().expect("a directory");
    for path in ["out", "out/1"] {
        let begun = Arc::new(tokio::sync::Notify::new());
        let (notify, mut told) = (Arc::clone(&begun), false);
        let (gate, wait) = std::sync::mpsc::channel::<()>();
        let download = files.download(path, host.path().join("got")).progress(move |progress| {
            if progress.bytes > 0 && !std::mem::replace(&mut told, true) {
                notify.notify_one();
                let _ = wait.recv();
            }
        });
        let download = tokio::spawn(download.into_future());
        begun.notified().await;
        assert_eq!(host.path().read_dir().expect("it is there").count(), 1, "it is under way");
        download.abort();
        let _ = download.await;
        drop(gate);
        until("nothing is left", async || host.path().read_dir().expect("it is there").next().is_none()).await;
    }
}

async fn a_restart_of_the_kernel_is_no_end_of_a_transfer(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    let (mut source, reader) = tokio::io::duplex(1 << 16);
    let (put, ()) = tokio::join!(files.put_reader("in", reader, None), async {
        source.write_all(&vec![7; 3 << 20]).await.expect("it is taken");
        session.restart().await.expect("a restart");
        source.write_all(&vec![7; 1 << 20]).await.expect("it is taken");
        drop(source);
    });
    put.expect("put");
    assert_eq!(files.stat("in").await.expect("stat").size, 4 << 20);
}

/// Python that kills every `bridge files` of its own container or process.
fn kill_bridges() -> &'static str {
    "import os, signal\n\
     for pid in filter(str.isdigit, os.listdir('/proc')):\n    \
         try:\n        \
             words = open(f'/proc/{pid}/cmdline', 'rb').read().split(b'\\0')\n        \
             mine = os.path.realpath(f'/proc/{pid}/cwd') == os.getcwd()\n    \
         except OSError: continue\n    \
         if b'files' in words and mine: os.kill(int(pid), signal.SIGKILL)"
}

async fn a_bridge_that_is_killed_is_an_error_and_nothing_whole(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    let (mut source, reader) = tokio::io::duplex(1 << 16);
    let put = {
        let files = files.clone();
        tokio::spawn(async move { files.put_reader("in", reader, None).await })
    };
    source.write_all(&vec![7; 3 << 20]).await.expect("it is taken");
    until("the upload has begun", async || !all(&files).await.is_empty()).await;
    // Until the reader is dropped.
    let feed = tokio::spawn(async move { while source.write_all(&[7; 1 << 16]).await.is_ok() {} });
    session.good(kill_bridges()).await;
    let error = put.await.expect("it does not panic").expect_err("it is no success");
    feed.await.expect("it ends");
    assert!(!error.is_session_gone(), "{error:?}");
    assert_eq!(error.ran(), Ran::Never, "{error:?}");
    assert!(
        all(&files).await.iter().all(|name| name.starts_with(".cellblock-")),
        "nothing has the name that was wanted"
    );
    files.put("in", "again").await.expect("the next one is well");

    session.good("open('out', 'wb').truncate(1 << 36)").await;
    let mut reader = files.open("out").await.expect("open");
    let mut piece = [0; 1 << 16];
    reader.read_exact(&mut piece).await.expect("the beginning");
    session.good(kill_bridges()).await;
    let error = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await.expect_err("the end is no end of file");
    assert!(error.downcast::<cellblock::Error>().is_ok());
}

async fn a_file_that_is_cut_while_it_is_read_is_no_success(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    session.good("open('out', 'wb').truncate(1 << 30)").await;
    let mut reader = files.open("out").await.expect("open");
    reader.read_exact(&mut [0; 1 << 16]).await.expect("the beginning");
    session.good("import os; os.truncate('out', 100)").await;
    let error = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await.expect_err("it is not whole");
    let reason = error.get_ref().and_then(std::error::Error::source).map(ToString::to_string);
    assert!(reason.is_some_and(|reason| reason.contains("changed")), "{error:?}");
    // What grows is read as it was.
    session.good("open('log', 'wb').truncate(8 << 20)").await;
    let mut reader = files.open("log").await.expect("open");
    session.good("open('log', 'ab').write(b'more')").await;
    assert_eq!(tokio::io::copy(&mut reader, &mut tokio::io::sink()).await.expect("all of it"), 8 << 20);
}

async fn an_upload_to_a_full_disk_leaves_nothing(lab: &Lab) {
    let session = lab.builder().workspace(Workspace::Memory(4 << 20)).start().await.expect("a session");
    let files = session.files();
    files.put("kept", "before").await.expect("put");
    let host = tempfile::tempdir().expect("a directory");
    for number in 0..8 {
        std::fs::write(host.path().join(number.to_string()), vec![1; 1 << 20]).expect("a file");
    }
    let full = |error: cellblock::Error, what: &str| {
        let reason = std::error::Error::source(&error).map(ToString::to_string);
        assert!(reason.is_some_and(|reason| reason.contains("no space")), "{what}: {error:?}");
        assert_eq!(error.ran(), Ran::Never, "{what}");
    };
    full(files.put("kept", vec![1; 8 << 20]).await.expect_err("put"), "put");
    full(files.put("made/for/it", vec![1; 64 << 20]).await.expect_err("put"), "put");
    full(files.put_reader("read", tokio::io::repeat(1).take(8 << 20), None).await.expect_err("put"), "put_reader");
    full(files.upload(host.path(), "tree").await.expect_err("upload"), "upload");
    assert_eq!(all(&files).await, ["kept"], "nothing of it is left, and nothing is lost");
    assert_eq!(files.get("kept").await.expect("get"), "before");
    files.put("fits", vec![1; 3 << 20]).await.expect("the room is there again");
}
