//! What stands before every route: the site, the rate, the token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::http::auth::{self, Secret};
use super::http::rate::Rate;
use super::http::site::Site;
use super::page;
use super::refusal::{Code, Refusal};

/// Who may call, and how often.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) site: Site,
    pub(crate) rate: Option<Rate>,
    pub(crate) tokens: Option<Vec<Secret>>,
}

impl Gate {
    fn check(&self, request: &Request) -> Result<(), Refusal> {
        self.site.check(request.headers(), request.uri())?;
        if let Some(rate) = &self.rate {
            rate.check()?;
        }
        match &self.tokens {
            Some(tokens) if !is_open(request.uri().path()) && !auth::bears(request.headers(), tokens) => {
                Err(Refusal::new(Code::Unauthorized, "a bearer token of this server is needed in `Authorization`"))
            }
            _ => Ok(()),
        }
    }
}

/// What tells nothing of sessions, what has a secret of its own, and the page, which asks for a token itself.
fn is_open(path: &str) -> bool {
    matches!(path, "/health" | "/ready" | "/msi/token") || page::guards(path)
}

pub(crate) async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    match gate.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}
