//! Seconds since 1970 <-> RFC 3339 in UTC. Pure: the clock is the caller's.

/// A moment, in whole seconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 9999-12-31T23:59:59Z: the last moment RFC 3339 can write.
    pub const LAST: i64 = 253_402_300_799;

    /// A moment, or `None` when RFC 3339 cannot write it or it lies before 1970.
    pub fn new(seconds: i64) -> Option<Self> {
        (0..=Self::LAST).contains(&seconds).then_some(Self(seconds))
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> i64 {
        self.0
    }

    /// Reads `YYYY-MM-DDThh:mm:ss[.fraction]Z`; an offset other than `Z` or `±00:00` is not UTC and not read.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = bytes.get(from..to)?;
            digits.iter().all(u8::is_ascii_digit).then(|| text[from..to].parse().ok())?
        };
        let is = |at: usize, expected: &[u8]| bytes.get(at).is_some_and(|byte| expected.contains(byte));
        if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt") && is(13, b":") && is(16, b":")) {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let mut zone = 19;
        if is(zone, b".") {
            let digits = bytes[zone + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return None;
            }
            zone += 1 + digits;
        }
        if !matches!(&bytes[zone..], b"Z" | b"z" | b"+00:00" | b"-00:00") {
            return None;
        }
        // A leap second is read as the moment after it.
        if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        if !(1..=days_in_month(year, month)).contains(&day) {
            return None;
        }
        Self::new(days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(86_400));
        let second = self.0.rem_euclid(86_400);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a Gregorian date. Years are counted from March, so that the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_and_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_323_045, "2026-01-02T03:04:05Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (Timestamp::LAST, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Timestamp::new(seconds).unwrap().to_string(), text);
            assert_eq!(Timestamp::parse(text), Timestamp::new(seconds));
        }
        assert_eq!(Timestamp::parse("2026-01-02T03:04:05.25+00:00"), Timestamp::new(1_767_323_045));
    }

    #[test]
    fn what_is_no_moment_in_utc_is_not_read() {
        for text in [
            "",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05+01:00",
            "2026-13-02T03:04:05Z",
            "2026-02-29T03:04:05Z",
            "2026-01-00T03:04:05Z",
            "2026-01-02T24:04:05Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05Zx",
            "+026-01-02T03:04:05Z",
            "2026-01-02T03:04:\u{2075}Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_moment_is_read_back(seconds in 0..=Timestamp::LAST) {
            let moment = Timestamp::new(seconds).unwrap();
            proptest::prop_assert_eq!(Timestamp::parse(&moment.to_string()), Some(moment));
        }

        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = Timestamp::parse(&text);
        }
    }
}
