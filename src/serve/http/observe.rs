//! What is noted of a request: its route, status and time; never its query, headers or body.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use crate::serve::metrics::Metrics;

pub(crate) async fn observe(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = known(request.method());
    let route =
        request.extensions().get::<MatchedPath>().map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let response = next.run(request).await;
    let status = response.status().as_u16();
    metrics.request(method, &route, status);
    let code = response.headers().get("x-ms-error-code").and_then(|code| code.to_str().ok());
    tracing::info!(method, route, status, code, took = ?begun.elapsed(), "request");
    response
}

/// Any word is a method by HTTP, and a metric never forgets a label.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
