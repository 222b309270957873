//! Whether a name stands in the arguments of a command, as a word of them. Pure.
//!
//! Of many arguments and many names each is gone through once: where the letters and digits of the arguments begin is
//! kept in a table, and a name is held only against where the rarest of its own runs of them stands.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use super::effort::looked_at;
use super::volatile::is_word_of;

/// A table of the arguments of one command, which are handed in with each question.
#[derive(Debug)]
pub struct Words {
    /// Where each run of letters and digits stands: argument and offset, by what it hashes to.
    runs: HashMap<u64, Vec<(u32, u32)>>,
    hasher: RandomState,
}

/// Arguments shorter than this, all together, are gone through each time.
const SHORT: usize = 1 << 10;

impl Words {
    /// The table of these arguments; none where they are short, or longer than a system takes.
    pub fn of(arguments: &[Vec<u8>]) -> Option<Self> {
        let len = length(arguments);
        if len < SHORT || u32::try_from(len).is_err() || u32::try_from(arguments.len()).is_err() {
            return None;
        }
        looked_at(len);
        let mut words = Self { runs: HashMap::new(), hasher: RandomState::new() };
        for (number, argument) in arguments.iter().enumerate() {
            for (at, run) in runs_of(argument) {
                let places = words.runs.entry(words.hasher.hash_one(run)).or_default();
                places.push((number as u32, at as u32));
            }
        }
        Some(words)
    }

    /// Whether `name` is a word of the arguments of which this is the table.
    pub fn have(&self, arguments: &[Vec<u8>], name: &[u8]) -> bool {
        let mut rarest: Option<(usize, &[(u32, u32)])> = None;
        for (at, run) in runs_of(name) {
            looked_at(run.len());
            // Where the name stands as a word, no letter or digit runs into any of its own runs.
            let Some(places) = self.runs.get(&self.hasher.hash_one(run)) else { return false };
            if rarest.is_none_or(|(_, known)| places.len() < known.len()) {
                rarest = Some((at, places));
            }
        }
        let Some((at, places)) = rarest else {
            return arguments.iter().any(|argument| is_word_of(argument, name));
        };
        places.iter().any(|&(number, offset)| {
            looked_at(1);
            let argument = &arguments[number as usize];
            let Some(start) = (offset as usize).checked_sub(at) else { return false };
            // With the bytes on both sides, which decide whether it is a word.
            let end = argument.len().min(start + name.len() + 1);
            argument[start..].starts_with(name) && is_word_of(&argument[start.saturating_sub(1)..end], name)
        })
    }
}

/// So many bytes.
pub fn length(arguments: &[Vec<u8>]) -> usize {
    arguments.iter().map(Vec::len).sum()
}

/// Each run of letters and digits, and where it begins.
fn runs_of(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].iter().position(u8::is_ascii_alphanumeric)?;
        let start = at;
        at += text[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        Some((start, &text[start..at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn the_table_says_what_the_search_says(
            arguments in proptest::collection::vec("[ab1._-]{0,12}", 1..6),
            name in "[ab1._-]{0,4}",
        ) {
            let mut arguments: Vec<Vec<u8>> = arguments.into_iter().map(String::into_bytes).collect();
            let wanted = arguments.iter().any(|argument| is_word_of(argument, name.as_bytes()));
            arguments.push(vec![b'#'; SHORT]);
            let words = Words::of(&arguments).expect("long enough");
            proptest::prop_assert_eq!(words.have(&arguments, name.as_bytes()), wanted);
        }
    }

    #[test]
    fn where_a_name_begins_before_its_argument_it_does_not_stand() {
        let arguments = [b"aB3xY9".to_vec(), vec![b'#'; SHORT], b"..tmp.aB3xY9/".to_vec()];
        let words = Words::of(&arguments).expect("long enough");
        assert!(words.have(&arguments, b"tmp.aB3xY9"));
        assert!(!words.have(
            &arguments[..2].iter().chain([&b"..tmX.aB3xY9/".to_vec()]).cloned().collect::<Vec<_>>(),
            b"tmp.aB3xY9"
        ));
    }
}
