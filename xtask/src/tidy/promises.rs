//! `docs/promises.md` names a test for each promise; the test must be there.
//!
//! In: that page and the sources. Out: complaints. A promise may say `no test yet`; it may not say nothing.

use std::fs;
use std::path::Path;

use anyhow::Result;

const PAGE: &str = "docs/promises.md";

/// Promises without a test, and tests that are not there.
pub fn complaints(root: &Path) -> Result<Vec<String>> {
    let path = root.join(PAGE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    Ok(of_page(&fs::read_to_string(path)?, &read))
}

/// A promise is a numbered item; its tests are written `` `file.rs::name_of_the_test` ``.
fn of_page(page: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut open: Option<(usize, bool)> = None;
    let close = |open: Option<(usize, bool)>, complaints: &mut Vec<String>| {
        if let Some((line, false)) = open {
            complaints.push(format!("{PAGE}:{line}: names no test; say `no test yet` where there is none"));
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
                None => complaints.push(format!("{PAGE}:{number}: there is no {file}")),
                // A test is a function, or the name of a case in a table of them.
                Some(source)
                    if !source.contains(&format!("fn {test}("))
                        && !source.contains(&format!(" {test}, [")) =>
                {
                    complaints.push(format!("{PAGE}:{number}: there is no test {test} in {file}"));
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

fn is_promise(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && line[digits..].starts_with(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, expect: &[&str]) {
        let read = |file: &str| (file == "a.rs").then(|| "fn it_holds() {}".to_owned());
        assert_eq!(of_page(page, &read), expect);
    }

    #[test]
    fn a_promise_names_a_test_that_is_there() {
        check("1. It holds.\n   `a.rs::it_holds`\n2. And this: no test yet.\n", &[]);
        check(
            "1. It holds.\n2. `a.rs::it_holds`\n",
            &["docs/promises.md:1: names no test; say `no test yet` where there is none"],
        );
        check("1. `a.rs::other`\n", &["docs/promises.md:1: there is no test other in a.rs"]);
        check("1. `b.rs::it_holds`\n", &["docs/promises.md:1: there is no b.rs"]);
    }
}
