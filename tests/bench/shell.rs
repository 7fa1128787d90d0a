//! A script that does nothing, beside a bare exec of the engine.

use std::time::{Duration, Instant};

use cellblock::{ContainerId, Engine, LinkPolicy, Session, Shell};
use tokio::io::AsyncReadExt as _;

use crate::report::{self, Sample};
use crate::support::{Result, order, session};

const ROUNDS: usize = 60;
const WARM_UP: usize = 5;

pub(crate) async fn measure() -> Result<()> {
    let session = session(LinkPolicy::Socket).start().await?;
    let engine = session.engine();
    let containers = engine.list(&[("cellblock.session", session.name())]).await?;
    let id = containers.into_iter().next().ok_or("the session has no container")?.id;
    let mut bare = Sample::new("the engine's exec of `true`");
    let mut script = Sample::new("run_shell(\"true\")");
    let mut program = Sample::new("run_program([\"true\"])");
    for _ in 0..WARM_UP {
        exec(engine.as_ref(), &id).await?;
        shell(&session).await?;
    }
    for round in 0..ROUNDS {
        for index in order(round, 3) {
            match index {
                0 => bare.extend([exec(engine.as_ref(), &id).await?]),
                1 => script.extend([shell(&session).await?]),
                _ => program.extend([direct(&session).await?]),
            }
        }
    }
    report::table("a script that does nothing", &[&bare, &script, &program]);
    report::ratio("p50, run_shell / bare exec", script.median(), bare.median(), 1.3);
    session.stop().await?;
    Ok(())
}

async fn exec(engine: &dyn Engine, id: &ContainerId) -> Result<Duration> {
    let begin = Instant::now();
    let mut exec = engine.exec(id, &["true"]).await?;
    exec.stdout.read_to_end(&mut Vec::new()).await?;
    match exec.end.await?.code {
        Some(0) => Ok(begin.elapsed()),
        code => Err(format!("`true` ended with {code:?}").into()),
    }
}

async fn shell(session: &Session) -> Result<Duration> {
    let begin = Instant::now();
    let outcome = session.run_shell("true", Shell::Sh).await?;
    if outcome.is_ok() { Ok(begin.elapsed()) } else { Err(format!("`true` ended with {}", outcome.status).into()) }
}

async fn direct(session: &Session) -> Result<Duration> {
    let begin = Instant::now();
    let outcome = session.run_program(["true"]).await?;
    if outcome.is_ok() { Ok(begin.elapsed()) } else { Err(format!("`true` ended with {}", outcome.status).into()) }
}
