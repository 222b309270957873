//! Secrets in arguments, addresses and names: where they stand. Pure.
//!
//! Nothing is written or hashed before it went through here. A secret is found by the flag, header, URL or
//! assignment it stands in, or by its own shape. What replaces them is in [`super::secrets`].

use std::ops::Range;

use super::volatile::find;

/// One secret inside a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Where it stands.
    pub range: Range<usize>,
    /// The rule that found it.
    pub rule: &'static str,
}

/// A known shape of a key: how it begins, what follows, how many of it at least.
struct KeyShape {
    prefix: &'static [u8],
    least: usize,
    extra: &'static [u8],
}

const fn key(prefix: &'static [u8], least: usize, extra: &'static [u8]) -> KeyShape {
    KeyShape { prefix, least, extra }
}

/// Shapes that services give their keys so that they can be recognised.
const KEY_SHAPES: &[KeyShape] = &[
    key(b"ghp_", 30, b""),
    key(b"gho_", 30, b""),
    key(b"ghu_", 30, b""),
    key(b"ghs_", 30, b""),
    key(b"ghr_", 30, b""),
    key(b"github_pat_", 22, b"_"),
    key(b"glpat-", 16, b"-_"),
    key(b"glsa_", 20, b"_"),
    key(b"sk-", 20, b"-_"),
    key(b"sk_live_", 16, b""),
    key(b"sk_test_", 16, b""),
    key(b"rk_live_", 16, b""),
    key(b"AKIA", 16, b""),
    key(b"ASIA", 16, b""),
    key(b"xoxb-", 10, b"-"),
    key(b"xoxp-", 10, b"-"),
    key(b"xoxa-", 10, b"-"),
    key(b"xoxs-", 10, b"-"),
    key(b"xapp-", 10, b"-"),
    key(b"AIza", 30, b"-_"),
    key(b"ya29.", 20, b"-_."),
    key(b"npm_", 30, b""),
    key(b"pypi-", 30, b"-_"),
    key(b"hf_", 30, b""),
    key(b"dckr_pat_", 20, b"-_"),
    key(b"dop_v1_", 30, b""),
    key(b"hvs.", 20, b"-_"),
    key(b"SG.", 30, b"-_."),
    key(b"shpat_", 20, b""),
    key(b"sntrys_", 20, b"-_=+/"),
    key(b"lin_api_", 20, b""),
    key(b"ATATT3", 20, b"-_="),
    key(b"AGE-SECRET-KEY-1", 20, b""),
    key(b"eyJ", 30, b"-_."),
];

/// Flags whose value, after `=` or as the next argument, is a secret. Compared without dashes and case.
const FLAGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pass",
    "token",
    "secret",
    "apikey",
    "authtoken",
    "accesstoken",
    "secretkey",
    "clientsecret",
    "privatetoken",
    "jobtoken",
    "oauth2bearer",
    "secretaccesskey",
    "sessiontoken",
    "bearertoken",
    "accesskey",
    "githubtoken",
    "npmtoken",
    "registrytoken",
    "personalaccesstoken",
    "dbpassword",
    "proxypassword",
    "httppassword",
    "ftppassword",
    "encryptionkey",
    "apitoken",
    "refreshtoken",
    "idtoken",
    "webhooksecret",
];

/// Flags whose value is `user:password`.
const USER_FLAGS: &[&str] = &["-u", "--user", "-U", "--proxy-user"];

/// Programs whose `-u` and `--user` take `user:password`.
const USER_FLAG_PROGRAMS: &[&[u8]] = &[b"curl", b"http", b"https", b"xh", b"wget", b"httpie"];

/// Programs whose `-p` takes a password: glued (`-pSECRET`), or as the next argument too.
const P_FLAG_PROGRAMS: &[(&[u8], bool)] = &[
    (b"mysql", false),
    (b"mysqldump", false),
    (b"mysqladmin", false),
    (b"mariadb", false),
    (b"sshpass", true),
];

/// Headers whose value is a secret.
const HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
    "x-access-token",
    "private-token",
    "job-token",
    "x-amz-security-token",
    "x-vault-token",
    "x-github-token",
    "x-goog-api-key",
    "x-csrf-token",
    "dd-api-key",
    "circle-token",
];

/// Ends of the names of parameters and variables that hold secrets, without separators and case.
const NAME_ENDS: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "accesskeyid",
    "signature",
    "credential",
    "credentials",
    "authorization",
    "pwd",
    "clientsecret",
    "sharedkey",
    "encryptionkey",
    "signingkey",
    "sessionkey",
    "authkey",
    "bearer",
];

/// The secrets of each argument, in order and without overlap.
pub fn find_in_argv(argv: &[Vec<u8>]) -> Vec<Vec<Secret>> {
    let mut found: Vec<Vec<Secret>> = argv.iter().map(|text| find_in_text(text)).collect();
    let program = argv.first().map(|path| path.rsplit(|&byte| byte == b'/').next().unwrap_or_default());
    let mut is_value = None;
    for (position, argument) in argv.iter().enumerate() {
        if let Some(rule) = is_value.take()
            && position > 0
        {
            add_value(&mut found[position], argument, 0..argument.len(), rule);
            continue;
        }
        if position == 0 {
            continue;
        }
        match flag(argument, program) {
            Flag::Glued(range, rule) => add_value(&mut found[position], argument, range, rule),
            Flag::Next(rule) => is_value = Some(rule),
            Flag::No => {}
        }
    }
    for (secrets, argument) in found.iter_mut().zip(argv) {
        // `user:password` keeps its user.
        for secret in secrets.iter_mut().filter(|secret| secret.rule == "credential-flag") {
            if let Some(colon) = argument[secret.range.clone()].iter().position(|&byte| byte == b':') {
                secret.range.start += colon + 1;
            }
        }
        secrets.retain(|secret| !secret.range.is_empty());
    }
    found
}

enum Flag {
    Glued(Range<usize>, &'static str),
    Next(&'static str),
    No,
}

fn flag(argument: &[u8], program: Option<&[u8]>) -> Flag {
    let program = program.unwrap_or_default();
    if USER_FLAG_PROGRAMS.contains(&program) {
        for user in USER_FLAGS {
            if argument == user.as_bytes() {
                return Flag::Next("credential-flag");
            }
            let glue = usize::from(user.starts_with("--"));
            if argument.starts_with(user.as_bytes())
                && argument.len() > user.len() + glue
                && (glue == 0 || argument[user.len()] == b'=')
                && !argument.starts_with(b"--user-agent")
            {
                return Flag::Glued(user.len() + glue..argument.len(), "credential-flag");
            }
        }
    }
    if let Some((_, takes_next)) = P_FLAG_PROGRAMS.iter().find(|(name, _)| *name == program) {
        if argument.len() > 2 && argument.starts_with(b"-p") {
            return Flag::Glued(2..argument.len(), "secret-flag");
        }
        if *takes_next && argument == b"-p" {
            return Flag::Next("secret-flag");
        }
    }
    if argument.first() != Some(&b'-') {
        return Flag::No;
    }
    let end = argument.iter().position(|&byte| byte == b'=').unwrap_or(argument.len());
    let name = bare(&argument[..end]);
    if !FLAGS.contains(&name.as_str()) {
        return Flag::No;
    }
    if end < argument.len() {
        Flag::Glued(end + 1..argument.len(), "secret-flag")
    } else {
        Flag::Next("secret-flag")
    }
}

/// A name without separators, in lower case.
fn bare(name: &[u8]) -> String {
    name.iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect()
}

/// Adds a whole value, in place of whatever was found inside it. What only refers to a secret (`$TOKEN`, `@file`,
/// `env:NAME`, nothing) stays.
fn add_value(found: &mut Vec<Secret>, text: &[u8], range: Range<usize>, rule: &'static str) {
    let value = &text[range.clone()];
    let is_reference = matches!(value.first(), None | Some(b'$' | b'@' | b'-'))
        || value.starts_with(b"env:")
        || value.starts_with(b"file:");
    if is_reference {
        return;
    }
    found.retain(|secret| secret.range.end <= range.start || secret.range.start >= range.end);
    found.push(Secret { range, rule });
    found.sort_by_key(|secret| secret.range.start);
}

/// The secrets of a text that is not an argument list: shapes, URLs, headers, assignments.
pub fn find_in_text(text: &[u8]) -> Vec<Secret> {
    let mut found = Vec::new();
    private_keys(text, &mut found);
    headers(text, &mut found);
    urls(text, &mut found);
    assignments(text, &mut found);
    key_shapes(text, &mut found);
    found.sort_by_key(|secret: &Secret| secret.range.start);
    found
}

/// The known key shapes of a text alone: what is looked for in names and addresses.
pub fn find_key_shapes(text: &[u8]) -> Vec<Secret> {
    let mut found = Vec::new();
    key_shapes(text, &mut found);
    found
}

pub(super) fn add(found: &mut Vec<Secret>, range: Range<usize>, rule: &'static str) {
    let is_free = found.iter().all(|other| other.range.end <= range.start || other.range.start >= range.end);
    if !range.is_empty() && is_free {
        found.push(Secret { range, rule });
    }
}

/// The bytes that a key shape begins with: most positions of most texts are done with by one look.
const CAN_BEGIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < KEY_SHAPES.len() {
        table[KEY_SHAPES[at].prefix[0] as usize] = true;
        at += 1;
    }
    table
};

fn key_shapes(text: &[u8], found: &mut Vec<Secret>) {
    // Where the run of characters ends in which a shape was looked for in vain: what begins later in the same run is
    // only shorter. Without this, a long text of beginnings takes the square of its length.
    let mut in_vain = [0; KEY_SHAPES.len()];
    let mut at = 0;
    while at < text.len() {
        let is_start = CAN_BEGIN[usize::from(text[at])] && (at == 0 || !text[at - 1].is_ascii_alphanumeric());
        let mut hit = None;
        if is_start {
            for (shape, in_vain) in KEY_SHAPES.iter().zip(&mut in_vain) {
                if at < *in_vain || !text[at..].starts_with(shape.prefix) {
                    continue;
                }
                let len = shape.prefix.len() + run_len(shape, &text[at + shape.prefix.len()..]);
                if is_key(shape, &text[at + shape.prefix.len()..at + len]) {
                    hit = Some(len);
                    break;
                }
                *in_vain = at + len;
            }
        }
        if let Some(len) = hit {
            add(found, at..at + len, "key-shape");
            at += len;
        } else {
            at += 1;
        }
    }
}

fn run_len(shape: &KeyShape, rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || shape.extra.contains(byte)).count()
}

fn is_key(shape: &KeyShape, run: &[u8]) -> bool {
    let has_digit_or_upper = run.iter().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    // A JSON web token has its dots.
    let is_token = shape.prefix != b"eyJ" || run.contains(&b'.');
    run.len() >= shape.least && has_digit_or_upper && is_token
}

fn private_keys(text: &[u8], found: &mut Vec<Secret>) {
    let mut from = 0;
    while let Some(begin) = find(&text[from..], b"-----BEGIN ").map(|at| from + at) {
        let rest = &text[begin..];
        let header = rest
            .iter()
            .take(80)
            .position(|&byte| byte == b'\n' || byte == b'\\')
            .unwrap_or(rest.len().min(80));
        if find(&rest[..header], b"PRIVATE KEY").is_none() {
            from = begin + 11;
            continue;
        }
        let end = find(rest, b"-----END ").map_or(text.len(), |end| {
            let tail = &rest[end + 9..];
            begin + end + 9 + find(tail, b"-----").map_or(tail.len(), |dashes| dashes + 5)
        });
        add(found, begin..end, "private-key");
        from = end;
    }
}

/// `Header: value` up to the end of the line or the quote.
fn headers(text: &[u8], found: &mut Vec<Secret>) {
    for colon in (0..text.len()).filter(|&at| text[at] == b':') {
        let start = text[..colon]
            .iter()
            .rposition(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'-'))
            .map_or(0, |before| before + 1);
        let name = text[start..colon].to_ascii_lowercase();
        let is_glued = |header: &&str| name.strip_prefix(b"-h").is_some_and(|name| name == header.as_bytes());
        if !HEADERS.iter().any(|header| name == header.as_bytes() || is_glued(header)) {
            continue;
        }
        let mut value = colon + 1 + text[colon + 1..].iter().take_while(|byte| **byte == b' ').count();
        let end = value
            + text[value..].iter().take_while(|byte| !matches!(byte, b'\r' | b'\n' | b'"' | b'\'')).count();
        // The scheme says nothing secret.
        for scheme in ["bearer ", "basic ", "token ", "digest ", "apikey ", "negotiate "] {
            if text[value..end].len() > scheme.len()
                && text[value..value + scheme.len()].eq_ignore_ascii_case(scheme.as_bytes())
            {
                value += scheme.len();
            }
        }
        if text.get(value) != Some(&b'$') {
            add(found, value..end, "header");
        }
    }
}

fn is_url_end(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'|' | 0)
}

/// The password in `scheme://user:password@host`, a token that stands alone before the `@`, and the values of query
/// parameters that hold secrets.
fn urls(text: &[u8], found: &mut Vec<Secret>) {
    let mut from = 0;
    while let Some(at) = find(&text[from..], b"://").map(|at| from + at) {
        let start = at + 3;
        let end = start + text[start..].iter().take_while(|byte| !is_url_end(**byte)).count();
        from = start;
        let authority_end =
            start + text[start..end].iter().take_while(|byte| !matches!(byte, b'/' | b'?' | b'#')).count();
        // A password may hold an unescaped `/`, but then nothing can tell; an `@` in it can be told.
        if let Some(sign) = text[start..authority_end].iter().rposition(|&byte| byte == b'@') {
            let user_end = start + sign;
            match text[start..user_end].iter().position(|&byte| byte == b':') {
                Some(colon) if text.get(start + colon + 1) != Some(&b'$') => {
                    add(found, start + colon + 1..user_end, "url-password");
                }
                None if sign >= 20 => add(found, start..user_end, "url-password"),
                _ => {}
            }
        }
        let query = (authority_end..end).find(|&position| text[position] == b'?');
        let mut parameter = query.map_or(end, |question| question + 1);
        while parameter < end {
            let stop = parameter
                + text[parameter..end].iter().take_while(|byte| !matches!(byte, b'&' | b';' | b'#')).count();
            if let Some(equals) = text[parameter..stop].iter().position(|&byte| byte == b'=')
                && is_secret_name(&text[parameter..parameter + equals])
                && text.get(parameter + equals + 1) != Some(&b'$')
            {
                add(found, parameter + equals + 1..stop, "url-parameter");
            }
            parameter = stop + 1;
        }
    }
}

fn is_secret_name(name: &[u8]) -> bool {
    let name = bare(name);
    matches!(name.as_str(), "key" | "sig" | "auth" | "pass")
        || NAME_ENDS.iter().any(|end| name.ends_with(end))
}

/// `NAME_TOKEN=value` of the environment and `"password": "value"` of JSON.
fn assignments(text: &[u8], found: &mut Vec<Secret>) {
    for sign in (1..text.len()).filter(|&at| matches!(text[at], b'=' | b':')) {
        let is_json = text[sign] == b':';
        let mut name_end = sign;
        while is_json && name_end > 0 && text[name_end - 1] == b' ' {
            name_end -= 1;
        }
        if is_json {
            // Only a quoted key: `password: x` in prose is not an assignment.
            if name_end == 0 || !matches!(text[name_end - 1], b'"' | b'\'') {
                continue;
            }
            name_end -= 1;
        }
        let name_start = text[..name_end]
            .iter()
            .rposition(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')))
            .map_or(0, |before| before + 1);
        let name = &text[name_start..name_end];
        // A flag is judged as a flag, with its own list.
        let is_name = name.first().is_some_and(|byte| *byte != b'-');
        if !is_name || !NAME_ENDS.iter().any(|end| bare(name).ends_with(end)) {
            continue;
        }
        let mut value = sign + 1;
        while is_json && text.get(value) == Some(&b' ') {
            value += 1;
        }
        let quote = text.get(value).copied().filter(|byte| matches!(byte, b'"' | b'\''));
        if quote.is_some() {
            value += 1;
        } else if is_json {
            continue;
        }
        let end = value
            + text[value..]
                .iter()
                .take_while(|byte| match quote {
                    Some(quote) => **byte != quote,
                    None => {
                        !byte.is_ascii_whitespace()
                            && !matches!(byte, b'"' | b'\'' | b';' | b'&' | b'|' | b')')
                    }
                })
                .count();
        if !matches!(text.get(value), None | Some(b'$' | b'@')) {
            add(found, value..end, "assignment");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::secrets::Secrets;

    fn argv(input: &[&str], want: &[&str]) {
        let argv: Vec<Vec<u8>> = input.iter().map(|text| text.as_bytes().to_vec()).collect();
        let found = find_in_argv(&argv);
        let mut secrets = Secrets::default();
        let marked: Vec<String> = argv
            .iter()
            .zip(&found)
            .map(|(text, spans)| {
                secrets.learn(text, spans);
                let mut out = String::new();
                secrets.mark(text, spans, &mut out, |plain, out| {
                    out.push_str(std::str::from_utf8(plain).unwrap());
                });
                out
            })
            .collect();
        let got: Vec<String> = marked.iter().map(|text| secrets.write(text)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn flags_and_their_values() {
        argv(&["x", "--password", "hunter2"], &["x", "--password", "${REDACTED:1}"]);
        argv(
            &["x", "--api-key=abc", "--token", "abc"],
            &["x", "--api-key=${REDACTED:1}", "--token", "${REDACTED:1}"],
        );
        argv(
            &["curl", "-u", "me:pw", "-uyou:pw2"],
            &["curl", "-u", "me:${REDACTED:1}", "-uyou:${REDACTED:2}"],
        );
        argv(&["/usr/bin/mysql", "-psecret", "db"], &["/usr/bin/mysql", "-p${REDACTED:1}", "db"]);
        argv(&["sshpass", "-p", "pw", "ssh"], &["sshpass", "-p", "${REDACTED:1}", "ssh"]);
        let stays = [
            "x",
            "--password-file",
            "/p",
            "--token",
            "$TOKEN",
            "--password",
            "@file",
            "-u",
            "root",
            "-p",
            "8080",
        ];
        argv(&stays, &stays);
    }

    #[test]
    fn urls_keep_all_but_the_secret() {
        argv(
            &["git", "clone", "https://me:p%40w@host/x.git"],
            &["git", "clone", "https://me:${REDACTED:1}@host/x.git"],
        );
        argv(&["x", "postgres://u:a@b@db:5432/n"], &["x", "postgres://u:${REDACTED:1}@db:5432/n"]);
        argv(
            &["x", "https://h/p?a=1&access_token=zz&b=2#f"],
            &["x", "https://h/p?a=1&access_token=${REDACTED:1}&b=2#f"],
        );
        argv(&["git", "ssh://git@host/x"], &["git", "ssh://git@host/x"]);
        argv(&["git", "https://abcdefghij0123456789@host/x"], &["git", "https://${REDACTED:1}@host/x"]);
    }

    #[test]
    fn headers_and_assignments_and_json() {
        argv(
            &["curl", "-H", "Authorization: Bearer abc.def"],
            &["curl", "-H", "Authorization: Bearer ${REDACTED:1}"],
        );
        argv(&["curl", "-HX-Api-Key: k1"], &["curl", "-HX-Api-Key: ${REDACTED:1}"]);
        argv(
            &["sh", "-c", "FOO_TOKEN=abc curl -H 'Cookie: s=1' x"],
            &["sh", "-c", "FOO_TOKEN=${REDACTED:1} curl -H 'Cookie: ${REDACTED:2}' x"],
        );
        argv(&["x", r#"{"password": "p w", "a": 1}"#], &["x", r#"{"password": "${REDACTED:1}", "a": 1}"#]);
        let stays = ["x", "FOO_TOKEN=$FOO", "the password: none", "TOKEN=", "Content-Type: text/plain"];
        argv(&stays, &stays);
    }

    #[test]
    fn keys_of_known_shape_wherever_they_stand() {
        let key = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        argv(&["x", &format!("a={key},b")], &["x", "a=${REDACTED:1},b"]);
        argv(
            &["x", "AKIAIOSFODNN7EXAMPLE", key, key],
            &["x", "${REDACTED:1}", "${REDACTED:2}", "${REDACTED:2}"],
        );
        argv(
            &["x", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"],
            &["x", "${REDACTED:1}\n"],
        );
        let stays =
            ["sk-learn", "npm_config_cache", "task-0123456789012345678901234567890", "hf_hub", "eyJabc"];
        argv(&stays, &stays);
    }

    #[test]
    fn what_was_learned_is_found_elsewhere() {
        let mut secrets = Secrets::default();
        secrets.learn(b"correct-horse", &[Secret { range: 0..13, rule: "secret-flag" }]);
        let mut spans = Vec::new();
        secrets.add_learned(b"/tmp/correct-horse.txt", &mut spans);
        assert_eq!(spans, [Secret { range: 5..18, rule: "learned" }]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken_apart_without_loss(text: Vec<u8>) {
            let spans = find_in_text(&text);
            let mut plain = Vec::new();
            let mut out = String::new();
            Secrets::default().mark(&text, &spans, &mut out, |bytes, _| plain.extend_from_slice(bytes));
            let hidden: usize = spans.iter().map(|span| span.range.len()).sum();
            proptest::prop_assert_eq!(plain.len() + hidden, text.len());
        }
    }
}
