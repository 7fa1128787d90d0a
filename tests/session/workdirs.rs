//! A directory of the host as the work directory.

use std::fs;
use std::future::IntoFuture as _;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::Path;

use cellblock::{ScriptEvent, ScriptStatus, Session, Shell, Workspace};
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;

use crate::lab::{Ask as _, Lab, tests, until};
use crate::scripts::said;

tests! {
    python: [
        cells_and_scripts_work_in_a_directory_of_the_host,
        a_stop_during_a_script_leaves_its_files_and_no_others,
        the_engine_may_know_the_directory_by_another_path,
        another_directory_at_the_engines_path_is_told,
        a_stop_during_an_upload_leaves_nothing_of_it,
        what_cannot_be_a_work_directory_is_refused,
    ]
    container: [
        new_files_belong_to_the_directorys_user,
        the_rest_of_the_container_stays_locked,
    ]
}

async fn session_in(lab: &Lab, directory: &Path) -> Session {
    lab.builder().workspace(Workspace::Host(directory.to_owned())).start().await.expect("a session")
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("it is there")
        .map(|entry| entry.expect("it is there").file_name().into_string().expect("it is there"))
        .collect();
    names.sort();
    names
}

async fn cells_and_scripts_work_in_a_directory_of_the_host(lab: &Lab) {
    let directory = tempfile::tempdir().expect("it is there");
    fs::write(directory.path().join("given"), "from the host").expect("it is there");
    let session = session_in(lab, directory.path()).await;
    assert_eq!(session.value("open('given').read()").await, "'from the host'");
    session.good("open('of-a-cell', 'w').write('x')").await;
    assert_eq!(said(&session, "cat given of-a-cell; echo y > of-a-script").await, "from the hostx");
    session.stop().await.expect("the call goes well");
    assert_eq!(names(directory.path()), ["given", "of-a-cell", "of-a-script"]);
}

async fn a_stop_during_a_script_leaves_its_files_and_no_others(lab: &Lab) {
    let directory = tempfile::tempdir().expect("it is there");
    let session = session_in(lab, directory.path()).await;
    let script = "touch made; echo begun; while :; do echo more >> made; sleep 0.01; done";
    let mut stream = session.run_shell(script, Shell::Sh).stream();
    assert!(matches!(stream.next().await, Some(Ok(ScriptEvent::Stdout(_)))));
    session.stop().await.expect("the call goes well");
    match stream.next().await {
        Some(Ok(ScriptEvent::Done(outcome))) => assert!(matches!(outcome.status, ScriptStatus::ContainerGone(_))),
        other => panic!("{other:?}"),
    }
    assert_eq!(names(directory.path()), ["made"]);
    // Nothing goes on writing.
    let length = fs::metadata(directory.path().join("made")).expect("it is there").len();
    let again = session_in(lab, directory.path()).await;
    assert_eq!(again.value("import os; os.path.getsize('made')").await, length.to_string());
}

async fn the_engine_may_know_the_directory_by_another_path(lab: &Lab) {
    let (directory, elsewhere) = (tempfile::tempdir().expect("it is there"), tempfile::tempdir().expect("it is there"));
    let theirs = elsewhere.path().join("theirs");
    symlink(directory.path(), &theirs).expect("it is there");
    let here = lab.builder().workspace(Workspace::Host(directory.path().to_owned())).bind_dir(theirs);
    let session = here.start().await.expect("a session");
    session.good("open('made', 'w').write('x')").await;
    session.stop().await.expect("the call goes well");
    assert_eq!(names(directory.path()), ["made"]);
}

async fn another_directory_at_the_engines_path_is_told(lab: &Lab) {
    let (directory, other) = (tempfile::tempdir().expect("it is there"), tempfile::tempdir().expect("it is there"));
    let here = || lab.builder().workspace(Workspace::Host(directory.path().to_owned()));
    let error = here().bind_dir(other.path()).start().await.expect_err("it is another");
    let why = std::error::Error::source(&error).expect("a reason").to_string();
    assert!(error.is_usage() && why.contains(other.path().to_str().expect("UTF-8")), "{error}: {why}");
    for refused in ["relative", "/somewhere/../else", "/", ""] {
        let error = here().bind_dir(refused).start().await.expect_err("it is no path of the engine's");
        assert!(error.is_usage(), "{refused:?}: {error}");
    }
    let error = lab.builder().bind_dir(other.path()).start().await.expect_err("there is no directory of the host");
    assert!(error.is_usage(), "{error}");
    assert_eq!((names(directory.path()), names(other.path())), (vec![], vec![]));
}

async fn a_stop_during_an_upload_leaves_nothing_of_it(lab: &Lab) {
    let directory = tempfile::tempdir().expect("it is there");
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("sub")).expect("it is there");
    fs::write(path(".cellblock-of-others"), "").expect("it is there");
    let source = tempfile::tempdir().expect("it is there");
    for number in 0..2 {
        fs::write(source.path().join(number.to_string()), vec![0; 1 << 20]).expect("it is there");
    }
    let session = session_in(lab, directory.path()).await;
    let files = session.files();
    files.put("kept", "before").await.expect("it is put");

    let (mut sender, reader) = tokio::io::duplex(1 << 16);
    let put = tokio::spawn({
        let files = files.clone();
        async move { files.put_reader("sub/file", reader, None).await }
    });
    sender.write_all(&vec![7; 1 << 20]).await.expect("it is taken");
    // It waits after its first file.
    let (gate, wait) = std::sync::mpsc::channel::<()>();
    let upload = files.upload(source.path(), "tree").progress(move |progress| {
        if progress.files > 0 {
            let _ = wait.recv();
        }
    });
    let upload = tokio::spawn(upload.into_future());
    let begun = |directory: &Path| names(directory).iter().filter(|name| name.starts_with(".cellblock-")).count();
    until("both have begun", async || begun(directory.path()) == 2 && begun(&path("sub")) == 1).await;

    session.stop().await.expect("the call goes well");
    assert_eq!(names(directory.path()), [".cellblock-of-others", "kept", "sub"]);
    assert_eq!(names(&path("sub")), Vec::<String>::new());
    drop((gate, sender));
    put.await.expect("it does not panic").expect_err("it was not put");
    upload.await.expect("it does not panic").expect_err("it was not put");
    assert_eq!(names(directory.path()), [".cellblock-of-others", "kept", "sub"]);
}

async fn what_cannot_be_a_work_directory_is_refused(lab: &Lab) {
    let directory = tempfile::tempdir().expect("it is there");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("file"), "").expect("it is there");
    symlink("/var/tmp", path("link")).expect("it is there");
    for refused in [path("missing"), path("file"), "/".into(), "".into(), path("link")] {
        let result = lab.builder().workspace(Workspace::Host(refused.clone())).start().await;
        let error = result.expect_err(&format!("{} is refused", refused.display()));
        assert!(error.is_usage() && error.to_string().contains(&refused.display().to_string()), "{error}");
    }
}

async fn new_files_belong_to_the_directorys_user(lab: &Lab) {
    // Who is not root can only be the one.
    let users =
        if rustix::process::geteuid().is_root() { vec![0, 4321] } else { vec![rustix::process::geteuid().as_raw()] };
    for uid in users {
        let directory = tempfile::tempdir().expect("it is there");
        chown(directory.path(), Some(uid), Some(uid)).expect("it is there");
        let session = session_in(lab, directory.path()).await;
        session.good("import os, getpass; os.makedirs('a/b'); open('a/b/c', 'w').close(); getpass.getuser()").await;
        said(&session, "touch d; mkdir e; cp a/b/c e/").await;
        // The user's home is its own, too.
        let homes = "for name in ('~', '/tmp', os.environ['IPYTHONDIR']):\n    path = os.path.expanduser(name)\n    \
                     os.makedirs(path, exist_ok=True); open(os.path.join(path, 'x'), 'w').close()";
        session.good(homes).await;
        session.restart().await.expect("the call goes well");
        session.stop().await.expect("the call goes well");
        for name in ["a", "a/b", "a/b/c", "d", "e", "e/c"] {
            let metadata = fs::metadata(directory.path().join(name)).expect("it is there");
            assert_eq!((metadata.uid(), metadata.gid()), (uid, uid), "{name}");
        }
    }
}

async fn the_rest_of_the_container_stays_locked(lab: &Lab) {
    let directory = tempfile::tempdir().expect("it is there");
    let session = session_in(lab, directory.path()).await;
    let script = "for path in / /opt/cellblock /run/cellblock-host /etc; do touch $path/x 2> /dev/null && echo $path; done\n\
                  mount -t tmpfs x /mnt 2> /dev/null && echo mounted\n\
                  grep CapEff /proc/self/status; for file in /proc/1/mem /proc/1/environ; do cat $file 2> /dev/null; done; exit 0";
    assert_eq!(said(&session, script).await.trim(), "CapEff:\t0000000000000000");
}
