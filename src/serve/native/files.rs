//! Files of a session's work directory.

use axum::Json;
use axum::body::Body;
use axum::extract::{OriginalUri, State as Extracted};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};

use super::path::{Named, SessionPath};
use super::schema::{Binary, File, FileList, Problem};
use crate::serve::files;
use crate::serve::query::Query;
use crate::serve::refusal::Refusal;
use crate::serve::server::State;

/// Lists a directory.
#[utoipa::path(
    get, path = "/v1/sessions/{identifier}/files", tag = "files",
    params(
        SessionPath,
        ("path" = Option<String>, Query, description = "the directory; the work directory if there is none"),
        ("recursive" = Option<bool>, Query, description = "also what is in the directories below"),
    ),
    responses((status = 200, body = FileList), (status = "default", body = Problem)),
)]
pub(super) async fn list(
    Extracted(state): Extracted<State>,
    named: Named,
    OriginalUri(uri): OriginalUri,
) -> Result<Json<FileList>, Refusal> {
    let query = Query::parse(&uri)?;
    let path = query.text("path")?.filter(|path| !path.is_empty()).unwrap_or(".");
    let recursive = query.flag("recursive")?;
    let all = state.store.find(&named.identifier)?.session.files();
    let entries = if recursive { all.list_tree(path).await } else { all.list(path).await };
    let entries = entries.map_err(|error| files::refusal(&error))?;
    let listed = entries.iter().filter(|entry| files::is_listed(entry));
    Ok(Json(FileList { files: listed.map(File::of).collect() }))
}

/// Reads a file.
#[utoipa::path(
    get, path = "/v1/sessions/{identifier}/files/{*path}", tag = "files",
    params(SessionPath, ("path" = String, Path, min_length = 1)),
    responses(
        (status = 200, content((Binary = "application/octet-stream"))),
        (status = "default", body = Problem),
    ),
)]
pub(super) async fn get(Extracted(state): Extracted<State>, named: Named) -> Result<Response, Refusal> {
    let held = state.store.find(&named.identifier)?;
    Ok(files::download(held, &named.rest, "application/octet-stream").await?.into_response())
}

/// Writes a file, in the place of one that is there; missing directories are made. It is there whole or not at all.
#[utoipa::path(
    put, path = "/v1/sessions/{identifier}/files/{*path}", tag = "files",
    params(SessionPath, ("path" = String, Path, min_length = 1)),
    request_body(content = Option<Binary>, content_type = "application/octet-stream"),
    responses((status = 201, body = File), (status = "default", body = Problem)),
)]
pub(super) async fn put(
    Extracted(state): Extracted<State>,
    named: Named,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let longest = state.limits.upload;
    let told = headers.get("content-length").and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|told| told > longest) {
        return Err(files::too_large(longest));
    }
    let held = state.store.find(&named.identifier)?;
    let all = held.session.files();
    files::put(&all, &named.rest, sent.into_data_stream(), longest).await?;
    let entry = all.stat(&named.rest).await.map_err(|error| files::refusal(&error))?;
    Ok((StatusCode::CREATED, Json(File::of(&entry))).into_response())
}

/// Removes a file.
#[utoipa::path(
    delete, path = "/v1/sessions/{identifier}/files/{*path}", tag = "files",
    params(SessionPath, ("path" = String, Path, min_length = 1)),
    responses((status = 204), (status = "default", body = Problem)),
)]
pub(super) async fn delete(Extracted(state): Extracted<State>, named: Named) -> Result<StatusCode, Refusal> {
    let all = state.store.find(&named.identifier)?.session.files();
    all.remove(&named.rest).await.map_err(|error| files::refusal(&error))?;
    Ok(StatusCode::NO_CONTENT)
}
