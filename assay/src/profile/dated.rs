//! Directories that are called by the day of the run, one part of the date each: `2026/12/01`. Pure.

use super::timestamp::is_day_near;

/// The longest date that directories spell, and the fewest of them: a name with the whole date in it is not theirs.
const PARTS: std::ops::RangeInclusive<usize> = 2..=3;

/// Every row of components of `path` that spells a day near the run from year to day, as the paths that end in them:
/// `/a/2026`, `/a/2026/12`, `/a/2026/12/01`.
pub fn dates_in(path: &[u8], clock: Option<(u64, u64)>) -> Vec<Vec<&[u8]>> {
    let mut found = Vec::new();
    for slash in memchr::memmem::find_iter(path, b"/20") {
        if let Some(date) = date_from(path, slash + 1, clock) {
            found.push(date);
        }
    }
    found
}

/// The last component of a path.
pub fn last_of(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

fn date_from(path: &[u8], start: usize, clock: Option<(u64, u64)>) -> Option<Vec<&[u8]>> {
    let mut numbers: Vec<&[u8]> = Vec::new();
    let mut paths = Vec::new();
    let mut at = start;
    while paths.len() < *PARTS.end() && at <= path.len() {
        let end = memchr::memchr(b'/', &path[at..]).map_or(path.len(), |slash| at + slash);
        for group in path[at..end].split(|byte| matches!(byte, b'-' | b'_' | b'.')) {
            if group.is_empty() || numbers.len() == 3 || !group.iter().all(u8::is_ascii_digit) {
                return None;
            }
            // Year and month, month and day, without a sign between them.
            match (numbers.len(), group.len()) {
                (0, 4) | (1 | 2, 1 | 2) => numbers.push(group),
                (0, 6) => numbers.extend([&group[..4], &group[4..]]),
                (1, 4) => numbers.extend([&group[..2], &group[2..]]),
                _ => return None,
            }
        }
        paths.push(&path[..end]);
        if let [year, month, day] = numbers[..] {
            let is_date = PARTS.contains(&paths.len())
                && is_day_near(number(year)?, number(month)?, number(day)?, clock);
            return is_date.then_some(paths);
        }
        at = end + 1;
    }
    None
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of December 2026, ten in the morning, for an hour.
    const CLOCK: Option<(u64, u64)> = Some((1_796_119_200, 1_796_122_800));

    fn dates(path: &str) -> Vec<Vec<&str>> {
        let found = dates_in(path.as_bytes(), CLOCK);
        found
            .into_iter()
            .map(|date| date.into_iter().map(|path| std::str::from_utf8(path).unwrap()).collect())
            .collect()
    }

    #[test]
    fn days_that_directories_spell_are_found_in_every_spelling() {
        assert_eq!(dates("/s/2026/12/01/x"), [["/s/2026", "/s/2026/12", "/s/2026/12/01"]]);
        assert_eq!(dates("/s/2026/12/1"), [["/s/2026", "/s/2026/12", "/s/2026/12/1"]]);
        assert_eq!(dates("/s/2026/11/30"), [["/s/2026", "/s/2026/11", "/s/2026/11/30"]]);
        assert_eq!(dates("/s/2026-12/01/x"), [["/s/2026-12", "/s/2026-12/01"]]);
        assert_eq!(dates("/s/202612/01/x"), [["/s/202612", "/s/202612/01"]]);
        assert_eq!(dates("/s/2026/12-01/x"), [["/s/2026", "/s/2026/12-01"]]);
        assert_eq!(dates("/s/2026/1201/x"), [["/s/2026", "/s/2026/1201"]]);
        assert_eq!(dates("/2026/12/01/2026/12/02/x").len(), 2);
    }

    #[test]
    fn what_is_no_day_near_the_run_is_none() {
        for path in [
            "/s/2026/12/x",
            "/s/2026/12",
            "/s/2026/13/01",
            "/s/2026/12/32",
            "/s/2026/11/01",
            "/s/2025/12/01",
            "/s/2026/12/01.log",
            "/s/2026/12/1st",
            "/s/2026/012/01",
            "/s/v2026/12/01",
            "/s/2026//12/01",
            "/s/2026-12-01/x",
            "/s/20261201/x",
            "/s/2026/1/2/3",
            "/2/0/2/6",
            "2026/12/01",
        ] {
            assert_eq!(dates(path), Vec::<Vec<&str>>::new(), "{path}");
        }
    }
}
