//! Whether a token is built as people and programs build names, or as chance does. Pure.

use super::built::is_built;
use super::timestamp::is_date;

/// How a token is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A word, a number, or built of them: what people and programs call things.
    Word,
    /// Anything else.
    Mixed,
}

/// Who draws names draws so many characters or more.
pub const LEAST_DRAWN: usize = 6;

/// How it is built.
pub fn shape(token: &[u8]) -> Shape {
    let is_word = is_word_and_number(token)
        || is_lead(token)
        || is_size(token)
        || is_period(token)
        || is_duration(token)
        || is_built(token);
    if is_word { Shape::Word } else { Shape::Mixed }
}

/// A number, a word, or a word and up to four digits.
fn is_word_and_number(token: &[u8]) -> bool {
    let letters = token.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let digits = &token[letters..];
    digits.iter().all(u8::is_ascii_digit)
        && (letters == 0 || (is_words(&token[..letters]) && digits.len() <= 4))
}

/// One or two digits and then a short word: `2to3`, `7zip`. Of long ones chance draws too many, as `5zxzvychyht`.
fn is_lead(token: &[u8]) -> bool {
    let digits = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    token.len() < LEAST_DRAWN && (1..=2).contains(&digits) && is_words(&token[digits..])
}

/// All lower, all upper, or words of three letters and more that each begin with a capital, perhaps after an
/// abbreviation (`CMakeLists`, `HTTPServer`).
fn is_words(letters: &[u8]) -> bool {
    if letters.iter().all(u8::is_ascii_lowercase) || letters.iter().all(u8::is_ascii_uppercase) {
        return true;
    }
    let mut words = letters.chunk_by(|_, next| !next.is_ascii_uppercase()).peekable();
    let mut least = 3;
    while words.next_if(|word| word.len() == 1).is_some() {
        least = 4;
    }
    words.peek().is_some()
        && words.all(|word| word.len() >= least && word[1..].iter().all(u8::is_ascii_lowercase))
}

/// Two numbers with an `x` between them: `1920x1080`.
fn is_size(token: &[u8]) -> bool {
    let mut sides = token.split(|&byte| byte == b'x');
    let mut is_number = || {
        sides.next().is_some_and(|side| (1..=5).contains(&side.len()) && side.iter().all(u8::is_ascii_digit))
    };
    is_number() && is_number() && sides.next().is_none()
}

/// A part of a year, or an episode: `2025Q1`, `FY25Q1`, `2026w07`, `2025H2`, `S01E02`.
fn is_period(token: &[u8]) -> bool {
    let token = token.to_ascii_uppercase();
    if let Some(episode) = token.strip_prefix(b"S") {
        let mut sides = episode.split(|&byte| byte == b'E');
        let (season, episode) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        return is_number(season, 2) && is_number(episode, 3) && sides.next().is_none();
    }
    let of_a_business = token.strip_prefix(b"FY").or_else(|| token.strip_prefix(b"CY"));
    let rest = of_a_business.unwrap_or(&token);
    let Some(at) = rest.iter().position(|byte| !byte.is_ascii_digit()) else { return false };
    let is_year = match at {
        2 => of_a_business.is_some(),
        4 => rest.starts_with(b"19") || rest.starts_with(b"20"),
        _ => false,
    };
    is_year && matches!(rest[at], b'Q' | b'H' | b'W') && is_number(&rest[at + 1..], 2)
}

/// How long something takes, of two units or more: `1h30m15s`, `2d12h`. Not what a clock could show, `14h05m30s`.
fn is_duration(token: &[u8]) -> bool {
    let is_of_a_clock = |part: &[u8]| part.len() == 3 && !part.ends_with(b"d");
    if token.split_inclusive(|byte| !byte.is_ascii_digit()).all(is_of_a_clock) {
        return false;
    }
    let mut units = b"dhms".iter();
    let mut parts = token.split_inclusive(|byte| !byte.is_ascii_digit());
    let is_part = |part: &[u8]| {
        part.split_last()
            .is_some_and(|(unit, number)| is_number(number, 3) && units.any(|later| later == unit))
    };
    parts.clone().nth(1).is_some() && parts.all(is_part)
}

/// One to so many digits.
fn is_number(digits: &[u8], most: usize) -> bool {
    (1..=most).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// Whether somebody chose a number of six digits or more: it counts and was filled up with zeros, or it is a date, which is
/// not near the run (else it were told as a time).
pub fn is_chosen_number(digits: &[u8]) -> bool {
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    zeros * 2 >= digits.len() || is_date(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_call_things_is_told_from_what_chance_draws() {
        for word in [
            "1920x1080",
            "640x480",
            "cc1plus",
            "sha256file",
            "i18next",
            "base64url",
            "h264test",
            "README",
            "7zip",
            "worker1234",
            "HTTPServer",
            "20260101",
            "2025Q1",
            "2026w07",
            "1999H2",
            "S01E02",
            "s12e103",
            "FY2025Q1",
            "fy25h2",
            "1h30m15s",
            "2d12h",
            "rack12row3",
            "plus1234cc",
        ] {
            assert_eq!(shape(word.as_bytes()), Shape::Word, "{word}");
        }
        for drawn in [
            "1920x1080x3",
            "123456x1",
            "a1b2c3",
            "session4f3a9c2e",
            "build8fkjxq",
            "ab12cd34",
            "7f3a9b2c",
            "5zxzvychyht",
            "k3j2h1x9",
            "1m30h",
            "14h05m30s",
            "30m30m",
            "1h30m15",
            "FY225Q1",
            "25Q123",
            "xq1zkwvb",
            "a8Kd92",
            "worker12345",
            "2125Q1",
            "2025Q123",
            "2025Qx",
            "2025K1",
            "S001E02",
            "S01E02E3",
        ] {
            assert_eq!(shape(drawn.as_bytes()), Shape::Mixed, "{drawn}");
        }
    }

    #[test]
    fn a_number_was_chosen_where_it_is_a_date_or_was_filled_up() {
        for chosen in ["00000001", "000123", "20190131", "202601011200", "20260101120000", "19991231235959"] {
            assert!(is_chosen_number(chosen.as_bytes()), "{chosen}");
        }
        for drawn in [
            "123456",
            "001234567",
            "20191331",
            "20190100",
            "21000101",
            "19691231",
            "20260101240000",
            "20260101126000",
            "2026010112000",
            "1764550000",
        ] {
            assert!(!is_chosen_number(drawn.as_bytes()), "{drawn}");
        }
    }

    /// What the page says of the price.
    #[test]
    fn chance_hardly_draws_what_is_built() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut draw = |alphabet: &[u8]| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            alphabet[(state >> 33) as usize % alphabet.len()]
        };
        let (all, small) = (&b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[..], SMALL);
        for (alphabet, len) in [
            (all, 6),
            (all, 8),
            (all, 10),
            (all, 12),
            (small, 6),
            (small, 7),
            (small, 8),
            (small, 11),
            (b"0123456789abcdef", 6),
            (b"0123456789abcdef", 8),
            (b"0123456789abcdef", 12),
            (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 8),
            (b"0123456789", 8),
        ] {
            let drawn = |_| (0..len).map(|_| draw(alphabet)).collect::<Vec<u8>>();
            let kept = (0..20_000).map(drawn).filter(|name| {
                let is_number = name.iter().all(u8::is_ascii_digit);
                is_size(name)
                    || is_period(name)
                    || is_duration(name)
                    || (is_number && is_chosen_number(name))
                    // What else is like a word is one by another rule.
                    || (!is_word_and_number(name) && is_built(name))
            });
            let (kept, of) = (kept.count(), alphabet.len());
            assert!(kept <= if of == 10 { 20 } else { 30 }, "{kept} of twenty thousand of {len} of {of}");
        }
    }

    const SMALL: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
}
