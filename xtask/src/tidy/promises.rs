//! `docs/promises.md` and `docs/threat-model.md` name a test for each promise; the test must be there.
//!
//! In: those pages and the sources. Out: complaints. A promise may say `no test yet`; it may not say nothing.

use std::fs;
use std::path::Path;

use anyhow::Result;

const PAGES: [&str; 2] = ["docs/promises.md", "docs/threat-model.md"];

/// Promises without a test, and tests that are not there.
pub fn complaints(root: &Path) -> Result<Vec<String>> {
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    let mut complaints = Vec::new();
    for page in PAGES {
        let path = root.join(page);
        if path.exists() {
            complaints.extend(of_page(page, &fs::read_to_string(path)?, &read));
        }
    }
    Ok(complaints)
}

/// A promise is a numbered item; its tests are written `` `file.rs::name_of_the_test` ``.
fn of_page(name: &str, page: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut open: Option<(usize, bool)> = None;
    let close = |open: Option<(usize, bool)>, complaints: &mut Vec<String>| {
        if let Some((line, false)) = open {
            complaints.push(format!("{name}:{line}: names no test; say `no test yet` where there is none"));
        }
    };
    for (index, line) in page.lines().enumerate() {
        let number = index + 1;
        if is_promise(line) {
            close(open.replace((number, false)), &mut complaints);
        } else if line.starts_with('#') {
            close(open.take(), &mut complaints);
        }
        for reference in line.split('`').skip(1).step_by(2) {
            let Some((file, test)) = reference.split_once(".rs::") else { continue };
            let file = format!("{file}.rs");
            match read(&file) {
                None => complaints.push(format!("{name}:{number}: there is no {file}")),
                Some(source) if !has_test(&source, test) => {
                    complaints.push(format!("{name}:{number}: there is no test {test} in {file}"));
                }
                Some(_) => {}
            }
            open = open.map(|(line, _)| (line, true));
        }
        if line.to_ascii_lowercase().contains("no test yet") {
            open = open.map(|(line, _)| (line, true));
        }
    }
    close(open, &mut complaints);
    complaints
}

/// Whether a file has a test of this name: a function that is marked as one, or a case in a table of them.
fn has_test(source: &str, test: &str) -> bool {
    let (function, rows) = (format!("fn {test}("), [format!(" {test}, ["), format!("    {test}: [")]);
    let lines: Vec<&str> = source.lines().collect();
    let is_marked = |at: usize| {
        let above = lines[..at].iter().rev().map(|line| line.trim());
        above.take_while(|line| line.starts_with('#')).any(|line| line == "#[test]")
    };
    (0..lines.len()).any(|at| lines[at].contains(&function) && is_marked(at))
        || rows.iter().any(|row| source.contains(row.as_str()))
}

fn is_promise(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && line[digits..].starts_with(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, expect: &[&str]) {
        let read = |file: &str| {
            (file == "a.rs").then(|| {
                "#[test]\nfn it_holds() {}\n\nfn helps() {}\n\nworkloads! {\n    row: [],\n}\n".to_owned()
            })
        };
        assert_eq!(of_page(PAGES[0], page, &read), expect);
    }

    #[test]
    fn a_promise_names_a_test_that_is_there() {
        check("1. It holds.\n   `a.rs::it_holds`\n2. And this: no test yet.\n", &[]);
        check(
            "1. It holds.\n2. `a.rs::it_holds`\n",
            &["docs/promises.md:1: names no test; say `no test yet` where there is none"],
        );
        check("1. `a.rs::other`\n", &["docs/promises.md:1: there is no test other in a.rs"]);
        check("1. `a.rs::helps`\n", &["docs/promises.md:1: there is no test helps in a.rs"]);
        check("1. `a.rs::row`\n", &[]);
        check("1. `b.rs::it_holds`\n", &["docs/promises.md:1: there is no b.rs"]);
    }
}
