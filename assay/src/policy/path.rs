//! The text of a path in a policy → [`Pattern`]: its variable, its escapes, its `*`. Pure.

use std::net::IpAddr;

use super::pattern::{Part, Pattern};
use super::problem::{Complaint, nearest};

/// What the variables of a policy stand for. Paths are absolute, without a trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// `~` and `${HOME}`; `None` when the invoking user has none.
    pub home: Option<Vec<u8>>,
    /// `${WORKDIR}`, and what relative paths are relative to.
    pub workdir: Vec<u8>,
    /// `${TMPDIR}`: the private temporary directory of the run.
    pub tmpdir: Vec<u8>,
    /// `${CALLER_TMPDIR}`: the temporary directory of whoever called us.
    pub caller_tmpdir: Vec<u8>,
    /// `${RUNTIME_DIR}`: the user's runtime directory.
    pub runtime_dir: Vec<u8>,
    /// The name servers of the host (`/etc/resolv.conf`).
    pub nameservers: Vec<IpAddr>,
}

impl Context {
    /// Roots that no real path can lie under. A bundle names its paths by variable and does not say what they
    /// stood for; a policy resolved against these meets such names (see [`super::check::path_of_name`]).
    pub fn symbolic() -> Self {
        Self {
            home: Some(b"/${HOME}".to_vec()),
            workdir: b"/${WORKDIR}".to_vec(),
            tmpdir: b"/${TMPDIR}".to_vec(),
            caller_tmpdir: b"/${CALLER_TMPDIR}".to_vec(),
            runtime_dir: b"/${RUNTIME_DIR}".to_vec(),
            nameservers: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self {
            home: Some(b"/home/u".to_vec()),
            workdir: b"/w".to_vec(),
            tmpdir: b"/tmp/assay-1".to_vec(),
            caller_tmpdir: b"/tmp".to_vec(),
            runtime_dir: b"/run/user/1000".to_vec(),
            nameservers: vec![IpAddr::from([192, 0, 2, 53])],
        }
    }

    fn root(&self, variable: &str) -> Option<&[u8]> {
        match variable {
            "HOME" => self.home.as_deref(),
            "WORKDIR" => Some(&self.workdir),
            "TMPDIR" => Some(&self.tmpdir),
            "CALLER_TMPDIR" => Some(&self.caller_tmpdir),
            "RUNTIME_DIR" => Some(&self.runtime_dir),
            _ => None,
        }
    }
}

/// What to do about an entry that says nothing.
pub const EMPTY: &str = "write the value, or leave the entry out";

/// The variables a policy knows.
const VARIABLES: [&str; 5] = ["HOME", "WORKDIR", "TMPDIR", "CALLER_TMPDIR", "RUNTIME_DIR"];

/// Parses the text of a path: its variable, its escapes, its `*`. A `..` takes away the name before it.
pub fn parse_path(text: &str, context: &Context) -> Result<Pattern, Complaint> {
    parse_path_along(text, context, &|_| None)
}

/// As [`parse_path`]; a `..` goes up from where the path before it really leads, as it does in the kernel.
pub fn parse_path_along(
    text: &str,
    context: &Context,
    real: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<Pattern, Complaint> {
    let bad = |hint: &str| (format!("bad path `{text}`"), Some(hint.to_owned()));
    let (root, tail) = split_root(text, context)?;
    if let Some(at) = tail.find("${") {
        let variable = tail[at + 2..].split('}').next().unwrap_or("");
        return Err(bad(&format!(
            "a variable stands at the beginning of a path; a name with a literal `${{` is written `\\x24{{{variable}`"
        )));
    }
    let mut parts: Vec<Part> = Pattern::literal(root).parts().to_vec();
    let is_relative = !text.starts_with(['/', '~', '$']);
    if is_relative && !tail.contains('/') && tail.contains('*') && !tail.trim_matches('*').is_empty() {
        // As in gitignore: a pattern without a slash matches at any depth.
        parts.push(Part::AnyDepth);
    }
    for name in tail.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                let before = Pattern::from_parts(parts.clone()).as_literal();
                if let Some(real) = before.and_then(|path| real(&path)) {
                    parts = Pattern::literal(&real).parts().to_vec();
                }
                if !matches!(parts.pop(), Some(Part::Literal(_)) | None) {
                    return Err(bad("`..` cannot come after a `*`"));
                }
            }
            "**" => parts.push(Part::AnyDepth),
            name if has_class(name) => return Err(bad(CLASSES)),
            name => {
                let pieces = name
                    .split('*')
                    .map(unescape_name)
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|hint| bad(&hint))?;
                parts.push(match <[Vec<u8>; 1]>::try_from(pieces) {
                    Ok([only]) => Part::Literal(only),
                    Err(pieces) => Part::Glob(pieces),
                });
            }
        }
    }
    Ok(Pattern::from_parts(parts))
}

/// What to do about a `[`.
const CLASSES: &str =
    r"`[` is no class here, `*` and `**` are the only patterns; a literal `[` is written `\x5b`";

/// Whether a name looks like a class of gitignore, which we do not have: in a pattern, or one that is not closed.
fn has_class(name: &str) -> bool {
    name.split_once('[').is_some_and(|(_, rest)| !rest.contains(']') || name.contains('*'))
}

/// The absolute directory a path starts from, and the rest of its text.
fn split_root<'a>(text: &'a str, context: &'a Context) -> Result<(&'a [u8], &'a str), Complaint> {
    let bad = |hint: String| (format!("bad path `{text}`"), Some(hint));
    let no_home =
        || (format!("`{text}` needs a home directory, and none is known"), Some("set HOME".to_owned()));
    if text.is_empty() {
        return Err(("expected a path, found an empty string".into(), Some(EMPTY.into())));
    }
    if text.starts_with('/') {
        return Ok((b"/", text));
    }
    if let Some(rest) = text.strip_prefix('~') {
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(bad(
                "`~` is the home of the invoking user; write another user's home as a path".into()
            ));
        }
        return Ok((context.home.as_deref().ok_or_else(no_home)?, rest));
    }
    if let Some(rest) = text.strip_prefix("${") {
        let Some((variable, rest)) = rest.split_once('}') else {
            return Err(bad("the `${` is not closed".into()));
        };
        if !VARIABLES.contains(&variable) {
            let known = VARIABLES.map(str::to_lowercase);
            let hint = match nearest(&variable.to_lowercase(), &known.each_ref().map(String::as_str)) {
                Some(near) => format!("did you mean `${{{}}}`?", near.to_uppercase()),
                None => format!("known: ~, {}", VARIABLES.map(|known| format!("${{{known}}}")).join(", ")),
            };
            return Err((format!("unknown variable `${{{variable}}}`"), Some(hint)));
        }
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(bad(format!("after `${{{variable}}}` comes `/` or nothing")));
        }
        return Ok((context.root(variable).ok_or_else(no_home)?, rest));
    }
    if let Some(name) = text.strip_prefix('$') {
        let word = name.split('/').next().unwrap_or("");
        if VARIABLES.contains(&word) {
            let rest = &name[word.len()..];
            return Err((format!("bad path `{text}`"), Some(format!("did you mean `${{{word}}}{rest}`?"))));
        }
    }
    Ok((&context.workdir, text))
}

/// A piece of a name without its escapes.
fn unescape_name(piece: &str) -> Result<Vec<u8>, String> {
    let bytes = crate::profile::name::unescape(piece).ok_or_else(|| {
        r"a backslash is written `\\`, any byte `\xNN` (a literal `*` is `\x2a`)".to_owned()
    })?;
    if bytes.contains(&0) || bytes.contains(&b'/') {
        return Err("a name holds neither NUL nor `/`".into());
    }
    Ok(bytes)
}
