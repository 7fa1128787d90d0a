//! Who may look: browsers that have shown one of the server's tokens.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Form, Request, State as Extracted};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::shell::{Page, notice};
use crate::serve::gate::Caller;
use crate::serve::http::auth::Secret;
use crate::serve::server::State;

/// How long a login lasts without a look.
const LASTS: Duration = Duration::from_secs(12 * 3600);
/// The oldest go first.
const MOST: usize = 64;

/// The browsers that are let in. Their cookies are not the token: browsers send a cookie to every port of a machine.
#[derive(Debug)]
pub(crate) struct Logins {
    known: Mutex<VecDeque<Login>>,
    /// In every form of ours. Pages of others cannot read it.
    form: Secret,
}

#[derive(Debug)]
struct Login {
    cookie: Secret,
    used: Instant,
}

impl Logins {
    pub(in crate::serve) fn new() -> Self {
        Self { known: Mutex::default(), form: Secret::random() }
    }

    pub(super) fn form_secret(&self) -> &str {
        self.form.reveal()
    }

    fn add(&self) -> Secret {
        let cookie = Secret::random();
        let mut known = self.lock();
        known.truncate(MOST - 1);
        known.push_front(Login { cookie: cookie.clone(), used: Instant::now() });
        cookie
    }

    /// Whether a request bears the cookie of a login.
    pub(in crate::serve) fn include(&self, headers: &HeaderMap) -> bool {
        cookie(headers).is_some_and(|cookie| self.knows(cookie))
    }

    fn knows(&self, cookie: &str) -> bool {
        let mut known = self.lock();
        known.retain(|login| login.used.elapsed() < LASTS);
        let Some(at) = known.iter().position(|login| login.cookie.is(cookie.as_bytes())) else { return false };
        let Some(mut login) = known.remove(at) else { return false };
        login.used = Instant::now();
        known.push_front(login);
        true
    }

    fn forget(&self, cookie: &str) {
        self.lock().retain(|login| !login.cookie.is(cookie.as_bytes()));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Login>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every form of the page sends with it.
#[derive(Deserialize)]
pub(super) struct Sent {
    form: String,
    /// Where the button was.
    #[serde(default)]
    pub(super) from: String,
}

impl Sent {
    /// None if our own page sent it.
    pub(super) fn refusal(&self, state: &State) -> Option<Page> {
        let ours = state.gate.logins.form.is(self.form.as_bytes());
        (!ours).then(|| {
            notice(
                StatusCode::FORBIDDEN,
                "Not done",
                "This form is not of this page, or of an earlier run of the server.",
            )
        })
    }
}

pub(super) async fn guard(Extracted(state): Extracted<State>, request: Request, next: Next) -> Response {
    let let_in = state.gate.caller(request.headers()) != Caller::Stranger;
    match *request.method() {
        _ if let_in => next.run(request).await,
        Method::GET | Method::HEAD => Redirect::to("/login").into_response(),
        _ => notice(StatusCode::UNAUTHORIZED, "Not logged in", "Log in, then try again.").into_response(),
    }
}

pub(super) async fn form() -> Page {
    page(StatusCode::OK, "")
}

#[derive(Deserialize)]
pub(super) struct Credentials {
    token: String,
}

pub(super) async fn log_in(
    Extracted(state): Extracted<State>,
    headers: HeaderMap,
    Form(sent): Form<Credentials>,
) -> Response {
    let token = sent.token.trim().as_bytes();
    let known = state.gate.tokens.iter().flatten().fold(false, |known, secret| known | secret.is(token));
    if !known && state.gate.tokens.is_some() {
        return page(StatusCode::UNAUTHORIZED, "This is no token of this server.").into_response();
    }
    let cookie = set_cookie(&headers, state.gate.logins.add().reveal(), "");
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

pub(super) async fn log_out(
    Extracted(state): Extracted<State>,
    headers: HeaderMap,
    Form(sent): Form<Sent>,
) -> Response {
    if let Some(refusal) = sent.refusal(&state) {
        return refusal.into_response();
    }
    if let Some(cookie) = cookie(&headers) {
        state.gate.logins.forget(cookie);
    }
    ([(header::SET_COOKIE, set_cookie(&headers, "", "; Max-Age=0"))], Redirect::to("/login")).into_response()
}

fn page(status: StatusCode, complaint: &str) -> Page {
    let body = html! {
        main.notice {
            h1 { "Log in" }
            form.login method="post" action="/login" {
                label for="token" { "A token of this server, as it printed at its start" }
                input #token name="token" type="password" autocomplete="current-password" required autofocus;
                @if !complaint.is_empty() { p.complaint role="alert" { (complaint) } }
                button.main { "Log in" }
            }
        }
    };
    Page { status, title: "Log in · cellblock".to_owned(), head: html! {}, body }
}

/// Cookies know no ports, so the name does: two servers on a machine do not log each other's viewers out.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("cellblock-{port}"),
        _ => "cellblock".to_owned(),
    }
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let name = cookie_name(headers);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn set_cookie(headers: &HeaderMap, value: &str, more: &str) -> String {
    // Over TLS it stays there, also where a proxy ends the TLS: the page's origin tells.
    let tls = headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let secure = if tls { "; Secure" } else { "" };
    format!("{}={value}; HttpOnly; SameSite=Strict; Path=/{secure}{more}", cookie_name(headers))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_login_is_known_until_it_is_forgotten() {
        let logins = Logins::new();
        let (one, other) = (logins.add(), logins.add());
        assert!(logins.knows(one.reveal()) && logins.knows(other.reveal()));
        logins.forget(one.reveal());
        assert!(!logins.knows(one.reveal()) && logins.knows(other.reveal()) && !logins.knows(""));
    }

    #[test]
    fn many_logins_push_out_those_that_are_not_used() {
        let logins = Logins::new();
        let (used, idle) = (logins.add(), logins.add());
        for _ in 0..MOST {
            assert!(logins.knows(used.reveal()));
            logins.add();
        }
        assert!(logins.knows(used.reveal()) && !logins.knows(idle.reveal()));
        assert_eq!(logins.lock().len(), MOST);
    }

    #[test]
    fn a_cookie_is_of_one_port() {
        let sent = headers(&[(header::HOST, "127.0.0.1:8080"), (header::COOKIE, "cellblock-81=a; cellblock-8080=b")]);
        assert_eq!(cookie(&sent), Some("b"));
        assert_eq!(cookie(&headers(&[(header::HOST, "box.example"), (header::COOKIE, "a=b; cellblock=c")])), Some("c"));
        assert_eq!(cookie(&headers(&[(header::HOST, "[::1]"), (header::COOKIE, "cellblock-1=c")])), None);
        let tls = headers(&[(header::HOST, "[::1]:8443"), (header::ORIGIN, "https://[::1]:8443")]);
        assert_eq!(set_cookie(&tls, "x", ""), "cellblock-8443=x; HttpOnly; SameSite=Strict; Path=/; Secure");
    }
}
