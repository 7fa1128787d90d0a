//! What the recorder and a watch cost a warm call.

use std::sync::Arc;

use cellblock::{LinkPolicy, Session};
use futures_util::StreamExt as _;

use crate::report::{self, Sample};
use crate::support::{Result, calls, order, session};

const ROUNDS: usize = 60;
const CALLS: usize = 10;
const WARM_UP: usize = 50;
const TARGET: f64 = 1.05;

pub(crate) async fn measure() -> Result<()> {
    let plain = session(LinkPolicy::Socket).start().await?;
    let recorded = session(LinkPolicy::Socket).detached(true).start().await?;
    let watched = session(LinkPolicy::Socket).detached(true).start().await?;
    let mut watch = Session::watch(Arc::clone(watched.engine()), watched.name()).await?;
    let following = tokio::spawn(async move { while watch.next().await.is_some() {} });
    let sessions = [&plain, &recorded, &watched];
    let mut samples = ["neither", "recorded", "recorded and watched"].map(Sample::new);
    for session in sessions {
        calls(session, WARM_UP).await?;
    }
    for round in 0..ROUNDS {
        for index in order(round, sessions.len()) {
            samples[index].extend(calls(sessions[index], CALLS).await?);
        }
    }
    let [without, with_recorder, with_both] = &samples;
    report::table("warm call 1+1, socket link", &[without, with_recorder, with_both]);
    report::ratio("1+1, p50, recorded / not", with_recorder.median(), without.median(), TARGET);
    report::ratio("1+1, p50, recorded and watched / neither", with_both.median(), without.median(), TARGET);
    following.abort();
    for session in [plain, recorded, watched] {
        session.stop().await?;
    }
    Ok(())
}
