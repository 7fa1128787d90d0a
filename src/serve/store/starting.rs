//! Making sessions: the engine, and what has to be true before another one is started.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cellblock::{Docker, Engine, Session};
use tokio::sync::Mutex;

use super::memory;
use super::options::Options;
use super::pool::LONGEST_WAIT;
use crate::serve::config::Sessions;
use crate::serve::refusal::{Code, Refusal};

/// How many starts are under way.
#[derive(Debug, Default)]
pub(super) struct Starts(Arc<AtomicUsize>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Start(Arc<AtomicUsize>);

impl Starts {
    pub(super) fn begin(&self) -> Start {
        self.0.fetch_add(1, Ordering::AcqRel);
        Start(Arc::clone(&self.0))
    }

    pub(super) fn are_under_way(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Starts sessions of one shape on one engine, which may be away for a while.
#[derive(Debug)]
pub(super) struct Starter {
    config: Sessions,
    /// Goes on without us.
    detached: bool,
    /// What the names of this server's sessions begin with.
    prefix: String,
    engine: Mutex<Search>,
}

/// What came of the last look for the engine, and when.
#[derive(Debug, Default)]
enum Search {
    #[default]
    None,
    Failed(Instant, Refusal),
    Found(Arc<dyn Engine>),
}

impl Starter {
    pub(super) fn new(config: Sessions, detached: bool, prefix: String) -> Self {
        Self { config, detached, prefix, engine: Mutex::default() }
    }

    /// The engine, looked for until it is found the first time; each request to it makes its own connection.
    pub(super) async fn engine(&self) -> Result<Arc<dyn Engine>, Refusal> {
        let asked = Instant::now();
        let mut search = self.engine.lock().await;
        match &*search {
            Search::Found(engine) => return Ok(Arc::clone(engine)),
            // An engine that hangs makes a look long: who waited for one does not make another.
            Search::Failed(at, refusal) if *at >= asked => return Err(refusal.clone()),
            _ => {}
        }
        match Docker::connect().await {
            Ok(engine) => {
                let engine: Arc<dyn Engine> = Arc::new(engine);
                *search = Search::Found(Arc::clone(&engine));
                Ok(engine)
            }
            Err(error) => {
                let refusal = Refusal::from(error);
                *search = Search::Failed(Instant::now(), refusal.clone());
                Err(refusal)
            }
        }
    }

    pub(super) async fn start(&self, options: &Options) -> Result<Session, Refusal> {
        self.check_memory()?;
        let engine = self.engine().await?;
        let name = format!("{}{}", self.prefix, &uuid::Uuid::new_v4().simple().to_string()[20..]);
        // The store ends a session in time; the container does so where no store is left.
        let lasts = options.lasts(&self.config);
        let session = options
            .apply(self.config.template.clone())
            .name(name)
            .engine(engine)
            .detached(self.detached)
            .timeout(self.config.timeout)
            .idle_timeout(lasts.idle)
            .max_life(lasts.life + LONGEST_WAIT)
            .start()
            .await?;
        Ok(session)
    }

    fn check_memory(&self) -> Result<(), Refusal> {
        let reserve = self.config.memory_reserve;
        match memory::available() {
            Some(available) if available < reserve => Err(Refusal::new(
                Code::MemoryPressure,
                format!(
                    "cannot start a session: {} MiB of memory are left, and {} MiB are kept in reserve",
                    available >> 20,
                    reserve >> 20
                ),
            )),
            _ => Ok(()),
        }
    }
}
