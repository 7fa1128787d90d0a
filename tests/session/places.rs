//! The places: fakes in memory, plain processes of this machine, and containers of a real engine.

use std::env;
use std::sync::Arc;

use cellblock::{Docker, Engine};

use crate::fake::FakeEngine;
use crate::host;
use crate::process::ProcessEngine;
use crate::recording::Recording;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A fake kernel in memory.
    Fake,
    /// A real kernel without a container.
    Process,
    /// A real container.
    Container,
}

/// An engine, and what is to be removed of it at the end.
#[derive(Debug)]
pub(crate) struct Fixture {
    place: Place,
    image: String,
    engine: Arc<Recording>,
    processes: Option<Arc<ProcessEngine>>,
    docker: Option<Docker>,
}

impl Fixture {
    /// None, with a word about it, where the place is not to be had.
    pub(crate) async fn of(place: Place) -> Option<Self> {
        match place {
            Place::Fake => Some(Self::fake()),
            Place::Process => Self::process(),
            Place::Container => Self::container().await,
        }
    }

    fn fake() -> Self {
        let engine = Arc::new(Recording::new(FakeEngine::new() as Arc<dyn Engine>));
        Self { place: Place::Fake, image: "fake".to_owned(), engine, processes: None, docker: None }
    }

    fn process() -> Option<Self> {
        let Some(python) = env::var_os("CELLBLOCK_TEST_PYTHON") else {
            return skip("CELLBLOCK_TEST_PYTHON names no Python with ipykernel", "CELLBLOCK_REQUIRE_PYTHON");
        };
        let processes = Arc::new(ProcessEngine::new(python));
        let engine = Arc::new(Recording::new(Arc::clone(&processes) as Arc<dyn Engine>));
        let image = "process".to_owned();
        Some(Self { place: Place::Process, image, engine, processes: Some(processes), docker: None })
    }

    async fn container() -> Option<Self> {
        const REQUIRED: &str = "CELLBLOCK_REQUIRE_ENGINE";
        let docker = match Docker::connect().await {
            Ok(docker) => docker,
            Err(error) => return skip(&format!("no engine: {error}"), REQUIRED),
        };
        let client = bollard::Docker::connect_with_host(docker.address()).expect("a second client");
        let chosen = env::var("CELLBLOCK_TEST_IMAGE").ok();
        for image in chosen.as_deref().map_or(vec!["cellblock:base", "cellblock:data"], |image| vec![image]) {
            if client.inspect_image(image).await.is_ok() {
                let engine = Arc::new(Recording::new(Arc::new(docker.clone())));
                let image = image.to_owned();
                return Some(Self { place: Place::Container, image, engine, processes: None, docker: Some(docker) });
            }
        }
        skip("no kernel image, and CELLBLOCK_TEST_IMAGE names no other", REQUIRED)
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn image(&self) -> &str {
        &self.image
    }

    /// The engine, which remembers what was made with it.
    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine) as Arc<dyn Engine>
    }

    pub(crate) fn recording(&self) -> &Recording {
        &self.engine
    }

    /// A client of the engine for what is asked behind cellblock's back.
    pub(crate) fn bollard(&self) -> bollard::Docker {
        let docker = self.docker.as_ref().expect("a container engine");
        bollard::Docker::connect_with_host(docker.address()).expect("a second client")
    }

    pub(crate) async fn clean_up(&self) {
        self.engine.remove_all().await;
        for (_, spec) in self.engine.created() {
            host::remove_when_free(&host::directory(&spec)).await;
        }
        if let Some(processes) = &self.processes {
            processes.clean_up();
        }
    }
}

/// Says that a test was skipped, and fails it if it must not be.
fn skip(why: &str, required: &str) -> Option<Fixture> {
    assert!(env::var_os(required).is_none(), "{why}, and {required} is set");
    say(&format!("skipped: {why}"));
    None
}

#[expect(clippy::print_stderr, reason = "the reader of the test's output must know")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}
