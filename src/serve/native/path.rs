//! What an address names.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use utoipa::IntoParams;

use crate::serve::identifier::Identifier;
use crate::serve::refusal::Refusal;

/// The session's part of an address, for the document.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "`Named` reads it")]
pub(super) struct SessionPath {
    /// What clients call the session.
    #[param(min_length = 1, max_length = 256, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    identifier: String,
}

/// A session by its identifier, and what else the address names: an execution's id, or a file's path.
pub(super) struct Named {
    pub(super) identifier: Identifier,
    pub(super) rest: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path: Result<Path<Vec<(String, String)>>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Path(path) = path.map_err(|_| Refusal::invalid("the address is not UTF-8"))?;
        let mut texts = path.into_iter().map(|(_, text)| text);
        let identifier = texts.next().unwrap_or_default();
        let identifier = Identifier::new(&identifier).ok_or_else(|| {
            Refusal::invalid("an identifier has 1 to 256 characters, none of them a control character")
        })?;
        Ok(Self { identifier, rest: texts.next().unwrap_or_default() })
    }
}
