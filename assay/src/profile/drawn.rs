//! Where chance drew the characters of a name that was made as mkstemp and mkdtemp make theirs. Pure.
//!
//! What letters came up decides next to nothing, because chance draws small letters alone, and numbers, and capitals too.
//! Only a name that is built of whole words is one that a program chose, and stays: it must not vanish. Chance draws such
//! a one less than once in fifty thousand times.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::token::{Shape, shape};
use super::volatile::Proof;

/// A whole name of the length that makers of temporary files use, in a place for them and gone: no words when it was
/// opened as mkstemp does, else with a part that no word is built of. (Their alphabets have the underscore, so that such
/// a name can fall into parts too short to be told.)
pub fn is_random_whole(name: &[u8], proof: &Proof<'_>) -> bool {
    let is_temporary = proof.is_gone && (proof.is_in_temp || (proof.is_in_tmp && proof.is_made_private));
    let is_mixed =
        || name.split(|&byte| byte == b'_').any(|part| part.len() >= 3 && shape(part) == Shape::Mixed);
    let is_drawn = || if proof.is_made_private { !is_of_words(name) } else { is_mixed() };
    matches!(name.len(), 6 | 8 | 10) && name.iter().all(is_part) && is_temporary && is_drawn()
}

/// Where the characters stand that chance drew, in a name that mkstemp, mkdtemp or their like made in a place for
/// temporary files, and that is gone: `(start, end)`. The part is found by where it ends (at the name's end, or of a
/// file where its extensions begin) and by how long it is.
pub fn drawn_part(name: &[u8], proof: &Proof<'_>) -> Option<(usize, usize)> {
    let is_drawn = proof.is_made_private && proof.is_gone;
    if !is_drawn || proof.is_numbered {
        return None;
    }
    if !proof.is_in_temp && !proof.is_in_tmp {
        return drawn_beside_its_target(name, proof);
    }
    let end = before_extensions(name);
    // mkdtemp draws the end of the name. A directory with an extension (`openpgp-revocs.d`) was named by somebody.
    if proof.is_directory && end < name.len() {
        return None;
    }
    let start = name[..end].iter().rposition(|byte| !is_part(byte)).map_or(0, |last| last + 1);
    let part = &name[start..end];
    if part.len() < 6 || is_of_words(part) {
        return None;
    }
    // What the program put in front, where the underscore before the drawn eight or ten tells where it ends. (Before six
    // it does not: it could be one of eight that were drawn.)
    let kept = [8, 10].into_iter().filter_map(|drawn| part.len().checked_sub(drawn));
    let kept = kept.filter(|kept| *kept > 0).find(|kept| part[kept - 1] == b'_').unwrap_or(0);
    Some((start + kept, end))
}

/// Where the extensions of a name begin: from the right, up to five characters and their dot.
fn before_extensions(name: &[u8]) -> usize {
    let mut end = name.len();
    while let Some(dot) = name[..end].iter().rposition(|&byte| byte == b'.')
        && end - dot <= 6
        && dot > 0
    {
        end = dot;
    }
    end
}

/// What binutils and zip put before the six characters that mkstemp draws for them, and their programs that do.
const DRAWERS: [(&[u8], &[&[u8]]); 2] = [
    (b"st", &[b"strip", b"objcopy", b"ar", b"ranlib"]),
    (b"zi", &[b"zip", b"zipcloak", b"zipnote", b"zipsplit"]),
];

/// Whether `program` calls the files so that it draws names for: `/usr/bin/x86_64-linux-gnu-strip` does `stAb12Cd`.
pub fn is_drawn_by(program: &[u8], name: &[u8]) -> bool {
    let program = program.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    // What it is made for may stand before it.
    let is_it = |one: &&[u8]| {
        program.strip_suffix(*one).is_some_and(|before| before.is_empty() || before.ends_with(b"-"))
    };
    DRAWERS.iter().any(|(before, programs)| {
        let drawn = name.strip_prefix(*before);
        drawn.is_some_and(|drawn| drawn.len() == 6 && drawn.iter().all(u8::is_ascii_alphanumeric))
            && programs.iter().any(is_it)
    })
}

/// The characters that mkstemp drew in a file's name: of a program known to call its files so, or of one that made the
/// file what it is called now, and then they are not of words. glibc draws six at the end, which have to be of two kinds.
fn drawn_beside_its_target(name: &[u8], proof: &Proof<'_>) -> Option<(usize, usize)> {
    if proof.is_moved
        && !proof.is_directory
        && let Some(eight) = drawn_by_python(name)
    {
        return Some(eight);
    }
    let start = name.len().checked_sub(6)?;
    let drawn = &name[start..];
    let kinds: [fn(&u8) -> bool; 3] = [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit];
    let of_kinds = kinds.iter().filter(|kind| drawn.iter().any(kind)).count();
    let part = name.iter().rposition(|byte| !is_part(byte)).map_or(0, |last| last + 1);
    let is_moved = proof.is_moved && of_kinds >= 2 && !is_of_words(drawn) && !is_of_words(&name[part..]);
    let is_drawn = !proof.is_directory
        && drawn.iter().all(u8::is_ascii_alphanumeric)
        && (proof.is_drawn_by_maker || is_moved);
    is_drawn.then_some((start, name.len()))
}

/// The eight that Python draws, with underscores among them, before the extensions: all since the last sign, or what an
/// underscore stands before.
fn drawn_by_python(name: &[u8]) -> Option<(usize, usize)> {
    let end = before_extensions(name);
    let part = name[..end].iter().rposition(|byte| !is_part(byte)).map_or(0, |last| last + 1);
    let start = end.checked_sub(8).filter(|&start| start >= part)?;
    let is_whole = start == part || name[start - 1] == b'_';
    let is_of_its_kind = |byte: &u8| is_part(byte) && !byte.is_ascii_uppercase();
    let is_drawn = is_whole
        && name[start..end].iter().all(is_of_its_kind)
        && !is_of_words(&name[start..end])
        && !is_of_words(&name[part..end]);
    is_drawn.then_some((start, end))
}

fn is_part(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// Words that people build names of, three letters and more: those that stand in most of the documents of a Debian system
/// and of public crates, and some that directories are called by.
pub(super) static WORDS: LazyLock<HashSet<&'static [u8]>> =
    LazyLock::new(|| include_str!("words.txt").split_ascii_whitespace().map(str::as_bytes).collect());
/// No word of the list is longer.
const LONGEST_WORD: usize = 16;

/// Whether a name is built of words, perhaps with capitals, underscores between them and a number of up to three digits
/// behind: `secrets`, `lockfile`, `SharedMemory`, `my_segment`, `worker01`.
pub(super) fn is_of_words(name: &[u8]) -> bool {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let letters = &name[..name.len() - digits];
    // The number may stand behind an underscore of its own.
    let letters = if digits > 0 { letters.strip_suffix(b"_").unwrap_or(letters) } else { letters };
    let mut has_word = false;
    let is_built = letters.split(|&byte| byte == b'_').all(|part| {
        let is_word = is_joined_of_words(part);
        has_word |= is_word;
        is_word || (matches!(part.len(), 1 | 2) && part.iter().all(u8::is_ascii_lowercase))
    });
    digits <= 3 && is_built && has_word
}

/// How many of the rows of letters in a token are words, of three letters and more: `host1rack2row3` has some.
pub(super) fn words_in(token: &[u8]) -> usize {
    let rows = token.split(|byte| !byte.is_ascii_alphabetic());
    rows.filter(|letters| letters.len() >= 3 && is_joined_of_words(letters)).count()
}

/// Whether all of `letters` is one word of the list after the other, each in small letters or with a capital in front.
pub(super) fn is_joined_of_words(letters: &[u8]) -> bool {
    let small = letters.to_ascii_lowercase();
    let is_word = |start: usize, end: usize| {
        WORDS.contains(&small[start..end]) && letters[start + 1..end].iter().all(u8::is_ascii_lowercase)
    };
    // Where a row of words can end.
    let mut ends = vec![0];
    for end in 3..=letters.len() {
        if ends.iter().any(|&start| end - start >= 3 && end - start <= LONGEST_WORD && is_word(start, end)) {
            ends.push(end);
        }
    }
    !letters.is_empty() && ends.last() == Some(&letters.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_drawn_by_the_program_that_calls_its_files_so() {
        let check = |program: &str, name: &str| is_drawn_by(program.as_bytes(), name.as_bytes());
        for (program, name) in [
            ("/usr/bin/strip", "stAb12Cd"),
            ("/usr/bin/x86_64-linux-gnu-strip", "stations"),
            ("ar", "stabcdef"),
            ("/opt/bin/aarch64-none-elf-objcopy", "st123456"),
            ("/usr/bin/zip", "zigzag01"),
        ] {
            assert!(check(program, name), "{program} {name}");
        }
        for (program, name) in [
            ("/usr/bin/zip", "stations"),
            ("/usr/bin/strip", "zigzag01"),
            ("/usr/bin/strip", "st.bcdef"),
            ("/usr/bin/strip", "st1234567"),
            ("/usr/bin/tar", "stabcdef"),
            ("/usr/bin/gzip", "ziabcdef"),
            ("/usr/bin/python3", "stations"),
            ("/usr/bin/strip/x", "stabcdef"),
            ("", "stabcdef"),
        ] {
            assert!(!check(program, name), "{program} {name}");
        }
    }

    #[test]
    fn words_are_told_from_what_chance_draws() {
        for name in [
            "secrets",
            "config",
            "payload",
            "runtime",
            "settings",
            "sessions",
            "database",
            "workspace",
            "shared_memory",
            "my_segment",
            "worker01",
            "stage_2",
            "download",
            "SharedMemory",
            "lockfile",
            "a_test",
            "Secret",
            "openpgp",
        ] {
            assert!(is_of_words(name.as_bytes()), "{name}");
        }
        for name in [
            "abcdef",
            "XPMwhi",
            "SECRET",
            "sEcret",
            "ab_cdefg",
            "otuda68_",
            "xqzkwv",
            "a_b_c_d",
            "secret1234",
            "12",
            "",
            "_",
            "1234567",
            "_secret",
            "secret_",
            "sec__ret",
            "ncfipa46",
            "secretx",
        ] {
            assert!(!is_of_words(name.as_bytes()), "{name}");
        }
        assert!(WORDS.iter().all(|word| (3..=LONGEST_WORD).contains(&word.len())));
    }

    /// What the page says of the price: a name that chance made of words is another one in every run.
    #[test]
    fn chance_hardly_draws_words() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut draw = |alphabet: &[u8]| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            alphabet[(state >> 33) as usize % alphabet.len()]
        };
        let glibc = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        let python = b"abcdefghijklmnopqrstuvwxyz0123456789_";
        let mut of_words = |alphabet: &[u8], len: usize| {
            let drawn = || (0..len).map(|_| draw(alphabet)).collect::<Vec<u8>>();
            std::iter::repeat_with(drawn).take(100_000).filter(|name| is_of_words(name)).count()
        };
        let (six, eight) = (of_words(glibc, 6), of_words(python, 8));
        assert!(six <= 8 && eight <= 8, "{six} of six and {eight} of eight in a hundred thousand");
    }
}
