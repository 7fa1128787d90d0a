//! `files` of both families.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{OriginalUri, Path, State as Extracted};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use cellblock::{FileEntry, FileKind};
use serde_json::{Value, json};

use super::upload;
use super::version::Version;
use crate::serve::files;
use crate::serve::query::Query;
use crate::serve::refusal::{Code, Refusal};
use crate::serve::server::State;
use crate::serve::store::Held;

/// The name of a file whose address is that of uploads too.
const UPLOAD: &str = "upload";

/// What every operation on files reads from its address.
struct Asked {
    old: bool,
    directory: String,
    recursive: bool,
    held: Held,
}

impl Asked {
    async fn read(state: &State, uri: &Uri) -> Result<Self, Refusal> {
        let query = Query::parse(uri)?;
        let old = Version::of(&query)? < Version::EXECUTIONS;
        let identifier = query.identifier()?;
        let directory = query.text("path")?.unwrap_or_default().to_owned();
        let recursive = old || query.flag("recursive")?;
        Ok(Self { old, directory, recursive, held: state.store.open(&identifier).await?.held })
    }
}

pub(super) async fn list(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
) -> Result<Json<Value>, Refusal> {
    let asked = Asked::read(&state, &uri).await?;
    let all = asked.held.session.files();
    let directory = match upload::within(&asked.directory) {
        "" => ".",
        directory => directory,
    };
    let entries = if asked.recursive { all.list_tree(directory).await } else { all.list(directory).await };
    let mut entries = entries.map_err(|error| files::refusal(&error))?;
    entries.retain(files::is_listed);
    if asked.old {
        entries.retain(|entry| entry.kind == FileKind::File);
        return Ok(Json(wrapped(&entries)));
    }
    Ok(Json(json!({ "value": entries.iter().map(object).collect::<Vec<_>>() })))
}

/// `files/upload`, and `POST files` of the newer family.
pub(super) async fn post(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Refusal> {
    let asked = Asked::read(&state, &uri).await?;
    let all = asked.held.session.files();
    let stored = upload::store(&all, &asked.directory, &headers, body, state.limits.upload).await?;
    if uri.path().trim_end_matches('/').ends_with("/files/upload") {
        return Ok(Json(wrapped(&stored)));
    }
    let last = stored.last().ok_or_else(|| Refusal::new(Code::Internal, "no file was stored"))?;
    Ok(Json(object(last)))
}

/// `files/NAME`, `files/NAME/content` and `files/content/NAME`.
pub(super) async fn one(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
    method: Method,
    path: Result<Path<Vec<(String, String)>>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path(path) = path.map_err(|_| Refusal::invalid("the address is not UTF-8"))?;
    let name = path.iter().find(|(name, _)| name == "name").map_or(UPLOAD, |(_, name)| name.as_str());
    let name = name.strip_suffix('/').unwrap_or(name);
    let asked = Asked::read(&state, &uri).await?;
    let (of_content, of_other) = (content_of(name, asked.old), content_of(name, !asked.old));
    match method {
        Method::DELETE => remove(&asked, name).await,
        _ => match of_content {
            Some(name) => content(asked, name).await,
            None => match (look(&asked, name).await, of_other) {
                (Err(refusal), Some(other)) => content(asked, other).await.map_err(|_| refusal),
                (looked, _) => looked,
            },
        },
    }
}

/// Whose content is asked for, in the way of one family.
fn content_of(name: &str, old: bool) -> Option<&str> {
    if old { name.strip_prefix("content/") } else { name.strip_suffix("/content") }
}

async fn content(asked: Asked, name: &str) -> Result<Response, Refusal> {
    let path = upload::join(&asked.directory, name)?;
    let content_type = if asked.old { files::content_type(name) } else { "application/octet-stream" };
    Ok(files::download(asked.held, &path, content_type).await?.into_response())
}

async fn look(asked: &Asked, name: &str) -> Result<Response, Refusal> {
    let path = upload::join(&asked.directory, name)?;
    let entry = asked.held.session.files().stat(&path).await.map_err(|error| files::refusal(&error))?;
    let found = if asked.old { wrapped(&[entry]) } else { object(&entry) };
    Ok(Json(found).into_response())
}

async fn remove(asked: &Asked, name: &str) -> Result<Response, Refusal> {
    let path = upload::join(&asked.directory, name)?;
    asked.held.session.files().remove(&path).await.map_err(|error| files::refusal(&error))?;
    Ok(if asked.old {
        Json(json!({ "message": "file deleted successfully" })).into_response()
    } else {
        StatusCode::NO_CONTENT.into_response()
    })
}

/// A list as the first family has it.
fn wrapped(entries: &[FileEntry]) -> Value {
    let mut ordinal = 1;
    let mut next = || {
        ordinal += 1;
        ordinal.to_string()
    };
    let value: Vec<Value> = entries
        .iter()
        .map(|entry| {
            json!({
                "$id": next(),
                "properties": {
                    "$id": next(),
                    "filename": entry.path,
                    "size": entry.size,
                    "lastModifiedTime": entry.modified.map(files::time),
                },
            })
        })
        .collect();
    json!({ "$id": "1", "value": value })
}

/// A file as the newer family has it.
fn object(entry: &FileEntry) -> Value {
    let (directory, name) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
    let is_directory = entry.kind == FileKind::Directory;
    json!({
        "name": name,
        "type": if is_directory { "directory" } else { "file" },
        "contentType": if is_directory { None } else { Some(files::content_type(name)) },
        "sizeInBytes": entry.size,
        "lastModifiedAt": entry.modified.map(files::time),
        "directory": directory,
    })
}
