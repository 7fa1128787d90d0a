//! A request's query, read leniently: not every client encodes what it puts there.

use std::borrow::Cow;

use axum::http::Uri;
use percent_encoding::percent_decode_str;

use super::identifier::Identifier;
use super::refusal::Refusal;

/// The parameters of a query in their order, decoded once. `+` is a plus sign: some clients leave it as it is.
#[derive(Debug)]
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(crate) fn parse(uri: &'a Uri) -> Result<Self, Refusal> {
        let decode = |text: &'a str| {
            percent_decode_str(text).decode_utf8().map_err(|_| Refusal::invalid("the query is not UTF-8"))
        };
        let mut parameters = Vec::new();
        for parameter in uri.query().unwrap_or_default().split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            parameters.push((decode(name)?, decode(value)?));
        }
        Ok(Self(parameters))
    }

    /// A parameter's value. Given twice it is refused: which one another reader takes cannot be known.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_ref());
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(Refusal::invalid(format!("the query has `{name}` more than once"))),
            (value, None) => Ok(value),
        }
    }

    pub(crate) fn identifier(&self) -> Result<Identifier, Refusal> {
        let text = self.text("identifier")?.ok_or_else(|| Refusal::invalid("the query needs an `identifier`"))?;
        Identifier::new(text).ok_or_else(|| {
            let longest = Identifier::LONGEST;
            Refusal::invalid(format!("`identifier` has 1 to {longest} characters, none of them a control character"))
        })
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.text(name)?.map(str::to_ascii_lowercase).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Refusal::invalid(format!("`{name}` is `true` or `false`"))),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<usize>, Refusal> {
        let number = |text: &str| text.parse().map_err(|_| Refusal::invalid(format!("`{name}` is a whole number")));
        self.text(name)?.map(number).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifier(query: &str) -> Result<String, Refusal> {
        let uri: Uri = format!("/files?{query}").parse().unwrap();
        Query::parse(&uri)?.identifier().map(|identifier| identifier.as_str().to_owned())
    }

    #[test]
    fn identifiers_are_decoded_once() {
        for (query, expected) in [
            ("identifier=a%20b", "a b"),
            ("identifier=a+b", "a+b"),
            ("identifier=a%2541", "a%41"),
            ("identifier=100%", "100%"),
            ("identifier=%zz", "%zz"),
            ("identifier=..%2F..%2Fetc", "../../etc"),
            ("api-version=2024-02-02-preview&identifier=a=b", "a=b"),
        ] {
            assert_eq!(identifier(query).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_identifier_is_refused() {
        for query in
            ["", "identifier", "identifier=", "identifier=%ff", "identifier=a%00b", "identifier=a&identifier=b"]
        {
            assert!(identifier(query).is_err(), "{query}");
        }
    }
}
