//! Sessions: made, listed, looked at, interrupted, restarted, ended.

use axum::Json;
use axum::body::Body;
use axum::extract::State as Extracted;
use axum::http::{HeaderMap, StatusCode};

use super::body;
use super::path::{Named, SessionPath};
use super::schema::{NewSession, Problem, Session, SessionList};
use crate::serve::refusal::Refusal;
use crate::serve::server::State;

/// Lists the sessions, the oldest first.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", responses((status = 200, body = SessionList), (status = "default", body = Problem)))]
pub(super) async fn list(Extracted(state): Extracted<State>) -> Json<SessionList> {
    Json(SessionList { sessions: state.store.list().iter().map(|entry| Session::of(entry)).collect() })
}

/// Makes a session.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", request_body = NewSession,
    responses((status = 201, body = Session), (status = "default", body = Problem)),
)]
pub(super) async fn create(
    Extracted(state): Extracted<State>,
    headers: HeaderMap,
    sent: Body,
) -> Result<(StatusCode, Json<Session>), Refusal> {
    let (identifier, options) = body::json::<NewSession>(&headers, sent, state.limits.body).await?.read()?;
    let opened = state.store.create(&identifier, &options).await?;
    Ok((StatusCode::CREATED, Json(Session::of(&opened.held))))
}

/// Looks at a session.
#[utoipa::path(
    get, path = "/v1/sessions/{identifier}", tag = "sessions", params(SessionPath),
    responses((status = 200, body = Session), (status = "default", body = Problem)),
)]
pub(super) async fn get(Extracted(state): Extracted<State>, named: Named) -> Result<Json<Session>, Refusal> {
    Ok(Json(Session::of(&*state.store.find(&named.identifier)?)))
}

/// Ends a session.
#[utoipa::path(
    delete, path = "/v1/sessions/{identifier}", tag = "sessions", params(SessionPath),
    responses((status = 204), (status = "default", body = Problem)),
)]
pub(super) async fn delete(Extracted(state): Extracted<State>, named: Named) -> Result<StatusCode, Refusal> {
    state.store.remove(&named.identifier).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Interrupts what runs: a `KeyboardInterrupt` in the cell, and the end of scripts and programs.
#[utoipa::path(
    post, path = "/v1/sessions/{identifier}/interrupt", tag = "sessions", params(SessionPath),
    responses((status = 204), (status = "default", body = Problem)),
)]
pub(super) async fn interrupt(Extracted(state): Extracted<State>, named: Named) -> Result<StatusCode, Refusal> {
    state.store.find(&named.identifier)?.interrupt().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Restarts the kernel: variables are gone, files are kept.
#[utoipa::path(
    post, path = "/v1/sessions/{identifier}/restart", tag = "sessions", params(SessionPath),
    responses((status = 204), (status = "default", body = Problem)),
)]
pub(super) async fn restart(Extracted(state): Extracted<State>, named: Named) -> Result<StatusCode, Refusal> {
    state.store.find(&named.identifier)?.session.restart().await?;
    Ok(StatusCode::NO_CONTENT)
}
