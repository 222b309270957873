//! Takes a Rust file apart, as far as the rules need: lines of code without comments, tests, and what is imported.
//!
//! Pure. It is no parser: a string that goes over several lines is taken for code, so no rule may be one that such a
//! string breaks.

/// A Rust file.
#[derive(Debug)]
pub struct Source<'a> {
    /// Its path from the root of the checkout.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
    /// The line of its `#[cfg(test)]`, if it has one.
    tests_begin: Option<usize>,
}

impl<'a> Source<'a> {
    /// A file.
    pub fn new(name: &'a str, text: &'a str) -> Self {
        let tests_begin = text
            .lines()
            .zip(text.lines().skip(1))
            .position(|(line, next)| line == "#[cfg(test)]" && next.starts_with("mod tests"))
            .map(|index| index + 1);
        Self { name, text, tests_begin }
    }

    /// The name without folders and ending.
    pub fn stem(&self) -> &'a str {
        let file = self.name.rsplit('/').next().unwrap_or_default();
        file.split('.').next().unwrap_or_default()
    }

    /// Whether all of it is tests.
    pub fn is_test_file(&self) -> bool {
        self.name.starts_with("tests/")
            || matches!(self.stem(), "tests" | "properties" | "samples")
            || self.name.contains("/tests/")
    }

    /// Whether a line belongs to a test.
    pub fn is_test(&self, line: usize) -> bool {
        self.is_test_file() || self.tests_begin.is_some_and(|begin| line >= begin)
    }

    /// How long it is without its tests.
    pub fn lines_without_tests(&self) -> usize {
        self.tests_begin.map_or_else(|| self.text.lines().count(), |begin| begin - 1)
    }

    /// Its lines of code with their numbers, without comments and what stands in quotes.
    pub fn code(&self) -> impl Iterator<Item = (usize, String)> + use<'a> {
        self.text.lines().enumerate().filter_map(|(index, line)| {
            let code = without_strings(line);
            let code = code.split(" //").next().unwrap_or_default();
            (!code.trim_start().starts_with("//")).then(|| (index + 1, code.to_owned()))
        })
    }

    /// The module path inside the userspace crate: `observe::kernel::ring`; the root is the empty path.
    pub fn module(&self) -> Option<String> {
        let file = self.name.strip_prefix("assay/src/")?.strip_suffix(".rs")?;
        let path = file.strip_suffix("/mod").unwrap_or(file);
        Some(if matches!(path, "lib" | "main") { String::new() } else { path.replace('/', "::") })
    }

    /// Every path into its own crate that it names, from the crate's root on, with the line it begins in.
    pub fn crate_paths(&self) -> Vec<(usize, String)> {
        let module = self.module().unwrap_or_default();
        let code: Vec<(usize, String)> = self.code().collect();
        let mut paths = Vec::new();
        for (index, (line, text)) in code.iter().enumerate() {
            for (at, _) in text.match_indices("crate::").filter(|(at, _)| begins_word(text, *at)) {
                // A `use` with braces may go on for several lines.
                let rest: String = std::iter::once(&text[at + "crate::".len()..])
                    .chain(code[index + 1..].iter().map(|(_, text)| text.as_str()))
                    .collect();
                tree(&rest, "", &mut |path| paths.push((*line, path)));
            }
            for (at, _) in text.match_indices("super::").filter(|(at, _)| begins_word(text, *at)) {
                if at >= 2 && text[..at].ends_with("::") {
                    continue;
                }
                let mut base: Vec<&str> = module.split("::").filter(|name| !name.is_empty()).collect();
                let mut rest = &text[at..];
                while let Some(next) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = next;
                }
                let mut prefix = base.join("::");
                if !prefix.is_empty() {
                    prefix.push_str("::");
                }
                let rest: String = std::iter::once(rest)
                    .chain(code[index + 1..].iter().map(|(_, text)| text.as_str()))
                    .collect();
                tree(&rest, &prefix, &mut |path| paths.push((*line, path)));
            }
        }
        paths
    }
}

/// Walks `a::{b, c::{d}}` and calls `found` with each whole path; returns what follows it.
fn tree<'t>(text: &'t str, prefix: &str, found: &mut impl FnMut(String)) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start().trim_start_matches(',').trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            let before = rest.len();
            rest = tree(rest, prefix, found);
            if rest.len() == before {
                return rest;
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    let rest = &text[end..];
    match rest.strip_prefix("::") {
        Some(deeper) if deeper.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '{') => {
            tree(deeper, &format!("{path}::"), found)
        }
        _ => {
            // `crate::module::self` and `as` say nothing more.
            found(path.trim_end_matches("::self").to_owned());
            match rest.trim_start().strip_prefix("as ") {
                Some(alias) => alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
                None => rest.strip_prefix("::*").unwrap_or(rest),
            }
        }
    }
}

/// `f("x")` becomes `f("")`.
fn without_strings(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    let mut is_inside = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if is_inside => drop(chars.next()),
            // The character literal of a quote opens nothing.
            '"' if out.ends_with('\'') && chars.peek() == Some(&'\'') => {}
            '"' => {
                is_inside = !is_inside;
                out.push(c);
            }
            _ if is_inside => {}
            _ => out.push(c),
        }
    }
    out
}

fn begins_word(text: &str, at: usize) -> bool {
    !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$')
}

/// Whether `word` stands in the line as a word of its own.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let ends = |c: char| !(c.is_alphanumeric() || c == '_');
        let is_open = word.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        begins_word(line, at) && (!is_open || line[at + word.len()..].chars().next().is_none_or(ends))
    })
}
