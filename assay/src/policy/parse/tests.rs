use crate::policy::load::{Context, NoFiles, load_bytes};
use crate::policy::rule::{AccessSet, Base};

/// The problems of a policy, as they are printed.
fn problems(text: &str) -> Vec<String> {
    match load_bytes(b"p.yaml", text.as_bytes(), &Context::for_tests(), &NoFiles) {
        Ok(policy) => panic!("{text}\nwas taken for {policy:?}"),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// `text` follows the first line `api_version: assay/v1`.
fn check(text: &str, want: &[&str]) {
    assert_eq!(problems(&format!("api_version: assay/v1\n{text}")), want, "{text}");
}

#[expect(clippy::too_many_lines, reason = "it is one table")]
#[test]
fn each_broken_policy_is_told_with_its_place_and_what_to_write() {
    // Unknown keys.
    check("bse: none", &["p.yaml:2:1: unknown key `bse`; did you mean `base`?"]);
    check(
        "zzz: 1",
        &[
            "p.yaml:2:1: unknown key `zzz`; known here: api_version, base, extends, fs, net, exec, env, lint, notes",
        ],
    );
    check("fs:\n  alow: []", &["p.yaml:3:3: unknown key `alow`; did you mean `allow`?"]);
    check("net: {dney: []}", &["p.yaml:2:7: unknown key `dney`; did you mean `deny`?"]);
    check("env: {deny: [A]}", &["p.yaml:2:7: unknown key `deny`; known here: allow"]);
    check(
        "fs: {allow: [{path: /a, acess: [read]}]}",
        &["p.yaml:2:25: unknown key `acess`; did you mean `access`?"],
    );
    check("FS: {}", &["p.yaml:2:1: unknown key `FS`; did you mean `fs`?"]);
    // Duplicate keys.
    check(
        "fs: {}\nfs: {}",
        &["p.yaml:3:1: duplicate key `fs`; it is first given at line 2; put all of it there"],
    );
    check(
        "fs:\n  deny: [/a]\n  deny: [/b]",
        &["p.yaml:4:3: duplicate key `deny`; it is first given at line 3; put all of it there"],
    );
    check(
        "fs: {allow: [{path: /a, path: /b}]}",
        &["p.yaml:2:25: duplicate key `path`; it is first given at line 2; put all of it there"],
    );
    // Bad types.
    check(
        "fs: [/a]",
        &[
            "p.yaml:2:5: expected `fs` to be a mapping, found a list; write keys with their values: `KEY: VALUE`",
        ],
    );
    check("fs: {allow: /a}", &["p.yaml:2:13: expected a list, found a string; write `[\"/a\"]`"]);
    check(
        "fs: {allow: [12]}",
        &[
            "p.yaml:2:14: expected a path, found a number; put a number that is meant as text in quotes: \"12\"",
        ],
    );
    check(
        "fs: {allow: [true]}",
        &[
            "p.yaml:2:14: expected a path, found a boolean; put a boolean that is meant as text in quotes: \"true\"",
        ],
    );
    check("fs: {allow: [[/a]]}", &["p.yaml:2:14: expected a path, found a list; write a path in its place"]);
    check(
        "fs: {allow: ['']}",
        &["p.yaml:2:14: expected a path, found an empty string; write the value, or leave the entry out"],
    );
    check(
        "fs: {allow: [{access: [read]}]}",
        &["p.yaml:2:14: `path` is missing; write `{path: …, access: […]}`"],
    );
    check(
        "fs: {allow: [{path: /a, access: read}]}",
        &["p.yaml:2:33: expected a list, found a string; write `[\"read\"]`"],
    );
    check(
        "fs: {allow: [{path: /a, access: []}]}",
        &["p.yaml:2:33: `access` is empty; leave it out, or name an access"],
    );
    check(
        "fs: {allow: [{path: /a, access: [wirte]}]}",
        &["p.yaml:2:34: unknown access `wirte`; did you mean `write`?"],
    );
    check(
        "fs: {allow: [{path: /a, access: [rw, q]}]}",
        &[
            "p.yaml:2:34: unknown access `rw`; did you mean `read, write`?",
            "p.yaml:2:38: unknown access `q`; known: read, write, execute, list",
        ],
    );
    check("base: systm", &["p.yaml:2:7: unknown base `systm`; did you mean `system`?"]);
    check("base: [none]", &["p.yaml:2:7: expected a string, found a list; write a string in its place"]);
    check(
        "env: {allow: [A=b]}",
        &["p.yaml:2:15: bad variable name `A=b`; a policy allows names, not values; write `A`"],
    );
    check("env: {allow: ['${A}']}", &["p.yaml:2:15: bad variable name `${A}`; did you mean `A`?"]);
    // Bad paths.
    check("fs: {deny: ['${HOM}/x']}", &["p.yaml:2:13: unknown variable `${HOM}`; did you mean `${HOME}`?"]);
    check("fs: {deny: ['$HOME/x']}", &["p.yaml:2:13: bad path `$HOME/x`; did you mean `${HOME}/x`?"]);
    check("fs: {deny: ['${HOME/x']}", &["p.yaml:2:13: bad path `${HOME/x`; the `${` is not closed"]);
    check(
        "fs: {deny: ['${HOME}x']}",
        &["p.yaml:2:13: bad path `${HOME}x`; after `${HOME}` comes `/` or nothing"],
    );
    check(
        "fs: {deny: ['~bob/x']}",
        &[
            "p.yaml:2:13: bad path `~bob/x`; `~` is the home of the invoking user; write another user's home as a path",
        ],
    );
    check(
        "fs: {deny: ['/a/${HOME}']}",
        &[
            "p.yaml:2:13: bad path `/a/${HOME}`; a variable stands at the beginning of a path; a name with a literal `${` is written `\\x24{HOME`",
        ],
    );
    check(
        r"fs: {deny: ['/a\b']}",
        &[
            r"p.yaml:2:13: bad path `/a\b`; a backslash is written `\\`, any byte `\xNN` (a literal `*` is `\x2a`)",
        ],
    );
    check(r"fs: {deny: ['/a\x00']}", &[r"p.yaml:2:13: bad path `/a\x00`; a name holds neither NUL nor `/`"]);
    check("fs: {deny: ['/a/*/../b']}", &["p.yaml:2:13: bad path `/a/*/../b`; `..` cannot come after a `*`"]);
    // Bad addresses.
    check(
        "net: {allow: ['1.2.3.4.5']}",
        &["p.yaml:2:15: bad address `1.2.3.4.5`; an IPv4 address has four numbers from 0 to 255"],
    );
    check(
        "net: {allow: ['1.2.3.400:1']}",
        &["p.yaml:2:15: bad address `1.2.3.400:1`; an IPv4 address has four numbers from 0 to 255"],
    );
    check(
        "net: {allow: ['10.0.0.1/8']}",
        &[
            "p.yaml:2:15: bad address `10.0.0.1/8`; the address has bits beyond the prefix; did you mean `10.0.0.0/8`?",
        ],
    );
    check(
        "net: {allow: ['10.0.0.0/33']}",
        &["p.yaml:2:15: bad address `10.0.0.0/33`; after `/` stands a number from 0 to 32"],
    );
    check(
        "net: {allow: ['https://a.b/c']}",
        &[
            "p.yaml:2:15: bad address `https://a.b/c`; a rule is HOST:PORT, not a URL; did you mean `a.b:443`?",
        ],
    );
    check(
        "net: {allow: ['a.b:70000']}",
        &[
            "p.yaml:2:15: bad address `a.b:70000`; a port is a number from 0 to 65535, a range `LOW-HIGH`, or `*`",
        ],
    );
    check(
        "net: {allow: ['a.b:9-8']}",
        &["p.yaml:2:15: bad address `a.b:9-8`; the range is empty; did you mean `8-9`?"],
    );
    check(
        "net: {allow: ['fe80::1:80:x']}",
        &["p.yaml:2:15: bad address `fe80::1:80:x`; an IPv6 address with a port is written `[ADDRESS]:PORT`"],
    );
    check("net: {allow: ['[::1:80']}", &["p.yaml:2:15: bad address `[::1:80`; the `[` is not closed"]);
    check(
        "net: {allow: ['a b:80']}",
        &[
            "p.yaml:2:15: bad address `a b:80`; a host is letters, digits, `-` and `.`; a leading `*.` stands for any name below",
        ],
    );
    check(
        "net: {allow: [':80']}",
        &["p.yaml:2:15: bad address `:80`; write a host, an address, or `*`, before the port"],
    );
    check(
        "net: {allow: [443]}",
        &[
            "p.yaml:2:15: expected a string like `HOST:PORT`, found a number; put a number that is meant as text in quotes: \"443\"",
        ],
    );
    check("net: {allow: ['unix:@']}", &["p.yaml:2:15: bad address `unix:@`; write `unix:@NAME`"]);
    // What it extends.
    check(
        "extends: [./no.yaml]",
        &[
            "p.yaml:2:11: cannot extend `./no.yaml`: there is no file tree to read from; the path is relative to the file that names it",
        ],
    );
    check(
        "extends: [builtin:maximal]",
        &["p.yaml:2:11: unknown built-in policy `maximal`; there is `builtin:minimal`"],
    );
    check("extends: ./a.yaml", &["p.yaml:2:10: expected a list, found a string; write `[\"./a.yaml\"]`"]);
    // The text itself.
    check("fs: &a {}\nnet: *a", &["p.yaml:2:8: an anchor; write the value out; a policy has no anchors"]);
    check("fs: !x {}", &["p.yaml:2:8: a tag; remove it; a policy has no tags"]);
    check("---\nfs: {}", &["p.yaml:2:1: a second document; a policy is one document"]);
    check("? [a]\n: b", &["p.yaml:2:3: a list or mapping as a key; a key is a word"]);
}

#[test]
fn a_policy_without_a_known_version_is_refused() {
    assert_eq!(problems("fs: {}"), ["p.yaml:1:1: `api_version` is missing; add `api_version: assay/v1`"]);
    assert_eq!(
        problems("api_version: assay/v2"),
        ["p.yaml:1:14: unknown api_version `assay/v2`; this version of assay knows `assay/v1`"]
    );
    assert_eq!(problems(""), ["p.yaml:1:1: the file is empty; begin with `api_version: assay/v1`"]);
    assert_eq!(problems("# nothing"), ["p.yaml:1:1: the file is empty; begin with `api_version: assay/v1`"]);
    assert_eq!(
        problems("[a]"),
        [
            "p.yaml:1:1: expected a policy to be a mapping, found a list; write keys with their values: `KEY: VALUE`"
        ]
    );
    assert!(problems("fs: [\n")[0].starts_with("p.yaml:"), "{:?}", problems("fs: [\n"));
    assert!(problems("a: b: c")[0].starts_with("p.yaml:1:"), "{:?}", problems("a: b: c"));
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    check(
        "fs: {allow: [1, {path: /a, access: [x]}], deny: ['$HOME']}\nnet: {allow: ['a:b']}\nqqqq: 1",
        &[
            "p.yaml:2:14: expected a path, found a number; put a number that is meant as text in quotes: \"1\"",
            "p.yaml:2:37: unknown access `x`; did you mean `execute`?",
            "p.yaml:2:50: bad path `$HOME`; did you mean `${HOME}`?",
            "p.yaml:3:15: bad address `a:b`; a port is a number from 0 to 65535, a range `LOW-HIGH`, or `*`",
            "p.yaml:4:1: unknown key `qqqq`; known here: api_version, base, extends, fs, net, exec, env, lint, notes",
        ],
    );
}

#[test]
fn bytes_that_are_not_text_are_told_with_their_place() {
    let problems =
        load_bytes(b"p", b"api_version: assay/v1\n# \xff", &Context::for_tests(), &NoFiles).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        r"p:2:3: the file is not UTF-8; write a byte of a name that is not UTF-8 as \xNN"
    );
    let nested = "[".repeat(10_000);
    let problems = load_bytes(b"p", nested.as_bytes(), &Context::for_tests(), &NoFiles).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let bomb = format!("api_version: assay/v1\nfs: {{allow: [{}]}}", "/a, ".repeat(200_000));
    let problems = load_bytes(b"p", bomb.as_bytes(), &Context::for_tests(), &NoFiles).unwrap_err();
    assert!(problems[0].message.contains("more than 100000 nodes"), "{:?}", problems[0]);
}

#[test]
fn variables_mean_the_same_in_every_list() {
    let text = "api_version: assay/v1
base: none
fs:
  allow: [~, '~/a', '${HOME}/a', '${WORKDIR}', '${TMPDIR}/x', '${CALLER_TMPDIR}/x', a/../b, './c', '/d/*.x', '/e/**']
  deny: ['~/a']
exec: {allow: ['~/a'], deny: ['${WORKDIR}/x', bin, './c', a/../b]}
net: {allow: ['unix:~/s', 'unix:run/s']}
";
    let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
    let prefixes: Vec<_> = policy
        .fs_allow
        .iter()
        .map(|rule| String::from_utf8(rule.patterns[0].literal_prefix()).unwrap())
        .collect();
    let want =
        ["/home/u", "/home/u/a", "/home/u/a", "/w", "/tmp/assay-1/x", "/tmp/x", "/w/b", "/w/c", "/d", "/e"];
    assert_eq!(prefixes, want);
    assert_eq!(policy.fs_allow[0].access, AccessSet::READ_EXECUTE);
    assert_eq!(policy.fs_deny[0].access, AccessSet::ALL);
    assert_eq!(policy.fs_deny[0].patterns[0].literal_prefix(), b"/home/u/a");
    assert_eq!(policy.exec_allow.as_ref().unwrap()[0].patterns[0].literal_prefix(), b"/home/u/a");
    let prefixes: Vec<_> = policy.exec_deny.iter().map(|rule| rule.patterns[0].literal_prefix()).collect();
    assert_eq!(prefixes, [&b"/w/x"[..], b"/w/bin", b"/w/c", b"/w/b"]);
    assert!(policy.net_allow[0].applies_to_unix_path(b"/home/u/s"));
    assert!(policy.net_allow[1].applies_to_unix_path(b"/w/run/s"));
    assert_eq!(policy.base, Base::None);
}

#[test]
fn escapes_name_any_byte() {
    let text = r"api_version: assay/v1
base: none
fs: {allow: ['/a\xff\x2a', '/\\b', '/\x24{HOME}']}
";
    let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
    let literals: Vec<_> =
        policy.fs_allow.iter().map(|rule| rule.patterns[0].as_literal().unwrap()).collect();
    assert_eq!(literals, [b"/a\xff*".as_slice(), b"/\\b", b"/${HOME}"]);
    for path in literals {
        let back =
            crate::policy::path::parse_path(&crate::policy::rule::spell_bytes(&path), &Context::for_tests())
                .unwrap();
        assert_eq!(back.as_literal(), Some(path));
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes: Vec<u8>) {
        drop(load_bytes(b"p", &bytes, &Context::for_tests(), &NoFiles));
    }

    #[test]
    fn no_text_of_policy_pieces_makes_the_parser_panic(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "api_version: assay/v1", "fs:", "net:", "allow:", "deny:", "exec:", "extends:", "env:", "base:", "\n",
                "  ", "- ", "[", "]", "{", "}", ",", ":", "path: ", "access: ", "~", "${", "}", "*", "**", "/", "..",
                "\\x", "\\", "'", "\"", "unix:", "@", "::1", "[::1]:", "1.2.3.4", "/99", "-", "&a ", "*a", "!t ", "|\n", "é",
            ]),
            0..40,
        )
    ) {
        drop(load_bytes(b"p", pieces.concat().as_bytes(), &Context::for_tests(), &NoFiles));
    }

    #[test]
    fn every_path_can_be_spelled_and_read_back(names in proptest::collection::vec("[^/\u{0}]{1,8}", 1..5)) {
        proptest::prop_assume!(names.iter().all(|name| name != "." && name != ".."));
        let path = names.iter().flat_map(|name| [b"/", name.as_bytes()].concat()).collect::<Vec<u8>>();
        let spelled = crate::policy::rule::spell_bytes(&path);
        let pattern = crate::policy::path::parse_path(&spelled, &Context::for_tests()).unwrap();
        proptest::prop_assert_eq!(pattern.as_literal(), Some(path));
    }
}

#[test]
fn an_entry_that_is_left_out_is_no_home() {
    for list in ["fs:\n  allow:\n    -\n", "fs:\n  deny:\n    - /a\n    -\n", "exec:\n  deny:\n    -\n"] {
        let told = problems(&format!("api_version: assay/v1\n{list}"));
        assert!(
            told.len() == 1 && told[0].contains("expected a path, found null; write the value"),
            "{told:?}"
        );
    }
    check(
        "fs:\n  allow: [{path: , access: [read]}]",
        &["p.yaml:3:16: expected a path, found null; write the value"],
    );
    check(
        "fs:\n  allow: [null]",
        &["p.yaml:3:11: expected a path, found null; put null that is meant as text in quotes: \"null\""],
    );
    for home in ["~", "'~'"] {
        let text = format!("api_version: assay/v1\nfs: {{allow: [{home}]}}");
        let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
        assert!(policy.fs_allow.last().unwrap().patterns[0].matches(b"/home/u"), "{home}");
    }
}

#[test]
fn a_pattern_without_a_slash_matches_at_any_depth() {
    let covers = |path: &str, name: &[u8]| {
        let text = format!("api_version: assay/v1\nfs: {{deny: ['{path}']}}");
        let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
        policy.fs_deny[0].patterns.iter().any(|pattern| pattern.covers(name))
    };
    for name in [&b"/w/.env"[..], b"/w/.env.local", b"/w/x/.env", b"/w/x/y/.envrc/z"] {
        assert!(covers(".env*", name), "{}", String::from_utf8_lossy(name));
    }
    assert!(!covers(".env*", b"/v/.env") && !covers(".env*", b"/w/x/a.env"));
    assert!(!covers("./.env*", b"/w/x/.env") && covers("./.env*", b"/w/.env"));
    assert!(!covers("/w/.env*", b"/w/x/.env") && !covers(".env", b"/w/x/.env"));
    assert!(covers("*", b"/w/a/b") && !covers("*", b"/w") && covers("**", b"/w/a/b"));
}

#[test]
fn a_class_is_told_to_be_none() {
    let hint = r"`[` is no class here, `*` and `**` are the only patterns; a literal `[` is written `\x5b`";
    check("fs: {deny: ['/a/[b']}", &[&format!("p.yaml:2:13: bad path `/a/[b`; {hint}")]);
    check("fs: {deny: ['/a/*.[oa]']}", &[&format!("p.yaml:2:13: bad path `/a/*.[oa]`; {hint}")]);
    // As frameworks for the web name files.
    let text = "api_version: assay/v1\nfs: {deny: ['/a/[slug].tsx', '/b/\\x5bc']}";
    let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
    assert!(policy.fs_deny[0].patterns[0].matches(b"/a/[slug].tsx"));
    assert!(policy.fs_deny[1].patterns[0].matches(b"/b/[c"));
}

/// A file that is no policy may be one that nobody should see (`--policy /etc/shadow`): of its content nothing is told.
#[test]
fn nothing_of_a_file_that_is_no_policy_is_repeated() {
    let files = [
        "root:$6$SECRET/SECRET:19000:0:99999:7:::\ndaemon:*SECRET:19000:0:99999:7:::\n",
        "SECRET::\nSECRET::\nSECRET: [\n",
        "root:x:SECRET::\nroot:x:SECRET::\n",
        "SECRET",
        "SECRET: SECRET\nSECRET2: SECRET\n",
        "- SECRET\n",
        "12\n",
        "{\"auths\": {\"SECRET\": {\"auth\": \"SECRET\"}}}",
        "[default]\naws_secret_access_key = SECRET\n",
        "-----BEGIN SECRET KEY-----\nSECRET\n-----END SECRET KEY-----\n",
        "export SECRET=SECRET\nuser: SECRET\n",
        "a: &SECRET SECRET\n",
        "a: !SECRET SECRET\n",
        "a: *SECRET\n",
        "%SECRET\n---\na: b\n",
        "? [SECRET]\n: b\n",
        "a: 'SECRET\n",
        "a: \"\\SECRET\"\n",
        "a: SECRET\n---\nb: SECRET\n",
        "SECRET: {SECRET: {SECRET\n",
    ];
    for text in files {
        let told = problems(text);
        assert!(!told.is_empty() && !told.iter().any(|line| line.contains("SECRET")), "{text}: {told:?}");
        assert!(told.iter().all(|line| line.starts_with("p.yaml:")), "{told:?}");
    }
    let told = problems("SECRET: 1\napi_verson: assay/v1\nSECRET: 2\n");
    assert_eq!(
        told,
        [
            "p.yaml:1:1: no policy: none of its keys is a policy's; begin with `api_version: assay/v1`; known here: api_version, base, extends, fs, net, exec, env, lint, notes",
            "p.yaml:2:1: unknown key `api_verson`; did you mean `api_version`?",
            "p.yaml:3:1: duplicate key; it is first given at line 1; put all of it there",
        ]
    );
}
