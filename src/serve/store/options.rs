//! What one session may have of its own.

use std::time::Duration;

use cellblock::SessionBuilder;

use super::entry::Lasts;
use crate::serve::config::Sessions;
use crate::serve::refusal::Refusal;

/// The shape of one session, where it is to differ from the server's template. Limits can be tightened here, not loosened.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) memory: Option<u64>,
    pub(crate) cpus: Option<f64>,
    pub(crate) pids: Option<u32>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) life: Option<Duration>,
}

impl Options {
    /// Whether a session of the pool is as good as one of our own.
    pub(super) fn suits_pool(&self) -> bool {
        self.memory.is_none() && self.cpus.is_none() && self.pids.is_none() && self.env.is_empty()
    }

    pub(super) fn lasts(&self, server: &Sessions) -> Lasts {
        Lasts { idle: self.idle.unwrap_or(server.idle), life: self.life.unwrap_or(server.life) }
    }

    pub(super) fn check(&self, server: &Sessions) -> Result<(), Refusal> {
        at_most("memory", self.memory, server.ceiling.memory)?;
        at_most("cpus", self.cpus, server.ceiling.cpus)?;
        at_most("pids", self.pids, server.ceiling.pids)?;
        let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
        at_most("timeout_seconds", seconds(self.timeout), server.timeout.as_secs_f64())?;
        at_least_a_second("idle_seconds", self.idle)?;
        at_least_a_second("life_seconds", self.life)?;
        at_most("idle_seconds", seconds(self.idle), server.life.as_secs_f64())?;
        at_most("life_seconds", seconds(self.life), server.life.as_secs_f64())
    }

    pub(super) fn apply(&self, builder: SessionBuilder) -> SessionBuilder {
        let builder = self.memory.into_iter().fold(builder, SessionBuilder::memory);
        let builder = self.cpus.into_iter().fold(builder, SessionBuilder::cpus);
        let builder = self.pids.into_iter().fold(builder, SessionBuilder::pids);
        self.env.iter().fold(builder, |builder, (name, value)| builder.env(name, value))
    }
}

fn at_least_a_second(what: &str, asked: Option<Duration>) -> Result<(), Refusal> {
    match asked {
        Some(asked) if asked < Duration::from_secs(1) => Err(Refusal::invalid(format!("`{what}` must be at least 1"))),
        _ => Ok(()),
    }
}

fn at_most<T: Copy + PartialOrd + Default + std::fmt::Display>(
    what: &str,
    asked: Option<T>,
    most: T,
) -> Result<(), Refusal> {
    match asked {
        Some(asked) if !(asked > T::default() && asked <= most) => {
            Err(Refusal::invalid(format!("`{what}` must be more than 0 and at most {most}, which this server allows")))
        }
        _ => Ok(()),
    }
}
