//! Dates and times inside names. Pure.
//!
//! A date is one only near the run: `2019-01-01.log` written today is a name.

const DAY: u64 = 86_400;

/// Where a moment that begins at `at` ends: a date (with a time after it), or seconds, milliseconds, microseconds or nanoseconds since 1970, near the run.
pub fn time_end(name: &[u8], at: usize, clock: Option<(u64, u64)>) -> Option<usize> {
    date_end(name, at, clock).or_else(|| epoch_end(name, at, clock))
}

fn is_near(seconds: u64, clock: Option<(u64, u64)>, slack: u64) -> bool {
    match clock {
        Some((start, end)) => seconds + slack >= start && seconds <= end + slack,
        // Without a clock: any time from 2020 to 2100.
        None => (1_577_836_800..4_102_444_800).contains(&seconds),
    }
}

/// Whether these are year, month and day of a date within two days of the run.
pub fn is_day_near(year: u64, month: u64, day: u64, clock: Option<(u64, u64)>) -> bool {
    (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && days_since_1970(year, month, day).is_some_and(|days| is_near(days * DAY, clock, 2 * DAY))
}

fn epoch_end(name: &[u8], at: usize, clock: Option<(u64, u64)>) -> Option<usize> {
    let digits = name[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value: u64 = std::str::from_utf8(&name[at..at + digits]).ok()?.parse().ok()?;
    let seconds = match digits {
        10 => value,
        13 => value / 1_000,
        16 => value / 1_000_000,
        19 => value / 1_000_000_000,
        _ => return None,
    };
    is_near(seconds, clock, DAY).then_some(at + digits)
}

fn date_end(name: &[u8], at: usize, clock: Option<(u64, u64)>) -> Option<usize> {
    let mut reader = Digits { name, at };
    let year = reader.number(4)?;
    let separator = reader.separator();
    let month = reader.number(2)?;
    if separator.is_some() && reader.separator() != separator {
        return None;
    }
    let day = reader.number(2)?;
    if !is_day_near(year, month, day, clock) {
        return None;
    }
    let mut end = reader.at;
    // The time of day and its fraction: up to four more groups of digits, each after one separator or `T`.
    for _ in 0..5 {
        if name.get(reader.at) == Some(&b'T') {
            reader.at += 1;
        } else if reader.separator().is_none() && !name.get(reader.at).is_some_and(u8::is_ascii_digit) {
            break;
        }
        let digits = name[reader.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !matches!(digits, 2 | 3 | 4 | 6 | 9) || runs_into_a_letter(&name[reader.at + digits..]) {
            break;
        }
        reader.at += digits;
        end = reader.at;
    }
    if name.get(end) == Some(&b'Z') {
        end += 1;
    }
    name.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric()).then_some(end)
}

/// Whether a letter follows that is not of the time: `019ad3f2-…` behind a time is a name of its own.
fn runs_into_a_letter(rest: &[u8]) -> bool {
    match rest {
        [b'T', next, ..] if next.is_ascii_digit() => false,
        [b'Z', rest @ ..] => rest.first().is_some_and(u8::is_ascii_alphanumeric),
        [first, ..] => first.is_ascii_alphabetic(),
        [] => false,
    }
}

/// Whether so many digits and no more are a date from 1970 to 2099: of 8, of 12 with hour and minute, of 14 with seconds.
pub fn is_date(digits: &[u8]) -> bool {
    let mut reader = Digits { name: digits, at: 0 };
    let mut is_part = |len: usize, least: u64, most: u64| {
        reader.number(len).is_some_and(|number| (least..=most).contains(&number))
    };
    let is_day = is_part(4, 1970, 2099) && is_part(2, 1, 12) && is_part(2, 1, 31);
    match digits.len() {
        8 => is_day,
        12 => is_day && is_part(2, 0, 23) && is_part(2, 0, 59),
        14 => is_day && is_part(2, 0, 23) && is_part(2, 0, 59) && is_part(2, 0, 59),
        _ => false,
    }
}

struct Digits<'a> {
    name: &'a [u8],
    at: usize,
}

impl Digits<'_> {
    fn number(&mut self, len: usize) -> Option<u64> {
        let text = self.name.get(self.at..self.at + len)?;
        if !text.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.at += len;
        std::str::from_utf8(text).ok()?.parse().ok()
    }

    fn separator(&mut self) -> Option<u8> {
        let byte = *self.name.get(self.at).filter(|byte| matches!(byte, b'-' | b'_' | b'.' | b':' | b' '))?;
        self.at += 1;
        Some(byte)
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let shifted = if month <= 2 { year.checked_sub(1)? } else { year };
    let era_day = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400;
    let month_day = (153 * ((month + 9) % 12) + 2) / 5 + day;
    (era_day + month_day).checked_sub(719_469)
}
