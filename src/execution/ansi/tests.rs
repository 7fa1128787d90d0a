use std::borrow::Cow;

use proptest::prelude::*;

use super::{TerminalFilter, colour_only, plain};

#[test]
fn colour_passes_and_nothing_else() {
    for (given, wanted) in [
        ("plain text", "plain text"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("\x1b[1;38;2;1;2;3m\x1b[38:5:9mx\x1b[m", "\x1b[1;38;2;1;2;3m\x1b[38:5:9mx\x1b[m"),
        ("\u{9b}31mred", "\x1b[31mred"),
        // Progress bars.
        ("10%\r20%\n\tdone", "10%\r20%\n\tdone"),
        ("a\x08b\x07c\x00d\x7fe\u{85}f", "abcdef"),
        // Cursor, screen, modes, reports.
        ("a\x1b[2J\x1b[1;1H\x1b[6n\x1b[?1049hb", "ab"),
        // Ending in `m`, but no colour.
        ("a\x1b[>4;1m\x1b[?4m\x1b[1 mb", "ab"),
        // Title, clipboard, link, notification; ended by BEL, ST and C1's ST.
        ("a\x1b]0;title\x07b\x1b]52;c;Zm9v\x1b\\c\u{9d}8;;http://x\u{9c}d", "abcd"),
        // DCS, SOS, PM, APC.
        ("a\x1bP1$r\x1b\\b\x1bXx\x1b\\c\x1b^x\x1b\\d\x1b_x\x1b\\e\u{90}x\u{9c}f", "abcdef"),
        // Reset, save, character sets, and an escape that nothing follows.
        ("a\x1bc\x1b7\x1b(0\x1b#8b\x1b", "ab"),
        ("a\x1b[31", "a"),
        // A sequence within a sequence begins anew; other text ends it.
        ("a\x1b[3\x1b[32mb\x1b[3\nc\x1b[3éd", "a\x1b[32mb\ncéd"),
        ("a\x1b]0;t\x1b[31mb", "a\x1b[31mb"),
        // What is never ended hides its own line only.
        ("a\x1b]0;title\nb", "a\nb"),
        ("a\x1b\x1b\x1b[1mb", "a\x1b[1mb"),
    ] {
        assert_eq!(colour_only(given), wanted, "{given:?}");
    }
    let endless = format!("\x1b[{}m", "1;".repeat(500));
    assert_eq!(colour_only(&endless), "");
}

#[test]
fn plain_text_has_no_colour_either() {
    assert_eq!(
        plain("\x1b[0;31mZeroDivisionError\x1b[0m: \x1b]0;x\x07division\tby\r\nzero"),
        "ZeroDivisionError: division\tby\r\nzero"
    );
}

#[test]
fn clean_text_is_not_copied() {
    assert!(matches!(colour_only("é\n\t\r"), Cow::Borrowed(_)));
}

#[test]
fn colour_that_is_left_on_is_reset_at_the_end() {
    let mut filter = TerminalFilter::default();
    filter.push("\x1b[31mred");
    assert_eq!(filter.end(), "\x1b[0m");
    filter.push("\x1b[31mred\x1b[0m");
    assert_eq!(filter.end(), "");
    filter.push("\x1b[1;31");
    filter.push("mred\x1b[m\x1b[2J");
    assert_eq!(filter.end(), "");
}

/// Text in which escapes and their parts are common.
fn hostile() -> impl Strategy<Value = String> {
    let parts = [
        "\x1b", "\x1b[", "\u{9b}", "\x1b]", "\u{9d}", "\x1bP", "\x1b\\", "\u{9c}", "\x07", "\x18", "\x08", "\x00",
        "31", ";", ":", "0", "m", "m", "?", ">", " ", "H", "J", "\n", "\r", "a", "é", "😀", "(", "#", "~", "\x7f",
        "\u{85}",
    ];
    proptest::collection::vec(proptest::sample::select(parts.to_vec()), 0..40).prop_map(|parts| parts.concat())
}

/// Takes the SGR sequences out, as a terminal would read them.
fn without_colour(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (parameters, rest) = piece.split_once('m').expect("a sequence that has its end");
        assert!(parameters.chars().all(|c| c.is_ascii_digit() || matches!(c, ';' | ':')), "{text:?}");
        out.push_str(rest);
    }
    out
}

proptest! {
    #[test]
    fn what_passes_is_text_and_complete_colour(text in hostile()) {
        let shown = colour_only(&text).into_owned();
        let bare = without_colour(&shown);
        prop_assert!(bare.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t' | '\r')), "{:?}", shown);
        prop_assert_eq!(&bare, &plain(&text));
        prop_assert_eq!(&colour_only(&shown), &shown);
    }

    #[test]
    fn pieces_are_read_as_one_text(text in hostile(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut filter = TerminalFilter::default();
        let shown: String = cuts.windows(2).map(|cut| filter.push(&text[cut[0]..cut[1]])).collect();
        prop_assert_eq!(shown, colour_only(&text));
    }

    #[test]
    fn text_without_controls_is_untouched(text in "\\PC*") {
        prop_assert_eq!(&colour_only(&text), &text);
    }
}
