//! Both links side by side.

use std::time::{Duration, Instant};

use cellblock::Session;

use crate::report::{self, Sample, megabytes};
use crate::support::{LINKS, Result, calls, order, session};

const ROUNDS: usize = 40;
const CALLS: usize = 10;
const WARM_UP: usize = 30;
const PRINTS: usize = 6;
const BYTES: u64 = 20_000_000;

pub(crate) async fn measure() -> Result<()> {
    let [(socket, _), (relay, _)] = LINKS;
    let sessions = [session(socket).start().await?, session(relay).start().await?];
    let mut warm = LINKS.map(|(_, link)| Sample::new(format!("1+1, {link} link")));
    let mut bulk = LINKS.map(|(_, link)| Sample::new(format!("{} MB printed, {link} link", megabytes(BYTES))));
    for session in &sessions {
        calls(session, WARM_UP).await?;
        print(session).await?;
    }
    for round in 0..ROUNDS {
        for index in order(round, sessions.len()) {
            warm[index].extend(calls(&sessions[index], CALLS).await?);
        }
    }
    for round in 0..PRINTS {
        for index in order(round, sessions.len()) {
            bulk[index].extend([print(&sessions[index]).await?]);
        }
    }
    let [socket, relay] = &warm;
    let [socket_bulk, relay_bulk] = &bulk;
    report::table("links side by side", &[socket, relay, socket_bulk, relay_bulk]);
    report::ratio("1+1, p50, socket / relay", socket.median(), relay.median(), 0.9);
    report::ratio("bulk, p50, socket / relay", socket_bulk.median(), relay_bulk.median(), 0.9);
    for (sample, (_, link)) in bulk.iter().zip(LINKS) {
        report::note(&format!("{link}: {:.0} MB/s", megabytes(BYTES) / sample.median().as_secs_f64()));
    }
    for session in sessions {
        session.stop().await?;
    }
    Ok(())
}

async fn print(session: &Session) -> Result<Duration> {
    let begin = Instant::now();
    let execution = session.run(format!("for _ in range({}): print('x' * 999)", BYTES / 1000)).await?;
    let took = begin.elapsed();
    match execution.stdout.total_bytes {
        BYTES => Ok(took),
        other => Err(format!("{other} bytes came of {BYTES}").into()),
    }
}
