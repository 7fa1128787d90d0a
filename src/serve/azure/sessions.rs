//! `session`, `listSessions` and `.management`.

use axum::Json;
use axum::extract::{OriginalUri, State as Extracted};
use axum::http::{StatusCode, Uri};
use serde_json::{Value, json};

use super::version::Version;
use crate::serve::files::time;
use crate::serve::identifier::Identifier;
use crate::serve::query::Query;
use crate::serve::refusal::Refusal;
use crate::serve::server::State;
use crate::serve::store::Entry;

/// Sessions on one page of the list.
const PAGE: usize = 100;

pub(super) async fn get(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
) -> Result<Json<Value>, Refusal> {
    let identifier = asked(&uri, "session")?;
    Ok(Json(object(&*state.store.find(&identifier)?)))
}

pub(super) async fn delete(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
) -> Result<StatusCode, Refusal> {
    let identifier = asked(&uri, "session")?;
    state.store.remove(&identifier).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `.management/stopSession`
pub(super) async fn stop(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
) -> Result<StatusCode, Refusal> {
    let identifier = asked(&uri, ".management/stopSession")?;
    state.store.remove(&identifier).await?;
    Ok(StatusCode::OK)
}

pub(super) async fn list(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
) -> Result<Json<Value>, Refusal> {
    let query = Query::parse(&uri)?;
    Version::of(&query)?.at_least(Version::SESSIONS, "listSessions")?;
    let skip = query.number("skip")?.unwrap_or_default();
    let all = state.store.list();
    let sessions: Vec<Value> = all.iter().skip(skip).take(PAGE).map(|entry| object(entry)).collect();
    let mut answer = json!({ "sessions": sessions });
    if let Some(next) = next(skip, all.len()) {
        let version = query.text("api-version")?.unwrap_or_default();
        answer["nextLink"] = format!("{}?api-version={version}&skip={next}", uri.path()).into();
    }
    Ok(Json(answer))
}

/// Where the next page begins, if there is one.
fn next(skip: usize, all: usize) -> Option<usize> {
    Some(skip.saturating_add(PAGE)).filter(|next| *next < all)
}

fn asked(uri: &Uri, operation: &str) -> Result<Identifier, Refusal> {
    let query = Query::parse(uri)?;
    Version::of(&query)?.at_least(Version::SESSIONS, operation)?;
    query.identifier()
}

fn object(entry: &Entry) -> Value {
    json!({
        "identifier": entry.identifier.as_str(),
        "createdAt": time(entry.created),
        "lastAccessedAt": time(entry.last_used()),
        "expireAt": time(entry.expires()),
        "etag": entry.id.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_pages_until_it_ends() {
        for (skip, all, expected) in
            [(0, 0, None), (0, PAGE, None), (0, PAGE + 1, Some(PAGE)), (PAGE, 2 * PAGE, None), (usize::MAX, PAGE, None)]
        {
            assert_eq!(next(skip, all), expected, "{skip} of {all}");
        }
    }
}
