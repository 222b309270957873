//! Every path that the built-in policy denies × every way in which a suggestion is wider than what the run did: a
//! profile authorises none of them, wherever work directory, home and runtime directory lie in each other.

use std::collections::BTreeSet;

use super::*;
use crate::policy::builtin;
use crate::policy::check::{Request, judge};
use crate::policy::rule::{Access, Policy};
use crate::profile::suggest::protect::Protected;

/// Where the roots lie.
struct Layout {
    workdir: &'static str,
    home: &'static str,
    caller_tmpdir: &'static str,
    runtime_dir: &'static str,
}

const LAYOUTS: &[Layout] = &[
    Layout { workdir: "/srv/w", home: "/home/u", caller_tmpdir: "/tmp", runtime_dir: "/run/user/7" },
    Layout { workdir: "/home/u", home: "/home/u", caller_tmpdir: "/home/u/tmp", runtime_dir: "/home/u/run" },
    Layout { workdir: "/home/u/src/w", home: "/home/u", caller_tmpdir: "/tmp", runtime_dir: "/tmp/u" },
    Layout {
        workdir: "/w",
        home: "/w/.config",
        caller_tmpdir: "/w/.config/t",
        runtime_dir: "/w/.config/t/r",
    },
];

impl Layout {
    fn roots(&self) -> BTreeMap<String, String> {
        [
            ("WORKDIR", self.workdir),
            ("TMPDIR", "/tmp/assay-private"),
            ("HOME", self.home),
            ("CALLER_TMPDIR", self.caller_tmpdir),
            ("RUNTIME_DIR", self.runtime_dir),
        ]
        .into_iter()
        .filter(|(_, path)| *path != "/tmp")
        .map(|(variable, path)| (variable.to_owned(), path.to_owned()))
        .collect()
    }

    /// The absolute path that a name stands for.
    fn path(&self, name: &str) -> String {
        match name.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
            Some((variable, rest)) => format!("{}{rest}", self.roots()[variable]),
            None => name.to_owned(),
        }
    }

    /// The name that the record gives a path: by its longest root.
    fn name(&self, path: &str) -> String {
        let order = ["WORKDIR", "TMPDIR", "HOME", "CALLER_TMPDIR", "RUNTIME_DIR"];
        let roots = self.roots();
        let fitting = order.iter().filter_map(|variable| Some((*variable, roots.get(*variable)?)));
        let mut fitting: Vec<_> = fitting.filter(|(_, root)| is_beneath(path, root)).collect();
        fitting.sort_by_key(|(_, root)| std::cmp::Reverse(root.len()));
        match fitting.first() {
            Some((variable, root)) => format!("${{{variable}}}{}", &path[root.len()..]),
            None => path.to_owned(),
        }
    }

    fn context(&self) -> Context {
        let bytes = |path: &str| path.as_bytes().to_vec();
        Context {
            home: Some(bytes(self.home)),
            workdir: bytes(self.workdir),
            tmpdir: bytes("/tmp/assay-private"),
            caller_tmpdir: bytes(self.caller_tmpdir),
            runtime_dir: bytes(self.runtime_dir),
            nameservers: Vec::new(),
        }
    }

    fn policy(&self, effects: &[Effect], folds: &[Fold], extends: &str) -> (Policy, String) {
        let roots = self.roots();
        let protected: Vec<Protected> = builtin::denied_paths()
            .into_iter()
            .map(|(path, is_write_only)| Protected::new(path, is_write_only, &roots))
            .collect();
        let profile = suggest(effects, folds, &protected);
        let text = profile.write(&Comments::default(), Format::Yaml);
        // Without the base, which is not what was learnt.
        let text = format!("{text}base: none\n{extends}");
        let policy = load_bytes(b"p.yaml", text.as_bytes(), &self.context(), &NoFiles)
            .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        (policy, text)
    }
}

/// What one kind of run did beside a denied path, in the directory `at`.
struct Widening {
    word: &'static str,
    run: fn(at: &str) -> (Vec<Effect>, Vec<Fold>),
    /// It reads what it made, or what has no stable name: then reading is granted for the directory.
    reads_all: bool,
    /// It moves names across directories, which the mounts that hold a deny of writing would stop.
    moves: bool,
}

const fn kind(word: &'static str, run: fn(&str) -> (Vec<Effect>, Vec<Fold>)) -> Widening {
    Widening { word, run, reads_all: false, moves: false }
}

const fn reading(word: &'static str, run: fn(&str) -> (Vec<Effect>, Vec<Fold>)) -> Widening {
    Widening { word, run, reads_all: true, moves: false }
}

fn only(effects: &[(FsOp, &str, &str)], at: &str) -> (Vec<Effect>, Vec<Fold>) {
    let at = at.trim_end_matches('/');
    let effects = effects.iter().map(|(op, name, to)| {
        let path = match name.split_once(':') {
            Some((before, rest)) => format!("{before}:{at}/{rest}"),
            None => format!("{at}/{name}"),
        };
        let to = (!to.is_empty())
            .then(|| if to.starts_with('/') { (*to).to_owned() } else { format!("{at}/{to}") });
        fs(*op, &path, to.as_deref())
    });
    (effects.collect(), Vec::new())
}

fn with(mut run: (Vec<Effect>, Vec<Fold>), more: Effect) -> (Vec<Effect>, Vec<Fold>) {
    run.0.push(more);
    run
}

fn socket(op: NetEffectOp, at: &str, name: &str) -> Effect {
    net(op, "unix", Some(&format!("{}/{name}", at.trim_end_matches('/'))), None)
}

fn program(at: &str, name: &str) -> Effect {
    exec(&format!("{}/{name}", at.trim_end_matches('/')))
}

fn many(at: &str, count: usize, name: fn(usize) -> String) -> (Vec<Effect>, Vec<Fold>) {
    let at = at.trim_end_matches('/');
    ((0..count).map(|n| fs(FsOp::Read, &format!("{at}/{}", name(n)), None)).collect(), Vec::new())
}

const WIDENINGS: &[Widening] = &[
    kind("reads a file", |at| only(&[(FsOp::Read, "zz", "")], at)),
    kind("lists it", |at| only(&[(FsOp::List, "", "")], at)),
    kind("writes a file", |at| only(&[(FsOp::Write, "zz", ""), (FsOp::Attr, "zy", "")], at)),
    kind("makes a file", |at| only(&[(FsOp::Create, "zz", "")], at)),
    reading("reads what it made", |at| only(&[(FsOp::Create, "zz", ""), (FsOp::Read, "zz", "")], at)),
    reading("makes a tree", |at| {
        only(&[(FsOp::Create, "zz/", ""), (FsOp::Create, "zz/a/b", ""), (FsOp::List, "zz/a/", "")], at)
    }),
    kind("deletes a file", |at| only(&[(FsOp::Delete, "zz", "")], at)),
    kind("renames a file", |at| only(&[(FsOp::Rename, "zz", "zy")], at)),
    kind("makes links", |at| only(&[(FsOp::Link, "zz", "zy"), (FsOp::Symlink, "zx", "/etc/shadow")], at)),
    Widening {
        word: "moves a file out",
        run: |at| only(&[(FsOp::Rename, "zz", "/var/lib/zz"), (FsOp::Rename, "zz/a", "zy")], at),
        reads_all: false,
        moves: true,
    },
    kind("makes a file without a name", |at| only(&[(FsOp::Write, "unnamed:", "")], at)),
    kind("reads a file that is gone", |at| only(&[(FsOp::Read, "deleted:zz", "")], at)),
    kind("replaces a file", |at| {
        let fold = |to: &str| Fold {
            rule: "temp-name+temp-rename".into(),
            from: "/x".into(),
            to: Name::from_canonical(format!("{}/{to}", at.trim_end_matches('/'))),
        };
        (only(&[(FsOp::Write, "zz", "")], at).0, vec![fold("zz"), fold("zz${RANDOM}")])
    }),
    kind("binds a socket", |at| {
        with(only(&[(FsOp::Create, "zz", "")], at), socket(NetEffectOp::Bind, at, "zz"))
    }),
    kind("connects to a socket", |at| (vec![socket(NetEffectOp::Connect, at, "zz")], Vec::new())),
    reading("connects to a socket of any name", |at| {
        (vec![socket(NetEffectOp::Connect, at, "${RANDOM}")], Vec::new())
    }),
    kind("reads many files", |at| many(at, 40, |n| format!("f{n}"))),
    kind("reads very many files", |at| many(at, MAX_RULES + 90, |n| format!("d{}/f{n}", n % 200))),
    reading("reads a file of any name", |at| only(&[(FsOp::Read, "${HASH}", "")], at)),
    reading("reads hidden files of any name", |at| only(&[(FsOp::Read, ".${RANDOM}", "")], at)),
    reading("makes files in a directory of any name", |at| only(&[(FsOp::Create, "${UUID}/x", "")], at)),
    reading("reads in a directory of any name", |at| only(&[(FsOp::Read, "${UUID}/${HASH}/x", "")], at)),
    kind("runs a program", |at| (vec![program(at, "zz")], Vec::new())),
    reading("runs a program of any name", |at| (vec![program(at, "${HASH}")], Vec::new())),
    reading("runs a program it made", |at| with(only(&[(FsOp::Create, "zz", "")], at), program(at, "zz"))),
    reading("runs programs without a name", |at| {
        (vec![exec("memfd:x"), program(at, "zz"), program(at, "${HASH}")], Vec::new())
    }),
];

/// The directories above all denied paths; where roots lie in each other, those at which that matters.
fn directories(number: usize, layout: &Layout) -> BTreeSet<String> {
    let denied = builtin::denied_paths().into_iter().map(|(name, _)| layout.path(&name));
    let roots = layout.roots();
    denied
        .flat_map(|path| above_of(&path).map(ToOwned::to_owned).collect::<Vec<_>>())
        .filter(|directory| number == 0 || roots.values().any(|root| is_beneath(root, directory)))
        .collect()
}

/// The kinds of access that the policy authorises at a path: those that the deny forbids.
fn opened(policy: &Policy, path: &str, is_write_only: bool) -> Vec<&'static str> {
    let accesses = if is_write_only { &[Access::Write][..] } else { &Access::ALL };
    let mut opened: Vec<&str> = accesses
        .iter()
        .filter(|access| judge(policy, Request::File(**access, path.as_bytes())).is_allowed())
        .map(|access| access.as_str())
        .collect();
    if !is_write_only {
        let more = [
            ("run", judge(policy, Request::Exec(path.as_bytes()))),
            ("connect", judge(policy, Request::UnixPath(path.as_bytes()))),
        ];
        opened.extend(more.into_iter().filter(|(_, verdict)| verdict.is_allowed()).map(|(word, _)| word));
    }
    opened
}

/// Each layout, directory and kind of run, with what stands for them in a message.
fn runs() -> impl Iterator<Item = (&'static Layout, String, &'static Widening)> {
    LAYOUTS.iter().enumerate().flat_map(|(number, layout)| {
        directories(number, layout).into_iter().flat_map(move |directory| {
            // The slow one in two places.
            let is_slow = number > 0 || !["/home/u", "/home/u/.config"].contains(&directory.as_str());
            let is_wanted = move |one: &&Widening| !is_slow || one.word != "reads very many files";
            WIDENINGS.iter().filter(is_wanted).map(move |widening| (layout, directory.clone(), widening))
        })
    })
}

#[test]
fn what_a_run_did_beside_a_denied_path_does_not_open_it() {
    let denied = builtin::denied_paths();
    let mut checked = 0;
    for (layout, directory, widening) in runs() {
        let (effects, folds) = (widening.run)(&layout.name(&directory));
        let (alone, text) = layout.policy(&effects, &folds, "");
        let with_built_in = (widening.word == "makes a file")
            .then(|| layout.policy(&effects, &folds, "extends: [\"builtin:minimal\"]\n").0);
        for (name, is_write_only) in &denied {
            let path = layout.path(name).replace('*', "rsa_key");
            // Where the directory is one of them itself, the run touched it.
            if path == directory || !is_beneath(&path, &directory) {
                continue;
            }
            checked += 1;
            let opened = opened(&alone, &path, *is_write_only);
            // A move across the directories above a deny of writing is what its mounts would stop.
            assert!(
                opened.is_empty() || widening.moves && *is_write_only,
                "in {directory} it {}: {path} is open for {opened:?}\n{text}",
                widening.word
            );
            if let Some(policy) = &with_built_in {
                assert_eq!(super::every_deny::opened(policy, &path, *is_write_only), [""; 0], "{path}");
            }
        }
    }
    assert!(checked > 10_000, "{checked}");
}

/// A run that read one file of each secret has no more of them, whatever else it did above them.
#[test]
fn what_a_run_read_of_a_secret_does_not_open_the_rest_of_it() {
    let secrets: Vec<(String, bool)> =
        builtin::denied_paths().into_iter().filter(|(_, is_write_only)| !is_write_only).collect();
    let mut checked = 0;
    for (layout, directory, widening) in runs() {
        let is_root = layout.roots().values().any(|root| is_beneath(root, &directory));
        if widening.word == "reads very many files" || !is_root {
            continue;
        }
        let (mut effects, folds) = (widening.run)(&layout.name(&directory));
        let secrets: Vec<String> =
            secrets.iter().map(|(name, _)| layout.path(name).replace('*', "rsa_key")).collect();
        effects.extend(
            secrets.iter().map(|secret| fs(FsOp::Read, &format!("{}/one", layout.name(secret)), None)),
        );
        let (policy, text) = layout.policy(&effects, &folds, "");
        let is_open =
            |access, path: &str| judge(&policy, Request::File(access, path.as_bytes())).is_allowed();
        for secret in secrets.iter().filter(|secret| is_beneath(secret, &directory)) {
            let other = format!("{secret}/other");
            let about = || format!("in {directory} it {}: {other}\n{text}", widening.word);
            assert!(is_open(Access::Read, &format!("{secret}/one")), "one {}", about());
            // What a run makes and reads again, it reads by the directory: a deny in it would stop the run, and no
            // allow is narrower than a directory. Everything else stays closed.
            assert!(widening.reads_all || !is_open(Access::Read, &other), "read {}", about());
            assert!(!is_open(Access::Write, &other), "write {}", about());
            checked += 1;
        }
    }
    assert!(checked > 4_000, "{checked}");
}

/// In the secret itself: files that were read are granted one by one, however many; what is made there is written only.
#[test]
fn what_a_run_did_in_a_secret_does_not_open_what_else_is_in_it() {
    let layout = &LAYOUTS[0];
    let mut checked = 0;
    for (name, is_write_only) in builtin::denied_paths() {
        if is_write_only {
            continue;
        }
        let secret = layout.path(&name).replace('*', "rsa_key");
        for widening in WIDENINGS.iter().filter(|widening| !widening.reads_all) {
            if widening.word == "reads very many files" {
                continue;
            }
            let (effects, folds) = (widening.run)(&layout.name(&secret));
            let (policy, text) = layout.policy(&effects, &folds, "");
            let other = format!("{secret}/other");
            let is_open = judge(&policy, Request::File(Access::Read, other.as_bytes())).is_allowed();
            assert!(!is_open, "it {}: {other}\n{text}", widening.word);
            checked += 1;
        }
    }
    assert!(checked > 1_000, "{checked}");
}
