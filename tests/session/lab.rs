//! Where an assertion runs: a place with an engine, a link, and a session with its usual questions.

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cellblock::{Engine, Execution, LinkPolicy, Session, SessionBuilder};
use futures_util::FutureExt as _;

use crate::places::{Fixture, Place};

/// No test may take longer than this, whatever hangs.
const PATIENCE: Duration = Duration::from_secs(100);
/// "At once" on a machine that is busy with everything else: far less than any cell of these tests sleeps, or may run.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// What nothing announces is there by then.
const CONDITION: Duration = Duration::from_secs(30);

/// A place to try something in. All that it made is gone when the test has ended.
#[derive(Debug)]
pub(crate) struct Lab {
    fixture: Fixture,
    link: LinkPolicy,
}

fn chosen_rounds() -> Option<u32> {
    std::env::var("CELLBLOCK_ROUNDS").ok()?.parse().ok()
}

/// Runs an assertion in a place, or says why it cannot.
pub(crate) async fn on(place: Place, link: LinkPolicy, assertion: impl AsyncFnOnce(&Lab)) {
    let Some(fixture) = Fixture::of(place).await else { return };
    let lab = Lab { fixture, link };
    let patience = if chosen_rounds().is_some() { 10 * PATIENCE } else { PATIENCE };
    let bounded = tokio::time::timeout(patience, Box::pin(assertion(&lab)));
    let outcome = AssertUnwindSafe(bounded).catch_unwind().await;
    lab.fixture.clean_up().await;
    match outcome {
        Err(panic) => resume_unwind(panic),
        Ok(result) => assert!(result.is_ok(), "the test did not end within {patience:?}"),
    }
}

impl Lab {
    /// A session of this place, to be described further.
    pub(crate) fn builder(&self) -> SessionBuilder {
        Session::builder().engine(self.engine()).image(self.fixture.image()).link(self.link)
    }

    pub(crate) async fn session(&self) -> Session {
        self.builder().start().await.expect("a session")
    }

    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        self.fixture.engine()
    }

    pub(crate) fn fixture(&self) -> &Fixture {
        &self.fixture
    }

    /// The directory in `/proc` of the kernel of the only session: the only child of the bridge's only child.
    pub(crate) async fn kernel(&self) -> PathBuf {
        let container = self.fixture.recording().only();
        let mut pid = self.engine().pid(&container).await.expect("the engine is there").expect("it runs").to_string();
        for _ in 0..2 {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
            pid = children.trim().to_owned();
        }
        PathBuf::from(format!("/proc/{pid}"))
    }

    /// How often to try what hardly ever goes wrong: all these times over the fakes, fewer where each costs more; and as often as
    /// `CELLBLOCK_ROUNDS` says.
    pub(crate) fn rounds(&self, all: u32) -> u32 {
        if let Some(rounds) = chosen_rounds() {
            return rounds;
        }
        match (self.fixture.place(), self.link) {
            (Place::Fake, _) => all,
            (Place::Process, LinkPolicy::Auto) => all / 2,
            _ => all / 4,
        }
    }

    /// A session's name that no other test uses.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("test-{what}-{}", std::process::id())
    }
}

/// Questions that the tests ask all the time. A failure of the call itself fails the test.
pub(crate) trait Ask {
    /// Runs a cell whatever comes of it.
    async fn cell(&self, code: impl Into<String>) -> Execution;
    /// Runs a cell that must end well.
    async fn good(&self, code: impl Into<String>) -> Execution;
    /// Evaluates an expression and returns the text of its value.
    async fn value(&self, expression: &str) -> String;
}

impl Ask for Session {
    async fn cell(&self, code: impl Into<String>) -> Execution {
        self.run(code).await.expect("the call goes well")
    }

    async fn good(&self, code: impl Into<String>) -> Execution {
        let execution = self.cell(code).await;
        assert!(execution.is_ok(), "{}\n{}", execution.status, execution.stderr);
        execution
    }

    async fn value(&self, expression: &str) -> String {
        let execution = self.good(expression).await;
        execution.text().expect("a value").to_owned()
    }
}

/// Waits for what nothing announces.
pub(crate) async fn until(what: impl fmt::Display, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < CONDITION, "{what}: not within {CONDITION:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Makes a test of each assertion in each place where it holds.
///
/// - `links`: in every place, over each link; the code is of the few words that the fake kernel knows
/// - `everywhere`: in every place; the same
/// - `python_links`: where there is a real Python, over each link
/// - `python`: where there is a real Python
/// - `process`, `container`: there only
macro_rules! tests {
    (
        $(links: [$($link:ident),+ $(,)?])?
        $(everywhere: [$($every:ident),+ $(,)?])?
        $(python_links: [$($python_link:ident),+ $(,)?])?
        $(python: [$($python:ident),+ $(,)?])?
        $(process: [$($process:ident),+ $(,)?])?
        $(container: [$($container:ident),+ $(,)?])?
    ) => {
        mod fake {
            $($($crate::lab::test!(Fake, Auto, $link);)+)?
            $($($crate::lab::test!(Fake, Auto, $every);)+)?
        }
        mod process {
            $($($crate::lab::test!(Process, Auto, $link);)+)?
            $($($crate::lab::test!(Process, Auto, $every);)+)?
            $($($crate::lab::test!(Process, Auto, $python_link);)+)?
            $($($crate::lab::test!(Process, Auto, $python);)+)?
            $($($crate::lab::test!(Process, Auto, $process);)+)?
        }
        mod process_relay {
            $($($crate::lab::test!(Process, Relay, $link);)+)?
            $($($crate::lab::test!(Process, Relay, $python_link);)+)?
        }
        mod container {
            $($($crate::lab::test!(Container, Auto, $link);)+)?
            $($($crate::lab::test!(Container, Auto, $every);)+)?
            $($($crate::lab::test!(Container, Auto, $python_link);)+)?
            $($($crate::lab::test!(Container, Auto, $python);)+)?
            $($($crate::lab::test!(Container, Auto, $container);)+)?
        }
        mod container_relay {
            $($($crate::lab::test!(Container, Relay, $link);)+)?
            $($($crate::lab::test!(Container, Relay, $python_link);)+)?
        }
    };
}

macro_rules! test {
    ($place:ident, $link:ident, $name:ident) => {
        #[tokio::test]
        async fn $name() {
            $crate::lab::on($crate::places::Place::$place, cellblock::LinkPolicy::$link, super::$name).await;
        }
    };
}

pub(crate) use {test, tests};
