//! A fake engine for tests: one answer for each path, on a Unix socket.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// The answers: the start of a request's line, the status, the body. The first that fits is given; else 404. A status of 0
/// is no answer, with the connection kept open.
pub(super) type Answers = &'static [(&'static str, u16, &'static str)];

/// Docker 20.10's.
pub(super) const VERSION: (&str, u16, &str) =
    ("GET /version", 200, r#"{"Version":"20.10.24","ApiVersion":"1.41","MinAPIVersion":"1.12"}"#);

#[derive(Debug, Default, Clone)]
pub(super) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(super) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Serves until the test's runtime ends.
pub(super) fn serve(socket: &Path, answers: Answers) -> Seen {
    let listener = UnixListener::bind(socket).unwrap();
    let seen = Seen::default();
    let log = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, answers, log.clone()));
        }
    });
    seen
}

async fn answer(stream: UnixStream, answers: Answers, seen: Seen) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    if stream.read_line(&mut request).await? == 0 {
        return Ok(());
    }
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    stream.read_exact(&mut vec![0; length]).await?;
    let request = request.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    // A version newer than the engine's own is refused, as Docker does.
    let too_new = request.split_once(" /v1.").is_some_and(|(_, rest)| {
        rest.split('/').next().is_some_and(|minor| minor.parse::<u32>().is_ok_and(|minor| minor > 41))
    });
    let (status, body) = if too_new {
        (400, r#"{"message":"client version is too new. Maximum supported API version is 1.41"}"#)
    } else {
        let fits = answers.iter().find(|(path, ..)| request.starts_with(path));
        fits.map_or((404, r#"{"message":"page not found"}"#), |(_, status, body)| (*status, *body))
    };
    seen.0.lock().unwrap().push(request);
    if status == 0 {
        std::future::pending::<()>().await;
    }
    let head =
        format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await
}
