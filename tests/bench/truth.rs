//! How soon the truth is told: after a deadline, and after a kernel's death.

use std::time::{Duration, SystemTime};

use cellblock::{LinkPolicy, Rung, Session, State, Status};

use crate::report::{self, Sample, millis, verdict};
use crate::support::{LINKS, Result, call, session};

const ROUNDS: usize = 40;
const TIMEOUT: Duration = Duration::from_millis(300);
const DEADLINE_TARGET: Duration = Duration::from_millis(150);
const DEATH_TARGET: Duration = Duration::from_millis(250);

/// Code that an interrupt reaches at once.
const INTERRUPTIBLE: [(&str, &str); 3] = [
    ("time.sleep", "import time\ntime.sleep(60)"),
    ("a busy loop", "while True: pass"),
    ("a top-level await", "import asyncio\nawait asyncio.sleep(60)"),
];

const DEATHS: [(&str, &str); 2] = [("SIGKILL", "os.kill(os.getpid(), 9)"), ("os._exit", "os._exit(3)")];
/// Tells by the clock of this machine when the kernel is going to end, in time for the text to leave it.
const WILL: &str = "import os, time\nend = time.time() + 0.3\nprint(end, flush=True)\ntime.sleep(end - time.time())";

pub(crate) async fn measure() -> Result<()> {
    for (link, name) in LINKS {
        deadlines(link, name).await?;
    }
    for (link, name) in LINKS {
        deaths(link, name).await?;
    }
    Ok(())
}

async fn deadlines(link: LinkPolicy, name: &str) -> Result<()> {
    let session = session(link).start().await?;
    let mut samples = INTERRUPTIBLE.map(|(what, _)| Sample::new(what));
    let mut all = Sample::new("all of them");
    for _ in 0..ROUNDS {
        for ((_, code), sample) in INTERRUPTIBLE.iter().zip(&mut samples) {
            let late = deadline(&session, code).await?;
            sample.extend([late]);
            all.extend([late]);
            call(&session).await?;
        }
    }
    let rows: Vec<_> = samples.iter().chain([&all]).collect();
    report::table(&format!("from the deadline to the answer, {name} link"), &rows);
    within("from the deadline to the answer", &all, DEADLINE_TARGET);
    Ok(session.stop().await?)
}

async fn deadline(session: &Session, code: &str) -> Result<Duration> {
    let execution = session.run(code).timeout(TIMEOUT).await?;
    match (&execution.status, execution.state, execution.rung) {
        (Status::TimedOut, State::Kept, Some(Rung::Interrupt)) => {
            Ok((execution.timing.total - execution.timing.queued).saturating_sub(TIMEOUT))
        }
        _ => Err(format!("{code} gave {execution:?}").into()),
    }
}

/// The answer comes once the next kernel is there, so that what it says of the state is true: its start is in these times.
async fn deaths(link: LinkPolicy, name: &str) -> Result<()> {
    let session = session(link).start().await?;
    let mut samples = DEATHS.map(|(what, _)| Sample::new(what));
    let mut all = Sample::new("all of them");
    for _ in 0..ROUNDS {
        for ((_, code), sample) in DEATHS.iter().zip(&mut samples) {
            let execution = session.run(format!("{WILL}\n{code}")).await?;
            let told = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
            let (Status::KernelDied(_), State::KernelRestarted) = (&execution.status, execution.state) else {
                return Err(format!("{code} gave {execution:?}").into());
            };
            let died = Duration::from_secs_f64(execution.stdout.text.trim().parse()?);
            sample.extend([told.saturating_sub(died)]);
            all.extend([told.saturating_sub(died)]);
            call(&session).await?;
        }
    }
    let rows: Vec<_> = samples.iter().chain([&all]).collect();
    report::table(&format!("from a kernel's death to the answer with the next one ready, {name} link"), &rows);
    within("from a kernel's death to the answer", &all, DEATH_TARGET);
    Ok(session.stop().await?)
}

fn within(what: &str, sample: &Sample, target: Duration) {
    let p95 = sample.percentile(95);
    verdict(&format!("{what}, p95: {:.0} ms, target ≤ {:.0} ms", millis(p95), millis(target)), p95 <= target);
}
