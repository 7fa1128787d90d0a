//! How many requests a second are served.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::serve::refusal::{Code, Refusal};

/// A bucket of tokens, which holds those of two seconds.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    bucket: Mutex<(f64, Instant)>,
}

impl Rate {
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        Self { per_second, bucket: Mutex::new((per_second * 2.0, Instant::now())) }
    }

    /// Takes one token.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.check_at(Instant::now())
    }

    fn check_at(&self, now: Instant) -> Result<(), Refusal> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, since) = *bucket;
        let tokens =
            (tokens + now.saturating_duration_since(since).as_secs_f64() * self.per_second).min(self.per_second * 2.0);
        if tokens < 1.0 {
            *bucket = (tokens, now);
            let message = format!("more than {} requests a second: see `--max-rate`", self.per_second);
            return Err(Refusal::new(Code::TooManyRequests, message));
        }
        *bucket = (tokens - 1.0, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_of_two_seconds_passes_and_then_the_rate() {
        let rate = Rate::new(10);
        let now = Instant::now();
        let passed = |at: Instant| (0..100).filter(|_| rate.check_at(at).is_ok()).count();
        assert_eq!(passed(now), 20);
        assert_eq!(passed(now + Duration::from_millis(500)), 5);
        assert_eq!(passed(now + Duration::from_secs(60)), 20);
    }
}
