//! Terminal colours as spans with classes.

use cellblock::colour_only;
use maud::{Markup, html};

/// What is on where the text is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Style {
    bold: bool,
    /// 0 to 7, of the sixteen colours' dark or light half.
    colour: Option<u8>,
}

impl Style {
    fn apply(&mut self, parameters: &str) {
        let mut codes =
            parameters.split([';', ':']).map(|code| if code.is_empty() { Ok(0) } else { code.parse::<u8>() });
        while let Some(code) = codes.next() {
            match code {
                Ok(0) => *self = Self::default(),
                Ok(1) => self.bold = true,
                Ok(22) => self.bold = false,
                Ok(code @ (30..=37 | 90..=97)) => self.colour = Some(code % 10),
                Ok(39) => self.colour = None,
                // Of 256 colours the first sixteen are those. What has no class here has no colour.
                Ok(38) if codes.next() == Some(Ok(5)) => {
                    let code = codes.next().and_then(Result::ok);
                    self.colour = code.filter(|code| *code < 16).map(|code| code % 8);
                }
                Ok(38 | 48) => return,
                _ => {}
            }
        }
    }

    fn class(self) -> Option<&'static str> {
        const PLAIN: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
        const BOLD: [&str; 8] = ["b c0", "b c1", "b c2", "b c3", "b c4", "b c5", "b c6", "b c7"];
        match self.colour {
            Some(colour) => if self.bold { BOLD } else { PLAIN }.get(usize::from(colour)).copied(),
            None => self.bold.then_some("b"),
        }
    }
}

/// Text of the container's, with its colours and no other escape, and with lines overwritten as a terminal does.
pub(super) fn coloured(text: &str) -> Markup {
    let text = overwritten(text);
    let text = colour_only(&text);
    let mut style = Style::default();
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default();
    let rest = pieces.map(|piece| {
        let (parameters, text) = piece.split_once('m').unwrap_or(("", piece));
        style.apply(parameters);
        (style.class(), text)
    });
    let rest = rest.filter(|(_, text)| !text.is_empty());
    html! {
        (first)
        @for (class, text) in rest {
            @match class {
                Some(class) => span class=(class) { (text) },
                None => (text),
            }
        }
    }
}

/// A carriage return starts the line again: of a progress bar its last state is left.
fn overwritten(text: &str) -> String {
    let line = |line: &str| {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let line = line.trim_end_matches('\r');
        format!("{}{end}", line.rsplit('\r').next().unwrap_or(line))
    };
    if text.contains('\r') { text.split_inclusive('\n').map(line).collect() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_classes_and_all_text_is_escaped() {
        for (text, expected) in [
            ("plain & <b>", "plain &amp; &lt;b&gt;"),
            ("\x1b[31mred\x1b[0m.", r#"<span class="c1">red</span>."#),
            ("\x1b[0;31m<x>\x1b[39;49m.", r#"<span class="c1">&lt;x&gt;</span>."#),
            ("\x1b[1;94mb\x1b[22mc", r#"<span class="b c4">b</span><span class="c4">c</span>"#),
            ("\x1b[38;5;28mgreen\x1b[m", "green"),
            ("\x1b[38;5;9mred", r#"<span class="c1">red</span>"#),
            ("\x1b[38;2;1;2;31mx", "x"),
            ("\x1b]0;title\x07\x1b[2Ja", "a"),
            ("\x1b[31", ""),
            ("\x1b[31\"onload=mx", "nload=mx"),
        ] {
            assert_eq!(coloured(text).into_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_progress_bar_shows_its_last_state() {
        assert_eq!(overwritten("a\n 1%\r 50%\r100%\r\nb\n\rc\r"), "a\n100%\nb\nc");
    }
}
