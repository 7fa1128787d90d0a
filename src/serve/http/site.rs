//! Which site a request came for, and from: pages of others must not reach a server on this machine.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri, header};

use crate::serve::page;
use crate::serve::refusal::{Code, Refusal};

/// The names that this server goes by, and the origins of other pages that may call it.
#[derive(Debug, Default)]
pub(crate) struct Site {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Site {
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Self {
        let lower = |texts: &[String]| texts.iter().map(|text| text.to_ascii_lowercase()).collect();
        Self { hosts: lower(hosts), origins: lower(origins) }
    }

    /// Refuses what another site's page can send: DNS rebinding needs a name in `Host`, and a page tells its own `Origin`, or, where
    /// it wants no answer, its browser tells that it is another's. A link may lead to our own page, and to nothing else.
    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
        let refused = |message: String| Err(Refusal::new(Code::Forbidden, message));
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
        let host = text(header::HOST).or(uri.authority().map(Authority::as_str)).unwrap_or_default();
        let host = host.to_ascii_lowercase();
        if !self.knows(&host) {
            return refused(format!("this server does not go by the name {host:?}: `--allow-host` adds one"));
        }
        match text(header::ORIGIN).map(str::to_ascii_lowercase) {
            None if is_of_another_site(headers) && !page::guards(uri.path()) => {
                refused("pages of other sites may not call this server".to_owned())
            }
            None => Ok(()),
            Some(origin) if self.origins.contains(&origin) => Ok(()),
            Some(origin) if origin.split_once("://").is_some_and(|(_, site)| site == host) => Ok(()),
            Some(origin) => {
                refused(format!("pages of {origin:?} may not call this server: `--allow-origin` lets them"))
            }
        }
    }

    /// An address, `localhost`, or a name that was given.
    fn knows(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        name == "localhost" || name.parse::<IpAddr>().is_ok() || self.hosts.iter().any(|known| known == name)
    }
}

/// By a browser's word, which no page can change.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> bool {
        let site = Site::new(&["Box.example".into()], &["https://app.example".into()]);
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        site.check(&headers, &Uri::from_static("/")).is_ok()
    }

    #[test]
    fn names_that_anybody_can_own_are_refused() {
        for good in
            ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "10.0.0.7", "box.example", "BOX.example:1"]
        {
            assert!(check(good, None), "{good}");
        }
        for bad in
            ["", "evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "box.example.evil", "[::1"]
        {
            assert!(!check(bad, None), "{bad}");
        }
    }

    #[test]
    fn a_picture_in_another_sites_page_opens_no_session() {
        let check = |from: &'static str, path: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("localhost:8080"));
            headers.insert("sec-fetch-site", HeaderValue::from_static(from));
            Site::default().check(&headers, &Uri::from_static(path)).is_ok()
        };
        for from in ["cross-site", "same-site"] {
            assert!(!check(from, "/files?identifier=a&api-version=2024-02-02-preview"), "{from}");
            assert!(check(from, "/") && check(from, "/live/0"), "{from}");
        }
        for from in ["same-origin", "none"] {
            assert!(check(from, "/files"), "{from}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        assert!(check("localhost:8080", Some("http://localhost:8080")));
        assert!(check("localhost:8080", Some("https://app.example")));
        for bad in ["null", "http://localhost:8081", "http://evil.example", "https://app.example.evil", ""] {
            assert!(!check("localhost:8080", Some(bad)), "{bad}");
        }
    }
}
