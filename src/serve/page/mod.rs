//! The live page at `/`: what runs in the sessions, for a person with a browser.
//!
//! It is made here, whole, and reads without JavaScript; a few lines of it fetch what has changed. A container writes into it only text and pictures: all
//! text is escaped, HTML is shown in a frame where no script runs, and nothing is loaded from anywhere. That keeps the page safe, and
//! keeps code without a network from borrowing the reader's.
//!
//! A browser comes in by the form at `/login` with one of the server's tokens, and gets a cookie that is good for this page alone.

mod ansi;
mod cell;
mod frame;
mod login;
mod meter;
mod output;
mod session;
mod sessions;
mod shell;
mod status;
mod units;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

pub(super) use self::login::Logins;
pub(super) use self::meter::Meter;
use super::server::State;

/// Everybody may send one.
const LONGEST_LOGIN: usize = 4 << 10;

pub(super) fn router(state: &State) -> Router<State> {
    Router::new()
        .route("/", get(sessions::page))
        .route("/live/sessions", get(sessions::changes))
        .route("/live/{id}", get(session::page))
        .route("/live/{id}/cells", get(session::changes))
        .route("/live/{id}/interrupt", post(session::interrupt))
        .route("/live/{id}/stop", post(session::stop))
        .route("/logout", post(login::log_out))
        .route_layer(from_fn_with_state(state.clone(), login::guard))
        .route("/login", get(login::form).post(login::log_in).layer(DefaultBodyLimit::max(LONGEST_LOGIN)))
}

/// Whether the page looks itself at who asks for this path.
pub(super) fn guards(path: &str) -> bool {
    matches!(path, "/" | "/login" | "/logout") || path.starts_with("/live/")
}
