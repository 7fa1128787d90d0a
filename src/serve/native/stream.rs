//! An execution's answer: whole, or as its events come.

use std::convert::Infallible;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::serve::refusal::Refusal;
use crate::serve::runs::{Happening, Run};

const EXECUTION_ID: HeaderName = HeaderName::from_static("cellblock-execution-id");

/// What the client wants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    ServerSentEvents,
    Lines,
}

impl Form {
    fn of(headers: &HeaderMap) -> Self {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let wants =
            |kind: &str| accept.split(',').any(|part| part.split(';').next().unwrap_or_default().trim() == kind);
        match () {
            () if wants("text/event-stream") => Self::ServerSentEvents,
            () if wants("application/x-ndjson") => Self::Lines,
            () => Self::Json,
        }
    }
}

/// Answers in the form that `Accept` names. A stream that the client leaves before its end interrupts what runs.
pub(super) async fn answer(run: Run, headers: &HeaderMap) -> Result<Response, Refusal> {
    let id = HeaderValue::from_str(run.record().id.as_str()).ok();
    let mut response = match Form::of(headers) {
        Form::Json => Json(run.finish().await?).into_response(),
        Form::ServerSentEvents => {
            let events = run.map(|next| Ok::<_, Infallible>(Event::default().data(text(&next))));
            Sse::new(events).keep_alive(KeepAlive::default()).into_response()
        }
        Form::Lines => {
            let lines = run.map(|next| Ok::<_, Infallible>(format!("{}\n", text(&next))));
            ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
        }
    };
    if let Some(id) = id {
        response.headers_mut().insert(EXECUTION_ID, id);
    }
    Ok(response)
}

/// One event. A failure is an event, too: the answer has begun.
fn text(next: &Result<Happening, Refusal>) -> String {
    let text = match next {
        Ok(happening) => serde_json::to_string(happening),
        Err(refusal) => serde_json::to_string(
            &json!({ "event": "failed", "error": { "code": refusal.code().as_str(), "message": refusal.message() } }),
        ),
    };
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_is_known_is_taken_and_else_json() {
        let form = |accept: &'static str| {
            Form::of(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert_eq!(form("*/*"), Form::Json);
        assert_eq!(form("application/json"), Form::Json);
        assert_eq!(form("text/event-stream"), Form::ServerSentEvents);
        assert_eq!(form("text/html, application/x-ndjson;q=0.9"), Form::Lines);
        assert_eq!(Form::of(&HeaderMap::new()), Form::Json);
    }
}
