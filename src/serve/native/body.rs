//! JSON bodies, refused with our own error where they cannot be read.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use crate::serve::body::read;
use crate::serve::refusal::{Code, Refusal};

/// Reads a body that has to be there.
pub(super) async fn json<T: DeserializeOwned>(headers: &HeaderMap, body: Body, longest: usize) -> Result<T, Refusal> {
    let is_json = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|told| {
        let kind = told.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    });
    if !is_json {
        return Err(Refusal::new(Code::UnsupportedType, "the body is `application/json`"));
    }
    let bytes = read(body, longest).await?;
    serde_json::from_slice(&bytes).map_err(|error| Refusal::invalid(format!("the body cannot be read: {error}")))
}
