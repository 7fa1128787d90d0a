//! What is refused before anything is made.

use std::time::Duration;

use cellblock::{Error, Network, Ran, SessionBuilder, Workspace};

use crate::host;
use crate::lab::{Ask as _, Lab, tests};

tests! {
    everywhere: [
        names_are_validated,
        spans_of_time_are_validated,
        the_environment_is_validated,
    ]
    container: [
        a_missing_image_says_how_to_build_it,
        silly_limits_are_refused_and_leave_nothing,
        a_runtime_that_is_not_there_is_refused,
        a_network_that_is_not_there_is_refused,
        the_longest_name_is_taken,
    ]
}

async fn refused(lab: &Lab, builder: SessionBuilder, why: &str) -> Error {
    let before = lab.fixture().recording().created().len();
    let error = builder.start().await.expect_err(why);
    assert!(error.is_usage(), "{why}: {error:?}");
    assert_eq!(error.ran(), Ran::Never);
    assert_eq!(lab.fixture().recording().created().len(), before, "{why}: nothing is made");
    error
}

async fn names_are_validated(lab: &Lab) {
    let long = "x".repeat(41);
    for name in ["", "-x", ".x", "_x", "a b", "ä", "a/b", "..", "a\n", "a\0", "a:b", "a\u{1b}[31m", &long] {
        let error = refused(lab, lab.builder().name(name), name).await;
        assert!(error.hint().is_some(), "{error:?}");
        assert!(!error.to_string().contains(['\n', '\0', '\u{1b}']), "it is shown escaped: {error}");
    }
    for image in ["", " "] {
        refused(lab, lab.builder().image(image), "an image without a name").await;
    }
}

async fn spans_of_time_are_validated(lab: &Lab) {
    let (zero, month) = (Duration::ZERO, Duration::from_secs(31 * 24 * 3600));
    for span in [zero, month, Duration::MAX] {
        refused(lab, lab.builder().timeout(span), "timeout").await;
        refused(lab, lab.builder().grace(span), "grace").await;
        refused(lab, lab.builder().idle_timeout(span), "idle time").await;
        refused(lab, lab.builder().max_life(span), "life").await;
    }
    let session = lab.session().await;
    for span in [zero, month, Duration::MAX] {
        let error = session.run("x = 1").timeout(span).await.expect_err("timeout");
        assert!(error.is_usage() && error.ran() == Ran::Never, "{error:?}");
    }
    let never = session.cell("x").await;
    assert!(never.error().is_some(), "it never ran");
}

async fn the_environment_is_validated(lab: &Lab) {
    for (name, value) in [("", "x"), ("a=b", "x"), ("a\0", "x"), ("a", "x\0")] {
        let error = refused(lab, lab.builder().env(name, value), name).await;
        assert!(!format!("{error:?}").contains("x\\0"), "values may be secrets: {error:?}");
    }
    let shown = format!("{:?}", lab.builder().env("TOKEN", "hidden value"));
    assert!(!shown.contains("hidden"), "{shown}");
}

async fn a_missing_image_says_how_to_build_it(lab: &Lab) {
    let error = lab.builder().image("cellblock:no-such-tag").start().await.expect_err("there is none");
    assert!(error.is_image_missing(), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("cellblock image build")), "{error:?}");
    assert!(error.to_string().contains("cellblock:no-such-tag"), "{error}");
    assert_eq!(error.ran(), Ran::Never);
    assert!(lab.fixture().recording().created().is_empty());
}

async fn silly_limits_are_refused_and_leave_nothing(lab: &Lab) {
    let builders = [
        ("no memory", lab.builder().memory(0)),
        ("a byte of memory", lab.builder().memory(1)),
        ("endless memory", lab.builder().memory(u64::MAX)),
        ("no cpu", lab.builder().cpus(0.0)),
        ("negative cpu", lab.builder().cpus(-1.0)),
        ("no number of cpus", lab.builder().cpus(f64::NAN)),
        ("endless cpus", lab.builder().cpus(f64::INFINITY)),
        ("no processes", lab.builder().pids(0)),
        ("one process", lab.builder().pids(1)),
        ("no workspace", lab.builder().workspace(Workspace::Memory(0))),
        ("a workspace beyond the memory", lab.builder().memory(64 << 20).workspace(Workspace::Memory(1 << 40))),
        ("an endless workspace", lab.builder().workspace(Workspace::Memory(u64::MAX))),
    ];
    let mut taken = Vec::new();
    for (why, builder) in builders {
        match builder.start().await {
            Ok(session) => {
                taken.push(why);
                let _ = session.stop().await;
            }
            Err(error) => assert!(error.is_usage(), "{why}: {error:?}"),
        }
    }
    assert!(taken.is_empty(), "these were taken: {taken:?}");
    let listed = lab.engine().list(&[]).await.expect("a list");
    for (id, spec) in lab.fixture().recording().created() {
        assert!(listed.iter().all(|one| one.id != id), "a container is left: {spec:?}");
        assert!(!host::directory(&spec).exists(), "its directory is left: {spec:?}");
    }
}

async fn a_runtime_that_is_not_there_is_refused(lab: &Lab) {
    let error = lab.builder().runtime("no-such-runtime").start().await.expect_err("there is none");
    assert!(error.is_usage() && error.hint().is_some_and(|hint| hint.contains("no-such-runtime")), "{error:?}");
    assert!(lab.fixture().recording().created().is_empty());
}

/// Docker makes the container, and says so when it starts: its exit, which comes at the same moment, says nothing.
async fn a_network_that_is_not_there_is_refused(lab: &Lab) {
    let network = Network::Named("cellblock-no-such-network".to_owned());
    let error = lab.builder().network(network).start().await.expect_err("there is none");
    assert!(error.is_usage() && error.hint().is_some_and(|hint| hint.contains("network ls")), "{error:?}");
    let listed = lab.engine().list(&[]).await.expect("a list");
    for (id, spec) in lab.fixture().recording().created() {
        assert!(listed.iter().all(|one| one.id != id), "a container is left: {spec:?}");
    }
}

async fn the_longest_name_is_taken(lab: &Lab) {
    let name = format!("{:x<40}", lab.name("Long.est_1"));
    let session = lab.builder().name(&name).start().await.expect("a session");
    assert_eq!((session.name(), name.len()), (name.as_str(), 40));
    assert_eq!(session.value("1 + 1").await, "2");
}
