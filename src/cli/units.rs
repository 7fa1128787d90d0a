//! Values as people type them: sizes, durations, numbers with bounds.

use std::time::Duration;

const KIB: f64 = 1024.0;

/// Bytes from `512m`, `1g`, `1.5GiB`, `65536`. Units are powers of 1024, as container engines read them.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => KIB,
        "m" | "mb" | "mib" => KIB * KIB,
        "g" | "gb" | "gib" => KIB * KIB * KIB,
        "t" | "tb" | "tib" => KIB * KIB * KIB * KIB,
        _ => return Err("expected a size such as `512m` or `1g`".into()),
    };
    let number: f64 = number.parse().map_err(|_| "expected a size such as `512m` or `1g`")?;
    let bytes = number * factor;
    if bytes < 1.0 || bytes >= (u64::MAX / 2) as f64 {
        return Err("the size must be at least a byte and less than 8 EiB".into());
    }
    Ok(bytes as u64)
}

/// A time from `90`, `1.5` (seconds), `500ms`, `1m30s`, `2h`, `1d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a time such as `90`, `1m30s` or `2h`";
    let mut rest = text.trim();
    let mut total = 0.0;
    if rest.is_empty() {
        return Err(EXPECTED.into());
    }
    while !rest.is_empty() {
        let (number, tail) = split_unit(rest);
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let factor = match unit {
            // A bare number is seconds, but not after another part: `1m30` may have meant anything.
            "" if rest == text.trim() && tail.is_empty() => 1.0,
            "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(EXPECTED.into()),
        };
        total += number.parse::<f64>().map_err(|_| EXPECTED)? * factor;
        rest = tail;
    }
    let longest = Duration::from_secs(100 * 365 * 86400);
    let duration = Duration::try_from_secs_f64(total).map_err(|_| EXPECTED)?;
    if duration.is_zero() || duration > longest {
        return Err("the time must be more than nothing and less than a hundred years".into());
    }
    Ok(duration)
}

/// A number of cores, such as `0.5`.
pub(crate) fn cores(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cores) if cores.is_finite() && cores > 0.0 => Ok(cores),
        _ => Err("expected a number of cores such as `2` or `0.5`".into()),
    }
}

/// A length of time in its largest unit, for lists: `5s`, `12m`, `3h`, `4d`.
pub(crate) fn age(seconds: i64) -> String {
    match seconds.max(0) {
        s @ 0..120 => format!("{s}s"),
        s @ 120..7200 => format!("{}m", s / 60),
        s @ 7200..172_800 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86400),
    }
}

/// A size for people: `12 B`, `3.4 KiB`, `512 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut number = bytes as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if number < 1000.0 {
            break;
        }
        number /= KIB;
        unit = larger;
    }
    let decimals = usize::from(unit != "B" && number < 9.95);
    format!("{number:.decimals$} {unit}")
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("512m"), Ok(512 << 20));
        assert_eq!(size("1g"), Ok(1 << 30));
        assert_eq!(size("1.5GiB"), Ok(3 << 29));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("65536"), Ok(65536));
        for bad in ["", "m", "-1g", "1x", "1 g", "1g1", "0", "nan", "inf", "99999999999t", "1..5g"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(duration("1d"), Ok(Duration::from_secs(86400)));
        for bad in ["", "0", "-1", "1m30", "m", "1x", "ten", "1e400", "9999999999d", "1m 30s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn core_counts() {
        assert_eq!(cores("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "inf", "two"] {
            assert!(cores(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_for_people() {
        for (size, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KiB"),
            (10_200, "10 KiB"),
            (1 << 20, "1.0 MiB"),
            (1000 << 20, "1.0 GiB"),
            (1 << 40, "1.0 TiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn ages() {
        assert_eq!(age(-3), "0s");
        assert_eq!(age(119), "119s");
        assert_eq!(age(120), "2m");
        assert_eq!(age(7200), "2h");
        assert_eq!(age(172_800), "2d");
    }
}
