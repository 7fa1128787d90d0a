//! Scripts: files of the container, run beside the kernel.

use cellblock::{ScriptStatus, Shell};

use crate::lab::{Ask as _, Lab, tests};

tests! {
    python: [
        streams_are_apart_and_the_exit_code_is_the_scripts,
    ]
}

async fn streams_are_apart_and_the_exit_code_is_the_scripts(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 41").await;
    let outcome = session.run_shell("echo out; echo err >&2; exit 3", Shell::Bash).await.unwrap();
    assert_eq!(outcome.status, ScriptStatus::Exited(3));
    assert_eq!((outcome.stdout.text.as_str(), outcome.stderr.text.as_str()), ("out\n", "err\n"));
    assert_eq!(session.value("x + 1").await, "42");
}
