//! What stands before every route: the site, the token, the rate.

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
    pub(crate) rates: Option<Rates>,
    pub(crate) tokens: Option<Vec<Secret>>,
}

/// How often callers may call who bear a token, and, apart from them, all others: nobody without one can take their turn.
#[derive(Debug)]
pub(crate) struct Rates {
    known: Rate,
    others: Rate,
}

impl Rates {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { known: Rate::new(per_second), others: Rate::new(per_second) }
    }
}

impl Gate {
    fn check(&self, request: &Request) -> Result<(), Refusal> {
        self.site.check(request.headers(), request.uri())?;
        let path = request.uri().path();
        let known = self.tokens.as_ref().is_none_or(|tokens| auth::bears(request.headers(), tokens));
        // Whoever watches over the server asks without a token, and has to get an answer also when others flood it.
        if let Some(rates) = &self.rates
            && path != "/health"
        {
            if known { rates.known.check() } else { rates.others.check() }?;
        }
        if known || is_open(path) {
            return Ok(());
        }
        Err(Refusal::new(Code::Unauthorized, "a bearer token of this server is needed in `Authorization`"))
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
