//! Whether the server lives, whether it is ready, and its counters.

use axum::Json;
use axum::extract::State as Extracted;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::metrics;
use super::refusal::{Code, Refusal};
use super::server::State;

pub(crate) async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Ready is who can give out sessions: an engine answers, and the server is not about to end.
pub(crate) async fn ready(Extracted(state): Extracted<State>) -> Result<Json<Value>, Refusal> {
    if state.store.is_draining() {
        return Err(Refusal::new(Code::Draining, "the server is shutting down"));
    }
    let engine = state.store.engine().await?;
    // A question that the engine answers from memory.
    engine.list(&[("cellblock.session", "")]).await?;
    Ok(Json(json!({ "status": "ready", "warm": state.store.warm_ready() })))
}

pub(crate) async fn metrics(Extracted(state): Extracted<State>) -> Result<impl IntoResponse, Refusal> {
    let text = state.store.metrics.text(&state.store).map_err(|_| Refusal::new(Code::Internal, "no metrics"))?;
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}
