//! Bodies that are not read to their end: what is refused for its address or its token is refused before it has come.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A little that nobody had a use for is taken in, and the connection goes on.
const LITTLE: usize = 64 << 10;
const MOMENT: Duration = Duration::from_millis(100);

/// Whether a connection's client still sends what nobody reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(Arc<AtomicBool>);

impl Unread {
    pub(super) fn is_left(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Tells a client whose body is not read that its connection ends: its next request would come behind the rest, and be lost.
pub(crate) async fn tell(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let unread = request.extensions().get::<Unread>().cloned();
    let waits = request.headers().contains_key(header::EXPECT);
    let (sender, mut rest) = oneshot::channel();
    let request = request.map(|body| Body::new(Watched { body: Some(body), rest: Some(sender) }));
    let mut response = next.run(request).await;
    let all_read = match rest.try_recv() {
        // Who waits to be asked for it does not send it.
        Ok(_) if waits => false,
        Ok(rest) => timeout(MOMENT, drain(rest)).await.unwrap_or_default(),
        Err(oneshot::error::TryRecvError::Closed) => true,
        Err(oneshot::error::TryRecvError::Empty) => false,
    };
    if !all_read {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        if let Some(Unread(unread)) = unread {
            unread.store(true, Ordering::Release);
        }
    }
    response
}

/// Whether it ended soon.
async fn drain(body: Body) -> bool {
    let (mut body, mut read) = (body.into_data_stream(), 0);
    while let Some(bytes) = body.next().await {
        read += bytes.as_ref().map_or(LITTLE, Bytes::len);
        if read > LITTLE || bytes.is_err() {
            return false;
        }
    }
    true
}

/// A body that comes back if it is dropped before its end.
struct Watched {
    body: Option<Body>,
    rest: Option<oneshot::Sender<Body>>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let next = Pin::new(body).poll_frame(context);
        if matches!(next, Poll::Ready(None)) {
            self.body = None;
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let (Some(body), Some(rest)) = (self.body.take().filter(|body| !body.is_end_stream()), self.rest.take()) {
            let _ = rest.send(body);
        }
    }
}
