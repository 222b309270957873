//! Whether what somebody called a value says that it is a secret. Pure.

use std::ops::Range;

use super::arguments::LONGEST_FLAG;
use super::rules::{
    EXACT_NAMES, EXACT_PARAMETERS, FLAG_ENDS, FLAG_OTHERS, FLAGS, KEY_OTHERS, LONG_ENDS, NAME_OTHERS,
    PASS_ENDS,
};
use super::scan::Bare;

/// Whether a flag's value is a secret: `--registry-token`, `--tlspassword`, `--botToken`, and not `--max-token`.
pub fn is_secret_flag(flag: &[u8], is_attached: bool) -> bool {
    let name = bare(flag);
    if FLAGS.contains(&name.as_str()) {
        return true;
    }
    let is_long = flag.starts_with(b"--");
    let text = flag.strip_prefix(b"--").or_else(|| flag.strip_prefix(b"-")).unwrap_or_default();
    // `-I../my-token` is a place, and `-Dtoken` a property.
    let is_name = text.iter().all(|byte| byte.is_ascii_alphanumeric() || is_mark(*byte))
        && (is_long || text.first().is_some_and(u8::is_ascii_lowercase));
    let words = words(text);
    let is_other = |word: &[u8]| FLAG_OTHERS.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes()));
    if !is_name || words.iter().any(|word| is_other(word)) {
        return false;
    }
    let ends = |ends: &[&str]| {
        let rest = ends.iter().find_map(|end| name.strip_suffix(end));
        rest.is_some_and(|rest| !is_other(rest.as_bytes()))
    };
    ends(LONG_ENDS) || ends(PASS_ENDS) || ((is_long || is_attached) && words.len() > 1 && ends(FLAG_ENDS))
}

/// Whether `-DNAME=VALUE` or `-PNAME=VALUE` sets a secret: `-Djavax.net.ssl.keyStorePassword=…`. A small number is none.
pub fn is_property(flag: &[u8], value: &[u8]) -> bool {
    let Some(name) = flag.strip_prefix(b"-D").or_else(|| flag.strip_prefix(b"-P")) else { return false };
    let is_number = value.len() <= 4 && value.iter().all(u8::is_ascii_digit);
    !is_number && is_secret_name(name, &Bare::new(name), 0..name.len())
}

/// Whether a variable, a member or a parameter of this name is a secret.
pub fn is_secret_name(text: &[u8], bare: &Bare, name: Range<usize>) -> bool {
    let whole = &text[name.clone()];
    if whole.len() > LONGEST_FLAG {
        return false;
    }
    let part = bare.part(name.clone());
    let is_one = bare.ends_as_secret(name.clone())
        || is_plainly_secret(bare, name.clone())
        || is_variable_of_a_key(whole)
        || (name.start > 0
            && matches!(text[name.start - 1], b'&' | b'?')
            && EXACT_PARAMETERS.contains(&part));
    is_one
        && !words(whole)
            .iter()
            .any(|word| NAME_OTHERS.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes())))
}

/// The same of a name that stands where prose could stand, too: only those that are little else than secrets.
pub fn is_plainly_secret(bare: &Bare, name: Range<usize>) -> bool {
    let part = bare.part(name);
    let ends = |ends: &[&str]| ends.iter().any(|end| part.ends_with(end.as_bytes()));
    ends(LONG_ENDS) || ends(FLAG_ENDS) || ends(PASS_ENDS) || EXACT_NAMES.contains(&part)
}

/// `STRIPE_KEY`, as the names of variables that programs lose; not `PRIMARY_KEY`.
fn is_variable_of_a_key(name: &[u8]) -> bool {
    let is_variable =
        name.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
    let Some(before) = name.strip_suffix(b"_KEY").filter(|_| is_variable) else { return false };
    let word = before.rsplit(|&byte| byte == b'_').next().unwrap_or_default();
    !word.is_empty() && !KEY_OTHERS.contains(&word)
}

/// Whether a word is a name of a secret, as in `aws configure set NAME VALUE` and `poetry config pypi-token.pypi VALUE`.
pub fn is_setting(word: &[u8]) -> bool {
    let is_name = word.len() <= LONGEST_FLAG
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@".contains(byte))
        && !word.ends_with(b"/");
    let bare = Bare::new(word);
    let is_part = || {
        let part = word.split(|&byte| byte == b'.').next().unwrap_or_default();
        part.len() < word.len() && is_plainly_secret(&bare, 0..part.len())
    };
    is_name
        && (word == b"_auth"
            || bare.ends_as_secret(0..word.len())
            || is_plainly_secret(&bare, 0..word.len())
            || is_part())
}

/// The words of a name, which end at marks and before capitals.
fn words(name: &[u8]) -> Vec<&[u8]> {
    let parts = name.split(|byte| is_mark(*byte));
    let is_one = |left: &u8, right: &u8| !(left.is_ascii_lowercase() && right.is_ascii_uppercase());
    parts.flat_map(|part| part.chunk_by(is_one)).filter(|word| !word.is_empty()).collect()
}

const fn is_mark(byte: u8) -> bool {
    matches!(byte, b'-' | b'_' | b'.')
}

/// A name without separators, in lower case.
fn bare(name: &[u8]) -> String {
    name.iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect()
}
