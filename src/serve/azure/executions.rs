//! `executions` of the newer family.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{OriginalUri, Path, State as Extracted};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse as _, Response};
use cellblock::{Execution, ScriptOutcome, ScriptStatus};
use futures_util::FutureExt as _;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::call::Call;
use super::version::Version;
use super::{run, streams, value};
use crate::serve::body;
use crate::serve::identifier::Identifier;
use crate::serve::query::Query;
use crate::serve::refusal::Refusal;
use crate::serve::runs::{End, Form, Outcome, Record};
use crate::serve::server::State;

const OPERATION_LOCATION: HeaderName = HeaderName::from_static("operation-location");

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    id: String,
    identifier: String,
    execution_type: &'static str,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Answer>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    stdout: String,
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_result: Option<Box<RawValue>>,
    execution_time_in_milliseconds: u64,
}

pub(super) async fn create(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let query = Query::parse(&uri)?;
    let version = Version::of(&query)?;
    version.at_least(Version::EXECUTIONS, "executions")?;
    let identifier = query.identifier()?;
    let sent = body::read(sent, state.limits.body).await?;
    let call = Call::parse(&sent, state.store.config().timeout)?;
    if !call.work.is_cell() {
        version.at_least(Version::SESSIONS, "shellCommand")?;
    }
    let asynchronous = call.asynchronous;
    let begun = run::begin(&state, &identifier, &headers, call).await?;
    let mut response = begun.headers();
    let record = begun.run.record().clone();
    if asynchronous {
        if let Some(location) = location(&uri, record.id.as_str()) {
            response.insert(OPERATION_LOCATION, location);
        }
        let mut finish = begun.run.finish().boxed();
        // Executions of a session run in the order in which they are first polled: before the answer, so before the next request.
        if finish.as_mut().now_or_never().is_none() {
            tokio::spawn(finish);
        }
        let mut resource = resource(&record, &identifier, version);
        "Running".clone_into(&mut resource.status);
        resource.result = None;
        return Ok((response, Json(resource)).into_response());
    }
    begun.finish(&mut response).await?;
    Ok((response, Json(resource(&record, &identifier, version))).into_response())
}

pub(super) async fn get(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
    path: Result<Path<Vec<(String, String)>>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path(path) = path.map_err(|_| Refusal::invalid("the address is not UTF-8"))?;
    let query = Query::parse(&uri)?;
    let version = Version::of(&query)?;
    version.at_least(Version::EXECUTIONS, "executions")?;
    let identifier = query.identifier()?;
    let id = path.iter().find(|(name, _)| name == "id").map(|(_, id)| id.as_str()).unwrap_or_default();
    let record = state.store.find(&identifier)?.history.get(id)?;
    Ok(Json(resource(&record, &identifier, version)).into_response())
}

/// Where to ask for the result: below the address that was asked, with its query.
fn location(uri: &Uri, id: &str) -> Option<HeaderValue> {
    let path = uri.path().trim_end_matches('/');
    HeaderValue::from_str(&format!("{path}/{id}?{}", uri.query().unwrap_or_default())).ok()
}

fn resource(record: &Record, identifier: &Identifier, version: Version) -> Resource {
    // What the request does not say, the version of whoever asks does.
    let cut_at = record.form.cut_at.or((version >= Version::CUT_STREAMS).then_some(streams::CUT_AT));
    let form = Form { cut_at, ..record.form };
    let mut error = None;
    let (status, result) = match record.end() {
        None if record.started().is_some() => ("Running".to_owned(), None),
        None => ("NotStarted".to_owned(), None),
        Some(End::Canceled) => ("Canceled".to_owned(), Some(nothing(String::new()))),
        Some(End::Failed(refusal)) => {
            error = Some(json!({ "code": refusal.code().as_str(), "message": refusal.message() }));
            ("Failed".to_owned(), Some(nothing(refusal.message().to_owned())))
        }
        Some(End::Done(Outcome::Cell(execution))) => {
            let status = if execution.is_ok() { "Succeeded" } else { "Failed" };
            (status.to_owned(), Some(of_cell(&execution, form)))
        }
        // Our own API's, which this one has no words for.
        Some(End::Done(outcome @ Outcome::Blocks(..))) => {
            let status = if outcome.word() == "ok" { "Succeeded" } else { "Failed" };
            (status.to_owned(), Some(nothing(String::new())))
        }
        // A shell's status is its exit code.
        Some(End::Done(Outcome::Script(outcome))) => (outcome.exit_code().to_string(), Some(of_script(&outcome, form))),
    };
    Resource {
        id: record.id.to_string(),
        identifier: identifier.as_str().to_owned(),
        execution_type: if record.asynchronous { "Asynchronous" } else { "Synchronous" },
        status,
        error,
        result,
    }
}

fn of_cell(execution: &Execution, form: Form) -> Answer {
    let value = match (execution.is_ok(), form.jupyter) {
        (false, _) => value::null(),
        (true, true) => value::jupyter(execution),
        (true, false) => value::of(execution),
    };
    Answer {
        stdout: cut(execution.stdout.text.clone(), form),
        stderr: cut(streams::stderr(execution), form),
        execution_result: Some(value),
        execution_time_in_milliseconds: run::milliseconds(execution.timing.total),
    }
}

fn of_script(outcome: &ScriptOutcome, form: Form) -> Answer {
    let mut stderr = outcome.stderr.text.clone();
    match &outcome.status {
        ScriptStatus::Exited(_) | ScriptStatus::Signaled(_) => {}
        ScriptStatus::TimedOut => stderr.push_str(streams::TIMED_OUT),
        _ => stderr.push_str(streams::ABORTED),
    }
    Answer {
        stdout: cut(outcome.stdout.text.clone(), form),
        stderr: cut(stderr, form),
        execution_result: None,
        execution_time_in_milliseconds: run::milliseconds(outcome.timing.total),
    }
}

fn nothing(stderr: String) -> Answer {
    Answer { stdout: String::new(), stderr, execution_result: Some(value::null()), execution_time_in_milliseconds: 0 }
}

fn cut(text: String, form: Form) -> String {
    match form.cut_at {
        Some(most) => streams::cut(text, most),
        None => text,
    }
}
