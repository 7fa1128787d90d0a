//! One execution, from the request to its answer's headers.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use cellblock::Execution;

use super::call::Call;
use crate::serve::identifier::Identifier;
use crate::serve::refusal::Refusal;
use crate::serve::runs::{ExecutionId, Outcome, Request, Run};
use crate::serve::server::State;

pub(super) const OPERATION_ID: HeaderName = HeaderName::from_static("operation-id");

/// An execution that was noted in its session's history and has not begun.
pub(super) struct Begun {
    pub(super) run: Run,
    made_in: Option<Duration>,
}

pub(super) async fn begin(
    state: &State,
    identifier: &Identifier,
    headers: &HeaderMap,
    call: Call,
) -> Result<Begun, Refusal> {
    let id = match headers.get(OPERATION_ID) {
        None => ExecutionId::random(),
        Some(id) => id.to_str().ok().and_then(ExecutionId::new).ok_or_else(|| {
            Refusal::invalid("the header `operation-id` has 1 to 64 letters, digits, `.`, `_` and `-`")
        })?,
    };
    let opened = state.store.open(identifier).await?;
    let request =
        Request { id, work: call.work, timeout: call.timeout, asynchronous: call.asynchronous, form: call.form };
    Ok(Begun { run: Run::begin(&state.store, opened.held, request)?, made_in: opened.made_in })
}

impl Begun {
    /// What the answer's headers tell before it has run.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut add = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        add("operation-id", self.run.record().id.as_str());
        add("x-ms-session-guid", &self.run.held().id.to_string());
        add("x-ms-new-allocation", if self.made_in.is_some() { "true" } else { "false" });
        add("x-ms-allocation-time", &milliseconds_exact(self.made_in.unwrap_or_default()));
        // A start that fails is an answer of its own.
        add("x-ms-allocation-retries", "0");
        headers
    }

    /// Adds to the answer's headers what they tell once it has run.
    pub(super) async fn finish(self, headers: &mut HeaderMap) -> Result<Outcome, Refusal> {
        let outcome = self.run.finish().await?;
        if let Outcome::Cell(execution) = &outcome {
            add_times(headers, execution, self.made_in.unwrap_or_default());
        }
        Ok(outcome)
    }
}

fn add_times(headers: &mut HeaderMap, execution: &Execution, made_in: Duration) {
    let times = [
        ("x-ms-total-execution-service-time", made_in + execution.timing.total),
        ("x-ms-overall-execution-time", execution.timing.total),
        ("x-ms-preparation-time", execution.timing.queued),
        ("x-ms-container-execution-duration", execution.timing.kernel.unwrap_or(execution.timing.total)),
    ];
    for (name, time) in times {
        if let Ok(value) = HeaderValue::from_str(&milliseconds_exact(time)) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn milliseconds_exact(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}
