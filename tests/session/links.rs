//! The two ways to the container.

use std::time::{Duration, Instant};

use cellblock::LinkPolicy;

use crate::lab::{Ask as _, Lab, SOON, tests};

tests! {
    python: [
        the_socket_link_is_found_where_it_works,
        a_link_that_was_asked_for_is_used,
        a_large_output_stalls_no_other_channel,
    ]
}

async fn the_socket_link_is_found_where_it_works(lab: &Lab) {
    let session = lab.session().await;
    assert_eq!(session.value("1 + 1").await, "2");
    let expected = usize::from(!lab.engine().mounts_host_directories());
    assert_eq!(lab.fixture().recording().execs(), expected);
    session.restart().await.expect("it restarts");
    session.cell("import os\nos._exit(1)").await;
    assert_eq!(session.value("1 + 1").await, "2");
    assert_eq!(lab.fixture().recording().execs(), expected, "nor after a restart");
}

async fn a_link_that_was_asked_for_is_used(lab: &Lab) {
    let relay = lab.builder().link(LinkPolicy::Relay).start().await.expect("a session");
    assert_eq!((relay.value("1 + 1").await.as_str(), lab.fixture().recording().execs()), ("2", 1));
    let (_, spec) = lab.fixture().recording().created().remove(0);
    assert!(spec.host_directory.is_none(), "nothing of the host is mounted where it is not needed");
    if lab.engine().mounts_host_directories() {
        let socket = lab.builder().link(LinkPolicy::Socket).start().await.expect("a session");
        assert_eq!((socket.value("1 + 1").await.as_str(), lab.fixture().recording().execs()), ("2", 1));
    } else {
        let error = lab.builder().link(LinkPolicy::Socket).start().await.expect_err("there is no socket");
        assert!(error.hint().is_some(), "{error:?}");
    }
}

async fn a_large_output_stalls_no_other_channel(lab: &Lab) {
    for link in [LinkPolicy::Relay, LinkPolicy::Auto] {
        let session = lab.builder().link(link).start().await.expect("a session");
        let flood = session.run("while True: print('x' * 100_000)").into_future();
        let interrupt = async {
            // Interrupts go over another channel, which the flood must not hold up.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let begun = Instant::now();
            session.interrupt().await.expect("it is taken");
            begun.elapsed()
        };
        let (execution, taken) = tokio::join!(flood, interrupt);
        let execution = execution.expect("the call goes well");
        assert_eq!(execution.status, cellblock::Status::Interrupted);
        assert!(taken < SOON, "{taken:?}");
        assert!(execution.stdout.total_bytes > 1 << 20);
        assert_eq!(session.value("1 + 1").await, "2");
    }
}
