//! The token endpoint of App Service's managed identity, so that Azure's `DefaultAzureCredential` finds a token here.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{ConnectInfo, State as Extracted};
use axum::http::{HeaderMap, Uri};
use serde_json::{Value, json};

use super::query::Query;
use super::refusal::{Code, Refusal};
use super::server::State;

const SECRET_HEADER: &str = "x-identity-header";
/// Clients ask again after it; the token itself does not end before the server.
const LASTS: Duration = Duration::from_secs(24 * 3600);
/// What is given out where everybody is let in: clients insist on a token.
const ANY_TOKEN: &str = "no-token-needed";

pub(crate) async fn token(
    Extracted(state): Extracted<State>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Json<Value>, Refusal> {
    let Some(secret) = &state.identity else {
        return Err(Refusal::new(Code::NotFound, "this server gives out no tokens: `--msi` lets it"));
    };
    if !peer.ip().to_canonical().is_loopback() {
        return Err(Refusal::new(Code::Forbidden, "tokens are given out on this machine only"));
    }
    if !headers.get(SECRET_HEADER).is_some_and(|presented| secret.is(presented.as_bytes())) {
        return Err(Refusal::new(Code::Unauthorized, "the header X-IDENTITY-HEADER has to hold this server's secret"));
    }
    let query = Query::parse(&uri)?;
    let resource = query.text("resource")?.unwrap_or_default();
    let expires = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + LASTS;
    let token = state.gate.tokens.as_ref().and_then(|tokens| tokens.first());
    Ok(Json(json!({
        "access_token": token.map_or(ANY_TOKEN, |token| token.reveal()),
        "expires_on": expires.as_secs().to_string(),
        "resource": resource,
        "token_type": "Bearer",
    })))
}
