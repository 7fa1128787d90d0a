//! What `/metrics` tells, in the text format of OpenMetrics.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::runs::Outcome;
use super::store::Store;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    method: &'static str,
    /// The route, not the path: there are few of them, and no identifiers in them.
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    status: &'static str,
}

/// Counters of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    executions: Family<Ended, Counter>,
    execution_time: Histogram,
    hand_over: Histogram,
    pub(crate) sessions_made: Counter,
    pub(crate) sessions_ended: Counter,
    sessions: Gauge,
    warm: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let seconds = [0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
        let mut metrics = Self {
            registry: Registry::with_prefix("cellblock"),
            requests: Family::default(),
            executions: Family::default(),
            execution_time: Histogram::new(seconds),
            hand_over: Histogram::new([0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05]),
            sessions_made: Counter::default(),
            sessions_ended: Counter::default(),
            sessions: Gauge::default(),
            warm: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("http_requests", "Requests answered, by route", metrics.requests.clone());
        registry.register("executions", "Executions ended, by how they ended", metrics.executions.clone());
        registry.register("execution_seconds", "From an execution's call to its end", metrics.execution_time.clone());
        registry.register("hand_over_seconds", "To hand over a warm session", metrics.hand_over.clone());
        registry.register("sessions_made", "Sessions given out", metrics.sessions_made.clone());
        registry.register("sessions_ended", "Sessions ended, warm ones included", metrics.sessions_ended.clone());
        registry.register("sessions", "Sessions given out now", metrics.sessions.clone());
        registry.register("warm_sessions", "Sessions started ahead that wait", metrics.warm.clone());
        metrics
    }

    pub(crate) fn request(&self, method: &'static str, route: &str, status: u16) {
        let labels = Request { method, route: route.to_owned(), status };
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn execution_ended(&self, outcome: &Outcome) {
        self.executions.get_or_create(&Ended { status: outcome.word() }).inc();
        self.execution_time.observe(outcome.total().as_secs_f64());
    }

    pub(crate) fn handed_over(&self, in_time: Duration) {
        self.hand_over.observe(in_time.as_secs_f64());
    }

    /// The text, with what only the store knows as it is now.
    pub(crate) fn text(&self, store: &Store) -> Result<String, std::fmt::Error> {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.sessions.set(count(store.list().len()));
        self.warm.set(count(store.warm_ready()));
        let mut buffer = String::new();
        text::encode(&mut buffer, &self.registry)?;
        Ok(buffer)
    }
}
