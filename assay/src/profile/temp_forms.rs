//! Forms in which well-known programs name their temporary files. Data, and the search through it. Pure.

use super::drawn::is_of_words;
use super::volatile::Proof;

/// What a random part of a known form is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    /// `[A-Za-z0-9]`
    Alnum,
    /// `[a-z0-9_]`
    LowerUnderscore,
    /// `[0-9a-f]`
    Hex,
    /// `[0-9]`
    Digits,
}

impl Alphabet {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::LowerUnderscore => byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_',
            Self::Hex => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            Self::Digits => byte.is_ascii_digit(),
        }
    }
}

/// A form in which a well-known program names its temporary files.
struct Form {
    prefix: &'static [u8],
    /// Whether something may stand between the prefix and the random part (`pip-NAME-RANDOM`).
    is_prefix_open: bool,
    alphabet: Alphabet,
    len: (usize, usize),
    /// Whether an extension may follow.
    may_extend: bool,
}

const fn form(prefix: &'static [u8], alphabet: Alphabet, len: (usize, usize), may_extend: bool) -> Form {
    Form { prefix, is_prefix_open: false, alphabet, len, may_extend }
}

/// The forms; each needs proof that the run made the file.
const FORMS: &[Form] = &[
    form(b"tmp.", Alphabet::Alnum, (6, 12), true), // mktemp(1)
    form(b"tmp", Alphabet::LowerUnderscore, (8, 8), true), // Python's tempfile
    form(b".tmp", Alphabet::Alnum, (6, 6), true),  // Rust's tempfile
    form(b"cc", Alphabet::Alnum, (6, 6), true),    // gcc, collect2
    form(b"sed", Alphabet::Alnum, (6, 6), false),
    form(b"sort", Alphabet::Alnum, (6, 6), false), // what does not fit into memory, where -T says
    form(b".merge_file_", Alphabet::Alnum, (6, 6), false), // git
    form(b".merge_link_", Alphabet::Alnum, (6, 6), false), // sed -i
    form(b"tmp_obj_", Alphabet::Alnum, (6, 6), false), // git
    form(b"tmp_pack_", Alphabet::Alnum, (6, 6), true),
    form(b"tmp_idx_", Alphabet::Alnum, (6, 6), true),
    form(b"tmp_rev_", Alphabet::Alnum, (6, 6), true),
    form(b"tmp_bitmap_", Alphabet::Alnum, (6, 6), true),
    form(b"tmp_mtimes_", Alphabet::Alnum, (6, 6), true),
    form(b"tmp_objdir-incoming-", Alphabet::Alnum, (6, 6), false),
    form(b"tmp_objdir-bulk-fsync-", Alphabet::Alnum, (6, 6), false),
    form(b"incoming-", Alphabet::Alnum, (6, 6), false),
    form(b"rustc", Alphabet::Alnum, (6, 6), true), // rustc, cargo
    form(b"rmeta", Alphabet::Alnum, (6, 6), true),
    form(b"cargo-install", Alphabet::Alnum, (6, 6), true),
    form(b"cmTC_", Alphabet::Hex, (5, 5), true), // CMake
    form(b"TryCompile-", Alphabet::Alnum, (6, 6), false),
    form(b"sh-thd.", Alphabet::Alnum, (6, 10), false), // bash
    form(b"sh-np.", Alphabet::Alnum, (6, 10), false),
    form(b"zsh", Alphabet::Alnum, (6, 6), true),
    form(b"go-build", Alphabet::Digits, (1, 10), false), // Go
    form(b"go-link-", Alphabet::Digits, (1, 10), false),
    form(b"etilqs_", Alphabet::Hex, (15, 16), false), // SQLite
    form(b"ssh-", Alphabet::Alnum, (12, 12), false),  // ssh-agent
    form(b"gpg-", Alphabet::Alnum, (6, 6), false),
    form(b"apt-key-gpghome.", Alphabet::Alnum, (10, 10), false),
    form(b"fileutl.message.", Alphabet::Alnum, (6, 6), false), // apt
    form(b"apt.conf.", Alphabet::Alnum, (6, 6), false),
    form(b"apt.data.", Alphabet::Alnum, (6, 6), false),
    form(b"dpkg-deb.", Alphabet::Alnum, (6, 6), false),
    form(b"rustdoctest", Alphabet::Alnum, (6, 6), false), // rustdoc
    form(b"sem.mp-", Alphabet::LowerUnderscore, (8, 8), false), // Python's multiprocessing
    form(b"pymp-", Alphabet::LowerUnderscore, (8, 8), false),
    form(b"listener-", Alphabet::LowerUnderscore, (8, 8), false),
    form(b"pytest-cache-files-", Alphabet::LowerUnderscore, (8, 8), false),
    Form {
        prefix: b"pip-",
        is_prefix_open: true,
        alphabet: Alphabet::LowerUnderscore,
        len: (8, 8),
        may_extend: true,
    },
];

/// Whether a name is one of the known forms: `(start, end)` of its random part.
pub fn known_form(name: &[u8], proof: &Proof<'_>) -> Option<(usize, usize)> {
    let form = FORMS.iter().find_map(|form| {
        let rest = name.strip_prefix(form.prefix)?;
        let start = form.prefix.len()
            + if form.is_prefix_open { rest.iter().rposition(|&byte| byte == b'-')? + 1 } else { 0 };
        let len = name[start..].iter().take_while(|&&byte| form.alphabet.has(byte)).count();
        let end = start + len;
        let is_end = end == name.len() || (form.may_extend && name[end] == b'.');
        let is_it = len >= form.len.0 && len <= form.len.1 && is_end && is_drawn(&name[start..end], proof);
        is_it.then_some((start, end))
    });
    form.or_else(|| rustc_session(name))
        .or_else(|| rustc_unit(name))
        .or_else(|| linker_output(name, proof))
        .or_else(|| compiler_output(name, proof))
        .or_else(|| git_probe(name, proof))
        .or_else(|| {
            // Python's tempfile with a suffix that is glued to it: `tmp` and eight characters, then anything.
            let is_mkstemp = proof.is_made_private && proof.is_gone && proof.is_in_temp;
            let random = name.strip_prefix(b"tmp")?.get(..8)?;
            (is_mkstemp && random.iter().all(|&byte| Alphabet::LowerUnderscore.has(byte))).then_some((3, 11))
        })
}

/// Whether the part of a form was drawn: `tmp_reports` that stays where it was made is what somebody called it, and
/// `ccreader` is one word more than a form of gcc.
fn is_drawn(part: &[u8], proof: &Proof<'_>) -> bool {
    let is_temporary = proof.is_gone || proof.is_in_temp;
    proof.is_made_private || (is_temporary && !is_of_words(trimmed(part)))
}

/// Without the underscores at its ends, which are in some alphabets.
fn trimmed(part: &[u8]) -> &[u8] {
    let start = part.iter().take_while(|byte| **byte == b'_').count();
    let end = part.iter().rev().take_while(|byte| **byte == b'_').count();
    part.get(start..part.len() - end).unwrap_or_default()
}

/// The file by which `git init` and `git clone` try whether links work here: `t` and mkstemp's six characters. Elsewhere
/// than in a git directory a word in small letters is left alone.
fn git_probe(name: &[u8], proof: &Proof<'_>) -> Option<(usize, usize)> {
    let random = name.strip_prefix(b"t").filter(|random| random.len() == 6)?;
    let is_word = !proof.is_in_git && random.iter().all(u8::is_ascii_lowercase);
    let is_drawn = random.iter().all(u8::is_ascii_alphanumeric) && !is_word;
    (is_drawn && proof.is_made_private && proof.is_gone).then_some((0, name.len()))
}

/// rustc's incremental sessions: `s-TIME-RANDOM`, then `.lock`, `-working` or `-HASH`.
fn rustc_session(name: &[u8]) -> Option<(usize, usize)> {
    let rest = name.strip_prefix(b"s-")?;
    let part = |text: &[u8]| {
        text.iter().take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()).count()
    };
    let time = part(rest);
    let random = rest.get(time).filter(|byte| **byte == b'-').map(|_| part(&rest[time + 1..]))?;
    let end = 2 + time + 1 + random;
    let is_end = matches!(name.get(end), None | Some(b'.' | b'-'));
    ((9..=12).contains(&time) && (5..=8).contains(&random) && is_end).then_some((2, end))
}

/// rustc's object files: `crate-HASH.HASH.RANDOM.rcgu.o`.
fn rustc_unit(name: &[u8]) -> Option<(usize, usize)> {
    let stem = name.strip_suffix(b".rcgu.o")?;
    let start = stem.iter().rposition(|&byte| byte == b'.')? + 1;
    let is_short = (5..=8).contains(&(stem.len() - start));
    (is_short && stem[start..].iter().all(u8::is_ascii_alphanumeric)).then_some((start, stem.len()))
}

/// What lld, and other programs that write through LLVM, add to the name of what they write: `app.tmp` and seven
/// hexadecimal digits, which may come out as letters alone.
fn linker_output(name: &[u8], proof: &Proof<'_>) -> Option<(usize, usize)> {
    let start = name.len().checked_sub("tmp0123456".len()).filter(|start| *start > 0)?;
    let digits = name[start..].strip_prefix(b"tmp")?;
    let is_drawn = name[start - 1] == b'.' && digits.iter().all(|&byte| Alphabet::Hex.has(byte));
    (is_drawn && proof.is_gone).then_some((start, name.len()))
}

/// What clang writes before it is whole: `main-` and eight hexadecimal digits, the extension and `.tmp`.
fn compiler_output(name: &[u8], proof: &Proof<'_>) -> Option<(usize, usize)> {
    let stem = name.strip_suffix(b".tmp")?;
    let start = stem.iter().rposition(|&byte| byte == b'-')? + 1;
    let end = start + 8;
    let is_drawn = stem.get(start..end)?.iter().all(|&byte| Alphabet::Hex.has(byte));
    let is_end = stem.get(end).is_none_or(|&byte| byte == b'.');
    (start > 1 && is_drawn && is_end && proof.is_gone).then_some((start, end))
}

/// Whether a directory's name is one in which pytest numbers its own (`pytest-of-${USER}/pytest-0`), for the owner alone.
pub fn is_numbered_by_pytest(directory: &str) -> bool {
    let mut parts = directory.rsplit('/');
    let is_run = parts.next().is_some_and(|part| part.starts_with("pytest-"));
    directory.ends_with("/pytest-of-${USER}")
        || (is_run && parts.next().is_some_and(|part| part.starts_with("pytest-of-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/formats/canonicalisation.md");

    /// The page's table, from which another implementation can be written.
    fn table() -> String {
        let mut table = String::from(
            "| begins with | alphabet | how many | may an extension follow |\n| --- | --- | --- | --- |\n",
        );
        for form in FORMS {
            let alphabet = match form.alphabet {
                Alphabet::Alnum => "A-Za-z0-9",
                Alphabet::LowerUnderscore => "a-z0-9_",
                Alphabet::Hex => "0-9a-f",
                Alphabet::Digits => "0-9",
            };
            let prefix = String::from_utf8_lossy(form.prefix);
            let open = if form.is_prefix_open { ", then anything and the last `-`" } else { "" };
            let (least, most) = form.len;
            let len = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let extends = if form.may_extend { "yes" } else { "no" };
            let row = [format!("`{prefix}`{open}"), format!("`{alphabet}`"), len, extends.to_owned()];
            table.push_str(&["| ", &row.join(" | "), " |\n"].concat());
        }
        table
    }

    #[test]
    fn the_page_has_the_forms() {
        let table = table();
        assert!(PAGE.contains(&table), "the table of docs/formats/canonicalisation.md is to be:\n{table}");
    }
}
