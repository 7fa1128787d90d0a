//! Cells and scripts.

use axum::Json;
use axum::body::Body;
use axum::extract::State as Extracted;
use axum::http::HeaderMap;
use axum::response::Response;
use cellblock::{Policy, PythonMode, Shell, extract_code_blocks};

use super::path::{Named, SessionPath};
use super::schema::{ExecutionList, HowPython, NewBlocks, NewExecution, NewScript, Problem, RecordedExecution, span};
use super::{body, outcome, stream};
use crate::serve::refusal::Refusal;
use crate::serve::runs::{ExecutionId, Form, Request, Run, Work};
use crate::serve::server::State;

/// Runs a cell. By `Accept`: the execution in full, or as they come its events, each an `Event` (`text/event-stream`, `application/x-ndjson`).
///
/// A Python exception is an outcome of a successful call. A client that goes away before the end interrupts the cell; the session lives.
#[utoipa::path(
    post, path = "/v1/sessions/{identifier}/executions", tag = "executions",
    params(SessionPath), request_body = NewExecution,
    responses(
        (status = 200, content((outcome::Execution = "application/json"), (String = "text/event-stream"), (String = "application/x-ndjson"))),
        (status = "default", body = Problem),
    ),
)]
pub(super) async fn create(
    Extracted(state): Extracted<State>,
    named: Named,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let new: NewExecution = body::json(&headers, sent, state.limits.body).await?;
    run(&state, &named, &headers, Work::Cell(new.code), new.timeout_seconds).await
}

/// Runs a script, or a program with its arguments, beside the kernel and its cells. By `Accept` as for cells.
#[utoipa::path(
    post, path = "/v1/sessions/{identifier}/shell", tag = "executions",
    params(SessionPath), request_body = NewScript,
    responses(
        (status = 200, content((outcome::ScriptOutcome = "application/json"), (String = "text/event-stream"), (String = "application/x-ndjson"))),
        (status = "default", body = Problem),
    ),
)]
pub(super) async fn shell(
    Extracted(state): Extracted<State>,
    named: Named,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let new: NewScript = body::json(&headers, sent, state.limits.body).await?;
    let work = match (new.script, new.argv) {
        (Some(text), None) => {
            Work::Script { text, shell: Shell::from(new.shell.as_deref().unwrap_or("bash")), stdin: new.stdin }
        }
        (None, Some(argv)) if new.shell.is_none() => Work::Program { argv, stdin: new.stdin },
        _ => return Err(Refusal::invalid("the body has either `script`, with or without `shell`, or `argv`")),
    };
    run(&state, &named, &headers, work, new.timeout_seconds).await
}

/// Carries out the code blocks of a message in order, up to the first that fails.
///
/// Blocks of Python are cells of the kernel, unless `python` says otherwise; scripts are files of the work directory, and run beside the kernel. By
/// `Accept` as for cells: each block's `block_begun`, the events of its cell or its script, its `block_ended` with its outcome, and at the end `done` with the whole.
#[utoipa::path(
    post, path = "/v1/sessions/{identifier}/blocks", tag = "executions",
    params(SessionPath), request_body = NewBlocks,
    responses(
        (status = 200, content((outcome::BlocksOutcome = "application/json"), (String = "text/event-stream"), (String = "application/x-ndjson"))),
        (status = "default", body = Problem),
    ),
)]
pub(super) async fn blocks(
    Extracted(state): Extracted<State>,
    named: Named,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let new: NewBlocks = body::json(&headers, sent, state.limits.body).await?;
    let policy = Policy::default().python(match new.python.unwrap_or_default() {
        HowPython::Kernel => PythonMode::Kernel,
        HowPython::File => PythonMode::File,
    });
    let keep_going = new.keep_going.unwrap_or_default();
    let work = Work::Blocks { blocks: extract_code_blocks(&new.message), policy, keep_going };
    run(&state, &named, &headers, work, new.timeout_seconds).await
}

async fn run(
    state: &State,
    named: &Named,
    headers: &HeaderMap,
    work: Work,
    timeout: Option<f64>,
) -> Result<Response, Refusal> {
    let timeout = span("timeout_seconds", timeout)?;
    let held = state.store.find(&named.identifier)?;
    let longest = state.store.config().timeout;
    let timeout = timeout.or(held.timeout).unwrap_or(longest).min(longest);
    let request = Request { id: ExecutionId::random(), work, timeout, asynchronous: false, form: Form::default() };
    stream::answer(Run::begin(&state.store, held, request)?, headers).await
}

/// Lists the executions of a session that are remembered, the oldest first.
#[utoipa::path(
    get, path = "/v1/sessions/{identifier}/executions", tag = "executions",
    params(SessionPath),
    responses((status = 200, body = ExecutionList), (status = "default", body = Problem)),
)]
pub(super) async fn list(Extracted(state): Extracted<State>, named: Named) -> Result<Json<ExecutionList>, Refusal> {
    let all = state.store.find(&named.identifier)?.history.all();
    Ok(Json(ExecutionList { executions: all.iter().map(|record| RecordedExecution::of(record)).collect() }))
}

/// Looks at an execution.
#[utoipa::path(
    get, path = "/v1/sessions/{identifier}/executions/{id}", tag = "executions",
    params(SessionPath, ("id" = String, Path, min_length = 1)),
    responses((status = 200, body = RecordedExecution), (status = "default", body = Problem)),
)]
pub(super) async fn get(Extracted(state): Extracted<State>, named: Named) -> Result<Json<RecordedExecution>, Refusal> {
    let record = state.store.find(&named.identifier)?.history.get(&named.rest)?;
    Ok(Json(RecordedExecution::of(&record)))
}
