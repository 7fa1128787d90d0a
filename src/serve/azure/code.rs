//! `code/execute` of the first family, and `python/execute` as other clients call it.

use axum::Json;
use axum::body::Body;
use axum::extract::{OriginalUri, State as Extracted};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use cellblock::Execution;
use serde::Serialize;
use serde_json::value::RawValue;

use super::call::Call;
use super::run;
use super::version::Version;
use super::{streams, value};
use crate::serve::body;
use crate::serve::query::Query;
use crate::serve::refusal::{Code, Refusal};
use crate::serve::runs::Outcome;
use crate::serve::server::State;

#[derive(Serialize)]
struct Answer {
    #[serde(rename = "$id")]
    id: &'static str,
    properties: Properties,
    /// `python/execute` has them here, too.
    #[serde(flatten)]
    legacy: Option<Legacy>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    #[serde(rename = "$id")]
    id: &'static str,
    status: &'static str,
    stdout: String,
    stderr: String,
    result: Box<RawValue>,
    execution_time_in_milliseconds: u64,
}

#[derive(Serialize)]
struct Legacy {
    stdout: String,
    stderr: String,
    result: Box<RawValue>,
}

pub(super) async fn execute(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let legacy = uri.path().trim_end_matches('/').ends_with("python/execute");
    let query = Query::parse(&uri)?;
    let version = Version::of(&query)?;
    if !legacy {
        version.before_executions("code/execute", "executions")?;
    }
    let identifier = query.identifier()?;
    let sent = body::read(sent, state.limits.body).await?;
    let call = Call::parse(&sent, state.store.config().timeout)?;
    if !call.work.is_cell() {
        return Err(Refusal::new(Code::PropertiesMissing, "the body needs `code`"));
    }
    let run = run::begin(&state, &identifier, &headers, call).await?;
    let mut response = run.headers();
    let Outcome::Cell(execution) = run.finish(&mut response).await? else {
        return Err(Refusal::new(Code::Internal, "a cell ended as something else"));
    };
    Ok((response, Json(answer(&execution, legacy))).into_response())
}

fn answer(execution: &Execution, legacy: bool) -> Answer {
    let properties = Properties {
        id: "2",
        status: if execution.is_ok() { "Success" } else { "Failure" },
        stdout: execution.stdout.text.clone(),
        stderr: streams::stderr(execution),
        result: if execution.is_ok() { value::of(execution) } else { value::null() },
        execution_time_in_milliseconds: run::milliseconds(execution.timing.total),
    };
    let legacy = legacy.then(|| Legacy {
        stdout: properties.stdout.clone(),
        stderr: properties.stderr.clone(),
        // Its client takes null for a fault of the server.
        result: if execution.is_ok() { properties.result.clone() } else { value::empty() },
    });
    Answer { id: "1", properties, legacy }
}
