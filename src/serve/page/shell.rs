//! What is around every page: the document, its style and script, and what the browser may do with it.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const ICON: &str = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='4' \
                    fill='%230f766e'/><path d='M4 4v8M8 4v8M12 4v8' stroke='white' stroke-width='1.5' stroke-linecap='round'/></svg>";

/// Our own script, by its hash, and no other. Frames inherit all of this. Styles may be inline, since HTML outputs bring theirs; they can load
/// nothing.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = BASE64.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
});

/// A whole document.
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) title: String,
    pub(super) head: Markup,
    pub(super) body: Markup,
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let document = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    link rel="icon" href=(ICON);
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header.top { a.brand href="/" { "cellblock" } (self.head) }
                    (self.body)
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        (self.status, Fragment(document)).into_response()
    }
}

/// A part of a document, for the script.
pub(super) struct Fragment(pub(super) Markup);

impl IntoResponse for Fragment {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        let headers = [
            (header::CONTENT_SECURITY_POLICY, POLICY.as_str()),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "same-origin"),
            (header::CACHE_CONTROL, "no-store"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ];
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// A page that says one thing.
pub(super) fn notice(status: StatusCode, title: &str, text: &str) -> Page {
    let body = html! {
        main.notice {
            h1 { (title) }
            p { (text) }
            p { a href="/" { "All sessions" } }
        }
    };
    Page { status, title: format!("{title} · cellblock"), head: html! {}, body }
}
