//! Whether a token is built as people and programs build names, or as chance does. Pure.

use super::drawn::is_joined_of_words;
use super::timestamp::is_date;

/// How a token is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A word, a number, or a word and a number: what people and programs call things.
    Word,
    /// Anything else.
    Mixed,
}

/// How it is built.
pub fn shape(token: &[u8]) -> Shape {
    let letters = token.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let digits = token[letters..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if letters + digits < token.len() {
        // Digits first and then one word: `2to3`, `7zip`, `3rdparty`.
        let lead = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_lead = (1..=2).contains(&lead) && is_words(&token[lead..]);
        let is_word = is_lead || is_size(token) || is_period(token) || is_around_a_number(token);
        return if is_word { Shape::Word } else { Shape::Mixed };
    }
    if letters == 0 || (is_words(&token[..letters]) && digits <= 4) { Shape::Word } else { Shape::Mixed }
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

/// A part of a year, or an episode: `2025Q1`, `2026w07`, `2025H2`, `S01E02`.
fn is_period(token: &[u8]) -> bool {
    let is_number =
        |digits: &[u8], most| (1..=most).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let token = token.to_ascii_uppercase();
    if let Some(episode) = token.strip_prefix(b"S") {
        let mut sides = episode.split(|&byte| byte == b'E');
        let (season, episode) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        return is_number(season, 2) && is_number(episode, 3) && sides.next().is_none();
    }
    let Some((year, [b'Q' | b'H' | b'W', part @ ..])) = token.split_at_checked(4) else { return false };
    (year.starts_with(b"19") || year.starts_with(b"20")) && is_number(year, 4) && is_number(part, 2)
}

/// Letters, up to three digits and letters: one row is words and has four letters or more, the other is words or has up to
/// three: `cc1plus`, `sha256file`, `i18next`.
fn is_around_a_number(token: &[u8]) -> bool {
    let mut rows = token.chunk_by(|left, right| left.is_ascii_digit() == right.is_ascii_digit());
    let (Some(first), Some(digits), Some(last), None) = (rows.next(), rows.next(), rows.next(), rows.next())
    else {
        return false;
    };
    let is_word = |row: &[u8]| row.len() >= 4 && is_joined_of_words(row);
    let is_side = |row: &[u8]| row.len() <= 3 || is_joined_of_words(row);
    let is_number = digits.len() <= 3 && digits[0].is_ascii_digit();
    is_number && is_side(first) && is_side(last) && (is_word(first) || is_word(last))
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
            "plus1234cc",
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
    fn chance_hardly_draws_a_word_around_a_number() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut draw = |alphabet: &[u8]| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            alphabet[(state >> 33) as usize % alphabet.len()]
        };
        for (alphabet, len) in
            [(&b"abcdefghijklmnopqrstuvwxyz0123456789"[..], 8), (b"0123456789abcdef", 8), (b"0123456789", 8)]
        {
            let drawn = |_| (0..len).map(|_| draw(alphabet)).collect::<Vec<u8>>();
            let kept = (0..100_000).map(drawn).filter(|name| {
                is_size(name) || is_period(name) || is_around_a_number(name) || is_chosen_number(name)
            });
            let (kept, is_number) = (kept.count(), alphabet.len() == 10);
            assert!(kept <= if is_number { 100 } else { 20 }, "{kept} of a hundred thousand");
        }
    }
}
