//! One output as HTML.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cellblock::{MimeBundle, Output};
use maud::{Markup, html};
use serde_json::Value;

use super::ansi::coloured;
use super::frame::frame;
use super::units;

/// Of a longer text head and tail are shown.
const HEAD: usize = 16 << 10;
const TAIL: usize = 48 << 10;
/// Longer pictures, in base64, are named, not shown.
const LONGEST_PICTURE: usize = 8 << 20;
/// Of a longer MIME type, which the code makes up, the head is shown.
const LONGEST_TYPE: usize = 256;

const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const SVG: &str = "image/svg+xml";

pub(super) fn output(output: &Output) -> Markup {
    match output {
        Output::Stream { name, text } => stream(name, text),
        Output::DisplayData(bundle) | Output::ExecuteResult { bundle, .. } => representation(bundle),
        Output::Error(error) if error.traceback.is_empty() => preformatted("error", &error.to_string()),
        Output::Error(error) => preformatted("error", &error.traceback.join("\n")),
        _ => html! {},
    }
}

pub(super) fn stream(name: &str, text: &str) -> Markup {
    match (text, name) {
        ("", _) => html! {},
        (_, "stderr") => preformatted("stderr", text),
        _ => preformatted("stdout", text),
    }
}

/// The richest one that needs no script.
fn representation(bundle: &MimeBundle) -> Markup {
    let picture = PICTURES.iter().find_map(|mime| Some((*mime, bundle.get(mime)?)));
    if let Some((mime, base64)) = picture {
        // Jupyter breaks long base64 into lines.
        return self::picture(mime, &base64.split_ascii_whitespace().collect::<String>(), bundle);
    }
    if let Some(svg) = bundle.get(SVG) {
        return self::picture(SVG, &BASE64.encode(svg), bundle);
    }
    if let Some(document) = bundle.get("text/html") {
        return frame(document);
    }
    let text = ["text/markdown", "text/latex"].iter().find_map(|mime| bundle.get(mime)).or_else(|| bundle.text());
    if let Some(text) = text {
        return preformatted("result", text);
    }
    match bundle.data.iter().next() {
        Some((_, value @ (Value::Object(_) | Value::Array(_)))) => preformatted("result", &format!("{value:#}")),
        Some((mime, _)) => {
            let mime = mime.split_at(mime.floor_char_boundary(LONGEST_TYPE)).0;
            html! { p.left-out { (mime) ", which this page does not show" } }
        }
        None => html! {},
    }
}

/// As an image, where also an SVG runs no script and loads nothing.
fn picture(mime: &str, base64: &str, bundle: &MimeBundle) -> Markup {
    if base64.len() > LONGEST_PICTURE {
        return html! { p.left-out { (mime) " of " (units::size(base64.len() as u64 / 4 * 3)) ", too large to show here" } };
    }
    html! { img.figure src={ "data:" (mime) ";base64," (base64) } alt=(bundle.text().unwrap_or("figure")); }
}

/// Text of the container's, with its colours.
pub(super) fn preformatted(class: &str, text: &str) -> Markup {
    let (head, left_out, tail) = cut(text);
    html! {
        pre class={ "out " (class) } tabindex="0" {
            (coloured(head))
            @if left_out > 0 {
                span.left-out { "\n… " (units::size(left_out as u64)) " not shown here …\n" }
                (coloured(tail))
            }
        }
    }
}

/// Head, how many bytes are left out, and tail.
pub(super) fn cut(text: &str) -> (&str, usize, &str) {
    if text.len() <= HEAD + TAIL {
        return (text, 0, "");
    }
    let (head, rest) = text.split_at(text.floor_char_boundary(HEAD));
    let (left_out, tail) = rest.split_at(rest.ceil_char_boundary(rest.len() - TAIL));
    (head, left_out.len(), tail)
}

#[cfg(test)]
mod tests {
    use cellblock::Output;

    use super::*;

    fn shown(data: &Value) -> String {
        let mut bundle = MimeBundle::default();
        bundle.data = data.as_object().cloned().unwrap_or_default();
        output(&Output::DisplayData(bundle)).into_string()
    }

    #[test]
    fn text_of_the_container_is_never_markup() {
        const EVIL: &str = r#"</pre><script>alert(1)</script>"' onerror="x"#;
        let stream = Output::Stream { name: EVIL.to_owned(), text: EVIL.to_owned() };
        let mut all = vec![output(&stream).into_string()];
        for mime in ["text/plain", "text/markdown", "text/latex", "text/html", "image/png", "image/svg+xml", EVIL] {
            all.push(shown(&serde_json::json!({ mime: EVIL })));
        }
        all.push(shown(&serde_json::json!({ "image/png": "AAAA", "text/plain": EVIL })));
        all.push(shown(&serde_json::json!({ "application/json": { EVIL: EVIL } })));
        for html in all {
            assert!(!html.contains("<script") && !html.contains(r#"" onerror"#), "{html}");
        }
    }

    #[test]
    fn the_richest_representation_is_taken() {
        let figure =
            shown(&serde_json::json!({ "image/png": "iVBO\nRw0K\n", "text/html": "<b>", "text/plain": "<Figure>" }));
        assert_eq!(figure, r#"<img class="figure" src="data:image/png;base64,iVBORw0K" alt="&lt;Figure&gt;">"#);
        assert!(
            shown(&serde_json::json!({ "text/html": "<b>", "text/plain": "b" })).starts_with("<iframe sandbox=\"\"")
        );
        assert!(
            shown(&serde_json::json!({ "image/svg+xml": "<svg/>" })).contains("data:image/svg+xml;base64,PHN2Zy8+")
        );
        assert!(shown(&serde_json::json!({ "application/json": { "a": [1] } })).contains("&quot;a&quot;: ["));
        assert!(shown(&serde_json::json!({ "application/pdf": "JVBERg==" })).contains("application/pdf"));
    }

    #[test]
    fn of_a_long_text_head_and_tail_are_shown() {
        let text = format!("begin{}end", "ü".repeat(100_000));
        let (head, left_out, tail) = cut(&text);
        assert!(head.starts_with("begin") && tail.ends_with("end"));
        assert_eq!(head.len() + left_out + tail.len(), text.len());
        assert!(head.len() + tail.len() <= HEAD + TAIL);
    }
}
