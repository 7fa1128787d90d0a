//! What stands before every route: the site, the token, the rate.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::http::auth::{self, Secret};
use super::http::rate::Rate;
use super::http::site::Site;
use super::page::{self, Logins};
use super::refusal::{Code, Refusal};

/// Who may call, and how often.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) site: Site,
    pub(crate) rates: Option<Rates>,
    pub(crate) tokens: Option<Vec<Secret>>,
    pub(crate) logins: Logins,
}

/// What a request shows of who sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// One of our tokens, or there are none.
    Known,
    /// The cookie of a login, which is good for the page alone.
    Viewer,
    Stranger,
}

/// How often callers of each kind may call: nobody without a token can take the turn of those with one, nor a stranger that of a viewer.
#[derive(Debug)]
pub(crate) struct Rates {
    known: Rate,
    viewers: Rate,
    strangers: Rate,
}

impl Rates {
    pub(crate) fn new(per_second: u32) -> Self {
        let rate = || Rate::new(per_second);
        Self { known: rate(), viewers: rate(), strangers: rate() }
    }

    fn of(&self, caller: Caller) -> &Rate {
        match caller {
            Caller::Known => &self.known,
            Caller::Viewer => &self.viewers,
            Caller::Stranger => &self.strangers,
        }
    }
}

impl Gate {
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Caller {
        match &self.tokens {
            Some(tokens) if !auth::bears(headers, tokens) => {
                if self.logins.include(headers) {
                    Caller::Viewer
                } else {
                    Caller::Stranger
                }
            }
            _ => Caller::Known,
        }
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        self.site.check(request.headers(), request.uri())?;
        let path = request.uri().path();
        let caller = self.caller(request.headers());
        // Whoever watches over the server asks without a token, and has to get an answer also when others flood it.
        if let Some(rates) = &self.rates
            && path != "/health"
        {
            rates.of(caller).check()?;
        }
        if caller == Caller::Known || is_open(path) {
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
