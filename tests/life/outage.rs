//! An engine that cannot be reached for a while, and whose containers live on: behind a socket of our own, which can be shut.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cellblock::{Docker, Engine, Event, Execution, LinkPolicy, Ran, RunStream, Session, SessionBuilder, State, Status};
use futures_util::StreamExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::controller::{Controller, cellblock};
use crate::lab::{Ask as _, Lab, on, runtime_directory, until};
use crate::reattach::GATE;

/// The engine of the other tests behind another address.
struct Door {
    directory: tempfile::TempDir,
    beyond: PathBuf,
    open: Option<tokio::task::JoinHandle<()>>,
}

impl Door {
    fn open(lab: &Lab) -> Self {
        let beyond = lab.docker.address().strip_prefix("unix://").expect("an engine with a socket").into();
        let mut door = Self { directory: tempfile::tempdir().expect("a directory"), beyond, open: None };
        door.reopen();
        door
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("engine.sock")
    }

    fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    async fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(Docker::connect_to(&self.address()).await.expect("it is open"))
    }

    /// Cuts every connection, and refuses new ones.
    async fn shut(&mut self) {
        let open = self.open.take().expect("it is open");
        open.abort();
        let _ = open.await;
        std::fs::remove_file(self.socket()).expect("it is there");
    }

    fn reopen(&mut self) {
        let listener = UnixListener::bind(self.socket()).expect("a socket");
        let beyond = self.beyond.clone();
        self.open = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let beyond = beyond.clone();
                connections.spawn(async move {
                    let mut far = UnixStream::connect(beyond).await?;
                    tokio::io::copy_bidirectional(&mut near, &mut far).await
                });
            }
        }));
    }
}

fn builder(lab: &Lab, engine: &Arc<dyn Engine>, what: &str) -> SessionBuilder {
    Session::builder().engine(Arc::clone(engine)).image(&lab.image).name(lab.name(what))
}

/// A detached session and an owned one, both over the relay, which goes through the door.
async fn relayed(lab: &Lab, engine: &Arc<dyn Engine>) -> (Session, Session) {
    let start = async |what, detached| {
        let builder = builder(lab, engine, what).link(LinkPolicy::Relay).detached(detached);
        builder.start().await.expect("a session")
    };
    tokio::join!(start("relay", true), start("owned", false))
}

/// A cell on its way.
pub(crate) struct Going(RunStream);

impl Going {
    /// Starts a cell that can wait at gates, and returns once it has printed that it has begun.
    pub(crate) async fn start(session: &Session, code: &str) -> Self {
        let code = format!("{GATE}\nprint('begun', flush=True)\n{code}");
        let mut going = Self(session.run_stream(code).timeout(Duration::from_secs(60)));
        going.until("begun").await;
        going
    }

    pub(crate) async fn until(&mut self, line: &str) {
        let mut text = String::new();
        while !text.contains(line) {
            match self.0.next().await.expect("Done is the last event").expect("the call goes well") {
                Event::Stdout(part) => text.push_str(&part),
                Event::Done(execution) => panic!("ended without printing {line:?}: {execution:?}"),
                _ => {}
            }
        }
    }

    pub(crate) async fn finish(mut self) -> Result<Execution, cellblock::Error> {
        loop {
            if let Event::Done(execution) = self.0.next().await.expect("an end")? {
                return Ok(*execution);
            }
        }
    }
}

fn chain(error: &cellblock::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {cause}")
}

const TALK: &str =
    "x = 41\nfor i in range(40):\n    print(i, flush=True)\n    time.sleep(0.05)\ngate('go')\nprint('end')\nx + 1";

fn talk() -> String {
    let lines: String = (0..40).map(|i| format!("{i}\n")).collect();
    format!("begun\n{lines}end\n")
}

#[tokio::test]
async fn an_engine_that_is_away_for_a_while_costs_nothing() {
    on(async |lab| {
        let mut door = Door::open(lab);
        let engine = door.engine().await;
        let (detached, owned) = relayed(lab, &engine).await;
        let socket = builder(lab, &engine, "socket").link(LinkPolicy::Socket).start().await.expect("a session");
        let (recorded, unheard, heard) =
            tokio::join!(Going::start(&detached, TALK), Going::start(&owned, TALK), Going::start(&socket, TALK));
        door.shut().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        door.reopen();
        for session in [&detached, &owned, &socket] {
            lab.open_gate(session.name(), "go").await;
        }
        for (going, session) in [(recorded, &detached), (heard, &socket)] {
            let execution = going.finish().await.expect("the call goes well");
            assert_eq!((&execution.status, execution.state), (&Status::Ok, State::Kept));
            assert_eq!((execution.stdout.text.as_str(), execution.outputs_left_out), (talk().as_str(), 0));
            assert_eq!(session.value("x").await, "41");
        }
        // Of an owned session nothing is recorded, and that is said.
        let execution = unheard.finish().await.expect("the call goes well");
        assert_eq!((&execution.status, execution.state, execution.text()), (&Status::Ok, State::Kept, Some("42")));
        assert!(execution.outputs_left_out > 0 && execution.stdout.text.ends_with("end\n"), "{execution:?}");
        // The link is held as any other.
        let error = Session::attach(detached.name()).engine(lab.engine()).await.expect_err("it is held");
        assert!(error.is_held(), "{error:?}");
        for session in [detached, owned, socket] {
            session.stop().await.expect("it stops");
        }
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_stays_away_is_named() {
    on(async |lab| {
        let mut door = Door::open(lab);
        let engine = door.engine().await;
        let (detached, owned) = relayed(lab, &engine).await;
        let code = "x = 41\ngate('go')\nx + 1";
        let (going, ending) = tokio::join!(Going::start(&detached, code), Going::start(&owned, code));
        door.shut().await;
        let shut = Instant::now();
        let behind = detached.run("1").into_future();
        let (lost, behind, ended) = tokio::join!(going.finish(), behind, ending.finish());
        assert!(shut.elapsed() < Duration::from_secs(13), "{:?}", shut.elapsed());
        let lost = lost.expect_err("nobody here knows what comes of it");
        assert!(lost.ran() == Ran::Yes && !lost.is_session_gone() && lost.hint().is_some(), "{lost:?}");
        assert!(chain(&lost).contains("the container engine"), "{}", chain(&lost));
        assert_eq!(behind.expect_err("it waited").ran(), Ran::Never);
        // An owned container that nobody reaches ends itself.
        let ended = ended.expect("the call goes well");
        assert!(
            matches!(&ended.status, Status::ContainerGone(how) if how.contains("the container engine")),
            "{:?}",
            ended.status
        );
        until("what it says is true", async || lab.container(owned.name()).await.is_none()).await;
        for session in [&detached, &owned] {
            let error = session.run("1").await.expect_err("this handle's session is over");
            assert!(error.is_session_gone() && error.ran() == Ran::Never, "{error:?}");
        }
        // Whoever takes hold when the engine is back has the result.
        door.reopen();
        let again = Session::attach(detached.name()).engine(door.engine().await).await.expect("it can be held");
        lab.open_gate(again.name(), "go").await;
        let left = again.left().await;
        assert_eq!((&left.status, left.state, left.text()), (&Status::Ok, State::Kept, Some("42")));
        again.stop().await.expect("it stops");
    })
    .await;
}

#[tokio::test]
async fn a_link_that_is_lost_while_the_kernel_is_replaced_costs_nothing_more() {
    on(async |lab| {
        let mut door = Door::open(lab);
        let engine = door.engine().await;
        let (detached, owned) = relayed(lab, &engine).await;
        for session in [&detached, &owned] {
            assert!(session.cell("x = 41\nopen('kept', 'w').close()").await.is_ok());
            // What is paused starts no kernel, until the link is lost.
            lab.pause(session.name(), true).await;
            let (restarted, ()) = tokio::join!(session.restart(), async {
                door.shut().await;
                lab.pause(session.name(), false).await;
                door.reopen();
            });
            restarted.expect("it is restarted");
            assert_eq!(session.value("import os\n('x' in globals(), os.path.exists('kept'))").await, "(False, True)");
        }
        for session in [detached, owned] {
            session.stop().await.expect("it stops");
        }
    })
    .await;
}

// The commands are waited for on the thread, and the door has to stand open.
#[tokio::test(flavor = "multi_thread")]
async fn pruning_one_engine_takes_nothing_from_another() {
    on(async |lab| {
        let door = Door::open(lab);
        let session = builder(lab, &door.engine().await, "elsewhere").detached(true).start().await.expect("a session");
        let spill = session.cell("print('x' * 3_000_000)").await.stdout.spill.expect("a file with all of it");
        session.detach().await.expect("it lets go");
        let directory = runtime_directory().join(spill.parent().and_then(|id| id.file_name()).expect("its directory"));
        lab.kill(session.name()).await;
        until("its container is gone", async || lab.container(session.name()).await.is_none()).await;
        let prune = |address: &str| {
            let mut prune = cellblock(["prune"]);
            prune.env("DOCKER_HOST", address);
            let pruned = Controller::spawn(prune).ended();
            assert_eq!(pruned.code, Some(0), "{}", pruned.stderr);
        };
        prune(lab.docker.address());
        assert!(directory.exists() && spill.exists(), "it may live where that engine cannot look");
        prune(&door.address());
        assert!(!directory.exists() && !spill.exists());
    })
    .await;
}
