//! Uploads as forms, in the ways in which clients send them.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use cellblock::{FileEntry, Files};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, stream};
use multer::{Field, Multipart};
use percent_encoding::percent_decode_str;

use crate::serve::files::{self, Count, Counted};
use crate::serve::refusal::Refusal;

/// What a form may be longer than its files.
const FORM: u64 = 1 << 20;
/// A boundary has at most 70 characters, and the first line some more.
const FIRST_LINE: usize = 512;

/// The longest head of a part, with what comes before it.
const PART_HEAD: u64 = 64 << 10;

type Parts = BoxStream<'static, io::Result<Bytes>>;

/// Puts the files of a form into a directory of the session. Those before one that fails are there; of that one nothing is.
pub(super) async fn store(
    files: &Files,
    directory: &str,
    headers: &HeaderMap,
    body: Body,
    longest: u64,
) -> Result<Vec<FileEntry>, Refusal> {
    // The rest is taken from a client that sends too much, so that it comes to read the answer.
    let sent = Counted::new(body.into_data_stream().boxed(), longest.saturating_mul(2).saturating_add(FORM));
    let count = sent.counter();
    let (boundary, parts) = boundary(headers, sent.boxed()).await?;
    let mut form = Multipart::new(paced(parts), boundary);
    let mut stored = Vec::new();
    let mut refused: Option<Refusal> = None;
    loop {
        let failed = |refusal| if count.is_exceeded() { files::too_large(longest) } else { refusal };
        let Some(mut field) = next_field(&mut form, &count).await.map_err(failed)? else { break };
        if refused.is_none() {
            match put(files, directory, &mut field, longest).await {
                Ok(Some(entry)) => stored.push(entry),
                Ok(None) => {}
                Err(refusal) => refused = Some(refusal),
            }
        }
        // What is left of it is no part's head.
        while field.chunk().await.map_err(|error| failed(malformed(&error)))?.is_some() {}
    }
    match refused {
        Some(refusal) => Err(refusal),
        None if stored.is_empty() => Err(Refusal::invalid("the form has no part `file` with a `filename`")),
        None => Ok(stored),
    }
}

async fn next_field(form: &mut Multipart<'static>, count: &Count) -> Result<Option<Field<'static>>, Refusal> {
    let until = count.now().saturating_add(PART_HEAD);
    poll_fn(|context| match form.poll_next_field(context) {
        // It would keep the head, and look through all of it for its end whenever more comes.
        Poll::Pending if count.now() > until => {
            Poll::Ready(Err(Refusal::invalid(format!("the head of a part is longer than {PART_HEAD} bytes"))))
        }
        next => next.map_err(|error| malformed(&error)),
    })
    .await
}

async fn put(
    files: &Files,
    directory: &str,
    field: &mut Field<'_>,
    longest: u64,
) -> Result<Option<FileEntry>, Refusal> {
    if field.name().is_some_and(|name| name != "file") {
        return Ok(None);
    }
    let name = field.file_name().ok_or_else(|| Refusal::invalid("the part `file` has no `filename`"))?;
    let path = path(directory, name)?;
    let mut field = field.by_ref().map(|chunk| chunk.map_err(io::Error::other));
    files::put(files, &path, &mut field, longest).await?;
    files.stat(&path).await.map(Some).map_err(|error| files::refusal(&error))
}

/// A name in a directory; both may be written with `/mnt/data` before them.
fn path(directory: &str, name: &str) -> Result<String, Refusal> {
    let name = percent_decode_str(name).decode_utf8().map_err(|_| Refusal::invalid("a file's name is not UTF-8"))?;
    join(directory, &name)
}

/// The same with a name that is decoded already.
pub(super) fn join(directory: &str, name: &str) -> Result<String, Refusal> {
    let (directory, name) = (within(directory), within(name));
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Refusal::invalid("a file's name is empty or has control characters"));
    }
    Ok(if directory.is_empty() || directory == "." { name.to_owned() } else { format!("{directory}/{name}") })
}

/// A path as the session has it, below `/mnt/data`.
pub(super) fn within(text: &str) -> &str {
    let inside = text.strip_prefix("/mnt/data").filter(|rest| rest.is_empty() || rest.starts_with('/'));
    inside.unwrap_or(text).trim_matches('/')
}

/// The boundary by the content type, or, where that names another type, by the body's first line.
async fn boundary(headers: &HeaderMap, mut parts: Parts) -> Result<(String, Parts), Refusal> {
    let told = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if let Some(boundary) = told.and_then(|told| multer::parse_boundary(told).ok()) {
        return Ok((boundary, parts));
    }
    let mut start = Vec::new();
    while !start.contains(&b'\n') && start.len() < FIRST_LINE {
        match parts.next().await {
            Some(Ok(bytes)) => start.extend_from_slice(&bytes),
            Some(Err(error)) => return Err(malformed(&error)),
            None => break,
        }
    }
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let boundary = std::str::from_utf8(line).ok().and_then(|line| line.trim_end().strip_prefix("--"));
    let boundary = boundary.filter(|boundary| (1..=70).contains(&boundary.len()) && start.len() > line.len());
    let Some(boundary) = boundary.map(str::to_owned) else {
        return Err(Refusal::invalid("the body is no form: send `multipart/form-data` with a part `file`"));
    };
    let start = stream::once(async move { Ok(Bytes::from(start)) });
    Ok((boundary, start.chain(parts).boxed()))
}

/// One piece at a time: a form's reader takes all that is there into memory, also what it has no use for yet.
fn paced(mut parts: Parts) -> Parts {
    let mut rests = false;
    stream::poll_fn(move |context| {
        if std::mem::take(&mut rests) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = parts.poll_next_unpin(context);
        rests = next.is_ready();
        next
    })
    .boxed()
}

fn malformed(error: &dyn std::error::Error) -> Refusal {
    Refusal::invalid(format!("the form is malformed, or did not arrive whole: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_head_of_a_part_that_does_not_end_is_not_kept() {
        let pieces =
            std::iter::once(Ok(Bytes::from("--b\r\nx: "))).chain((0..1000).map(|_| Ok(vec![b'y'; 1000].into())));
        let sent = Counted::new(stream::iter(pieces).map(|piece: io::Result<Bytes>| piece).boxed(), u64::MAX);
        let count = sent.counter();
        let mut form = Multipart::new(paced(sent.boxed()), "b");
        let refusal = next_field(&mut form, &count).await.unwrap_err();
        assert!(refusal.message().contains("head of a part"), "{}", refusal.message());
        assert!(count.now() < PART_HEAD + 2000, "{}", count.now());
    }

    #[test]
    fn names_are_decoded_once_and_relative() {
        for (directory, name, expected) in [
            ("", "a.csv", "a.csv"),
            ("", "/mnt/data/a.csv", "a.csv"),
            ("", "/mnt/data/sub/a.csv", "sub/a.csv"),
            ("/mnt/data", "a.csv", "a.csv"),
            ("/mnt/data/runs/1", "out/a.csv", "runs/1/out/a.csv"),
            ("runs/", "a.csv", "runs/a.csv"),
            (".", "t%20%C3%BC%25.txt", "t ü%.txt"),
            ("", "a+b 100%.txt", "a+b 100%.txt"),
        ] {
            assert_eq!(path(directory, name).unwrap(), expected);
        }
        // The session's own files refuse the way up; here it is only not lost.
        assert_eq!(path("", "../../etc/passwd").unwrap(), "../../etc/passwd");
        assert_eq!(path("", "%2e%2e/x").unwrap(), "../x");
        for bad in ["", "/", "/mnt/data/", "a%00b", "a\nb", "%ff"] {
            assert!(path("", bad).is_err(), "{bad:?}");
        }
    }
}
