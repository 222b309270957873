//! Text → duration, as `timeout` reads it (`10`, `1.5m`, `2h`) and as people write it (`1h30m`). Pure.

use std::time::Duration;

/// The text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no duration: expected a number with an optional unit of ms, s, m, h or d, such as 10, 1.5m, 1h30m"
)]
pub struct DurationError(String);

/// Reads a duration. Zero is a duration; the caller decides what it means.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError(text.to_owned());
    let mut rest = text.trim();
    let mut seconds = 0f64;
    if rest.is_empty() {
        return Err(error());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let number: f64 = number.parse().map_err(|_| error())?;
        let factor = match unit {
            "ms" => 0.001,
            // Without a unit only the whole text may stand: `1m30` says too little.
            "" if tail.is_empty() && seconds == 0.0 => 1.0,
            "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(error()),
        };
        seconds += number * factor;
        rest = tail;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<f64>) {
        assert_eq!(parse(text).ok().map(|duration| duration.as_secs_f64()), expect, "{text:?}");
    }

    #[test]
    fn durations_are_read_as_timeout_reads_them() {
        check("10", Some(10.0));
        check("0", Some(0.0));
        check("10s", Some(10.0));
        check("1.5m", Some(90.0));
        check("2h", Some(7200.0));
        check("1d", Some(86400.0));
        check("250ms", Some(0.25));
        check("1h30m", Some(5400.0));
        check(".5", Some(0.5));
        for wrong in [
            "",
            "s",
            "-1",
            "10x",
            "1m30",
            "ten",
            "1e400d",
            "..",
            "1 0",
            "inf",
            "nan",
            "99999999999999999999999d",
        ] {
            check(wrong, None);
        }
    }
}
