//! Characters that a program drew for a temporary file, and that do not show it by themselves: `claude-12bc-cwd`,
//! `job_9f3e1.log`, `bdgzxkzaj.output`. Pure.
//!
//! Of four or five hexadecimal digits few say much: `2024` is a year and `beef` a word; and of eight letters and digits chance
//! draws letters alone on one file in fourteen. What shows that they were drawn is a name with letters and digits there, alone
//! or among others that are called the same but for them. Numbers that count are none, and words stay.

use std::collections::{BTreeSet, HashMap};

use super::drawn::is_of_words;
use super::effort::looked_at;
use super::paths::{MadeAs, PathId, PathTable};
use super::roots::parent;
use super::token::{Shape, shape};

/// A name with the part left out: its directory, what stands before it and what stands after it, and how long it is.
type Pattern<'a> = (&'a [u8], &'a [u8], &'a [u8], usize);

/// Where such a part stands in the last name of a path: `(start, end)`, of each file that the run made where they were drawn.
pub(super) fn drawn_alike(paths: &PathTable) -> HashMap<PathId, (usize, usize)> {
    let mut groups: HashMap<Pattern<'_>, Vec<(PathId, &[u8])>> = HashMap::new();
    for path in paths.ids().filter(|path| paths.life(*path).made == Some(MadeAs::File)) {
        let bytes = paths.bytes(path);
        let name = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        looked_at(name.len());
        if let Some((start, end)) = part_of(name) {
            let pattern = (parent(bytes), &name[..start], &name[end..], end - start);
            groups.entry(pattern).or_default().push((path, &name[start..end]));
        }
    }
    let drawn = groups.into_iter().filter(|(_, members)| are_drawn(members));
    drawn
        .flat_map(|((_, before, _, len), members)| {
            let members = members.into_iter().filter(|(_, drawn)| drawn.len() < LONG || !is_of_words(drawn));
            members.map(move |(path, _)| (path, (before.len(), before.len() + len)))
        })
        .collect()
}

/// So many letters and digits are seen by how they are mixed, and not as a number.
const LONG: usize = 8;

/// The only part of a name that may have been drawn: four or five hexadecimal digits (small letters) between two of `-`,
/// `_` and `.`, or eight letters and digits or more, not digits alone.
fn part_of(name: &[u8]) -> Option<(usize, usize)> {
    let is_between = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b'-' | b'_' | b'.'));
    let mut found = None;
    let mut at = 0;
    while at < name.len() {
        let len = name[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let token = &name[at..at + len];
        let is_hex = || token.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_inside = || at > 0 && is_between(name.get(at - 1)) && is_between(name.get(at + len));
        let is_short = matches!(len, 4 | 5) && is_inside() && is_hex();
        let is_long = len >= LONG && !token.iter().all(u8::is_ascii_digit);
        if (is_short || is_long) && found.replace((at, at + len)).is_some() {
            return None;
        }
        at += len.max(1);
    }
    found
}

/// Whether chance drew what the members of a group have there: one of them shows it, and they do not count.
fn are_drawn(members: &[(PathId, &[u8])]) -> bool {
    let is_long = members.iter().any(|(_, drawn)| drawn.len() >= LONG);
    if is_long {
        // Chance mixes most of them; of the names of people and programs few are.
        let mixed = members.iter().filter(|(_, drawn)| shape(drawn) == Shape::Mixed).count();
        return members.len() > 1 && mixed * 2 >= members.len();
    }
    let values: BTreeSet<u32> = members.iter().filter_map(|(_, digits)| value(digits)).collect();
    let neighbours = values.iter().filter(|value| values.contains(&(**value + 1))).count();
    let digits = || members.iter().map(|(_, digits)| *digits);
    (digits().any(shows) || is_of_both_kinds(digits())) && neighbours * 2 < values.len().max(1)
}

/// Numbers and, called the same but for them, letters and a number: who counts has one of them only.
fn is_of_both_kinds<'a>(mut members: impl Iterator<Item = &'a [u8]> + Clone) -> bool {
    let letters = |digits: &[u8]| digits.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let is_filled = |digits: &[u8]| digits.starts_with(b"00");
    let has_number = members.clone().any(|digits| letters(digits) == 0 && !is_filled(digits));
    has_number && members.any(|digits| (1..digits.len()).contains(&letters(digits)) && !is_filled(digits))
}

/// Letters and digits, in another order than `a100`, `v2` and `abc12` have them, and no zeros in front as of numbers that
/// were filled up.
fn shows(digits: &[u8]) -> bool {
    let letters = digits.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let is_word_and_number = digits[letters..].iter().all(u8::is_ascii_digit);
    let has_letter = digits.iter().any(u8::is_ascii_alphabetic);
    has_letter && !is_word_and_number && !digits.starts_with(b"00")
}

fn value(digits: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_stand_between_two_marks_and_nothing_else_may_be_drawn() {
        for (name, part) in [
            ("claude-12bc-cwd", Some((7, 11))),
            ("a.8555.b", Some((2, 6))),
            ("job_9f3e1.log", Some((4, 9))),
            ("x-dead-y", Some((2, 6))),
            ("x-12bc", None),
            ("12bc-x", None),
            ("x-12BC-y", None),
            ("x-12b-y", None),
            ("x-12bcde-y", None),
            ("x-12bg-y", None),
            ("x-12bc-34de-y", None),
            ("x 12bc y", None),
            ("bdgzxkzaj.output", Some((0, 9))),
            ("a-BDGZXKZ1", Some((2, 10))),
            ("12345678.x", None),
            ("abcdefg.x", None),
            ("abcdefgh-12bc-x", None),
            ("12bc", None),
            ("", None),
        ] {
            assert_eq!(part_of(name.as_bytes()), part, "{name}");
        }
    }

    #[test]
    fn numbers_beside_letters_and_numbers_were_drawn() {
        let is = |members: &[&str]| is_of_both_kinds(members.iter().map(|digits| digits.as_bytes()));
        assert!(is(&["6790", "9456", "c226", "e519"]));
        assert!(is(&["c226", "5675"]));
        for members in [
            &["6790", "9456"][..],
            &["c226", "e519"],
            &["2024", "beef"],
            &["0009", "a100"],
            &["2024", "00a1"],
            &[],
        ] {
            assert!(!is(members), "{members:?}");
        }
    }

    #[test]
    fn what_shows_that_chance_drew_is_neither_word_nor_number() {
        for digits in ["12bc", "8ca0", "ae9b", "9f3e1", "0b1c"] {
            assert!(shows(digits.as_bytes()), "{digits}");
        }
        for digits in ["8555", "2024", "beef", "a100", "ab12", "abc1", "000a", "00ff", "12345", "abcde"] {
            assert!(!shows(digits.as_bytes()), "{digits}");
        }
    }
}
