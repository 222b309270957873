//! Reads what `strace -f -y` wrote: text → [`Event`]s.
//!
//! Pure and strict. Calls that were interrupted in the listing (`<unfinished ...>`) are put together again; a line it
//! does not understand is an error, because a call that is skipped here would count as one that never happened.

use std::collections::HashMap;

/// One thing strace told, in the order in which it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A system call.
    Call(Call),
    /// The end of a thread.
    Exit(u32),
}

/// One system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The thread that made it.
    pub tid: u32,
    /// Line of the listing in which it began, from 1.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// Its arguments, as strace spells them.
    pub args: Vec<String>,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It returned this number; for a descriptor, what it leads to.
    Value(i64, Option<Vec<u8>>),
    /// It failed with this errno.
    Errno(String),
    /// It never returned to the program: killed in it, or restarted by the kernel.
    Never,
}

/// All events of a listing.
pub fn events(listing: &str) -> Result<Vec<Event>, String> {
    let mut open: HashMap<u32, (usize, String)> = HashMap::new();
    let mut events = Vec::new();
    for (index, line) in listing.lines().enumerate() {
        let number = index + 1;
        let fail = |why: &str| format!("line {number}: {why}: {line}");
        let (tid, rest) = line.split_once(' ').ok_or_else(|| fail("no thread id"))?;
        let tid: u32 = tid.parse().map_err(|_| fail("no thread id"))?;
        let rest = rest.trim_start();
        if rest.starts_with("--- ") {
            continue;
        }
        if let Some(end) = rest.strip_prefix("+++ ") {
            if !end.starts_with("superseded") {
                events.push(Event::Exit(tid));
            }
            continue;
        }
        // A thread that executes a program takes over the id of its process.
        if let Some((head, new)) = rest.split_once(" <pid changed to ") {
            let new = new.trim_end_matches(" ...>").parse().map_err(|_| fail("no new thread id"))?;
            open.insert(new, (number, head.to_owned()));
            continue;
        }
        if let Some(head) = rest.strip_suffix("<unfinished ...>") {
            open.insert(tid, (number, head.trim_end().to_owned()));
            continue;
        }
        let (number, text) = if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, tail) = resumed.split_once(" resumed>").ok_or_else(|| fail("not a resumed call"))?;
            let (began, head) = open.remove(&tid).ok_or_else(|| fail("resumed, but never begun"))?;
            (began, head + tail)
        } else {
            (number, rest.replace(" <unfinished ...>)", ")"))
        };
        let (name, args, outcome) = parse(&text).ok_or_else(|| fail("not a call"))?;
        events.push(Event::Call(Call { tid, line: number, name, args, outcome }));
    }
    // What was under way when strace stopped never came back to its program.
    Ok(events)
}

fn parse(text: &str) -> Option<(String, Vec<String>, Outcome)> {
    let (name, rest) = text.split_once('(')?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let (args, tail) = arguments(rest)?;
    Some((name.to_owned(), args, outcome(tail.trim_start().strip_prefix("= ")?)?))
}

/// Splits at the commas between the arguments, and returns what follows the closing parenthesis.
fn arguments(text: &str) -> Option<(Vec<String>, &str)> {
    let bytes = text.as_bytes();
    let mut args = Vec::new();
    let (mut depth, mut start, mut at) = (0_i32, 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at)?,
            // `3</a path>`, `AT_FDCWD</a path>`, but not `1<<3`.
            b'<' if at > 0 && is_word(bytes[at - 1]) && bytes.get(at + 1) != Some(&b'<') => {
                at += bytes[at..].iter().position(|&byte| byte == b'>')?;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[start..at].trim();
                if !(last.is_empty() && args.is_empty()) {
                    args.push(last.to_owned());
                }
                return Some((args, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                args.push(text[start..at].trim().to_owned());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The place of the quote that ends the string which begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at)
}

fn outcome(text: &str) -> Option<Outcome> {
    if text.starts_with('?') {
        return Some(Outcome::Never);
    }
    if let Some(errno) = text.strip_prefix("-1 ") {
        return Some(Outcome::Errno(errno.split(' ').next()?.to_owned()));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(text.len());
    let number = match text[..end].strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).unwrap_or(i64::MAX),
        None => text[..end].parse().ok()?,
    };
    Some(Outcome::Value(number, leads_to(text)))
}

/// The string of an argument: `None` where strace printed an address, which is what the program's memory held instead.
pub fn string(arg: &str) -> Option<Vec<u8>> {
    let bytes = arg.as_bytes();
    let start = usize::from(arg.starts_with('@'));
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    let end = string_end(bytes, start)?;
    Some(unescape(&bytes[start + 1..end]))
}

/// What a descriptor leads to: the text between `<` and `>`.
pub fn leads_to(arg: &str) -> Option<Vec<u8>> {
    let (_, rest) = arg.split_once('<')?;
    let (name, tail) = rest.split_once('>')?;
    let mut name = unescape(name.as_bytes());
    if tail.starts_with("(deleted)") {
        name.extend(b" (deleted)");
    }
    Some(name)
}

/// Undoes C's escapes as strace writes them.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' || at + 1 == bytes.len() {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        at += 1;
        match bytes[at] {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'v' => out.push(0x0b),
            b'f' => out.push(0x0c),
            b'0'..=b'7' => {
                let digits =
                    bytes[at..].iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let value =
                    bytes[at..at + digits].iter().fold(0_u32, |all, byte| all * 8 + u32::from(byte - b'0'));
                out.push(u8::try_from(value).unwrap_or(u8::MAX));
                at += digits - 1;
            }
            other => out.push(other),
        }
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Call {
        match events(line).expect("a listing").pop() {
            Some(Event::Call(call)) => call,
            other => panic!("{line} is {other:?}"),
        }
    }

    #[test]
    fn a_call_has_a_name_arguments_and_a_result() {
        let call = one(r#"7 openat(AT_FDCWD</tmp/st>, "a<b, c)", O_RDONLY) = 3</tmp/st/a\74b, c)>"#);
        assert_eq!(call.name, "openat");
        assert_eq!(call.args, [r"AT_FDCWD</tmp/st>", r#""a<b, c)""#, "O_RDONLY"]);
        assert_eq!(call.outcome, Outcome::Value(3, Some(b"/tmp/st/a<b, c)".to_vec())));
        assert_eq!(leads_to(&call.args[0]), Some(b"/tmp/st".to_vec()));
        assert_eq!(string(&call.args[1]), Some(b"a<b, c)".to_vec()));
    }

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(string(r#""\303\251\1k\"\n\\""#), Some(b"\xc3\xa9\x01k\"\n\\".to_vec()));
        assert_eq!(string(r#"@"abc""#), Some(b"abc".to_vec()));
        assert_eq!(string("NULL"), None);
        assert_eq!(string("0x7fff0000"), None);
    }

    #[test]
    fn an_errno_is_a_result() {
        let call = one(r#"7 unlink("x") = -1 ENOENT (No such file or directory)"#);
        assert_eq!(call.outcome, Outcome::Errno("ENOENT".into()));
    }

    #[test]
    fn a_call_told_in_two_parts_is_one() {
        let listing = "7 vfork( <unfinished ...>\n\
                       8 execve(\"/usr/bin/touch\", [\"touch\", \"q\"], 0x55da /* 39 vars */ <unfinished ...>\n\
                       7 <... vfork resumed>)              = 8\n\
                       8 <... execve resumed>)             = 0\n\
                       8 +++ exited with 0 +++\n";
        let all = events(listing).expect("a listing");
        assert_eq!(all.len(), 3);
        let Event::Call(exec) = &all[1] else { panic!("{all:?}") };
        assert_eq!((exec.line, exec.name.as_str(), exec.args.len()), (2, "execve", 3));
        assert_eq!(all[2], Event::Exit(8));
    }

    #[test]
    fn a_thread_that_executes_takes_the_id_of_its_process() {
        let listing = "9 execve(\"/bin/a\", [\"a\"], 0x1 /* 1 var */ <pid changed to 7 ...>\n\
                       7 +++ superseded by execve in pid 9 +++\n\
                       7 <... execve resumed>) = 0\n";
        let all = events(listing).expect("a listing");
        assert_eq!(all.len(), 1);
        assert!(matches!(&all[0], Event::Call(call) if call.tid == 7 && call.line == 1));
    }

    #[test]
    fn a_deleted_file_is_told_as_the_kernel_tells_it() {
        let call = one(r#"7 openat(AT_FDCWD</t>, ".", O_RDWR|O_TMPFILE, 0777) = 3</t/#1019>(deleted)"#);
        assert_eq!(call.outcome, Outcome::Value(3, Some(b"/t/#1019 (deleted)".to_vec())));
    }

    #[test]
    fn a_killed_call_never_returned() {
        assert_eq!(one("7 listen(3<socket:[1]>, 5 <unfinished ...>) = ?").outcome, Outcome::Never);
        let restarted =
            "7 connect(3<socket:[1]>, {sa_family=AF_UNIX, sun_path=@\"a\"}, 4) = ? ERESTARTSYS (To be)";
        assert_eq!(one(restarted).outcome, Outcome::Never);
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        assert!(events("7 garbage").is_err());
        assert!(events("strace: Process 7 attached").is_err());
        assert!(events("7 <... openat resumed>) = 3").is_err());
    }
}
