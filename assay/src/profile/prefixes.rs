//! Byte strings, asked for those that a text begins with. Pure.
//!
//! A tree of what they have in common: however many there are and however alike, an answer takes no longer than the
//! part of the text that is one of them.

/// The strings.
#[derive(Debug, Default)]
pub struct Prefixes {
    /// The children of the root, and of nodes in `nodes`.
    root: Vec<usize>,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    /// What is added to the node above: one byte at least.
    label: Box<[u8]>,
    /// One of the strings ends here.
    is_end: bool,
    /// By the first byte of their labels.
    children: Vec<usize>,
}

impl Prefixes {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// Adds a string, unless it is empty.
    pub fn add(&mut self, string: &[u8]) {
        let Some(&first) = string.first() else { return };
        let (mut above, mut first, mut rest) = (None, first, string);
        loop {
            let place = self.search(self.children(above), first);
            let at = match place {
                Err(place) => {
                    let new = self.push(rest, true, Vec::new());
                    self.children_mut(above).insert(place, new);
                    return;
                }
                Ok(place) => self.children(above)[place],
            };
            let shared = shared(&self.nodes[at].label, rest);
            if shared < self.nodes[at].label.len() {
                self.split(at, shared);
            }
            rest = &rest[shared..];
            let Some(&next) = rest.first() else {
                self.nodes[at].is_end = true;
                return;
            };
            (above, first) = (Some(at), next);
        }
    }

    /// The length of the longest string that `text` begins with.
    pub fn longest_of(&self, text: &[u8]) -> Option<usize> {
        self.lengths_of(text).last()
    }

    /// The lengths of the strings that `text` begins with, the shortest first.
    pub fn lengths_of<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let (mut above, mut at) = (None, 0);
        let nodes = std::iter::from_fn(move || {
            let children = self.children(above);
            let place = self.search(children, *text.get(at)?).ok()?;
            let node = &self.nodes[children[place]];
            if !text[at..].starts_with(&node.label) {
                return None;
            }
            at += node.label.len();
            above = Some(children[place]);
            Some((at, node.is_end))
        });
        nodes.filter(|(_, is_end)| *is_end).map(|(at, _)| at)
    }

    /// Ends the node `at` after `len` bytes of its label; what was left of it becomes its only child.
    fn split(&mut self, at: usize, len: usize) {
        let label = std::mem::take(&mut self.nodes[at].label);
        let children = std::mem::take(&mut self.nodes[at].children);
        let lower = self.push(&label[len..], self.nodes[at].is_end, children);
        self.nodes[at] = Node { label: label[..len].into(), is_end: false, children: vec![lower] };
    }

    fn push(&mut self, label: &[u8], is_end: bool, children: Vec<usize>) -> usize {
        self.nodes.push(Node { label: label.into(), is_end, children });
        self.nodes.len() - 1
    }

    fn children(&self, above: Option<usize>) -> &[usize] {
        above.map_or(&self.root, |above| &self.nodes[above].children)
    }

    fn children_mut(&mut self, above: Option<usize>) -> &mut Vec<usize> {
        match above {
            Some(above) => &mut self.nodes[above].children,
            None => &mut self.root,
        }
    }

    fn search(&self, children: &[usize], first: u8) -> Result<usize, usize> {
        children.binary_search_by_key(&first, |child| self.nodes[*child].label[0])
    }
}

fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn check(strings: &[Vec<u8>], text: &[u8]) {
        let mut prefixes = Prefixes::default();
        for string in strings {
            prefixes.add(string);
        }
        let begins = strings.iter().filter(|string| !string.is_empty() && text.starts_with(string));
        let lengths: Vec<usize> = begins.map(Vec::len).collect::<BTreeSet<_>>().into_iter().collect();
        assert_eq!(prefixes.longest_of(text), lengths.last().copied(), "{strings:?} in {text:?}");
        assert_eq!(prefixes.lengths_of(text).collect::<Vec<_>>(), lengths, "{strings:?} in {text:?}");
        assert_eq!(prefixes.is_empty(), strings.iter().all(Vec::is_empty));
    }

    #[test]
    fn strings_within_strings_are_found() {
        let strings = ["abc", "abcdef", "ab", "abd", "x", ""].map(|string| string.as_bytes().to_vec());
        for text in ["abcdefg", "abcde", "abx", "abd", "a", "", "xx", "y"] {
            check(&strings, text.as_bytes());
        }
        check(&[], b"a");
    }

    proptest! {
        #[test]
        fn all_of_them_are_found(
            strings in prop::collection::vec(prop::collection::vec(0_u8..3, 0..9), 0..30),
            text in prop::collection::vec(0_u8..3, 0..12),
        ) {
            check(&strings, &text);
        }
    }
}
