//! HTML of the container's in a frame of its own.

use maud::{Markup, html};

/// Longer documents are named, not shown.
const LONGEST: usize = 2 << 20;

/// So that a table looks like one, in light and in dark.
const BASE: &str = "<!doctype html><meta charset=utf-8><meta name=color-scheme content='light dark'><style>\
     body{font:14px/1.5 system-ui,sans-serif;margin:0;overflow-wrap:break-word}\
     table{border:0;border-collapse:collapse;font-variant-numeric:tabular-nums}\
     th,td{padding:.25em .7em;text-align:right;border:0;border-bottom:1px solid #8883}thead th{border-bottom:2px solid #8886}\
     </style>";

/// A frame without rights: no script runs in it, it cannot reach the page, go elsewhere, open windows or send forms. Its height is a guess,
/// since nothing in it can tell, and the reader's to change.
pub(super) fn frame(document: &str) -> Markup {
    if document.len() > LONGEST {
        return html! { p.left-out { "HTML of " (super::units::size(document.len() as u64)) ", too long to show here" } };
    }
    html! {
        iframe sandbox="" srcdoc={ (BASE) (document) } loading="lazy" title="HTML output" height=(height(document)) {}
    }
}

/// From what makes lines, between 3 and 24 of them.
fn height(document: &str) -> usize {
    const BREAKS: [&str; 6] = ["<tr", "<br", "<p", "<li", "<div", "<h"];
    let lines: usize = BREAKS.iter().map(|tag| document.matches(tag).count()).sum();
    lines.clamp(3, 24) * 30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_cannot_leave_its_attribute() {
        let html = frame(r#"</iframe>"><script>alert(1)</script>&quot;"#).into_string();
        assert!(html.starts_with(r#"<iframe sandbox="" srcdoc=""#), "{html}");
        assert!(!html.contains("<script") && html.contains(r"&lt;/iframe&gt;&quot;&gt;&lt;script&gt;"), "{html}");
        assert!(html.contains("&amp;quot;"), "{html}");
    }

    #[test]
    fn a_long_table_gets_a_high_frame() {
        assert_eq!(height("text"), 90);
        assert_eq!(height(&"<tr><td>1</td></tr>".repeat(10)), 300);
        assert_eq!(height(&"<tr>".repeat(1000)), 720);
    }
}
