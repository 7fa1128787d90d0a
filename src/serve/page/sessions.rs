//! All sessions at a glance.

use std::sync::Arc;

use axum::extract::State as Extracted;
use axum::http::StatusCode;
use maud::{Markup, html};

use super::shell::{Fragment, Page};
use super::status::{activity, buttons, figures, log_out};
use crate::serve::server::State;
use crate::serve::store::Entry;

pub(super) async fn page(Extracted(state): Extracted<State>) -> Page {
    let body = html! { main data-live="/live/sessions" { (list(&state)) } };
    Page { status: StatusCode::OK, title: "Sessions · cellblock".to_owned(), head: log_out(&state), body }
}

pub(super) async fn changes(Extracted(state): Extracted<State>) -> Fragment {
    Fragment(list(&state))
}

fn list(state: &State) -> Markup {
    let entries = state.store.list();
    state.meter.keep_only(&entries);
    let (warm, most) = (state.store.warm_ready(), state.store.config().most);
    html! {
        section #sessions {
            h1 { "Sessions" }
            p.summary {
                (entries.len()) " of at most " (most)
                @if warm > 0 { " · " (warm) " warm" }
                @if state.store.is_draining() { " · shutting down" }
            }
            @if entries.is_empty() {
                p.empty { "None yet. The first call of a client makes one." }
            } @else {
                ul { @for entry in &entries { (item(state, entry)) } }
            }
        }
    }
}

fn item(state: &State, entry: &Arc<Entry>) -> Markup {
    html! {
        li {
            a.name href={ "/live/" (entry.id) } { (entry.identifier.as_str()) }
            (activity(entry))
            div.buttons { (buttons(state, entry, "list")) }
            (figures(state, entry))
        }
    }
}
