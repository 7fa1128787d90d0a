use std::ops::Range;

use proptest::prelude::*;

use super::{Capture, Captured, clip, grouped};

fn captured(limit: usize, pieces: &[String]) -> (Captured, Vec<Range<u64>>) {
    let mut capture = Capture::new(limit);
    let places = pieces.iter().map(|piece| capture.push(piece)).collect();
    (capture.finish(), places)
}

/// The same by keeping everything and cutting at the end: what is kept of a place, and what is left out of it.
fn model(limit: usize, whole: &str, place: &Range<u64>) -> String {
    let place = place.start as usize..place.end as usize;
    if whole.len() <= limit {
        return whole[place].to_owned();
    }
    let head = whole.floor_char_boundary(limit / 2);
    let tail = whole.ceil_char_boundary(whole.len() - (limit - head));
    let before = &whole[place.start.min(head)..place.end.min(head)];
    let after = &whole[place.start.max(tail)..place.end.max(tail)];
    let missing = place.len() - before.len() - after.len();
    match (missing, before) {
        (0, _) => format!("{before}{after}"),
        (_, before) if before.is_empty() || before.ends_with('\n') => {
            format!("{before}[… {} bytes left out …]\n{after}", grouped(missing as u64))
        }
        _ => format!("{before}\n[… {} bytes left out …]\n{after}", grouped(missing as u64)),
    }
}

proptest! {
    #[test]
    fn keeps_what_keeping_everything_and_cutting_would(
        limit in 0usize..64,
        pieces in proptest::collection::vec("[a-c\né€😀]{0,20}", 0..12),
    ) {
        let whole = pieces.concat();
        let (captured, places) = captured(limit, &pieces);
        prop_assert_eq!(captured.total(), whole.len() as u64);
        prop_assert_eq!(captured.is_truncated(), whole.len() > limit);
        prop_assert_eq!(captured.text(), model(limit, &whole, &(0..whole.len() as u64)));
        prop_assert!(captured.head.len() + captured.tail.len() <= limit);
        for (piece, place) in pieces.iter().zip(&places) {
            prop_assert_eq!(&whole[place.start as usize..place.end as usize], piece);
            prop_assert_eq!(captured.part(place), model(limit, &whole, place));
        }
    }

    #[test]
    fn tells_beforehand_what_would_be_lost(
        limit in 0usize..40,
        pieces in proptest::collection::vec("[aé😀]{0,20}", 0..6),
    ) {
        let mut capture = Capture::new(limit);
        let mut whole = String::new();
        for piece in pieces {
            if capture.would_truncate(piece.len()) {
                prop_assert_eq!(capture.kept(), whole);
                break;
            }
            capture.push(&piece);
            whole.push_str(&piece);
        }
    }
}

#[test]
fn a_long_text_says_what_is_missing() {
    let mut capture = Capture::new(1 << 20);
    let line = "0123456789abcde\n".repeat(1 << 14);
    for _ in 0..400 {
        capture.push(&line);
    }
    let captured = capture.finish();
    let text = captured.text();
    assert_eq!(captured.total(), 100 << 20);
    assert!(text.contains("abcde\n[… 103,809,024 bytes left out …]\n0123"));
    assert_eq!(text.len(), (1 << 20) + "[… 103,809,024 bytes left out …]\n".len());
}

#[test]
fn memory_is_bounded_and_taken_only_when_there_is_text() {
    let mut capture = Capture::new(1 << 16);
    assert_eq!(capture.head.capacity() + capture.tail.capacity(), 0);
    for _ in 0..100 {
        capture.push(&"x".repeat(1 << 18));
        capture.push("é");
    }
    assert!(capture.head.capacity() + capture.tail.capacity() <= 2 << 16);
}

#[test]
fn a_text_within_the_limit_is_not_clipped() {
    assert_eq!(clip("short".to_owned(), 5), "short");
    assert_eq!(clip("longer".to_owned(), 4), "lo\n[… 2 bytes left out …]\ner");
}

#[test]
fn numbers_are_grouped_by_thousands() {
    assert_eq!([0, 999, 1_000, 98_951_424].map(grouped), ["0", "999", "1,000", "98,951,424"]);
}
