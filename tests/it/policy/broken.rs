//! Policies that somebody might write, each broken; `‸` stands before what is wrong, once for each problem.

/// A broken policy: its text after the first line, and of each problem a part of what is said and of what is suggested.
pub type Broken = (&'static str, &'static [(&'static str, &'static str)]);

pub const BROKEN: &[Broken] = &[
    // Words that are nearly right.
    ("fs:\n  ‸alow: [/usr]", &[("unknown key `alow`", "did you mean `allow`?")]),
    ("fs:\n  allow: [/usr]\n  ‸denny: ['~/.ssh']", &[("unknown key `denny`", "did you mean `deny`?")]),
    ("‸network:\n  allow: ['a.b:443']", &[("unknown key `network`", "known here: api_version, base")]),
    ("‸filesystem: {deny: ['~/.ssh']}", &[("unknown key `filesystem`", "known here:")]),
    ("env:\n  ‸deny: ['*_TOKEN']", &[("unknown key `deny`", "known here: allow")]),
    (
        "fs:\n  deny:\n    - {path: .git/hooks, ‸acces: [write]}",
        &[("unknown key `acces`", "did you mean `access`?")],
    ),
    (
        "fs:\n  deny:\n    - {path: .git, access: [‸wirte]}",
        &[("unknown access `wirte`", "did you mean `write`?")],
    ),
    ("fs: {allow: [{path: /srv, access: [‸rwx]}]}", &[("unknown access `rwx`", "did you mean")]),
    ("base: ‸sytem", &[("unknown base `sytem`", "did you mean `system`?")]),
    ("extends: [‸'builtin:minimum']", &[("unknown built-in policy `minimum`", "there is `builtin:minimal`")]),
    // Said twice.
    (
        "fs: {deny: [/a]}\n‸fs: {deny: [/b]}",
        &[("duplicate key `fs`", "first given at line 2; put all of it there")],
    ),
    ("net:\n  allow: ['a.b:1']\n  ‸allow: ['a.b:2']", &[("duplicate key `allow`", "first given at line 3")]),
    // One thing where another belongs.
    ("fs: ‸[/usr]", &[("expected `fs` to be a mapping, found a list", "`KEY: VALUE`")]),
    ("fs:\n  allow: ‸/usr", &[("expected a list, found a string", "write `[\"/usr\"]`")]),
    ("fs:\n  allow: ‸{path: /usr}", &[("expected a list, found a mapping", "a line that begins with `- `")]),
    ("fs:\n  allow:\n    - ‸[/usr, /opt]", &[("expected a path, found a list", "write a path in its place")]),
    ("fs: {allow: [‸80]}", &[("expected a path, found a number", "\"80\"")]),
    (
        "fs: {allow: [‸1.5, ‸true]}",
        &[("a path, found a number", "\"1.5\""), ("a path, found a boolean", "in quotes: \"true\"")],
    ),
    ("fs: {allow: [‸'']}", &[("found an empty string", "leave the entry out")]),
    ("fs: {allow: [‸{access: [read]}]}", &[("`path` is missing", "write `{path: …, access: […]}`")]),
    ("fs: {allow: [{path: /a, access: ‸write}]}", &[("expected a list, found a string", "[\"write\"]")]),
    ("fs: {allow: [{path: /a, access: ‸[]}]}", &[("`access` is empty", "leave it out, or name an access")]),
    ("net: {allow: [‸443]}", &[("expected a string like `HOST:PORT`, found a number", "\"443\"")]),
    ("env: {allow: [‸'PATH=/bin']}", &[("bad variable name `PATH=/bin`", "write `PATH`")]),
    // Paths.
    ("fs: {deny: [‸'$HOME/.ssh']}", &[("bad path `$HOME/.ssh`", "did you mean `${HOME}/.ssh`?")]),
    ("fs: {deny: [‸'${HOEM}/.ssh']}", &[("unknown variable `${HOEM}`", "did you mean `${HOME}`?")]),
    ("fs: {deny: [‸'${HOME/.ssh']}", &[("bad path", "the `${` is not closed")]),
    ("fs: {deny: [‸'${HOME}.ssh']}", &[("bad path", "after `${HOME}` comes `/` or nothing")]),
    ("fs: {deny: [‸'~root/x']}", &[("bad path", "another user's home as a path")]),
    ("fs: {deny: [‸'/a/${WORKDIR}']}", &[("bad path", "a variable stands at the beginning")]),
    ("fs: {deny: [‸'*.[ch]']}", &[("bad path", "`*` and `**` are the only patterns")]),
    (r"exec: {deny: [‸'C:\bin']}", &[("bad path", r"a backslash is written `\\`")]),
    ("fs: {deny: [‸'/a/**/../b']}", &[("bad path", "`..` cannot come after a `*`")]),
    // Addresses.
    ("net: {allow: [‸'https://a.b/c']}", &[("bad address", "did you mean `a.b:443`?")]),
    ("net: {allow: [‸'10.0.0.300:80']}", &[("bad address", "four numbers from 0 to 255")]),
    ("net: {allow: [‸'10.0.0.1/8']}", &[("bad address", "did you mean `10.0.0.0/8`?")]),
    ("net: {allow: [‸'a.b:99999']}", &[("bad address", "a port is a number from 0 to 65535")]),
    ("net: {deny: [‸'a.b:9000-8000']}", &[("bad address", "did you mean `8000-9000`?")]),
    ("net: {deny: [‸'fe80::1:443:x']}", &[("bad address", "`[ADDRESS]:PORT`")]),
    // What is not there.
    (
        "extends: [‸./no-such.yaml]",
        &[("cannot extend `./no-such.yaml`: it is not there", "relative to the file")],
    ),
    ("extends: [‸assay.yaml]", &[("`assay.yaml` extends itself", "remove it from one of the two")]),
    // The text itself.
    ("fs: &all ‸{}\nnet: {}", &[("an anchor", "write the value out")]),
    ("fs: !!map ‸{}", &[("a tag", "remove it")]),
    ("‸---\nfs: {}", &[("a second document", "a policy is one document")]),
    ("fs:\n  allow: ‸[/a\n", &[("not YAML", "close what is opened")]),
    ("fs:\n\t‸allow: [/a]", &[("not YAML", "indent by spaces")]),
    // All at once, in the order of the file.
    (
        "‸fss: {}\nfs: {allow: [‸1, {path: /a, access: [‸raed]}], deny: [‸'$HOME']}\nnet: {allow: [‸'a:b'], ‸dney: []}\nexec: ‸x",
        &[
            ("unknown key `fss`", "did you mean `fs`?"),
            ("expected a path, found a number", "\"1\""),
            ("unknown access `raed`", "did you mean `read`?"),
            ("bad path `$HOME`", "did you mean `${HOME}`?"),
            ("bad address `a:b`", "a port is a number"),
            ("unknown key `dney`", "did you mean `deny`?"),
            ("expected `exec` to be a mapping", "`KEY: VALUE`"),
        ],
    ),
];
