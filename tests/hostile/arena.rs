//! Where attacks are played: some at a time, each on an honest kernel of its own, with bystanders around.

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cellblock::{Error, Execution, LinkPolicy, Session, State};
use futures_util::FutureExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::attack::{Attack, Caller, Expect};
use crate::bystanders::Bystanders;
use crate::memory;
use crate::places::{Place, say};

/// What is not part of an attack takes no longer than this.
const PATIENCE: Duration = Duration::from_secs(30);
/// In KiB: what the whole run may leave, and what it may take while it goes on. One execution may hold 64 MiB of displays.
const MEMORY: u64 = 64 << 10;
const PEAK: u64 = 128 << 10;

/// What the attackers share.
#[derive(Debug)]
struct Arena {
    place: Place,
    waiting: Mutex<VecDeque<Attack>>,
    failures: Mutex<Vec<String>>,
    bystanders: Bystanders,
    heavy: Semaphore,
}

/// Plays all attacks, so many at once, with bystanders in a place of their own.
pub(crate) async fn fight(place: &Place, around: &Place, attacks: Vec<Attack>, at_once: usize) {
    let chosen = std::env::var("CELLBLOCK_ATTACK").unwrap_or_default();
    let attacks: VecDeque<_> = attacks.into_iter().filter(|attack| attack.name.contains(&chosen)).collect();
    let count = attacks.len();
    let arena = Arc::new(Arena {
        place: place.clone(),
        waiting: Mutex::new(attacks),
        failures: Mutex::default(),
        bystanders: Bystanders::start(around, 10).await,
        heavy: Semaphore::new(1),
    });
    let begun = Instant::now();
    memory::forget_peak();
    let before = memory::resident();
    let mut attackers = JoinSet::new();
    for number in 0..at_once {
        let link = if number % 2 == 0 { LinkPolicy::Auto } else { LinkPolicy::Relay };
        attackers.spawn(attack_on(Arc::clone(&arena), link));
    }
    attackers.join_all().await;
    let (peak, after) = (memory::peak() - before, memory::resident().saturating_sub(before));
    let arena = Arc::into_inner(arena).expect("the attackers have ended");
    let cells = arena.bystanders.end().await;
    say(&format!(
        "{count} attacks in {:?}; {cells} cells beside them; memory grew by {after} KiB, {peak} at its peak",
        begun.elapsed()
    ));
    let failures = arena.failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {count} attacks:\n{}", failures.len(), failures.join("\n"));
    assert!(after < MEMORY, "the attacks left {after} KiB");
    assert!(peak < PEAK, "the attacks took {peak} KiB");
    assert!(cells >= 10, "the bystanders ran {cells} cells");
}

/// Plays attacks on one session after the other until there are none left.
async fn attack_on(arena: Arc<Arena>, link: LinkPolicy) {
    let mut session = None;
    while let Some((attack, _heavy)) = arena.next(link).await {
        let victim = match session.take() {
            Some(session) if !matches!(attack.expect, Expect::Gone) => session,
            // The numbers of a relay's streams are known only in the beginning.
            _ => arena.place.builder(link).start().await.expect("a session to attack"),
        };
        let begun = Instant::now();
        match arena.play(&attack, &victim).await {
            Ok(kept) => session = kept.then_some(victim),
            Err(failure) => {
                let failure = format!("{} ({link:?}): {failure}", attack.name);
                say(&failure);
                arena.failures.lock().unwrap().push(failure);
            }
        }
        if std::env::var_os("CELLBLOCK_ATTACK").is_some() {
            say(&format!("{:>8.1?} {}", begun.elapsed(), attack.name));
        }
    }
    if let Some(session) = session {
        let _ = session.stop().await;
    }
}

impl Arena {
    /// The next attack, and the turn of a heavy one. While another is under way the light ones go on.
    async fn next(&self, link: LinkPolicy) -> Option<(Attack, Option<SemaphorePermit<'_>>)> {
        let take = |heavy| {
            let mut waiting = self.waiting.lock().unwrap();
            let fits = |attack: &Attack| attack.heavy == heavy && attack.link.is_none_or(|needed| needed == link);
            let at = waiting.iter().position(fits)?;
            waiting.remove(at)
        };
        if let Ok(turn) = self.heavy.try_acquire()
            && let Some(attack) = take(true)
        {
            return Some((attack, Some(turn)));
        }
        if let Some(attack) = take(false) {
            return Some((attack, None));
        }
        let turn = self.heavy.acquire().await.unwrap();
        Some((take(true)?, Some(turn)))
    }

    /// Plays one attack; says whether the session can be used for another.
    async fn play(&self, attack: &Attack, session: &Session) -> Result<bool, String> {
        let first = within(PATIENCE, "the cell before", session.run("marker = 1")).await?;
        first.ok().filter(Execution::is_ok).ok_or("the cell before did not go well")?;
        self.bystanders.stir();
        let mut run = session.run(attack.code()).timeout(attack.timeout.unwrap_or(self.place.brief()));
        run = match attack.caller {
            Caller::Nobody => run,
            Caller::Answers => run.stdin(|_| ready(Some("a line".to_owned())).boxed()),
            Caller::Sleeps => run.stdin(|_| pending().boxed()),
        };
        let execution = within(attack.bound, "the attacked cell", run).await?.map_err(|error| told(&error))?;
        if let Some(wrong) = attack.judge(&execution) {
            return Err(wrong);
        }
        // What is said of the state is true.
        let after = within(PATIENCE, "the cell after", session.run("('marker' in globals(), 40 + 2)")).await?;
        let kept = match execution.state {
            State::Kept => "True",
            State::KernelRestarted => "False",
            _ => match after {
                Err(error) if error.is_session_gone() => return Ok(false),
                other => return Err(format!("the container is gone, and then {other:?}")),
            },
        };
        let after = after.map_err(|error| format!("the cell after: {}", told(&error)))?;
        if !after.is_ok() || after.text() != Some(format!("({kept}, 42)").as_str()) {
            return Err(format!("said {:?}, and then {after:?}", execution.state));
        }
        if execution.state == State::Kept {
            within(PATIENCE, "the restart", session.restart()).await?.map_err(|error| told(&error))?;
        }
        Ok(true)
    }
}

async fn within<T>(bound: Duration, what: &str, future: impl IntoFuture<Output = T>) -> Result<T, String> {
    tokio::time::timeout(bound, future).await.map_err(|_| format!("{what} was not answered within {bound:?}"))
}

fn told(error: &Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    format!("{error} ({:?}; {source:?})", error.ran())
}
