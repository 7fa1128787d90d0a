//! How much of the CPU each session takes, from one look to the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cellblock::Usage;
use uuid::Uuid;

use crate::serve::store::Entry;

/// Looks that are closer share a rate: it would be mostly noise.
const SHORTEST: Duration = Duration::from_millis(800);

#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<HashMap<Uuid, Look>>);

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    cpu: Duration,
    rate: Option<f64>,
}

/// What a session uses.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) usage: Usage,
    /// In cores, since an earlier look.
    pub(super) cores: Option<f64>,
}

impl Meter {
    pub(super) fn read(&self, entry: &Entry) -> Reading {
        let usage = entry.session.usage();
        let cores = usage.cpu.and_then(|cpu| self.rate(entry.id, cpu));
        Reading { usage, cores }
    }

    fn rate(&self, id: Uuid, cpu: Duration) -> Option<f64> {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let look = looks.entry(id).or_insert(Look { at: Instant::now(), cpu, rate: None });
        let passed = look.at.elapsed();
        if passed >= SHORTEST {
            let rate = cpu.saturating_sub(look.cpu).as_secs_f64() / passed.as_secs_f64();
            *look = Look { at: Instant::now(), cpu, rate: Some(rate) };
        }
        look.rate
    }

    /// Forgets sessions that are not there any more.
    pub(super) fn keep_only(&self, entries: &[Arc<Entry>]) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|id, _| entries.iter().any(|entry| entry.id == *id));
    }
}
