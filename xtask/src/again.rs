//! What becomes of a test that fails: it runs again alone, and must pass every time.
//!
//! The kernel tests run real programs on a shared host beside each other; one of hundreds can meet what has nothing to do
//! with the commit. A fault that comes each time still fails, and one that did not come again is named at the end, with
//! what it said, so that somebody finds out why. In: what libtest printed. Out: which failed, and what they said. Pure.

/// So many failures can be chance. More are a fault, and nothing runs again.
pub const MOST: usize = 3;
/// A test that failed must pass so many times, alone.
pub const TIMES: usize = 3;
/// So many characters of what a failure said are shown once more at the end.
const MOST_SHOWN: usize = 4000;

/// A test that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its whole name.
    pub name: String,
    /// What it printed, shortened.
    pub said: String,
}

/// The tests that failed, in the order of the list at the end of libtest's output; none when there is no such list.
pub fn failures<S: AsRef<str>>(lines: &[S]) -> Vec<Failure> {
    let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
    // The first heading is above what the tests said, the last above their names.
    let Some(last) = lines.iter().rposition(|line| *line == "failures:") else { return Vec::new() };
    let names = lines[last + 1..].iter().map_while(|line| line.strip_prefix("    "));
    names.map(|name| Failure { name: name.to_owned(), said: said(&lines[..last], name) }).collect()
}

fn said(lines: &[&str], name: &str) -> String {
    let heading = format!("---- {name} stdout ----");
    let Some(first) = lines.iter().position(|line| *line == heading) else { return String::new() };
    let is_said = |line: &&&str| !line.starts_with("---- ") && **line != "stack backtrace:";
    let block = lines[first + 1..].iter().take_while(is_said);
    let text = block.copied().collect::<Vec<_>>().join("\n");
    let text = text.trim();
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{} […]", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is said at the end of the tests that failed, of which some passed when they ran again.
pub fn summary(failures: &[Failure], is_unstable: impl Fn(&Failure) -> bool) -> String {
    let mut lines = Vec::new();
    for failure in failures {
        let what = if is_unstable(failure) {
            "unstable: it failed once and then passed alone every time, which is a fault to be found"
        } else {
            "failed"
        };
        lines.push(format!("{}: {what}\n", failure.name));
        lines.extend(failure.said.lines().map(|line| format!("  | {line}\n")));
    }
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test a::one ... ok
test a::two ... FAILED
test b::three ... FAILED

failures:

---- a::two stdout ----

thread 'a::two' panicked at tests/kernel/a.rs:1:1:
assertion failed
failures:
    no name
---- b::three stdout ----
x

failures:
    a::two
    b::three

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

    #[test]
    fn failures_are_read_with_what_they_said() {
        let lines: Vec<&str> = OUTPUT.lines().collect();
        let found = failures(&lines);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].name, "a::two");
        assert!(
            found[0].said.starts_with("thread 'a::two'") && found[0].said.ends_with("no name"),
            "{found:?}"
        );
        assert_eq!(found[1], Failure { name: "b::three".to_owned(), said: "x".to_owned() });
        let told = summary(&found, |one| one.name == "b::three");
        assert!(told.contains("a::two: failed\n") && told.contains("b::three: unstable"), "{told}");
        assert!(told.contains("  | assertion failed\n"), "{told}");
    }

    #[test]
    fn what_passed_or_did_not_end_has_none() {
        assert_eq!(failures(&["test a ... ok", "test result: ok. 1 passed"]), []);
        assert_eq!(failures(&["test a ... FAILED", "Killed"]), []);
        assert_eq!(failures::<&str>(&[]), []);
    }

    #[test]
    fn what_is_long_is_shortened_at_a_character() {
        let long = "ü".repeat(MOST_SHOWN + 1);
        let lines = ["---- a stdout ----", &long, "failures:", "    a"];
        assert!(failures(&lines)[0].said.ends_with("ü […]"));
    }
}
