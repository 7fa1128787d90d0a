//! Where the attacked sessions and the others run.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use cellblock::{Docker, Engine, Error, LinkPolicy, Session, SessionBuilder};
use tokio::sync::Semaphore;

use crate::process::ProcessEngine;

/// An engine and an image in it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    engine: Arc<dyn Engine>,
    image: String,
    processes: Option<Arc<ProcessEngine>>,
}

impl Place {
    /// Plain processes of this machine. None, with a word about it, where there is no Python for them.
    pub(crate) fn process() -> Option<Self> {
        let Some(python) = env::var_os("CELLBLOCK_TEST_PYTHON") else {
            return skip("CELLBLOCK_TEST_PYTHON names no Python with ipykernel", "CELLBLOCK_REQUIRE_PYTHON");
        };
        let processes = Arc::new(ProcessEngine::new(python));
        Some(Self { engine: Arc::clone(&processes) as _, image: "process".to_owned(), processes: Some(processes) })
    }

    /// Containers of a real engine. None, with a word about it, where there is none.
    pub(crate) async fn container() -> Option<Self> {
        const REQUIRED: &str = "CELLBLOCK_REQUIRE_ENGINE";
        let docker = match Docker::connect().await {
            Ok(docker) => docker,
            Err(error) => return skip(&format!("no engine: {error}"), REQUIRED),
        };
        let chosen = env::var("CELLBLOCK_TEST_IMAGE").ok();
        for image in chosen.map_or(vec!["cellblock:base".into(), "cellblock:data".into()], |image| vec![image]) {
            if docker.image(&image).await.is_ok_and(|found| found.is_some()) {
                return Some(Self { engine: Arc::new(docker), image, processes: None });
            }
        }
        skip("no kernel image, and CELLBLOCK_TEST_IMAGE names no other", REQUIRED)
    }

    pub(crate) fn image(&self) -> &str {
        &self.image
    }

    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine)
    }

    pub(crate) fn builder(&self, link: LinkPolicy) -> SessionBuilder {
        let builder = Session::builder().engine(Arc::clone(&self.engine)).image(&self.image).link(link);
        // Less than the driver waits for word of a kernel that has closed its channels.
        builder.grace(self.brief() * 2 / 3)
    }

    /// Starts a session, a few at a time: what is tried here is not how many a machine can start at once.
    pub(crate) async fn start(&self, builder: SessionBuilder) -> Result<Session, Error> {
        static STARTS: Semaphore = Semaphore::const_new(3);
        let _turn = STARTS.acquire().await.expect("it is never closed");
        builder.start().await
    }

    /// As long as an attack may need to take the sockets over: an interrupt in the middle of that spoils it. Containers have less CPU.
    pub(crate) fn brief(&self) -> Duration {
        Duration::from_millis(if self.processes.is_some() { 800 } else { 2500 })
    }

    pub(crate) fn clean_up(&self) {
        if let Some(processes) = &self.processes {
            processes.clean_up();
        }
    }
}

/// Says that a test was skipped, and fails it if it must not be.
pub(crate) fn skip<T>(why: &str, required: &str) -> Option<T> {
    assert!(env::var_os(required).is_none(), "{why}, and {required} is set");
    say(&format!("skipped: {why}"));
    None
}

#[expect(clippy::print_stderr, reason = "the reader of the test's output must know")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}
