//! What a benchmark prints: samples side by side, and how their ratio stands to the target.

#![expect(clippy::print_stdout, reason = "a report is what a benchmark is for")]

use std::time::Duration;

/// The times of one side.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    name: String,
    times: Vec<Duration>,
}

impl Sample {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), times: Vec::new() }
    }

    pub(crate) fn extend(&mut self, times: impl IntoIterator<Item = Duration>) {
        self.times.extend(times);
        self.times.sort();
    }

    /// The time that so many per cent of the runs did not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.times.len() * percent).div_ceil(100).saturating_sub(1);
        self.times.get(rank).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }
}

/// Prints the samples of one measure, in milliseconds.
pub(crate) fn table(title: &str, samples: &[&Sample]) {
    println!("\n{title}");
    println!("  {:<44} {:>5} {:>9} {:>9} {:>9} {:>9}  ms", "", "N", "min", "p50", "p90", "p99");
    for sample in samples {
        let [min, p50, p90, p99] = [0, 50, 90, 99].map(|percent| millis(sample.percentile(percent)));
        println!("  {:<44} {:>5} {min:>9.2} {p50:>9.2} {p90:>9.2} {p99:>9.2}", sample.name, sample.times.len());
    }
}

/// Prints the ratio of two times, and whether it is within the target.
pub(crate) fn ratio(what: &str, ours: Duration, theirs: Duration, target: f64) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    verdict(
        &format!("{what}: {:.2} / {:.2} ms = {ratio:.2}, target ≤ {target}", millis(ours), millis(theirs)),
        ratio <= target,
    );
}

/// Prints a statement and whether it holds.
pub(crate) fn verdict(statement: &str, holds: bool) {
    println!("  {} {statement}", if holds { "PASS" } else { "FAIL" });
}

/// Prints something that has no target.
pub(crate) fn note(text: &str) {
    println!("       {text}");
}

pub(crate) fn heading(title: &str) {
    println!("\n{title}");
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
