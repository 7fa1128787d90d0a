//! What the OpenAPI document says besides its operations.

use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "cellblock", description = "Stateful Python in locked containers", license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")),
    security(("token" = [])),
    components(schemas(super::event::Event)),
    modifiers(&Token),
)]
struct Base;

struct Token;

impl utoipa::Modify for Token {
    fn modify(&self, api: &mut OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        api.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

pub(super) fn base() -> OpenApi {
    Base::openapi()
}

/// A route's `{*path}`, which takes slashes, is `{path}` in the document.
pub(super) fn plain_paths(api: &mut OpenApi) {
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
}
