//! One session: its cells and their outputs as they come.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Form, OriginalUri, Path, State as Extracted};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use tokio::time::timeout;
use uuid::Uuid;

use super::cell::cell;
use super::login::Sent;
use super::shell::{Fragment, Page, notice};
use super::status::{activity, buttons, figures, log_out};
use crate::serve::query::Query;
use crate::serve::server::State;
use crate::serve::store::Entry;

/// The kernel takes an interrupt at once, or something is wrong.
const INTERRUPT: Duration = Duration::from_secs(10);

pub(super) async fn page(Extracted(state): Extracted<State>, Path(id): Path<String>) -> Result<Page, Page> {
    let entry = find(&state, &id)?;
    let (revision, records) = entry.history.since(0);
    let name = entry.identifier.as_str();
    let body = html! {
        main data-live={ "/live/" (entry.id) "/cells" } data-revision=(revision) {
            h1.name { (name) }
            (status(&state, &entry, revision))
            section #cells {
                @for record in &records { (cell(record)) }
            }
            p.empty { "No cells yet. They appear here as they come." }
        }
    };
    Ok(Page { status: StatusCode::OK, title: format!("{name} · cellblock"), head: log_out(&state), body })
}

/// What has changed since a revision.
pub(super) async fn changes(
    Extracted(state): Extracted<State>,
    Path(id): Path<String>,
    OriginalUri(uri): OriginalUri,
) -> Result<Fragment, Page> {
    let entry = find(&state, &id)?;
    let after = Query::parse(&uri).and_then(|query| query.number("after")).ok().flatten().unwrap_or_default();
    let (revision, records) = entry.history.since(after as u64);
    Ok(Fragment(html! {
        (status(&state, &entry, revision))
        @for record in &records { (cell(record)) }
    }))
}

pub(super) async fn interrupt(
    Extracted(state): Extracted<State>,
    Path(id): Path<String>,
    Form(sent): Form<Sent>,
) -> Result<Response, Page> {
    let entry = asked(&state, &id, &sent)?;
    match timeout(INTERRUPT, entry.interrupt()).await {
        Ok(Ok(())) if sent.from == "list" => Ok(Redirect::to("/").into_response()),
        Ok(Ok(())) => Ok(Redirect::to(&format!("/live/{}", entry.id)).into_response()),
        Ok(Err(error)) => Err(notice(StatusCode::BAD_GATEWAY, "Not interrupted", &error.to_string())),
        Err(_) => Err(notice(
            StatusCode::GATEWAY_TIMEOUT,
            "Not interrupted",
            "The kernel has not taken the interrupt so far.",
        )),
    }
}

pub(super) async fn stop(
    Extracted(state): Extracted<State>,
    Path(id): Path<String>,
    Form(sent): Form<Sent>,
) -> Result<Response, Page> {
    let entry = asked(&state, &id, &sent)?;
    // It may have ended by itself meanwhile, which is what was wanted.
    let _ = state.store.remove(&entry.identifier).await;
    Ok(Redirect::to("/").into_response())
}

fn asked(state: &State, id: &str, sent: &Sent) -> Result<Arc<Entry>, Page> {
    match sent.refusal(state) {
        Some(refusal) => Err(refusal),
        None => find(state, id),
    }
}

/// Without a hold on it: looking does not keep a session from ending.
fn find(state: &State, id: &str) -> Result<Arc<Entry>, Page> {
    let id: Option<Uuid> = id.parse().ok();
    let found = state.store.list().into_iter().find(|entry| Some(entry.id) == id);
    found.ok_or_else(|| notice(StatusCode::NOT_FOUND, "No such session", "It has ended, or it never was."))
}

fn status(state: &State, entry: &Arc<Entry>, revision: u64) -> Markup {
    html! {
        section #status data-revision=(revision) {
            (activity(entry))
            div.buttons { (buttons(state, entry, "session")) }
            (figures(state, entry))
        }
    }
}
