//! The sockets that content goes over, where the container can dial one.

use std::path::PathBuf;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::lab::{Ask as _, Lab, tests, until};

tests! {
    python: [no_socket_of_a_transfer_stays]
    container: [strangers_that_dial_first_stall_no_transfer]
}

/// What is in the directory that is mounted into the only container.
fn mounted(lab: &Lab) -> Vec<String> {
    let (_, spec) = lab.fixture().recording().created().remove(0);
    let directory: PathBuf = spec.host_directory.expect("a directory is mounted");
    let entries = directory.read_dir().expect("it is there");
    entries.map(|entry| entry.expect("it is there").file_name().into_string().expect("a plain name")).collect()
}

async fn no_socket_of_a_transfer_stays(lab: &Lab) {
    if !lab.engine().mounts_host_directories() {
        return;
    }
    let session = lab.session().await;
    let files = session.files();
    files.put("file", vec![7; 1 << 20]).await.expect("put");
    assert_eq!(mounted(lab), ["bridge.sock"], "after a put");
    assert_eq!(files.get("file").await.expect("get").len(), 1 << 20);
    assert_eq!(mounted(lab), ["bridge.sock"], "after a get");
    files.get("missing").await.expect_err("get");
    files.put("file/below", "x").await.expect_err("put");
    assert_eq!(mounted(lab), ["bridge.sock"], "after refusals");
    let mut reader = files.open("file").await.expect("open");
    reader.read_exact(&mut [0; 100]).await.expect("the beginning");
    assert_eq!(mounted(lab), ["bridge.sock"], "while it is read");
    drop(reader);
    let (mut source, given) = tokio::io::duplex(1 << 16);
    let put = tokio::spawn({
        let files = files.clone();
        async move { files.put_reader("new", given, None).await }
    });
    source.write_all(&[7; 1 << 10]).await.expect("it is taken");
    put.abort();
    let _ = put.await;
    // Dropped at once, and again a little later each time.
    for polls in 0..20 {
        let mut get = Box::pin(files.get("file"));
        for _ in 0..polls {
            let _ = futures_util::poll!(&mut get);
            tokio::task::yield_now().await;
        }
    }
    until("the sockets of what was dropped are gone", async || mounted(lab) == ["bridge.sock"]).await;
}

/// Python that dials every socket of a transfer that it sees, and keeps the connection: some silent, some with a token that is none.
const STRANGERS: &str = "
import os, socket, threading
dialled = []
def dial():
    while True:
        for name in os.listdir('/run/cellblock-host'):
            if name == 'bridge.sock': continue
            try:
                caller = socket.socket(socket.AF_UNIX)
                caller.connect('/run/cellblock-host/' + name)
                dialled.append(caller)
                if len(dialled) % 2: caller.send(b'0' * 32)
            except OSError: pass
            if len(dialled) > 500: return
threading.Thread(target=dial, daemon=True).start()
";

async fn strangers_that_dial_first_stall_no_transfer(lab: &Lab) {
    let session = lab.session().await;
    session.good(STRANGERS).await;
    let files = session.files();
    until("strangers have dialled", async || {
        files.put("file", vec![7; 1 << 20]).await.expect("put");
        assert_eq!(files.get("file").await.expect("get"), vec![7; 1 << 20]);
        session.value("len(dialled) > 3").await == "True"
    })
    .await;
    assert_eq!(mounted(lab), ["bridge.sock"]);
}
