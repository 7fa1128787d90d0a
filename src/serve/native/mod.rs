//! Our own API, below `/v1`, and the OpenAPI document that describes it.

mod body;
mod event;
mod executions;
mod files;
mod openapi;
mod outcome;
mod path;
mod schema;
mod sessions;
mod stream;

use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::server::State;

/// The routes and their description.
pub(crate) fn router() -> (axum::Router<State>, OpenApi) {
    let (router, mut api) = OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::get, sessions::delete))
        .routes(routes!(sessions::interrupt))
        .routes(routes!(sessions::restart))
        .routes(routes!(executions::list, executions::create))
        .routes(routes!(executions::get))
        .routes(routes!(executions::shell))
        .routes(routes!(executions::blocks))
        .routes(routes!(files::list))
        .routes(routes!(files::get, files::put, files::delete))
        .split_for_parts();
    openapi::plain_paths(&mut api);
    (router, api)
}
