//! The server as a whole: its routes, its listeners, its end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;

use super::config::{Config, Limits};
use super::gate::{self, Gate, Rates};
use super::http::accept::Acceptor;
use super::http::auth::Secret;
use super::http::site::Site;
use super::http::{observe, tls, unread};
use super::metrics::Metrics;
use super::page::{Logins, Meter};
use super::refusal::{Code, Refusal};
use super::store::Store;
use super::{azure, identity, native, operations, page};

/// What is left of the grace for answers on their way, once the last cell has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// What handlers share.
#[derive(Clone)]
pub(crate) struct State(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) identity: Option<Secret>,
    pub(crate) limits: Limits,
    /// What is installed in the image, once somebody has asked.
    pub(crate) metadata: OnceCell<Value>,
    pub(crate) meter: Meter,
}

impl std::ops::Deref for State {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// A server that listens, and does not serve yet.
pub(crate) struct Server {
    state: State,
    acceptors: Vec<Acceptor>,
    grace: Duration,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) https: Option<SocketAddr>,
    /// The certificate that clients have to trust, where it is one of our own.
    pub(crate) authority: Option<PathBuf>,
}

impl Server {
    pub(crate) async fn bind(config: Config) -> Result<Self> {
        let Config { http, https, tokens, identity, hosts, origins, sessions, limits, shutdown_grace, keep } = config;
        let metrics = Arc::new(Metrics::new());
        let store = Store::new(sessions, keep.as_deref(), Arc::clone(&metrics))?;
        let rates = limits.rate.map(Rates::new);
        let gate = Arc::new(Gate { site: Site::new(&hosts, &origins), rates, tokens, logins: Logins::new() });
        let origins = origins.iter().map(|origin| HeaderValue::from_str(origin)).collect::<Result<_, _>>()?;
        let (metadata, meter) = (OnceCell::new(), Meter::default());
        let state = State(Arc::new(Shared { store, gate, identity, limits, metadata, meter }));
        let router = router(&state, metrics, origins);
        let connections = Arc::new(Semaphore::new(state.limits.connections));
        let acceptor = |listener, tls| Acceptor {
            listener,
            tls,
            router: router.clone(),
            patience: state.limits.patience,
            connections: Arc::clone(&connections),
        };
        let (mut acceptors, mut bound, mut authority) = (Vec::new(), (None, None), None);
        if let Some(address) = http {
            let listener = listen(address).await?;
            bound.0 = Some(listener.local_addr()?);
            acceptors.push(acceptor(listener, None));
        }
        if let Some((address, certificate)) = https {
            let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
            names.extend(hosts);
            names.push(address.ip().to_string());
            let (tls, file) = tls::acceptor(&certificate, &names)?;
            authority = file;
            let listener = listen(address).await?;
            bound.1 = Some(listener.local_addr()?);
            acceptors.push(acceptor(listener, Some(tls)));
        }
        Ok(Self { state, acceptors, grace: shutdown_grace, http: bound.0, https: bound.1, authority })
    }

    /// Takes over the sessions that an earlier server has kept, and begins to fill the pool.
    pub(crate) async fn begin(&self) {
        self.state.store.begin().await;
    }

    /// Serves until `end` is there; then finishes what runs, within the grace, and leaves no container that is not to be kept.
    pub(crate) async fn run(self, end: impl Future<Output = ()>) {
        let Self { state, acceptors, grace, .. } = self;
        let graceful = GracefulShutdown::new();
        tokio::select! {
            () = end => {}
            _ = futures_util::future::join_all(acceptors.iter().map(|acceptor| acceptor.run(&graceful))) => {}
        }
        drop(acceptors);
        tracing::info!("shutting down");
        let until = Instant::now() + grace;
        state.store.drain();
        let answered = graceful.shutdown();
        tokio::pin!(answered);
        if timeout(grace, &mut answered).await.is_ok() {
            state.store.close(until.saturating_duration_since(Instant::now())).await;
        } else {
            // Cells that are cut off here end with their sessions, and their answers say so.
            let _ = tokio::join!(state.store.close(Duration::ZERO), timeout(LAST_ANSWERS, answered));
        }
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

fn router(state: &State, metrics: Arc<Metrics>, origins: Vec<HeaderValue>) -> Router {
    let (native, openapi) = native::router();
    let openapi = Json(openapi);
    Router::new()
        .merge(native)
        .route("/openapi.json", get(async move || openapi.clone()))
        .route("/health", get(operations::health))
        .route("/ready", get(operations::ready))
        .route("/metrics", get(operations::metrics))
        .route("/msi/token", get(identity::token))
        .merge(azure::router())
        .merge(page::router(state))
        .fallback(async || Refusal::new(Code::NotFound, "there is nothing here"))
        .method_not_allowed_fallback(async || Refusal::new(Code::WrongMethod, "this address does not take this method"))
        .layer(RequestBodyTimeoutLayer::new(state.limits.patience))
        .layer(from_fn_with_state(Arc::clone(&state.gate), gate::pass))
        // Outside the gate: a browser asks without a token whether it may send one, and a refusal is to be read too.
        .layer(cors(origins))
        .layer(from_fn_with_state(metrics, observe::observe))
        .layer(CatchPanicLayer::custom(|_| fault()))
        .layer(from_fn(unread::tell))
        .with_state(state.clone())
}

/// What browsers are told of other origins' pages; the gate refuses those that are not among them.
fn cors(origins: Vec<HeaderValue>) -> CorsLayer {
    let told = [
        "cellblock-execution-id",
        "operation-id",
        "operation-location",
        "retry-after",
        "x-ms-error-code",
        "x-ms-session-guid",
    ];
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE, HeaderName::from_static("operation-id")])
        .expose_headers(told.map(HeaderName::from_static))
}

/// A panic is ours, and is logged where it happens.
fn fault() -> Response {
    Refusal::new(Code::Internal, "this server has a fault").into_response()
}
