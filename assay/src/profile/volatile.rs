//! Names that change every run, and the variable that stands for the part that does. Pure.
//!
//! One path component and what the run's own record proves about it go in; the component with its volatile parts
//! replaced comes out, with the names of the rules that did it. Nothing is replaced without proof: a shape alone is
//! never enough, and a name that stands in the command's arguments is never touched. The rules and their order are
//! specified in `docs/formats/canonicalisation.md`.

use super::built::is_built;
use super::drawn::{drawn_part, is_of_words, is_random_whole, words_in};
use super::effort::looked_at;
use super::fold_rule::FoldRule;
use super::name::escape_into;
use super::ordinals::as_id;
use super::temp_forms::known_form;
use super::template::{Template, template};
use super::timestamp::time_end;
use super::token::{Shape, is_chosen_number, shape};

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
    /// It was made for its owner alone, a file for reading *and* writing, and not by a program that was given the name:
    /// as mkstemp and mkdtemp do.
    pub is_made_private: bool,
    /// Where a few digits stand that were drawn, as the names of other files show.
    pub drawn_alike: Option<(usize, usize)>,
    /// A program made it that calls the files so that it draws names for.
    pub is_drawn_by_maker: bool,
    /// It was made as a directory.
    pub is_directory: bool,
    /// The run renamed it to one other name.
    pub is_moved: bool,
    /// It lies directly in a directory called `tmp`.
    pub is_in_tmp: bool,
    /// It lies where pytest numbers directories that it calls by its tests.
    pub is_numbered: bool,
    /// It lies in a git directory.
    pub is_in_git: bool,
    /// Whether a number, at this offset of the component, is the id of a process or thread that made it, or of one above
    /// or directly below that.
    pub is_actor: &'a dyn Fn(usize, u32) -> bool,
    /// Templates (`name.XXXXXX`) that stood in the arguments of a program of the run.
    pub templates: &'a [Template],
    /// When the run began and ended, in seconds since 1970, when known.
    pub clock: Option<(u64, u64)>,
    /// The user's name and the host's.
    pub user: Option<&'a [u8]>,
    /// Whether a number, at this offset of the component, is the user's id; nothing where those do not fold.
    pub is_user_id: Option<&'a dyn Fn(usize, u32) -> bool>,
    /// The host's name.
    pub hostname: Option<&'a [u8]>,
}

impl<'a> Proof<'a> {
    /// Of a text that is no path: nothing is known of it but whose numbers are ids, and when the run was.
    pub fn of_text(is_actor: &'a dyn Fn(usize, u32) -> bool, clock: Option<(u64, u64)>) -> Self {
        Self {
            is_made: false,
            is_gone: false,
            is_in_temp: false,
            is_made_private: false,
            drawn_alike: None,
            is_drawn_by_maker: false,
            is_directory: false,
            is_moved: false,
            is_in_tmp: false,
            is_numbered: false,
            is_in_git: false,
            is_actor,
            templates: &[],
            clock,
            user: None,
            is_user_id: None,
            hostname: None,
        }
    }
}

/// A component with its volatile parts replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedName {
    /// In `Name` text form.
    pub text: String,
    /// The rules that took part, in order of first use.
    pub rules: Vec<FoldRule>,
}

/// Folds one component, or answers `None` when all of it stays as it is.
pub fn fold(name: &[u8], proof: &Proof<'_>) -> Option<FoldedName> {
    if !proof.is_made && proof.user.is_none() && proof.is_user_id.is_none() && proof.hostname.is_none() {
        return None;
    }
    let mut folding = Folding { name, out: String::new(), rules: Vec::new(), copied: 0 };
    if proof.is_made {
        if let Some((start, end)) = template(name, proof.templates, proof.is_made_private) {
            // What stands around the X's was given, but for what a shell put there of the run, the user and the host.
            let given = Proof { is_gone: false, is_in_temp: false, ..*proof };
            return folding.around(start, end, FoldRule::Template, &given);
        }
        if let Some((start, end)) = known_form(name, proof) {
            return folding.around(start, end, FoldRule::TempName, proof);
        }
        if is_random_whole(name, proof) && !is_told_otherwise(name, proof) {
            folding.replace(0, name.len(), "${RANDOM}", FoldRule::Random);
            return folding.finish();
        }
        if let Some((start, end)) = drawn_part(name, proof)
            && !is_told_otherwise(name, proof)
        {
            return folding.around(start, end, FoldRule::Random, proof);
        }
        if let Some((start, end)) = proof.drawn_alike
            && proof.is_gone
            && proof.is_in_temp
        {
            return folding.around(start, end, FoldRule::Random, proof);
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
                folding.replace(at, stop, "${RANDOM}", FoldRule::DerivedName);
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
    folding.replace(target.len(), target.len() + len, "${RANDOM}", FoldRule::DerivedName);
    folding.finish()
}

struct Folding<'a> {
    name: &'a [u8],
    out: String,
    rules: Vec<FoldRule>,
    copied: usize,
}

impl<'a> Folding<'a> {
    /// A part that what was replaced before reaches into stays as it is: names are hostile, and no order of the rules
    /// may end the run's record.
    fn replace(&mut self, start: usize, end: usize, variable: &str, rule: FoldRule) {
        let Some(between) = self.name.get(self.copied..start) else { return };
        escape_into(between, &mut self.out);
        self.out.push_str(variable);
        self.copied = end;
        if !self.rules.contains(&rule) {
            self.rules.push(rule);
        }
    }

    /// Folds what was drawn, what stands before it where it does not run into it, and what follows.
    fn around(mut self, start: usize, end: usize, rule: FoldRule, proof: &Proof<'_>) -> Option<FoldedName> {
        if start > 0 && !self.name[start - 1].is_ascii_alphanumeric() {
            self.scan(0, start, proof);
        }
        self.replace(start, end, "${RANDOM}", rule);
        self.tokens(end, proof)
    }

    /// Folds the tokens from `at` on.
    fn tokens(mut self, at: usize, proof: &Proof<'_>) -> Option<FoldedName> {
        self.scan(at, self.name.len(), proof);
        self.finish()
    }

    /// Folds the tokens up to `end`, as if the name ended there: a date or a uuid could reach further than its token.
    fn scan(&mut self, mut at: usize, end: usize, proof: &Proof<'_>) {
        let name: &'a [u8] = &self.name[..end];
        while at < end {
            at = if is_token_start(name, at) { self.token(name, at, proof) } else { at + 1 };
        }
    }

    /// Directly behind a time and one mark: six characters or more that are not built of words, whatever else they look like.
    fn is_drawn_beside_a_time(&self, at: usize, token: &[u8]) -> bool {
        token.len() >= 6 && self.copied + 1 == at && self.out.ends_with("${TIME}") && !is_of_words(token)
    }

    fn finish(mut self) -> Option<FoldedName> {
        if self.rules.is_empty() {
            return None;
        }
        escape_into(&self.name[self.copied..], &mut self.out);
        Some(FoldedName { text: self.out, rules: self.rules })
    }

    /// Judges what begins at `at` of `name`, and answers where to go on.
    fn token(&mut self, name: &[u8], at: usize, proof: &Proof<'_>) -> usize {
        let end = token_end(name, at);
        let token = &name[at..end];
        if let Some(place) =
            [(proof.user, "${USER}", FoldRule::User), (proof.hostname, "${HOSTNAME}", FoldRule::Hostname)]
                .into_iter()
                .find(|(word, ..)| word.is_some_and(|word| is_word_at(name, at, word)))
        {
            let (word, variable, rule) = place;
            let stop = at + word.map_or(0, <[u8]>::len);
            self.replace(at, stop, variable, rule);
            return stop;
        }
        if is_user_id(name, at, end, proof) {
            self.replace(at, end, "${UID}", FoldRule::UserId);
            return end;
        }
        if !proof.is_made {
            return end;
        }
        if let Some(stop) = uuid_end(name, at) {
            self.replace(at, stop, "${UUID}", FoldRule::Uuid);
            return stop;
        }
        // A date may stand behind the letters that a token begins with: `backup20261201`.
        let letters = token.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        for start in [at, at + letters] {
            if let Some(stop) = time_end(name, start, proof.clock) {
                self.replace(start, stop, "${TIME}", FoldRule::Time);
                return stop;
            }
        }
        let is_temporary = proof.is_gone || proof.is_in_temp;
        // Before process ids: among the digits of a hash any number stands by chance.
        if let Some(start) = address_in(token, is_temporary) {
            self.replace(at + start, end, "${ADDRESS}", FoldRule::Address);
        } else if is_hash(token)
            && (is_temporary || token.len() >= LEAST_KEPT_HASH || is_hexadecimal_hash(token))
        {
            self.replace(at, end, "${HASH}", FoldRule::Hash);
        // A process id can stand between letters: `x1234y`.
        } else if let Some((start, stop, variable, rule)) = number_in(name, at, end, proof) {
            self.replace(start, stop, variable, rule);
            return stop;
        } else if is_temporary && (is_random(token) || self.is_drawn_beside_a_time(at, token)) {
            self.replace(at, end, "${RANDOM}", FoldRule::Random);
        }
        end
    }
}

/// Whether all of a token is the user's id. One of three digits or fewer is not told from other numbers.
fn is_user_id(name: &[u8], at: usize, end: usize, proof: &Proof<'_>) -> bool {
    let is_it = |id| proof.is_user_id.is_some_and(|is_it| is_it(at, id));
    end - at >= 4 && as_id(&name[at..end]).is_some_and(is_it)
}

/// A number inside the token that is a process id, or long and temporary.
fn number_in(
    name: &[u8],
    at: usize,
    end: usize,
    proof: &Proof<'_>,
) -> Option<(usize, usize, &'static str, FoldRule)> {
    let mut start = at;
    while start < end {
        let digits = name[start..end].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            start += 1;
            continue;
        }
        let stop = start + digits;
        if as_id(&name[start..stop]).is_some_and(|id| (proof.is_actor)(start, id)) {
            return Some((start, stop, "${PID}", FoldRule::Pid));
        }
        let is_drawn = digits >= 6 && !is_chosen_number(&name[start..stop]);
        if start == at && stop == end && is_drawn && (proof.is_gone || proof.is_in_temp) {
            return Some((start, stop, "${RANDOM}", FoldRule::Number));
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
    let found = if needle.is_empty() { None } else { memchr::memmem::find(haystack, needle) };
    looked_at(found.unwrap_or(haystack.len()));
    found
}

/// Whether `name` stands in `text`, and not only as a part of a longer word.
pub fn is_word_of(text: &[u8], name: &[u8]) -> bool {
    let mut from = 0;
    while let Some(start) = find(&text[from..], name).map(|at| from + at) {
        let end = start + name.len();
        let is_start =
            start == 0 || !text[start - 1].is_ascii_alphanumeric() || !name[0].is_ascii_alphanumeric();
        let is_end = text.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric())
            || !name[name.len() - 1].is_ascii_alphanumeric();
        if is_start && is_end {
            return true;
        }
        from = start + 1;
    }
    false
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
    let has = |what: fn(&u8) -> bool| token.iter().any(what);
    let is_base_36 = token.len() >= 13
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && !has(u8::is_ascii_uppercase)
        && token.len() <= LONGEST_HASH
        && is_drawn(token)
        && match switches(token) {
            0 | 1 => false,
            // Of rustc's twenty-five characters one in two hundred has its digits all in one place.
            2 => token.len() >= 20 && words_in(token) == 0,
            _ => words_in(token) < 2,
        }
        && !is_built(token);
    is_hexadecimal_hash(token) || is_base_36
}

fn is_hexadecimal_hash(token: &[u8]) -> bool {
    let has = |what: fn(&u8) -> bool| token.iter().any(what);
    let (has_lower, has_upper) = (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase));
    (16..=LONGEST_HASH).contains(&token.len())
        && token.iter().all(u8::is_ascii_hexdigit)
        && has(u8::is_ascii_digit)
        && has_lower != has_upper
        && is_drawn(token)
}

/// A shorter one of base 36 could be what somebody called a file that stays (`host1rack2row3`).
const LEAST_KEPT_HASH: usize = 20;

/// SHA-512 in hexadecimal digits.
const LONGEST_HASH: usize = 128;

/// How often letters and digits change places.
fn switches(token: &[u8]) -> usize {
    token.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count()
}

/// Whether the record knows a part of the name: the user, by name or id, the host, the id of a process, a time, a uuid, a hash. Then
/// nothing was drawn.
fn is_told_otherwise(name: &[u8], proof: &Proof<'_>) -> bool {
    (0..name.len()).filter(|&at| is_token_start(name, at)).any(|at| {
        let end = token_end(name, at);
        let id = number_in(name, at, end, proof)
            .is_some_and(|(start, stop, _, rule)| rule == FoldRule::Pid && (start, stop) == (at, end));
        let is_word = |word: Option<&[u8]>| word.is_some_and(|word| is_word_at(name, at, word));
        id || is_user_id(name, at, end, proof)
            || is_word(proof.user)
            || is_word(proof.hostname)
            || uuid_end(name, at).is_some()
            || time_end(name, at, proof.clock).is_some()
            || is_hexadecimal_hash(&name[at..end])
    })
}

/// Six characters or more that no word is built of.
fn is_random(token: &[u8]) -> bool {
    token.len() >= 6 && shape(token) == Shape::Mixed
}

#[cfg(test)]
mod tests;
