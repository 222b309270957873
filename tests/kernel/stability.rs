//! One behaviour, one run id: real programs, run again under other circumstances; their folds undone; and the policy
//! that each suggests held to the next run.
//!
//! `ASSAY_STABILITY_RUNS=10 ASSAY_STABILITY_TABLE=FILE cargo xtask kernel stability` writes the table of
//! docs/stability.md.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::sandbox::{ASSAY, sandbox, text};
use crate::needs::{Need, are_met};

const GIT: &str = "git() { command git -c init.defaultBranch=main -c user.name=a -c user.email=a@example.org -c gc.auto=0 \"$@\"; }; ";

/// A repository with two commits, whose index is not younger than its files: git reads files again that are as old
/// as the index, which is another behaviour.
const REPOSITORY: &str = "mkdir src && cd src && git init -q && for i in 1 2 3; do echo $i > f$i; done && git add . && git commit -qm one \
     && echo 4 > f4 && git add . && git commit -qm two && touch -d 2020-01-01 f* && git status -s && sleep 1.1 && cd .. ";

const PROGRAM: &str = "printf '#include <stdio.h>\\nint main(void){puts(\"hi\");return 0;}\\n' > a.c";

/// Programs that now and then do something else, by the host's other processes, by the clock or by a race of their own:
/// the difference that was seen was one of behaviour each time. `docs/stability.md` tells which.
const VARYING: [&str; 4] = ["process_list", "npm_install", "node_tests", "git_rebase"];

/// What is the same for every run, and what differs.
fn runs() -> usize {
    std::env::var("ASSAY_STABILITY_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3)
}

/// A command line that starts the rest of it under another host name, and sometimes on one processor.
fn elsewhere(turn: usize) -> Vec<String> {
    let mut line: Vec<String> = Vec::new();
    if turn % 3 == 2 {
        line.extend(["taskset", "-c", "0"].map(String::from));
    }
    line.extend(["unshare", "--uts", "sh", "-c"].map(String::from));
    line.push(format!("hostname host{turn}x; exec \"$@\""));
    line.push("sh".into());
    line
}

/// Where a run happens.
struct Circumstances {
    base: tempfile::TempDir,
    work: std::path::PathBuf,
}

impl Circumstances {
    fn new(turn: usize) -> Self {
        let base = tempfile::Builder::new()
            .prefix(["a", "stable", "q"][turn % 3])
            .tempdir_in("/var/tmp")
            .expect("a folder");
        let work = base.path().join(["w", "deep/er/work", "other-name"][turn % 3]);
        for folder in [work.clone(), base.path().join("home"), base.path().join("tmp")] {
            fs::create_dir_all(folder).expect("a folder");
        }
        // Other process ids.
        for _ in 0..turn * 7 {
            Command::new("true").status().expect("true runs");
        }
        Self { base, work }
    }

    fn set(&self, command: &mut Command) {
        let keep = |name: &str, beneath: &str| {
            std::env::var_os(name).unwrap_or_else(|| {
                Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(beneath).into_os_string()
            })
        };
        command
            .current_dir(&self.work)
            .env("CARGO_HOME", keep("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", keep("RUSTUP_HOME", ".rustup"))
            .env("HOME", self.base.path().join("home"))
            .env("TMPDIR", self.base.path().join("tmp"));
    }

    fn prepare(&self, before: &str) {
        let mut shell = Command::new("sh");
        self.set(shell.args(["-ec", &format!("{GIT}{before}")]));
        let output = shell.output().expect("a shell");
        assert!(output.status.success(), "{before}: {}", text(&output.stderr));
    }

    /// Runs the script in the sandbox; the evidence, and what the status file says.
    fn record(&self, turn: usize, options: &[&str], script: &str) -> (Value, Value) {
        let at = |name: &str| self.base.path().join(name).to_string_lossy().into_owned();
        let mut all = vec!["--profile", "", "--profile-format", "json", "--trace", "", "--status-file", ""];
        let (profile, trace, status) = (at("run.json"), at("trace"), at("status"));
        (all[1], all[5], all[7]) = (&profile, &trace, &status);
        all.extend(options);
        let inner = sandbox(&all, &["sh", "-ec", &format!("{GIT}{script}")]);
        let line = elsewhere(turn);
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).arg(ASSAY).args(inner.get_args());
        self.set(&mut command);
        let output = command.output().expect("assay runs");
        let read = |path: &str| {
            let text =
                fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}\n{}", text(&output.stderr)));
            serde_json::from_slice(&text).expect("JSON")
        };
        (read(&at("run.evidence.json")), read(&status))
    }
}

fn strings<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    value[key].as_str().into_iter()
}

/// The names behind the effects, as a reader gets them back.
fn undone(evidence: &Value) -> BTreeSet<String> {
    let effects = &evidence["identity"]["effects"];
    let list = |kind: &str| effects[kind].as_array().expect("a list").iter();
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for effect in list("fs") {
        told.extend(strings(effect, "path"));
        if effect["op"] != "symlink" {
            told.extend(strings(effect, "to"));
        }
    }
    told.extend(list("exec").flat_map(|effect| strings(effect, "path")));
    told.extend(
        list("net").filter(|effect| effect["proto"] == "unix").flat_map(|effect| strings(effect, "address")),
    );
    let roots = evidence["observed"]["roots"].as_object().expect("roots");
    let folded = evidence["observed"]["folded"].as_array().expect("folds");
    let led_to: BTreeSet<&str> =
        folded.iter().flat_map(|fold| strings(fold, "to")).map(|to| to.trim_end_matches('/')).collect();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for name in told {
        // What a fold leads to is undone by the folds alone.
        if led_to.contains(name.trim_end_matches('/')) {
            continue;
        }
        let rooted = name
            .strip_prefix("${")
            .and_then(|rest| rest.split_once('}'))
            .and_then(|(variable, rest)| Some((roots.get(variable)?.as_str()?, rest)));
        let (root, rest) = rooted.unwrap_or(("", name));
        if !rest.contains("${") {
            names.insert(plain(&format!("{root}{rest}")));
        }
    }
    names.extend(
        folded
            .iter()
            .filter(|fold| fold["rule"] != "ephemeral-port")
            .flat_map(|fold| strings(fold, "from"))
            .map(plain),
    );
    names
}

fn plain(name: &str) -> String {
    let trimmed = name.trim_end_matches('/');
    if trimmed.is_empty() { "/".into() } else { trimmed.to_owned() }
}

/// The names in the trace that have an effect; and texts of links, which have a fold and are no names.
fn seen(trace: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut names, mut texts) = (BTreeSet::new(), BTreeSet::new());
    for line in fs::read_to_string(trace).expect("a trace").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let (op, result) =
            (line["op"].as_str().unwrap_or("end"), line["result"].as_str().unwrap_or_default());
        let is_done = op == "connect" && matches!(result, "EINPROGRESS" | "ECONNREFUSED");
        let is_open_for_nothing = op == "open"
            && line["access"].as_array().is_none_or(|access| access.iter().all(|word| word == "execute"));
        let has_effect = matches!(result, "ok" | "EACCES" | "EPERM" | "EROFS") || is_done;
        if !has_effect || is_open_for_nothing || matches!(op, "chdir" | "chroot" | "socket" | "end") {
            continue;
        }
        names.extend(strings(&line, "path").chain(strings(&line, "interpreter")).map(plain));
        if op == "symlink" {
            texts.extend(strings(&line, "to").map(plain));
        } else {
            names.extend(strings(&line, "to").map(plain));
        }
        if line["proto"] == "unix" {
            names.extend(strings(&line, "address").map(plain));
        }
    }
    (names, texts)
}

const NONE: [String; 0] = [];

/// What is in one identity and not in the other.
fn difference(first: &Value, second: &Value) -> Vec<String> {
    let parts = |evidence: &Value| -> BTreeSet<String> {
        let identity = &evidence["identity"];
        let lists = identity["effects"].as_object().expect("effects");
        let effects =
            lists.values().flat_map(|list| list.as_array().into_iter().flatten()).map(Value::to_string);
        effects.chain(["command", "outcome", "degradations"].map(|key| identity[key].to_string())).collect()
    };
    parts(first).symmetric_difference(&parts(second)).cloned().collect()
}

/// Holds a workload to its promise; a series in which a program itself did something else is made again, twice at most,
/// and told. What differs each time fails.
fn check(name: &str, programs: &[&'static str], before: &str, script: &str) {
    for series in 1..=2 {
        if std::panic::catch_unwind(|| check_series(name, programs, before, script)).is_ok() {
            return;
        }
        println!("stability::{name}: series {series} differed, see above; once more");
    }
    check_series(name, programs, before, script);
}

fn check_series(name: &str, programs: &[&'static str], before: &str, script: &str) {
    let mut needs = vec![Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(4)];
    needs.extend(programs.iter().map(|program| Need::Program(program)));
    if !are_met(&format!("stability::{name}"), &needs) {
        return;
    }
    let mut first: Option<Value> = None;
    let (mut ids, mut undone_names) = (BTreeSet::new(), 0);
    let mut profile = None;
    for turn in 0..runs() {
        let place = Circumstances::new(turn);
        place.prepare(before);
        let (evidence, _) = place.record(turn, &["--dry-run"], script);
        let first = first.get_or_insert_with(|| evidence.clone());
        if !VARYING.contains(&name) {
            assert_eq!(difference(first, &evidence), NONE, "run {turn}");
        }
        ids.insert(evidence["run_id"].as_str().expect("a run id").to_owned());
        let (names, texts) = seen(&place.base.path().join("trace"));
        let back = undone(&evidence);
        let missing: Vec<_> = names.difference(&back).collect();
        let invented: Vec<_> = back.difference(&names).filter(|name| !texts.contains(*name)).collect();
        assert!(missing.is_empty() && invented.is_empty(), "missing {missing:?}, invented {invented:?}");
        undone_names = names.len();
        profile = Some(fs::read(place.base.path().join("run.json")).expect("a profile"));
    }
    // The policy that the last run suggests, held to one more.
    let place = Circumstances::new(1);
    place.prepare(before);
    let policy = place.base.path().join("policy.json");
    fs::write(&policy, profile.expect("at least one run")).expect("a policy is written");
    let (_, status) = place.record(1, &["--enforce", "--policy", &policy.to_string_lossy()], script);
    assert_eq!(status["verdict"], "ok", "{status:#}");
    assert_eq!(status["exit_code"], 0, "{status:#}");
    if let Some(table) = std::env::var_os("ASSAY_STABILITY_TABLE") {
        let effects: usize = first
            .iter()
            .filter_map(|evidence| evidence["identity"]["effects"].as_object())
            .flat_map(|lists| lists.values())
            .filter_map(|list| list.as_array().map(Vec::len))
            .sum();
        let row = format!("| {name} | {} | {} | {effects} | {undone_names} | ok |\n", runs(), ids.len());
        let mut file = fs::OpenOptions::new().append(true).create(true).open(table).expect("the table");
        file.write_all(row.as_bytes()).expect("a row");
    }
}

/// A test for each workload: what it needs, what is prepared before the run, and the script that runs.
macro_rules! workloads {
    ($($name:ident: [$($program:literal),*], $before:expr, $script:expr;)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), &[$($program),*], $before, $script);
        })*
    };
}

workloads! {
    nothing: [], "", "true";
    git_clone: ["git"], REPOSITORY, "git clone -q src dst";
    git_commit: ["git"], REPOSITORY, "cd src; echo z > f1; git commit -qam three";
    git_rebase: ["git"], &format!("{REPOSITORY} && cd src && git checkout -q -b b HEAD~1 && echo q > q && git add q && git commit -qm q && touch -d 2020-01-01 f* q && git status -s && sleep 1.1"),
        "cd src; git rebase -q main";
    git_worktree: ["git"], REPOSITORY, "cd src; git worktree add -q ../wt; cd ../wt; echo 1 > n; git add n; git commit -qm n";
    git_gc: ["git"], REPOSITORY, "cd src; git gc -q";
    gcc: ["gcc"], PROGRAM, "gcc a.c -o a; ./a > out";
    gcc_with_pipes: ["gcc"], PROGRAM, "gcc -pipe a.c -o a";
    gcc_with_lto: ["gcc"], PROGRAM, "gcc -O2 -flto a.c -o a";
    archive_and_strip: ["gcc", "ar"], PROGRAM, "gcc -c a.c; ar rcs liba.a a.o; gcc a.o -o a; install -s a b";
    make_parallel: ["make", "gcc"], &format!("{PROGRAM}; printf 'all: a b c d\\na b c d: a.c\\n\\tgcc a.c -o $@\\n' > Makefile"), "make -s -j4";
    python_venv: ["python3"], "", "python3 -m venv --without-pip v";
    python_temporary_files: ["python3"],
        "printf 'import os,tempfile,uuid\\nf=tempfile.NamedTemporaryFile();f.write(b\"x\");f.flush()\\nd=tempfile.mkdtemp()\\nopen(d+\"/a\",\"w\").close()\\nopen(str(uuid.uuid4())+\".cache\",\"w\").close()\\n' > s.py",
        "python3 s.py";
    eight_threads: ["python3"],
        "printf 'import threading,tempfile\\ndef f(i):\\n for k in range(20):\\n  open(f\"o{i}\",\"a\").close()\\n  with tempfile.TemporaryFile() as t: t.write(b\"1\")\\nT=[threading.Thread(target=f,args=(i,)) for i in range(8)]\\n[t.start() for t in T];[t.join() for t in T]\\n' > t.py",
        "python3 t.py";
    server_on_a_random_port: ["python3"],
        "printf 'import socket,threading\\ns=socket.socket();s.bind((\"127.0.0.1\",0));s.listen(1)\\nk=socket.create_connection(s.getsockname());k.send(b\"x\");s.accept()\\nu=socket.socket(2,2);u.bind((\"127.0.0.1\",0));v=socket.socket(2,2);v.sendto(b\"x\",u.getsockname());d,a=u.recvfrom(9);u.sendto(b\"y\",a)\\n' > s.py",
        "python3 s.py";
    sqlite_with_a_journal: ["python3"],
        "printf 'import sqlite3\\nc=sqlite3.connect(\"t.db\");c.execute(\"create table t(a)\");c.execute(\"insert into t values(1)\");c.commit()\\n' > q.py",
        "python3 q.py";
    temporary_names: ["mktemp"], "", "f=$(mktemp -p . foo.XXXXXX); echo x > $f; rm $f; d=$(mktemp -d); touch $d/x; mktemp > /dev/null";
    lock_with_a_process_id: [], "", "echo $$ > lock.$$; mv lock.$$ lock; rm lock";
    names_by_time: ["date"], "", "echo x > run-$(date +%Y%m%d-%H%M%S).log; echo y > $(date +%s).tmp; rm ./*.tmp";
    edit_in_place: ["sed"], "printf 'a\\nb\\n' > f", "sed -i s/a/c/ f";
    pipes: ["sort", "awk"], "", "ls / | sort | awk '{print NR}' > n; cat <<E\nhi\nE\n";
    sort_on_disk: ["sort"], "seq 100000 > f", "sort -S 1M f > g";
    tar_unpack: ["tar"], "mkdir d; for i in 1 2 3; do echo $i > d/$i; done; tar cf d.tar d; rm -r d", "tar xf d.tar";
    copy_and_delete: ["cp", "find"], "mkdir d; for i in 1 2 3; do echo $i > d/$i; done", "cp -a d e; find d -delete";
    rsync_archive: ["rsync"], "mkdir d; for i in 1 2 3; do echo $i > d/$i; done; touch -d 2020-01-01 d", "rsync -a d/ e/";
    process_list: ["ps"], "", "ps aux > /dev/null";
    ssh_key: ["ssh-keygen"], "", "ssh-keygen -q -t ed25519 -N '' -f k";
    gpg_key: ["gpg"], "mkdir -m 700 g", "gpg -q --homedir g --batch --passphrase '' --quick-gen-key a@example.org default default never 2> /dev/null; gpgconf --homedir g --kill all";
    node_tests: ["node"],
        "printf 'const fs=require(\"fs\"),os=require(\"os\"),p=require(\"path\");require(\"node:test\")(\"x\",()=>{const d=fs.mkdtempSync(p.join(os.tmpdir(),\"foo-\"));fs.writeFileSync(p.join(d,\"a\"),\"1\");fs.rmSync(d,{recursive:true})});\\n' > a.test.js",
        "node --test a.test.js > /dev/null";
    npm_install: ["npm"],
        "mkdir p1; printf '{\"name\":\"p1\",\"version\":\"1.0.0\"}' > p1/package.json; printf '{\"name\":\"app\",\"version\":\"1.0.0\"}' > package.json",
        "npm install --silent --offline --no-audit --no-fund ./p1";
    perl_temporary_files: ["perl"], "", "perl -e 'use File::Temp qw(tempfile tempdir); tempfile(); my $d=tempdir(CLEANUP=>1); open(my $h,\">\",\"$d/a\");'";
    cargo_build: ["cargo"], "cargo new -q --vcs none app", "cd app; cargo build --offline -q";
}
