//! Whether a token that mixes letters and digits, or small letters and capitals, is built of what people build names of:
//! `rack12row3`, `utf8mb3`, `clip1080p60`, `libLLVMCore`. Pure.
//!
//! What chance draws can be cut into words and numbers too, but seldom into so many. So pieces count by how much less
//! often chance draws them than anything else of their length, in bits, and a name is built where they count enough.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::drawn::WORDS;
use super::effort::looked_at;
use super::timestamp::is_date;
use super::token::is_chosen_number;

/// Two to sixteen letters and digits that are no words, or are in no document, but stand in names: what the files of three
/// Debian packages or more have in common, and units, formats, machines, protocols.
static PARTS: LazyLock<HashSet<&'static [u8]>> =
    LazyLock::new(|| include_str!("parts.txt").split_ascii_whitespace().map(str::as_bytes).collect());
/// None of either list is longer.
const LONGEST: usize = 16;
/// So much the pieces of a name that somebody built count together. Chance draws such a name about once in a thousand
/// times, whatever it draws of, and one with letters alone, which no rule can tell, thirty times as often or more.
const ENOUGH: i32 = 6;
/// So much a number counts that somebody chose, of which there are far fewer than of its digits.
const CHOSEN: i32 = 8;
/// What can be cut no way.
const NEVER: i32 = i32::MIN;
/// So many pieces may stand beside each other that are in no list.
const BETWEEN: usize = 2;

/// What a piece is that is in no list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Number,
    Letters,
}

/// The best count of every way to cut what stands before one place: behind a listed piece, or behind so many others of
/// which the last was this.
#[derive(Clone, Copy)]
struct Counts {
    listed: i32,
    others: [[i32; 2]; BETWEEN],
}

/// Whether a token is built of words, parts of words and numbers.
pub fn is_built(token: &[u8]) -> bool {
    let never = Counts { listed: NEVER, others: [[NEVER; 2]; BETWEEN] };
    let mut counts = vec![never; token.len() + 1];
    counts[0].listed = 0;
    looked_at(token.len());
    let known = Known::of(token);
    for start in 0..token.len() {
        let here = counts[start];
        let best = here.others.iter().flatten().fold(here.listed, |best, count| best.max(*count));
        if best == NEVER {
            continue;
        }
        for end in start + 2..=token.len().min(start + LONGEST) {
            if is_listed(&token[start..end]) {
                let count = best + known.count_of(end - start);
                counts[end].listed = counts[end].listed.max(count);
            }
        }
        let digits = token[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number =
            known.number(&token[start..start + digits], &token[..start], start + digits == token.len());
        let letters = [1, 2].map(|len| token.get(start..start + len).filter(|letters| is_row(letters)));
        let pieces = number.map(|count| (Piece::Number, digits, count)).into_iter();
        let pieces = pieces.chain(letters.into_iter().flatten().map(|row| (Piece::Letters, row.len(), -1)));
        for (piece, len, more) in pieces {
            for between in 0..BETWEEN {
                let before = match between {
                    0 => here.listed,
                    // Two of a kind are one piece, and longer.
                    _ => here.others[between - 1][1 - piece as usize],
                };
                if before != NEVER {
                    let count = &mut counts[start + len].others[between][piece as usize];
                    *count = (*count).max(before + more);
                }
            }
        }
    }
    let end = counts[token.len()];
    end.others.iter().flatten().any(|count| *count >= ENOUGH) || end.listed >= ENOUGH
}

/// Of which characters a token is, which decides how often chance draws a piece of it.
struct Known {
    has_both_cases: bool,
    is_hexadecimal: bool,
}

impl Known {
    fn of(token: &[u8]) -> Self {
        Self {
            has_both_cases: token.iter().any(u8::is_ascii_lowercase)
                && token.iter().any(u8::is_ascii_uppercase),
            is_hexadecimal: token.iter().all(u8::is_ascii_hexdigit),
        }
    }

    /// Of a listed piece of so many characters.
    fn count_of(&self, len: usize) -> i32 {
        let len = i32::try_from(len).expect("no longer than the longest");
        if self.has_both_cases { 6 * len - 14 } else { 5 * len - 12 }
    }

    /// Of a number of up to four digits, or that somebody chose. A date is one only behind letters and nothing else, where one
    /// near the run is told as a time.
    fn number(&self, digits: &[u8], before: &[u8], is_last: bool) -> Option<i32> {
        let is_told = is_last && before.iter().all(u8::is_ascii_alphabetic);
        match digits.len() {
            0 => None,
            1..=4 if self.is_hexadecimal => Some(0),
            len @ 1..=4 => Some(i32::try_from(len).expect("a small number") - 1),
            _ => (is_chosen_number(digits) && (is_told || !is_date(digits))).then_some(CHOSEN),
        }
    }
}

/// Whether a piece is in one of the lists: in small letters, with a capital in front, or in capitals.
fn is_listed(piece: &[u8]) -> bool {
    let has = |small: &[u8]| WORDS.contains(small) || PARTS.contains(small);
    let is_capital = piece[0].is_ascii_uppercase();
    let rest = &piece[1..];
    (!rest.iter().any(u8::is_ascii_uppercase)
        || (is_capital || piece[0].is_ascii_digit()) && !rest.iter().any(u8::is_ascii_lowercase))
        && has(&piece.to_ascii_lowercase())
}

/// Letters of one case, perhaps with a capital in front.
fn is_row(letters: &[u8]) -> bool {
    letters.iter().all(u8::is_ascii_uppercase)
        || (letters[0].is_ascii_alphabetic() && letters[1..].iter().all(u8::is_ascii_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_people_and_programs_are_built() {
        for built in [
            "rack12row3",
            "host1rack2row3",
            "utf8mb3",
            "clip1080p60",
            "abc123def",
            "v1alpha2beta3",
            "libLLVMCore",
            "XtDisplay",
            "KmsKeyId",
            "i18next",
            "sha256file",
            "web01prod",
            "backup20190131",
            "frame000123",
            "3rdparty",
        ] {
            assert!(is_built(built.as_bytes()), "{built}");
        }
    }

    #[test]
    fn what_chance_draws_is_not_even_behind_a_word() {
        for drawn in [
            "a1b2c3",
            "ab12cd34",
            "k3j2h1x9",
            "5zxzvychyht",
            "7f3a9b2c",
            "xq1zkwvb",
            "a8Kd92",
            "session4f3a9c2e",
            "build8fkjxq",
            "worker12345",
            "a20190131b",
            "jobAb3dE9",
            "",
            "x",
        ] {
            assert!(!is_built(drawn.as_bytes()), "{drawn}");
        }
    }

    #[test]
    fn the_lists_have_small_letters_and_digits_and_nothing_twice() {
        let is_part = |part: &&[u8]| {
            (2..=LONGEST).contains(&part.len())
                && part.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        assert!(PARTS.iter().all(|part| is_part(part) && !WORDS.contains(part)));
        assert_eq!(include_str!("parts.txt").split_ascii_whitespace().count(), PARTS.len());
    }
}
