//! An engine that goes away in the middle of a cell, and comes back: a private one, so that nobody else's goes with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cellblock::{Engine, LinkPolicy, Session, State, Status};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::lab::on_for;
use crate::outage::Going;
use crate::private::PrivateEngine;

#[tokio::test]
async fn an_engine_that_restarts_gives_its_sessions_back_or_their_end_is_told() {
    // To copy an image is much work for a busy machine.
    on_for(Duration::from_secs(200), async |lab| {
        let Some(mut private) = PrivateEngine::start(true).await else { return };
        private.load(lab).await;
        let engine: Arc<dyn Engine> = Arc::new(private.docker().await);
        let start = async |what: &str, link| {
            let builder = Session::builder().engine(Arc::clone(&engine)).image(&lab.image).name(lab.name(what));
            builder.detached(true).link(link).start().await.expect("a session")
        };
        // The second time it takes its containers down with it.
        for live_restore in [true, false] {
            let socket = start("socket", LinkPolicy::Socket).await;
            let relay = start("relay", LinkPolicy::Relay).await;
            let code = "x = 41\ngate('go')\nprint('end')\nx + 1";
            let (one, other) = tokio::join!(Going::start(&socket, code), Going::start(&relay, code));
            private.kill().await;
            assert!(private.resume(live_restore).await, "it came up once");
            let back = Instant::now();
            let listed = Session::list(engine.as_ref()).await.expect("a list");
            // Docker 20.10 gives none back that it is to remove at its end.
            let kept = live_restore && listed.len() == 2;
            for (going, session) in [(one, &socket), (other, &relay)] {
                if kept {
                    open_gate(engine.as_ref(), session.name()).await;
                    let execution = going.finish().await.expect("the call goes well");
                    assert_eq!((&execution.status, execution.state), (&Status::Ok, State::Kept));
                    assert_eq!((execution.stdout.text.as_str(), execution.text()), ("begun\nend\n", Some("42")));
                    session.stop().await.expect("it stops");
                } else {
                    let execution = going.finish().await.expect("the call goes well");
                    assert!(back.elapsed() < Duration::from_secs(3), "{:?}", back.elapsed());
                    assert!(matches!(execution.status, Status::ContainerGone(_)), "{:?}", execution.status);
                    assert_eq!((execution.state, execution.stdout.text.as_str()), (State::ContainerGone, "begun\n"));
                    assert!(session.run("1").await.expect_err("it is gone").is_session_gone());
                }
            }
            let begun = Instant::now();
            let left = loop {
                // An engine that comes back to a container that is still busy gives its removal up.
                let pruned = Session::prune(engine.as_ref()).await;
                let listed = pruned.and(Session::list(engine.as_ref()).await);
                if listed.as_ref().is_ok_and(Vec::is_empty) || begun.elapsed() > Duration::from_secs(10) {
                    break listed;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            assert!(left.as_ref().is_ok_and(Vec::is_empty), "{left:?}, live restore: {live_restore}");
        }
    })
    .await;
}

async fn open_gate(engine: &dyn Engine, session: &str) {
    let listed = Session::list(engine).await.expect("a list").into_iter().find(|one| one.name == session);
    let container = listed.expect("it is listed").container;
    let mut exec = engine.exec(&container, &["/bin/touch", "/workspace/go"]).await.expect("it runs");
    exec.stdin.shutdown().await.expect("its stdin ends");
    exec.stdout.read_to_end(&mut Vec::new()).await.expect("its stdout ends");
    assert_eq!(exec.end.await.expect("it ends").code, Some(0));
}
