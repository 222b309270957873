//! Names that change every run, and the variable that stands for the part that does. Pure.
//!
//! One path component and what the run's own record proves about it go in; the component with its volatile parts
//! replaced comes out, with the names of the rules that did it. Nothing is replaced without proof: a shape alone is
//! never enough, and a name that stands in the command's arguments is never touched. The rules and their order are
//! specified in `docs/formats/canonicalisation.md`.

use super::name::escape_into;
use super::temp_forms::known_form;
use super::timestamp::time_end;

/// What the run's record proves about one path.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts, each asked for by name")]
pub struct Proof<'a> {
    /// The run made it, and it was not there before; or the run only ever tried to and was refused.
    pub is_made: bool,
    /// It is no longer there at the run's end: deleted, renamed away, or in the private temporary directory.
    pub is_gone: bool,
    /// It lies in a place for temporary files.
    pub is_in_temp: bool,
    /// It was made by an open for reading *and* writing, as mkstemp does.
    pub is_made_read_write: bool,
    /// Whether a number is the id of a process or thread that made it, or of one above or directly below that.
    pub is_actor: &'a dyn Fn(u32) -> bool,
    /// Templates (`name.XXXXXX`) that stood in the arguments of a program of the run.
    pub templates: &'a [Template],
    /// When the run began and ended, in seconds since 1970, when known.
    pub clock: Option<(u64, u64)>,
    /// The user's name and the host's.
    pub user: Option<&'a [u8]>,
    /// The host's name.
    pub hostname: Option<&'a [u8]>,
}

/// A component with its volatile parts replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedName {
    /// In `Name` text form.
    pub text: String,
    /// The rules that took part, in order of first use.
    pub rules: Vec<&'static str>,
}

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

fn template(name: &[u8], templates: &[Template]) -> Option<(usize, usize)> {
    templates.iter().find_map(|template| {
        let middle =
            name.strip_prefix(template.prefix.as_slice())?.strip_suffix(template.suffix.as_slice())?;
        let is_random = middle.len() == template.len && middle.iter().all(u8::is_ascii_alphanumeric);
        is_random.then_some((template.prefix.len(), template.prefix.len() + middle.len()))
    })
}

/// Folds one component, or answers `None` when all of it stays as it is.
pub fn fold(name: &[u8], proof: &Proof<'_>) -> Option<FoldedName> {
    let mut folding = Folding { name, out: String::new(), rules: Vec::new(), copied: 0 };
    if proof.is_made {
        if let Some((start, end)) = template(name, proof.templates) {
            folding.replace(start, end, "${RANDOM}", "template");
            return folding.finish();
        }
        if let Some((start, end)) = known_form(name, proof) {
            // What stands before it, where it does not run into it.
            if start > 0 && !name[start - 1].is_ascii_alphanumeric() {
                folding.scan(0, start, proof);
            }
            folding.replace(start, end, "${RANDOM}", "temp-name");
            return folding.tokens(end, proof);
        }
        if is_random_whole(name, proof) {
            folding.replace(0, name.len(), "${RANDOM}", "random");
            return folding.finish();
        }
    }
    folding.tokens(0, proof)
}

/// The id of a process stands in `text`, which is not a path (a link's text, an abstract socket's name).
pub fn fold_text(text: &[u8], proof: &Proof<'_>) -> Option<FoldedName> {
    let folding = Folding { name: text, out: String::new(), rules: Vec::new(), copied: 0 };
    folding.tokens(0, proof)
}

/// Words that programs add to a name, and that are not random.
const DERIVED_WORDS: &[&[u8]] = &[
    b"lock",
    b"orig",
    b"part",
    b"temp",
    b"save",
    b"saved",
    b"partial",
    b"download",
    b"crdownload",
    b"backup",
    b"swap",
    b"swapfile",
    b"update",
    b"updated",
    b"unfinished",
    b"incomplete",
    b"staging",
    b"staged",
    b"pending",
];

/// Whether `temp` is the name `target` with something random added, as rsync, Python and editors name the file they
/// rename onto the target. Words that programs add (`.lock`, `.new`, `.tmp`) are not random.
pub fn is_derived(temp: &[u8], target: &[u8]) -> Option<FoldedName> {
    if let Some(folded) = is_glued(temp, target) {
        return Some(folded);
    }
    let start = find(temp, target)?;
    let end = start + target.len();
    let is_bounded = (start == 0 || !temp[start - 1].is_ascii_alphanumeric())
        && temp.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    if !is_bounded {
        return None;
    }
    let mut folding = Folding { name: temp, out: String::new(), rules: Vec::new(), copied: 0 };
    let mut at = 0;
    while at < temp.len() {
        if at >= start && at < end {
            at = end;
        } else if is_token_start(temp, at) || at == end {
            let stop = token_end(temp, at).min(if at < start { start } else { temp.len() });
            let token = &temp[at..stop];
            let is_word = token.iter().all(u8::is_ascii_lowercase)
                && (token.len() < 6 || DERIVED_WORDS.contains(&token));
            let is_random = token.len() >= 6 || (token.len() >= 4 && !matches!(shape(token), Shape::Word));
            if is_random && !is_word {
                folding.replace(at, stop, "${RANDOM}", "derived-name");
            }
            at = stop.max(at + 1);
        } else {
            at += 1;
        }
    }
    folding.finish()
}

/// The target's name, something of the length that makers of temporary files use, and perhaps an extension:
/// `RECORDab_12cde.tmp`, `targetAbCdEf`.
fn is_glued(temp: &[u8], target: &[u8]) -> Option<FoldedName> {
    let rest = temp.strip_prefix(target)?;
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let len = rest.iter().take_while(is_part).count();
    let is_end = rest.get(len).is_none_or(|byte| *byte == b'.');
    if !matches!(len, 6 | 8 | 10) || !is_end || target.len() < 3 || DERIVED_WORDS.contains(&&rest[..len]) {
        return None;
    }
    let mut folding = Folding { name: temp, out: String::new(), rules: Vec::new(), copied: 0 };
    folding.replace(target.len(), target.len() + len, "${RANDOM}", "derived-name");
    folding.finish()
}

struct Folding<'a> {
    name: &'a [u8],
    out: String,
    rules: Vec<&'static str>,
    copied: usize,
}

impl Folding<'_> {
    fn replace(&mut self, start: usize, end: usize, variable: &str, rule: &'static str) {
        escape_into(&self.name[self.copied..start], &mut self.out);
        self.out.push_str(variable);
        self.copied = end;
        if !self.rules.contains(&rule) {
            self.rules.push(rule);
        }
    }

    /// Folds the tokens from `at` on.
    fn tokens(mut self, at: usize, proof: &Proof<'_>) -> Option<FoldedName> {
        self.scan(at, self.name.len(), proof);
        self.finish()
    }

    fn scan(&mut self, mut at: usize, end: usize, proof: &Proof<'_>) {
        while at < end {
            at = if is_token_start(self.name, at) { self.token(at, proof) } else { at + 1 };
        }
    }

    fn finish(mut self) -> Option<FoldedName> {
        if self.rules.is_empty() {
            return None;
        }
        escape_into(&self.name[self.copied..], &mut self.out);
        Some(FoldedName { text: self.out, rules: self.rules })
    }

    /// Judges what begins at `at`, and answers where to go on.
    fn token(&mut self, at: usize, proof: &Proof<'_>) -> usize {
        let end = token_end(self.name, at);
        let token = &self.name[at..end];
        if let Some(place) = [(proof.user, "${USER}", "user"), (proof.hostname, "${HOSTNAME}", "hostname")]
            .into_iter()
            .find(|(word, ..)| word.is_some_and(|word| is_word_at(self.name, at, word)))
        {
            let (word, variable, rule) = place;
            let stop = at + word.map_or(0, <[u8]>::len);
            self.replace(at, stop, variable, rule);
            return stop;
        }
        if !proof.is_made {
            return end;
        }
        if let Some(stop) = uuid_end(self.name, at) {
            self.replace(at, stop, "${UUID}", "uuid");
            return stop;
        }
        if let Some(stop) = time_end(self.name, at, proof.clock) {
            self.replace(at, stop, "${TIME}", "time");
            return stop;
        }
        // A process id can stand between letters: `x1234y`.
        if let Some((start, stop, variable, rule)) = number_in(self.name, at, end, proof) {
            self.replace(start, stop, variable, rule);
            return stop;
        }
        let is_temporary = proof.is_gone || proof.is_in_temp;
        if let Some(start) = address_in(token, is_temporary) {
            self.replace(at + start, end, "${ADDRESS}", "address");
        } else if is_hash(token) {
            self.replace(at, end, "${HASH}", "hash");
        } else if is_temporary && is_random(self.name, at, end, proof) {
            self.replace(at, end, "${RANDOM}", "random");
        }
        end
    }
}

/// A number inside the token that is a process id, or long and temporary.
fn number_in(
    name: &[u8],
    at: usize,
    end: usize,
    proof: &Proof<'_>,
) -> Option<(usize, usize, &'static str, &'static str)> {
    let mut start = at;
    while start < end {
        let digits = name[start..end].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            start += 1;
            continue;
        }
        let stop = start + digits;
        let text = std::str::from_utf8(&name[start..stop]).unwrap_or_default();
        // A leading zero is never how a process id is printed.
        if digits <= 10 && !text.starts_with('0') && text.parse().is_ok_and(|id: u32| (proof.is_actor)(id)) {
            return Some((start, stop, "${PID}", "pid"));
        }
        if start == at && stop == end && digits >= 6 && (proof.is_gone || proof.is_in_temp) {
            return Some((start, stop, "${RANDOM}", "number"));
        }
        start = stop;
    }
    None
}

fn is_token_start(name: &[u8], at: usize) -> bool {
    name[at].is_ascii_alphanumeric() && (at == 0 || !name[at - 1].is_ascii_alphanumeric())
}

fn token_end(name: &[u8], at: usize) -> usize {
    at + name[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count()
}

fn is_word_at(name: &[u8], at: usize, word: &[u8]) -> bool {
    word.len() >= 2
        && name[at..].starts_with(word)
        && name.get(at + word.len()).is_none_or(|byte| !byte.is_ascii_alphanumeric())
}

/// Where `needle` stands in `haystack`.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() { None } else { memchr::memmem::find(haystack, needle) }
}

/// 8-4-4-4-12 hexadecimal digits.
fn uuid_end(name: &[u8], at: usize) -> Option<usize> {
    let text = name.get(at..at + 36)?;
    let is_uuid = text.iter().enumerate().all(|(position, byte)| match position {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    (is_uuid && is_drawn(text) && name.get(at + 36).is_none_or(|byte| !byte.is_ascii_alphanumeric()))
        .then_some(at + 36)
}

/// Where in the token an address begins: `0x` and six hexadecimal digits or more, up to its end; in a name that stays,
/// twelve or more that nobody would choose.
fn address_in(token: &[u8], is_temporary: bool) -> Option<usize> {
    let start = find(token, b"0x")?;
    let hex = &token[start + 2..];
    let is_long = hex.len() >= if is_temporary { 6 } else { 12 };
    (is_long && hex.iter().all(u8::is_ascii_hexdigit) && (is_temporary || is_drawn(hex))).then_some(start)
}

/// Whether chance could have drawn these digits: five different ones at least. Of sixteen hexadecimal digits, fewer
/// come once in millions; people and programs write `dddd…`, `deadbeefdeadbeef` and zeros.
fn is_drawn(digits: &[u8]) -> bool {
    let seen = digits.iter().fold(0_u128, |seen, byte| seen | 1 << (byte & 0x7f));
    seen.count_ones() >= 5
}

/// 16 to 128 hexadecimal digits, numbers and letters of one case among them, which chance could have drawn; or 13 or
/// more of base 36 with both, as rustc writes its hashes.
pub(super) fn is_hash(token: &[u8]) -> bool {
    let has_digit = token.iter().any(u8::is_ascii_digit);
    let has_lower = token.iter().any(u8::is_ascii_lowercase);
    let has_upper = token.iter().any(u8::is_ascii_uppercase);
    let is_hex = token.iter().all(u8::is_ascii_hexdigit) && !(has_lower && has_upper);
    let is_mixed = has_digit && (has_lower || has_upper);
    let is_base_36 = token.len() >= 13 && has_digit && has_lower && !has_upper && switches(token) >= 3;
    token.len() <= LONGEST_HASH
        && is_drawn(token)
        && ((is_hex && is_mixed && token.len() >= 16) || is_base_36)
}

/// SHA-512 in hexadecimal digits.
const LONGEST_HASH: usize = 128;

/// How often letters and digits change places.
fn switches(token: &[u8]) -> usize {
    token.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count()
}

/// How a token is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A word, a number, or a word and a number: what people and programs call things.
    Word,
    /// Anything else.
    Mixed,
}

fn shape(token: &[u8]) -> Shape {
    let letters = token.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let digits = token[letters..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if letters + digits < token.len() {
        // Digits first and then one word: `2to3`, `7zip`, `3rdparty`.
        let lead = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_lead = (1..=2).contains(&lead) && is_words(&token[lead..]);
        return if is_lead { Shape::Word } else { Shape::Mixed };
    }
    if letters == 0 || (is_words(&token[..letters]) && digits <= 4) { Shape::Word } else { Shape::Mixed }
}

/// All lower, all upper, or words of three letters and more that each begin with a capital, perhaps after an
/// abbreviation (`CMakeLists`, `HTTPServer`).
fn is_words(letters: &[u8]) -> bool {
    if letters.iter().all(u8::is_ascii_lowercase) || letters.iter().all(u8::is_ascii_uppercase) {
        return true;
    }
    let mut words = letters.chunk_by(|_, next| !next.is_ascii_uppercase()).peekable();
    let mut least = 3;
    while words.next_if(|word| word.len() == 1).is_some() {
        least = 4;
    }
    words.peek().is_some()
        && words.all(|word| word.len() >= least && word[1..].iter().all(u8::is_ascii_lowercase))
}

/// A whole name of the length that makers of temporary files use, in a place for them and gone: any letters when it
/// was opened as mkstemp does, else with a part that no word is built of. (Their alphabets have the underscore, so
/// that such a name can fall into parts too short to be told.)
fn is_random_whole(name: &[u8], proof: &Proof<'_>) -> bool {
    let is_made_of_it = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let is_temporary = proof.is_gone && proof.is_in_temp;
    let is_mixed =
        || name.split(|&byte| byte == b'_').any(|part| part.len() >= 3 && shape(part) == Shape::Mixed);
    matches!(name.len(), 6 | 8 | 10)
        && is_made_of_it
        && is_temporary
        && (proof.is_made_read_write || is_mixed())
}

/// Six characters or more that no word is built of; or, in a place for temporary files and gone, the six, eight or
/// ten letters that mkstemp put at the end of a file it made.
fn is_random(name: &[u8], at: usize, end: usize, proof: &Proof<'_>) -> bool {
    let token = &name[at..end];
    if token.len() < 6 {
        return false;
    }
    if shape(token) == Shape::Mixed {
        return true;
    }
    let is_last = end == name.len() || (name[end] == b'.' && !name[end + 1..].contains(&b'.'));
    let is_mkstemp = proof.is_made_read_write && proof.is_gone && proof.is_in_temp;
    is_mkstemp && is_last && matches!(token.len(), 6 | 8 | 10)
}

#[cfg(test)]
mod tests;
