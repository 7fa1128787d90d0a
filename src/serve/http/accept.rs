//! Connections: how many, how patient, and their end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::patient::Patient;
use super::unread::Unread;

/// A failed accept, such as for want of descriptors, is tried again after this.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves connections of one address until its task is dropped.
pub(crate) struct Acceptor {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) router: Router,
    /// How long a request's head, or a TLS handshake, may take, how long a connection may be idle, and how long a client may read nothing of its answer.
    pub(crate) patience: Duration,
    /// Shared by all addresses.
    pub(crate) connections: Arc<Semaphore>,
}

impl Acceptor {
    pub(crate) async fn run(&self, graceful: &GracefulShutdown) {
        loop {
            // Those past the limit wait in the kernel's queue.
            let Ok(permit) = Arc::clone(&self.connections).acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, peer)) => self.connection(stream, peer, graceful.watcher(), permit),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn connection(&self, stream: TcpStream, peer: SocketAddr, watcher: Watcher, permit: OwnedSemaphorePermit) {
        // An answer goes out at once, also where it is written in two parts.
        let _ = stream.set_nodelay(true);
        let (router, patience, tls) = (self.router.clone(), self.patience, self.tls.clone());
        tokio::spawn(async move {
            let _permit = permit;
            match tls {
                None => serve(stream, peer, router, patience, watcher).await,
                Some(tls) => match timeout(patience, tls.accept(stream)).await {
                    Ok(Ok(stream)) => serve(stream, peer, router, patience, watcher).await,
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake was not done in time"),
                },
            }
        });
    }
}

async fn serve<S>(stream: S, peer: SocketAddr, router: Router, patience: Duration, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let unread = Unread::default();
    let stream = Patient::new(stream, patience, unread.clone());
    let service = tower::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(unread.clone());
        let router = router.clone();
        async move {
            Ok::<_, Infallible>(
                router
                    .oneshot(request.map(axum::body::Body::new) as Request)
                    .await
                    .unwrap_or_else(|never| match never {}),
            )
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
