//! Times and sizes as a person reads them.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};

/// Two units at most: `45 s`, `3 min 20 s`, `5 h 2 min`, `3 d 4 h`.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

/// How long something took: `850 µs`, `12 ms`, `1.25 s`, and from a minute on as [`span`].
pub(super) fn took(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..1000 => format!("{micros} µs"),
        1000..1_000_000 => format!("{} ms", time.as_millis()),
        1_000_000..60_000_000 => format!("{:.2} s", time.as_secs_f64()),
        _ => span(time),
    }
}

/// `512 B`, `1.5 MiB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes as f64;
    let mut unit = "B";
    for larger in UNITS {
        if scaled < 1000.0 {
            break;
        }
        scaled /= 1024.0;
        unit = larger;
    }
    if unit == "B" || scaled >= 100.0 { format!("{scaled:.0} {unit}") } else { format!("{scaled:.1} {unit}") }
}

/// A moment, by the clock of UTC; the whole of it for machines and on hover.
pub(super) fn moment(at: SystemTime) -> Markup {
    let whole = jiff::Timestamp::try_from(at).unwrap_or_default();
    let whole = format!("{whole:.0}");
    let clock = whole.get(11..19).unwrap_or_default();
    html! { time datetime=(whole) title=(whole) { (clock) } }
}

/// How long ago it was.
pub(super) fn since(at: SystemTime) -> Duration {
    at.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes() {
        for (seconds, text) in
            [(0, "0 s"), (59, "59 s"), (200, "3 min 20 s"), (18_120, "5 h 2 min"), (273_600, "3 d 4 h")]
        {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
        for (micros, text) in [(850, "850 µs"), (12_900, "12 ms"), (1_254_000, "1.25 s"), (61_000_000, "1 min 1 s")] {
            assert_eq!(took(Duration::from_micros(micros)), text);
        }
        for (bytes, text) in
            [(512, "512 B"), (1000, "1.0 KiB"), (1_572_864, "1.5 MiB"), (1 << 30, "1.0 GiB"), (150 << 20, "150 MiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_moment_has_its_date_at_hand() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(3_661_900);
        let html = moment(at).into_string();
        assert_eq!(html, r#"<time datetime="1970-01-01T01:01:01Z" title="1970-01-01T01:01:01Z">01:01:01</time>"#);
    }
}
