//! Sorting by text, quickly where there are many and they begin alike. Pure.

use std::cmp::Ordering;

/// Sorts by text, and where texts are equal by `ties`.
///
/// Paths have long beginnings in common, and comparing two of them is mostly comparing those, far apart in memory.
/// So eight bytes of each are laid side by side and sorted as a number, and then what is equal so far by its next
/// eight.
pub fn sort_by_text<T>(items: &mut [T], text: impl Fn(&T) -> &str, ties: impl Fn(&T, &T) -> Ordering) {
    let mut keys: Vec<(u64, usize)> = (0..items.len()).map(|at| (0, at)).collect();
    let compare = |depth: usize, a: usize, b: usize| {
        let rest = |at: usize| text(&items[at]).as_bytes().get(depth..).unwrap_or_default();
        rest(a).cmp(rest(b)).then_with(|| ties(&items[a], &items[b]))
    };
    sort(&mut keys, 0, &|at| text(&items[at]).as_bytes(), &compare);
    for start in 0..keys.len() {
        // Round each ring of places that change with one another; a place that is done names itself.
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut keys[at].1, at);
            if from == start {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

/// The number of bytes in a key.
const STEP: usize = 8;
/// So few are compared as they are.
const FEW: usize = 12;

fn sort<'a>(
    keys: &mut [(u64, usize)],
    mut depth: usize,
    text: &impl Fn(usize) -> &'a [u8],
    compare: &impl Fn(usize, usize, usize) -> Ordering,
) {
    loop {
        if keys.len() <= FEW {
            keys.sort_unstable_by(|(_, a), (_, b)| compare(depth, *a, *b));
            return;
        }
        for (key, at) in keys.iter_mut() {
            *key = key_at(text(*at), depth);
        }
        let first = keys[0].0;
        if keys.iter().any(|(key, _)| *key != first) {
            break;
        }
        if keys.iter().any(|(_, at)| text(*at).len() <= depth + STEP) {
            keys.sort_unstable_by(|(_, a), (_, b)| compare(depth, *a, *b));
            return;
        }
        depth += STEP;
    }
    keys.sort_unstable_by_key(|(key, _)| *key);
    for group in keys.chunk_by_mut(|(a, _), (b, _)| a == b) {
        if group.iter().any(|(_, at)| text(*at).len() <= depth + STEP) {
            group.sort_unstable_by(|(_, a), (_, b)| compare(depth, *a, *b));
        } else {
            sort(group, depth + STEP, text, compare);
        }
    }
}

/// The bytes at `depth` as a number that sorts as they do; zeros stand for those behind the end.
fn key_at(text: &[u8], depth: usize) -> u64 {
    let rest = text.get(depth..).unwrap_or_default();
    let mut bytes = [0; STEP];
    let len = rest.len().min(STEP);
    bytes[..len].copy_from_slice(&rest[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(texts: Vec<String>) {
        let mut numbered: Vec<(String, usize)> = texts.into_iter().zip((0..).map(|n| n * 7 % 5)).collect();
        let mut expect = numbered.clone();
        expect.sort();
        sort_by_text(&mut numbered, |(text, _)| text, |(_, a), (_, b)| a.cmp(b));
        assert_eq!(numbered, expect);
    }

    #[test]
    fn long_common_beginnings_and_zeros_sort_as_texts_do() {
        let deep = "/d".repeat(300);
        let mut texts: Vec<String> = (0..400).map(|n| format!("{deep}/{}", n * 37 % 400)).collect();
        texts.extend((0..40).map(|n| "\0".repeat(n % 20)));
        texts.extend((0..40).map(|_| deep.clone()));
        texts.extend(["a", "a.b", "a/b", "a/", "a-", "\u{e9}", "\u{ffff}", "\u{1f980}"].map(str::to_owned));
        check(texts);
        check(Vec::new());
    }

    proptest! {
        #[test]
        fn it_is_the_order_of_texts(texts in prop::collection::vec("[ab/\0\u{e9}]{0,20}", 0..200)) {
            check(texts);
        }
    }
}
