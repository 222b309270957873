//! A pattern over absolute paths: literal names, `*` within a name, `**` for any number of names. Pure.
//!
//! As in gitignore: `*` never crosses a `/`; a leading `**/` or an inner `/**/` stands for any number of
//! directories, none included; a trailing `/**` for everything inside, not the directory itself. A pattern that
//! matches a directory covers everything beneath it.

/// A pattern: the names of an absolute path, in order. No names is the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    parts: Vec<Part>,
}

/// One name of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Exactly this name.
    Literal(Vec<u8>),
    /// A name with this shape: literal pieces with `*` between each two of them.
    Glob(Vec<Vec<u8>>),
    /// Any number of names.
    AnyDepth,
}

impl Pattern {
    /// A pattern of these parts.
    pub fn from_parts(parts: Vec<Part>) -> Self {
        Self { parts }
    }

    /// Exactly this absolute path, `*` included.
    pub fn literal(path: &[u8]) -> Self {
        Self { parts: components(path).map(|name| Part::Literal(name.to_vec())).collect() }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The path it stands for when it has no `*`.
    pub fn as_literal(&self) -> Option<Vec<u8>> {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_))).then(|| self.literal_prefix())
    }

    /// The names before the first `*`, as an absolute path.
    pub fn literal_prefix(&self) -> Vec<u8> {
        let mut path = Vec::new();
        for part in &self.parts {
            let Part::Literal(name) = part else { break };
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() { b"/".to_vec() } else { path }
    }

    /// The same pattern with its literal prefix replaced.
    #[must_use]
    pub fn with_prefix(&self, prefix: &[u8]) -> Self {
        let rest = self.parts.iter().skip_while(|part| matches!(part, Part::Literal(_))).cloned();
        Self { parts: Self::literal(prefix).parts.into_iter().chain(rest).collect() }
    }

    /// Whether it matches `path` or a directory above it. Asked for every effect by every rule, so names are compared
    /// as they stand up to the first `*`, and most paths have gone another way by then.
    pub fn covers(&self, path: &[u8]) -> bool {
        let mut names = components(path);
        let mut literal = 0;
        while let Some(Part::Literal(want)) = self.parts.get(literal) {
            if names.next() != Some(want.as_slice()) {
                return false;
            }
            literal += 1;
        }
        let mut states = Vec::new();
        self.enter(literal, &mut states);
        while !self.is_accepted(&states) {
            let Some(name) = names.next().filter(|_| !states.is_empty()) else { return false };
            states = self.step(&states, name);
        }
        true
    }

    /// Whether it can cover anything in `directory`, itself included.
    pub fn concerns(&self, directory: &[u8]) -> bool {
        let mut names = components(directory);
        let mut literal = 0;
        while let Some(Part::Literal(want)) = self.parts.get(literal) {
            match names.next() {
                Some(name) if name == want => literal += 1,
                Some(_) => return false,
                None => return true,
            }
        }
        let mut states = Vec::new();
        self.enter(literal, &mut states);
        while !self.is_accepted(&states) {
            let Some(name) = names.next() else { return true };
            states = self.step(&states, name);
            if states.is_empty() {
                return false;
            }
        }
        true
    }

    /// Whether it matches exactly `path`.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.is_accepted(&self.after(path))
    }

    /// Whether it can match something strictly beneath `directory` (without covering `directory` itself).
    pub fn reaches_beneath(&self, directory: &[u8]) -> bool {
        !self.after(directory).is_empty() && !self.covers(directory)
    }

    /// Whether all that is missing below `directory` are fixed names: then moving `directory` moves a match.
    pub fn is_fixed_beneath(&self, directory: &[u8]) -> bool {
        !self.covers(directory)
            && self.after(directory).iter().any(|&state| {
                state < self.parts.len()
                    // A state that `**` leads to without a name says only that a match may begin here.
                    && (state == 0 || self.parts[state - 1] != Part::AnyDepth)
                    && self.parts[state..].iter().all(|p| matches!(p, Part::Literal(_)))
            })
    }

    /// States after the whole of `path`.
    fn after(&self, path: &[u8]) -> Vec<usize> {
        components(path).fold(self.start(), |states, name| self.step(&states, name))
    }

    fn start(&self) -> Vec<usize> {
        let mut states = Vec::new();
        self.enter(0, &mut states);
        states
    }

    /// Adds state `at`, and those reached from it without a name.
    fn enter(&self, at: usize, states: &mut Vec<usize>) {
        if states.contains(&at) {
            return;
        }
        states.push(at);
        // A trailing `**` needs at least one name.
        if self.parts.get(at) == Some(&Part::AnyDepth) && at + 1 < self.parts.len() {
            self.enter(at + 1, states);
        }
    }

    fn step(&self, states: &[usize], name: &[u8]) -> Vec<usize> {
        let mut next = Vec::new();
        for &state in states {
            match self.parts.get(state) {
                Some(Part::Literal(want)) if want == name => self.enter(state + 1, &mut next),
                Some(Part::Glob(pieces)) if glob_matches(pieces, name) => self.enter(state + 1, &mut next),
                None | Some(Part::Literal(_) | Part::Glob(_)) => {}
                Some(Part::AnyDepth) => {
                    self.enter(state, &mut next);
                    if state + 1 == self.parts.len() {
                        self.enter(state + 1, &mut next);
                    }
                }
            }
        }
        next
    }

    fn is_accepted(&self, states: &[usize]) -> bool {
        states.contains(&self.parts.len())
    }
}

/// The names of a path; empty ones and `.` do not count.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

/// Whether `name` is made of the pieces in order, with anything between them.
fn glob_matches(pieces: &[Vec<u8>], name: &[u8]) -> bool {
    let [first, middle @ .., last] = pieces else { return pieces.first().is_some_and(|only| only == name) };
    let Some(mut rest) = name.strip_prefix(first.as_slice()) else { return false };
    for piece in middle {
        let Some(at) = find(rest, piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pattern from text without escapes.
    fn pattern(text: &str) -> Pattern {
        let parts = components(text.as_bytes())
            .map(|name| match name {
                b"**" => Part::AnyDepth,
                name if name.contains(&b'*') => {
                    Part::Glob(name.split(|&b| b == b'*').map(<[u8]>::to_vec).collect())
                }
                name => Part::Literal(name.to_vec()),
            })
            .collect();
        Pattern::from_parts(parts)
    }

    fn check(text: &str, covered: &[&str], free: &[&str]) {
        for path in covered {
            assert!(pattern(text).covers(path.as_bytes()), "{text} should cover {path}");
        }
        for path in free {
            assert!(!pattern(text).covers(path.as_bytes()), "{text} should not cover {path}");
        }
    }

    #[test]
    fn patterns_match_as_in_gitignore() {
        check("/a/b", &["/a/b", "/a/b/c/d", "/a//b/"], &["/a", "/a/bb", "/b"]);
        check("/", &["/", "/x"], &[]);
        check("/a/*", &["/a/b", "/a/b/c"], &["/a", "/b/c"]);
        check("/a/*.pem", &["/a/x.pem", "/a/.pem"], &["/a/x.pem2", "/a/b/x.pem"]);
        check("/a/x*y*z", &["/a/xyz", "/a/x1y2z", "/a/xyyz"], &["/a/xz", "/a/xy", "/a/xzy"]);
        check("/a/**/c", &["/a/c", "/a/b/c", "/a/b/b/c/d"], &["/a", "/a/b", "/c"]);
        check("/**/c", &["/c", "/a/c"], &["/a/cc"]);
        check("/a/**", &["/a/b", "/a/b/c"], &["/a"]);
        check("/a/*a", &["/a/a", "/a/ba"], &["/a/ab"]);
        check("/a/ab*ba", &["/a/abba", "/a/abxba"], &["/a/aba"]);
    }

    #[test]
    fn what_lies_beneath_a_directory_is_known() {
        assert!(pattern("/a/b/c").reaches_beneath(b"/a"));
        assert!(!pattern("/a/b/c").reaches_beneath(b"/a/b/c"));
        assert!(!pattern("/a/b/c").reaches_beneath(b"/b"));
        assert!(pattern("/**/.env").reaches_beneath(b"/w"));
        assert!(pattern("/a/b/c").is_fixed_beneath(b"/a"));
        assert!(!pattern("/**/.git/hooks").is_fixed_beneath(b"/w"));
        assert!(pattern("/**/.git/hooks").is_fixed_beneath(b"/w/.git"));
        assert!(!pattern("/**/.git/hooks").is_fixed_beneath(b"/w/.git/hooks"));
    }

    proptest::proptest! {
        /// What is covered is a path that matches, or that has one above it that does.
        #[test]
        fn what_is_covered_matches_or_lies_beneath_a_match(
            parts in proptest::collection::vec("(a|b|a\\*|\\*|\\*\\*)", 0..5),
            names in proptest::collection::vec("(a|b|ab)", 0..6),
        ) {
            let pattern = pattern(&format!("/{}", parts.join("/")));
            let above = |len: usize| format!("/{}", names[..len].join("/"));
            let matches = (0..=names.len()).any(|len| pattern.matches(above(len).as_bytes()));
            proptest::prop_assert_eq!(pattern.covers(above(names.len()).as_bytes()), matches);
        }

        /// What is said to concern nothing in a directory covers no path in it.
        #[test]
        fn what_covers_a_path_concerns_every_directory_above_it(
            parts in proptest::collection::vec("(a|b|a\\*|\\*|\\*\\*)", 0..5),
            names in proptest::collection::vec("(a|b|ab)", 0..6),
        ) {
            let pattern = pattern(&format!("/{}", parts.join("/")));
            let above = |len: usize| format!("/{}", names[..len].join("/"));
            for len in 0..=names.len() {
                if pattern.covers(above(names.len()).as_bytes()) {
                    proptest::prop_assert!(pattern.concerns(above(len).as_bytes()));
                }
                let reaches = pattern.reaches_beneath(above(len).as_bytes());
                let covers = pattern.covers(above(len).as_bytes());
                proptest::prop_assert_eq!(pattern.concerns(above(len).as_bytes()), reaches || covers);
            }
        }

        #[test]
        fn a_literal_covers_itself_and_what_is_beneath(names in proptest::collection::vec("[a-c*]{1,3}", 1..5), tail in "[a-z]{1,3}") {
            let path = format!("/{}", names.join("/"));
            let pattern = Pattern::literal(path.as_bytes());
            proptest::prop_assert!(pattern.matches(path.as_bytes()));
            let beneath = format!("{path}/{tail}");
            proptest::prop_assert!(pattern.covers(beneath.as_bytes()));
            let beside = format!("{path}{tail}");
            proptest::prop_assert!(!pattern.covers(beside.as_bytes()));
            proptest::prop_assert_eq!(pattern.as_literal(), Some(path.into_bytes()));
        }
    }
}
