//! Files of sessions, for both APIs: names, times, uploads without a partial file, downloads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use cellblock::{Error, FileEntry, FileKind, Files};
use futures_util::{Stream, StreamExt as _, stream};
use tokio_util::io::StreamReader;

use super::refusal::{Code, Refusal};
use super::store::Held;

/// What names of files begin with that are not all there yet.
const UNFINISHED: &str = ".cellblock-";

/// Everything that comes in passes this, and is counted.
pub(crate) struct Counted<S> {
    inner: S,
    count: Arc<AtomicU64>,
    most: u64,
}

impl<S> Counted<S> {
    pub(crate) fn new(inner: S, most: u64) -> Self {
        Self { inner, count: Arc::default(), most }
    }

    /// How many bytes have passed, also once the stream is gone.
    pub(crate) fn counter(&self) -> Count {
        Count { count: Arc::clone(&self.count), most: self.most }
    }
}

/// What a [`Counted`] stream has counted.
pub(crate) struct Count {
    count: Arc<AtomicU64>,
    most: u64,
}

impl Count {
    pub(crate) fn now(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.now() > self.most
    }
}

impl<S, E> Stream for Counted<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Poll::Ready(next) = self.inner.poll_next_unpin(context) else { return Poll::Pending };
        Poll::Ready(next.map(|next| {
            let bytes = next.map_err(io::Error::other)?;
            let before = self.count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if before + bytes.len() as u64 > self.most {
                return Err(io::Error::other("the content is too long"));
            }
            Ok(bytes)
        }))
    }
}

/// Puts a file that comes as a stream; whatever fails, no part of it is there.
pub(crate) async fn put<S, E>(files: &Files, path: &str, content: S, most: u64) -> Result<(), Refusal>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let content = Counted::new(content, most);
    let count = content.counter();
    match files.put_reader(path, StreamReader::new(content), None).await {
        Ok(()) => Ok(()),
        Err(_) if count.is_exceeded() => Err(too_large(most)),
        Err(error) => Err(refusal(&error)),
    }
}

pub(crate) fn too_large(most: u64) -> Refusal {
    Refusal::new(Code::TooLarge, format!("the file is longer than {most} bytes, the most that this server takes"))
}

/// The error of a file's operation.
pub(crate) fn refusal(error: &Error) -> Refusal {
    let refusal = Refusal::from(error);
    match () {
        () if error.is_no_such_file() => refusal.with_code(Code::FileNotFound),
        () if error.is_permission_denied() => refusal.with_code(Code::Forbidden),
        () if error.is_no_space() => refusal.with_code(Code::NoSpace),
        () => refusal,
    }
}

/// What is listed: what is there in full.
pub(crate) fn is_listed(entry: &FileEntry) -> bool {
    !entry.path.rsplit('/').next().is_some_and(|name| name.starts_with(UNFINISHED))
        && matches!(entry.kind, FileKind::File | FileKind::Directory)
}

/// A time as RFC 3339 has it, in UTC.
pub(crate) fn time(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).unwrap_or_default().to_string()
}

pub(crate) fn content_type(name: &str) -> &'static str {
    mime_guess::from_path(name).first_raw().unwrap_or("application/octet-stream")
}

/// A file's content as an answer that no browser takes for one of our own pages.
pub(crate) async fn download(held: Held, path: &str, content_type: &str) -> Result<(HeaderMap, Body), Refusal> {
    let reader = held.session.files().open(path).await.map_err(|error| refusal(&error))?;
    let entry = reader.entry();
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(entry.size));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    // It may be written again: a cache that knows when it was modified takes that for a promise.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    let modified = entry.modified.map(|time| {
        let time = jiff::Timestamp::try_from(time).unwrap_or_default();
        jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time)
    });
    let texts =
        [(header::CONTENT_TYPE, Some(content_type.to_owned())), (header::LAST_MODIFIED, modified.and_then(Result::ok))];
    for (name, text) in texts {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(name, value);
        }
    }
    // The session does not end by idle time while its file is read.
    let chunks = stream::unfold((reader, held), |(mut reader, held)| async {
        let chunk = reader.chunk().await.transpose()?;
        Some((chunk, (reader, held)))
    });
    Ok((headers, Body::from_stream(chunks)))
}
