//! The rules of scrubbing, as data.

use super::*;

fn scrub(entries: &[&[u8]], scrubbing: Scrubbing) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let entries = entries.iter().map(|entry| entry.to_vec()).collect();
    let environment = Environment::scrub(entries, &EnvironmentRequest::Scrub(scrubbing));
    (environment.entries, environment.removed)
}

fn check(name: &str, scrubbing: &Scrubbing, is_kept: bool) {
    let entry = format!("{name}=value");
    let (entries, removed) = scrub(&[entry.as_bytes()], scrubbing.clone());
    assert_eq!(entries.len(), usize::from(is_kept), "{name} with {scrubbing:?}");
    assert_eq!(removed.len(), usize::from(!is_kept), "{name} with {scrubbing:?}");
}

fn default() -> Scrubbing {
    Scrubbing::default()
}

#[test]
fn secrets_go_by_their_names() {
    for name in [
        "MY_TOKEN",
        "MY_SECRET",
        "MY_KEY",
        "MY_PASSWORD",
        "my_password",
        "Api_Key",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GITHUB_TOKEN",
        "CI_JOB_TOKEN",
        "DATABASE_URL",
        "PGPASSWORD",
        "REDIS_URL",
        "NPM_TOKEN",
        "npm_config__authToken",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "SSH_AUTH_SOCK",
        "CARGO_REGISTRY_TOKEN",
        "PASSWORD",
        "TOKEN",
    ] {
        check(name, &default(), false);
    }
}

#[test]
fn what_programs_need_stays() {
    for name in [
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TERM",
        "EDITOR",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "CARGO_HOME",
        "MONKEY",
        "KEYBOARD",
        "XAUTHORITY",
        "PWD",
        "OLDPWD",
        "CI",
        "TOKENIZERS_PARALLELISM",
        "FOO",
        "http_proxy",
    ] {
        check(name, &default(), true);
    }
}

#[test]
fn strict_keeps_a_short_list_and_a_secret_pattern_beats_it() {
    let strict = Scrubbing { is_strict: true, ..default() };
    check("PATH", &strict, true);
    check("LC_TIME", &strict, true);
    check("FOO", &strict, false);
    check("XDG_RUNTIME_DIR", &strict, false);
    // `LC_*` is on the safe list.
    check("LC_TOKEN", &strict, false);
}

#[test]
fn an_explicit_allow_beats_every_pattern() {
    let allow = |pattern: &str| Scrubbing {
        is_strict: true,
        strips_exec: true,
        has_safe_path: false,
        allow: vec![pattern.into()],
    };
    check("MY_TOKEN", &allow("MY_TOKEN"), true);
    check("MY_TOKEN", &allow("MY_*"), true);
    check("LD_PRELOAD", &allow("LD_PRELOAD"), true);
    check("FOO", &allow("*"), true);
    check("MY_TOKEN", &allow("my_token"), false);
    check("YOUR_TOKEN", &allow("MY_*"), false);
}

#[test]
fn what_loads_code_goes_when_asked() {
    let strip = Scrubbing { strips_exec: true, ..default() };
    for name in [
        "LD_PRELOAD",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "BASH_ENV",
        "BASH_FUNC_ls%%",
        "EDITOR",
    ] {
        check(name, &strip, false);
    }
    check("PATH", &strip, true);
}

#[test]
fn values_order_and_odd_entries_pass_unharmed() {
    let entries: &[&[u8]] = &[
        b"B=\xff\xfe\n\x01=;'\"$(x)",
        b"A=1",
        b"A=2",
        b"no equals sign",
        b"=starts",
        b"=",
        b"",
        b"MY_TOKEN=x",
        b"E=",
    ];
    let (kept, removed) = scrub(entries, default());
    let expect: Vec<Vec<u8>> =
        entries.iter().filter(|entry| !entry.starts_with(b"MY_")).map(|e| e.to_vec()).collect();
    assert_eq!(kept, expect);
    assert_eq!(removed, [b"MY_TOKEN".to_vec()]);
}

#[test]
fn passthrough_removes_nothing() {
    let entries = vec![b"MY_TOKEN=x".to_vec()];
    let environment = Environment::scrub(entries.clone(), &EnvironmentRequest::Passthrough);
    assert_eq!((environment.entries, environment.removed), (entries, vec![]));
}

#[test]
fn setting_a_variable_takes_the_place_of_all_of_its_name() {
    let mut environment =
        Environment { entries: vec![b"A=1".to_vec(), b"B=2".to_vec(), b"A=3".to_vec()], removed: vec![] };
    environment.set(b"A", b"new");
    environment.set(b"C", b"");
    assert_eq!(environment.entries, [b"A=new".to_vec(), b"B=2".to_vec(), b"C=".to_vec()]);
    assert_eq!(environment.value(b"A"), Some("new".into()));
    assert_eq!(environment.value(b"C"), Some("".into()));
    assert_eq!(environment.value(b"D"), None);
}

#[test]
fn a_safe_path_replaces_or_adds() {
    let safe = Scrubbing { has_safe_path: true, ..default() };
    let expect = [b"PATH=".as_slice(), SAFE_PATH].concat();
    assert_eq!(scrub(&[b"PATH=/evil"], safe.clone()).0, std::slice::from_ref(&expect));
    assert_eq!(scrub(&[], safe).0, [expect]);
}

#[test]
fn stars_match_any_bytes_and_backtrack() {
    let is_match = |pattern: &str, name: &str| matches(pattern.as_bytes(), name.as_bytes(), Case::Exact);
    assert!(is_match("A*B*C", "AxBxBxC"));
    assert!(is_match("*", ""));
    assert!(is_match("A**", "A"));
    assert!(!is_match("A*B", "AxBx"));
    assert!(!is_match("", "A"));
    assert!(matches(b"a*Z", b"A\xff\x00z", Case::Any));
}
