//! What paths lead to, and what they do not.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use cellblock::{Error, FileKind, Ran};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use super::all;
use crate::lab::{Ask as _, Lab, tests};

tests! {
    python_links: [what_is_put_is_there_and_comes_back, a_reader_gives_what_it_said_it_would]
    python: [
        paths_that_lead_elsewhere_never_run,
        a_directory_is_no_file,
        links_and_pipes_are_not_followed,
        what_is_missing_is_said_to_be_missing,
        odd_names_are_only_names,
        files_do_not_wait_for_cells,
    ]
}

fn usage<T>(result: Result<T, Error>, what: &str) -> String {
    let error = result.err().unwrap_or_else(|| panic!("{what} is refused"));
    assert!(error.is_usage(), "{what}: {error:?}");
    assert_eq!(error.ran(), Ran::Never, "{what}");
    std::error::Error::source(&error).expect("a reason").to_string()
}

async fn what_is_put_is_there_and_comes_back(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    // Lengths about those of a frame, and of the pieces that an engine makes of it.
    for length in [0, 1, 32_767, 262_144, 262_145, 3_000_000] {
        let content: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
        files.put("made/by put/é.bin", content.clone()).await.expect("put");
        let inside =
            session.value("import hashlib; hashlib.sha256(open('made/by put/é.bin', 'rb').read()).hexdigest()");
        let sum: String =
            <sha2::Sha256 as sha2::Digest>::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(inside.await, format!("'{sum}'"));
        assert!(files.get("/mnt/data/made/by put/é.bin").await.expect("get") == content, "{length}");
        let mut reader = files.open("/workspace/made/by put/é.bin").await.expect("open");
        assert_eq!(reader.entry().size, u64::from(length));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).await.expect("reading");
        assert!(read == content, "{length}");
        let entry = files.stat("made/./by put//é.bin").await.expect("stat");
        assert_eq!(
            (entry.path.as_str(), entry.kind, entry.size),
            ("made/by put/é.bin", FileKind::File, u64::from(length))
        );
        let age = entry.modified.expect("a time").elapsed().unwrap_or_default();
        assert!(age.as_secs() < 3600, "{age:?}");
    }
    assert_eq!(all(&files).await, ["made", "made/by put", "made/by put/é.bin"]);
    assert_eq!(files.stat(".").await.expect("stat").path, ".");
    files.remove("made/by put/é.bin").await.expect("remove");
    files.remove_tree("made").await.expect("remove");
    assert_eq!(all(&files).await, [""; 0]);
}

async fn paths_that_lead_elsewhere_never_run(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    let before = lab.fixture().recording().execs();
    let host = tempfile::tempdir().expect("a directory");
    let long = "x".repeat(256);
    for path in ["", "a\0b", "..", "a/../../b", "../workspace/a", "/etc/passwd", "/mnt/database", "/", &long] {
        usage(files.put(path, "x").await, path);
        usage(files.put_reader(path, &b"x"[..], None).await, path);
        usage(files.get(path).await, path);
        usage(files.open(path).await, path);
        usage(files.stat(path).await, path);
        usage(files.list(path).await, path);
        usage(files.remove(path).await, path);
        usage(files.remove_tree(path).await, path);
        usage(files.upload(host.path(), path).await, path);
        usage(files.download(path, host.path().join("x")).await, path);
    }
    assert_eq!(lab.fixture().recording().execs(), before, "nothing is started for them");
}

async fn a_directory_is_no_file(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    files.put("directory/file", "kept").await.expect("put");
    assert!(usage(files.put("directory", "x").await, "put").contains("directory"));
    assert!(usage(files.put("/mnt/data/", "x").await, "put onto all").contains("work directory itself"));
    assert!(usage(files.get("directory").await, "get").contains("directory"));
    assert!(usage(files.remove("directory").await, "remove").contains("directory"));
    assert!(usage(files.remove_tree(".").await, "remove all").contains("work directory itself"));
    for path in ["directory/file/below", "directory/file/below/that"] {
        usage(files.put(path, "x").await, path);
        usage(files.get(path).await, path);
        usage(files.list(path).await, path);
    }
    let listed = files.list("directory/file").await.expect("of a file it is the file");
    assert_eq!(listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["directory/file"]);
    assert_eq!(files.get("directory/file").await.expect("get"), "kept");
    assert_eq!(all(&files).await, ["directory", "directory/file"]);
}

async fn links_and_pipes_are_not_followed(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    session
        .good(
            "import os, socket\nos.mkdir('real'); open('real/file', 'w').write('real')\n\
             os.symlink('real', 'to_directory'); os.symlink('real/file', 'to_file'); os.symlink('/etc/passwd', 'outside')\n\
             os.symlink('nowhere', 'dangling'); os.mkfifo('pipe'); s = socket.socket(socket.AF_UNIX); s.bind('socket')",
        )
        .await;
    for path in ["to_file", "outside", "dangling", "to_directory", "to_directory/file"] {
        assert!(usage(files.get(path).await, path).contains("symbolic link"), "{path}");
    }
    for path in ["pipe", "socket"] {
        assert!(usage(files.get(path).await, path).contains("no regular file"), "{path}");
        assert_eq!(files.stat(path).await.expect("stat").kind, FileKind::Other);
    }
    assert!(usage(files.put("to_directory/file", "x").await, "put through a link").contains("symbolic link"));
    assert_eq!(files.stat("outside").await.expect("stat").kind, FileKind::Symlink);

    files.put("outside", "inside").await.expect("the link's place is taken");
    files.put("to_file", "own").await.expect("the link's place is taken");
    assert_eq!(
        session.value("open('real/file').read(), open('to_file').read(), os.path.islink('outside')").await,
        "('real', 'own', False)"
    );
    files.remove_tree("to_directory").await.expect("the link is removed");
    files.remove("dangling").await.expect("the link is removed");
    files.put("pipe", "a file").await.expect("the pipe's place is taken");
    assert_eq!(all(&files).await, ["outside", "pipe", "real", "real/file", "socket", "to_file"]);
}

async fn what_is_missing_is_said_to_be_missing(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    let host = tempfile::tempdir().expect("a directory");
    let missing = |error: Error| {
        assert!(error.is_no_such_file() && !error.is_usage(), "{error:?}");
        assert!(error.to_string().contains("no/such"), "it says what was attempted: {error}");
    };
    missing(files.get("no/such").await.expect_err("get"));
    missing(files.open("no/such").await.expect_err("open"));
    missing(files.stat("no/such").await.expect_err("stat"));
    missing(files.list("no/such").await.expect_err("list"));
    missing(files.remove("no/such").await.expect_err("remove"));
    missing(files.remove_tree("no/such").await.expect_err("remove_tree"));
    missing(files.download("no/such", host.path().join("x")).await.expect_err("download"));
    assert!(host.path().read_dir().expect("a directory").next().is_none());
    session.stop().await.expect("stop");
    assert!(files.get("no/such").await.is_err_and(|error| error.is_session_gone()));
}

async fn odd_names_are_only_names(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    let names = ["-rf", " ", "~", "*", "$(touch x)", "new\nline", "\u{1b}]0;title\u{7}", "'\"\\", "…", "\u{1f980}"];
    for name in names {
        files.put(name, name.to_owned()).await.expect(name);
        assert_eq!(files.get(name).await.expect(name), name);
    }
    let mut expected = names.to_vec();
    expected.sort_unstable();
    assert_eq!(all(&files).await, expected);
    session.good("open(b'not utf-8 \\xff', 'w').close()").await;
    assert!(all(&files).await.contains(&"not utf-8 \u{fffd}".to_owned()));
    let error = files.get("no\nsuch \u{1b}[2J").await.expect_err("it is missing");
    assert!(!error.to_string().contains(['\n', '\u{1b}']), "it is shown escaped: {error}");
}

/// A reader that fails after some bytes.
struct Failing(usize);

impl AsyncRead for Failing {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.0 == 0 {
            return Poll::Ready(Err(io::Error::other("the source is torn")));
        }
        let length = buffer.remaining().min(self.0);
        buffer.initialize_unfilled_to(length);
        buffer.advance(length);
        self.0 -= length;
        Poll::Ready(Ok(()))
    }
}

async fn a_reader_gives_what_it_said_it_would(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    files.put("kept", "before").await.expect("put");
    files.put_reader("read", tokio::io::repeat(7).take(5_000_000), Some(5_000_000)).await.expect("put");
    assert_eq!(files.stat("read").await.expect("stat").size, 5_000_000);
    files.put_reader("read", tokio::io::empty(), None).await.expect("put");
    assert_eq!(files.stat("read").await.expect("stat").size, 0);
    for wrong in [4_999_999, 5_000_001] {
        let put = files.put_reader("kept", tokio::io::repeat(7).take(5_000_000), Some(wrong)).await;
        assert!(put.is_err_and(|error| error.ran() == Ran::Never));
    }
    let error = files.put_reader("kept", Failing(3_000_000), None).await.expect_err("the reader fails");
    assert!(format!("{:?}", std::error::Error::source(&error)).contains("torn"), "{error:?}");
    assert_eq!(files.get("kept").await.expect("get"), "before");
    assert_eq!(all(&files).await, ["kept", "read"]);
}

async fn files_do_not_wait_for_cells(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    let cell = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nopen('go').read()";
    let (execution, put) = tokio::join!(session.run(cell).into_future(), async {
        files.put("data", "x").await?;
        files.get("data").await?;
        files.put("go", "seen whole").await
    });
    put.expect("put");
    assert_eq!(execution.expect("a cell").text(), Some("'seen whole'"));
}
