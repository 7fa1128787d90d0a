//! Who may call.

use std::fmt;

use axum::http::{HeaderMap, HeaderValue, header};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Something that whoever is let in knows. Compared in a time that does not depend on it, and never shown by `Debug`.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    /// 244 random bits, as 64 hexadecimal digits.
    pub(crate) fn random() -> Self {
        Self([(); 2].map(|()| uuid::Uuid::new_v4().simple().to_string()).concat())
    }

    pub(crate) fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }

    /// To print it once, for the one who started the server.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// By their MACs under a key that nobody else knows: how far two of those agree says nothing of the secret.
    pub(crate) fn is(&self, presented: &[u8]) -> bool {
        let key = uuid::Uuid::new_v4();
        let mac = |text: &[u8]| Hmac::<Sha256>::new_from_slice(key.as_bytes()).map(|mac| mac.chain_update(text));
        match (mac(self.0.as_bytes()), mac(presented)) {
            (Ok(ours), Ok(theirs)) => theirs.verify(&ours.finalize().into_bytes()).is_ok(),
            _ => false,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Whether the `Authorization` header bears one of these tokens.
pub(crate) fn bears(headers: &HeaderMap, tokens: &[Secret]) -> bool {
    let Some(value) = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes) else { return false };
    let Some((scheme, token)) = value.split_at_checked("Bearer ".len()) else { return false };
    // Every token is compared, so that the time does not tell which one it was.
    scheme.eq_ignore_ascii_case(b"Bearer ") && tokens.iter().fold(false, |known, secret| known | secret.is(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_token_under_the_right_scheme_is_let_in() {
        let tokens = [Secret::new("0123456789abcdef").unwrap(), Secret::random()];
        let let_in = |value: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())]);
            bears(&headers, &tokens)
        };
        assert!(let_in("Bearer 0123456789abcdef"));
        assert!(let_in(&format!("bearer {}", tokens[1].reveal())));
        for bad in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Basic 0123456789abcdef"]
        {
            assert!(!let_in(bad), "{bad}");
        }
        assert!(!bears(&HeaderMap::new(), &tokens));
    }

    #[test]
    fn a_secret_is_long_enough_and_can_stand_in_a_header() {
        assert_eq!(Secret::random().reveal().len(), 64);
        assert_eq!(Secret::new(" 0123456789abcdef\n").unwrap().reveal(), "0123456789abcdef");
        for bad in ["", "short", "with a space in the middle", "0123456789abcdeé"] {
            assert!(Secret::new(bad).is_none(), "{bad}");
        }
        assert_eq!(format!("{:?}", Secret::random()), "Secret(..)");
    }
}
