//! Templates that were given to mktemp, and the names made by them. Pure.

use super::drawn::is_of_words;

/// A name with a fixed beginning and end and a random middle, as given to mktemp.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Template {
    /// Before the X's.
    pub prefix: Vec<u8>,
    /// How many.
    pub len: usize,
    /// After them.
    pub suffix: Vec<u8>,
}

impl Template {
    /// The template in the last component of an argument, if there is one: three X's or more.
    pub fn in_argument(argument: &[u8]) -> Option<Self> {
        let name = argument.rsplit(|&byte| byte == b'/').next()?;
        let end = name.windows(3).rposition(|three| three == b"XXX")? + 3;
        let start = name[..end].iter().rposition(|&byte| byte != b'X').map_or(0, |last| last + 1);
        let prefix = name[..start].rsplit(|&byte| byte == b'=').next().unwrap_or_default();
        let is_name = |part: &[u8]| part.len() <= 200 && !part.iter().any(u8::is_ascii_whitespace);
        (is_name(prefix) && is_name(&name[end..])).then(|| Self {
            prefix: prefix.to_vec(),
            len: end - start,
            suffix: name[end..].to_vec(),
        })
    }
}

/// Where the part stands that mktemp drew for the first template that a name was made by: `(start, end)`.
///
/// What was not made as mktemp does (after `mktemp -u`, or by a program that only has the template's beginning in common)
/// was drawn if it is no word.
pub(super) fn template(name: &[u8], templates: &[Template], is_made_private: bool) -> Option<(usize, usize)> {
    templates.iter().find_map(|template| {
        let middle =
            name.strip_prefix(template.prefix.as_slice())?.strip_suffix(template.suffix.as_slice())?;
        let is_random = middle.len() == template.len
            && middle.iter().all(u8::is_ascii_alphanumeric)
            && (is_made_private || !is_of_words(middle));
        is_random.then_some((template.prefix.len(), template.prefix.len() + middle.len()))
    })
}
