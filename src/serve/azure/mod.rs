//! The wire format of Azure Container Apps dynamic sessions, in both its families.

mod call;
mod code;
mod executions;
mod files;
mod metadata;
mod run;
mod sessions;
mod streams;
mod upload;
mod value;
mod version;

use axum::Router;
use axum::routing::{any, get, post};

use super::refusal::{Code, Refusal};
use super::server::State;

/// What Azure puts before every operation; we serve the same with nothing before it.
const PREFIX: &str = "/subscriptions/{subscription}/resourceGroups/{group}/sessionPools/{pool}";

pub(crate) fn router() -> Router<State> {
    let operations = Router::new();
    let operations = route(operations, "/code/execute", post(code::execute));
    let operations = route(operations, "/python/execute", post(code::execute));
    let operations = route(operations, "/executions", post(executions::create));
    let operations = route(operations, "/executions/{id}", get(executions::get));
    let operations = route(operations, "/files", get(files::list).post(files::post));
    let operations = route(operations, "/files/upload", post(files::post).get(files::one).delete(files::one));
    let operations = route(operations, "/session", get(sessions::get).delete(sessions::delete));
    let operations = route(operations, "/listSessions", get(sessions::list));
    let operations = route(operations, "/metadata", get(metadata::get));
    let operations = route(operations, "/.management/stopSession", post(sessions::stop));
    let operations = route(operations, "/.management/getSession", post(sessions::get));
    let one = get(files::one).delete(files::one).fallback(wrong_method);
    let operations = operations.route("/files/{*name}", one);
    let below =
        operations.clone().fallback(any(async || Refusal::new(Code::RequestInvalid, "there is no such operation")));
    operations.nest(PREFIX, below)
}

/// One trailing slash is taken, and another method is refused as Azure refuses it.
fn route(router: Router<State>, path: &str, method: axum::routing::MethodRouter<State>) -> Router<State> {
    let method = method.fallback(wrong_method);
    router.route(&format!("{path}/"), method.clone()).route(path, method)
}

async fn wrong_method() -> Refusal {
    Refusal::invalid("this operation does not take this method")
}
