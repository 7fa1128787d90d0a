//! Sessions that have nothing to do with any attack, and must not notice one.

use std::time::{Duration, Instant};

use cellblock::{LinkPolicy, Session, State};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::places::Place;

/// What two cores that are busy with everything else may make a cell of a bystander take.
const BOUND: Duration = Duration::from_secs(15);
/// However quiet it is, each runs a cell this often.
const BEAT: Duration = Duration::from_secs(1);

/// Ten sessions that run cells whenever something happens, and whenever nothing does.
#[derive(Debug)]
pub(crate) struct Bystanders {
    running: JoinSet<u64>,
    events: watch::Sender<u64>,
}

impl Bystanders {
    pub(crate) async fn start(place: &Place, count: u64) -> Self {
        let (events, _) = watch::channel(0);
        let mut running = JoinSet::new();
        for number in 0..count {
            let link = if number % 2 == 0 { LinkPolicy::Auto } else { LinkPolicy::Relay };
            let session = place.builder(link).start().await.expect("a bystander");
            session.run(format!("total = {number}")).await.expect("a bystander's first cell");
            running.spawn(live(session, number, events.subscribe()));
        }
        Self { running, events }
    }

    /// Tells them that something happens.
    pub(crate) fn stir(&self) {
        self.events.send_modify(|events| *events += 1);
    }

    /// Ends them and returns how many cells they ran. Panics if one of them was disturbed.
    pub(crate) async fn end(self) -> u64 {
        drop(self.events);
        self.running.join_all().await.iter().sum()
    }
}

async fn live(session: Session, number: u64, mut events: watch::Receiver<u64>) -> u64 {
    let mut cells = 0;
    let mut beat = tokio::time::interval(BEAT);
    loop {
        tokio::select! {
            changed = events.changed() => match changed {
                // Each event is the business of three of them.
                Ok(()) if (*events.borrow_and_update() + number) % 10 > 2 => continue,
                Ok(()) => {}
                Err(_) => break,
            },
            _ = beat.tick() => {}
        }
        cells += 1;
        let begun = Instant::now();
        let code = format!("print({number}, {cells})\ntotal += 1\ntotal");
        let execution = session.run(code).await.expect("a bystander's call");
        assert!(execution.is_ok() && execution.state == State::Kept, "bystander {number}: {}", execution.status);
        assert_eq!(execution.stdout.text, format!("{number} {cells}\n"));
        assert_eq!(execution.text(), Some((number + cells).to_string().as_str()), "bystander {number}");
        assert!(begun.elapsed() < BOUND, "bystander {number} waited {:?}", begun.elapsed());
    }
    session.stop().await.expect("a bystander's end");
    cells
}
