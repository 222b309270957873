//! Stability and sensitivity over generated runs: the same script of acts, told under other circumstances, is the
//! same identity; a script with one act more, less or different is another.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

use super::tests::canonicalize;
use super::*;
use crate::observe::observation::{FileKind, FileOp, NetOp};
use crate::profile::name::unescape;

/// Where and when a script is told.
#[derive(Debug, Clone)]
struct Circumstances {
    workdir: String,
    home: String,
    tmpdir: String,
    user: String,
    first_pid: u32,
    /// What chance names are made of.
    chance: u64,
    port: u16,
    started_at: u64,
    /// The order in which independent processes are seen.
    interleaving: u64,
    repeats: usize,
}

fn circumstances() -> impl Strategy<Value = Circumstances> {
    let places = ("[a-z]{3,9}", "[a-z]{3,9}", "[a-z0-9]{6}", "[a-z]{4,8}", 0..3usize);
    (
        places,
        300..4_000_000u32,
        any::<u64>(),
        32_768..60_999u16,
        1_600_000_000..2_000_000_000u64,
        any::<u64>(),
        1..4usize,
    )
        .prop_map(
            |((a, b, c, user, depth), first_pid, chance, port, started_at, interleaving, repeats)| {
                let deeper = "/d".repeat(depth);
                Circumstances {
                    workdir: format!("/srv/{a}{deeper}/w"),
                    home: format!("/home/{b}"),
                    tmpdir: format!("/tmp/assay-{c}"),
                    user,
                    first_pid,
                    chance,
                    port,
                    started_at,
                    interleaving,
                    repeats,
                }
            },
        )
}

/// One step of one process of a script.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Read(String),
    List(String),
    Write(String),
    Create(String),
    Mkdir(String),
    Delete(String),
    Attr(String),
    Rename(String, String),
    Link(String, String),
    Symlink(String, String),
    Denied(String),
    Exec(String),
    Connect(String, u16),
    Bind(String, u16),
    UnixConnect(String),
    /// A failed look-up.
    Missing(String),
    /// mkstemp with this suffix in this directory, written and removed.
    Temp(String, String),
    /// A directory made by mkdtemp (`foo-`) or Python's (other prefixes), used and removed.
    TempDirectory(String),
    /// mkstemp beside the target, renamed onto it.
    TempRename(String),
    /// A file named by the process's own id.
    PidFile(String),
    /// A cache entry named by a uuid; stays.
    Uuid(String),
    /// A log named by the time.
    TimeLog(String),
    /// A server on a port of the kernel's choice, and its client.
    Server,
    /// `/proc/self/…`
    Proc(String),
}

fn path() -> impl Strategy<Value = String> {
    let root = prop::sample::select(vec!["W", "H", "T", "/etc", "/usr/lib", "/srv/data", "/var/lib/x"]);
    (root, "[a-z]{1,8}", "[a-z]{1,6}(\\.[a-z]{1,3})?").prop_map(|(root, a, b)| format!("{root}/{a}/{b}"))
}

fn step() -> impl Strategy<Value = Step> {
    let two = || (path(), path());
    prop_oneof![
        path().prop_map(Step::Read),
        path().prop_map(Step::List),
        path().prop_map(Step::Write),
        path().prop_map(Step::Create),
        path().prop_map(Step::Mkdir),
        path().prop_map(Step::Delete),
        path().prop_map(Step::Attr),
        two().prop_map(|(a, b)| Step::Rename(a, b)),
        two().prop_map(|(a, b)| Step::Link(a, b)),
        two().prop_map(|(a, b)| Step::Symlink(a, b)),
        path().prop_map(Step::Denied),
        path().prop_map(Step::Exec),
        ("192\\.0\\.2\\.[1-9]", 1..1000u16).prop_map(|(host, port)| Step::Connect(host, port)),
        (Just("127.0.0.1".to_owned()), 1..1000u16).prop_map(|(host, port)| Step::Bind(host, port)),
        path().prop_map(Step::UnixConnect),
        path().prop_map(Step::Missing),
        ("T|/tmp|W/build", "(\\.s|\\.o|)").prop_map(|(directory, suffix)| Step::Temp(directory, suffix)),
        path().prop_map(Step::TempRename),
        "(foo-|foo_|foo|x-y_)".prop_map(Step::TempDirectory),
        path().prop_map(Step::PidFile),
        path().prop_map(Step::Uuid),
        path().prop_map(Step::TimeLog),
        Just(Step::Server),
        "[a-z]{3,8}".prop_map(Step::Proc),
    ]
}

/// Processes, each with its steps.
fn script() -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(), 1..8), 1..5)
}

/// A small generator of chance: what matters is that it differs, not how well.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn text(&mut self, len: usize, alphabet: &[u8]) -> String {
        (0..len).map(|_| char::from(alphabet[self.next() as usize % alphabet.len()])).collect()
    }
}

const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

struct Teller<'a> {
    at: &'a Circumstances,
    chance: Chance,
    pid: u32,
    out: Vec<Observation>,
}

impl Teller<'_> {
    fn place(&self, path: &str) -> String {
        for (short, long) in [("W", &self.at.workdir), ("H", &self.at.home), ("T", &self.at.tmpdir)] {
            if let Some(rest) =
                path.strip_prefix(short).filter(|rest| rest.is_empty() || rest.starts_with('/'))
            {
                return format!("{long}{rest}");
            }
        }
        path.to_owned()
    }

    fn act(&mut self, act: Act, errno: i32) {
        let result = if errno == 0 { CallResult::Ok } else { CallResult::Errno(errno) };
        self.out.push(Observation {
            seq: 0,
            t_ns: 0,
            pid: self.pid,
            tid: self.pid,
            ppid: 1,
            comm: Vec::new(),
            act,
            result,
        });
    }

    fn file(&mut self, op: FileOp, path: &str, access: &[Access], kind: FileKind, errno: i32) {
        let act = FileAct {
            op,
            path: PathRef::resolved(path),
            requested: None,
            access: access.iter().copied().collect(),
            kind,
            is_path_only: false,
            is_private: access.contains(&Access::Read) && access.contains(&Access::Create),
        };
        self.act(Act::File(act), errno);
    }

    fn pair(&mut self, op: PairOp, path: &str, to: PathRef) {
        let act =
            PairAct { op, path: PathRef::resolved(path), to, requested: (None, None), is_exchange: false };
        self.act(Act::Pair(act), 0);
    }

    fn net(&mut self, op: NetOp, proto: &'static str, endpoint: Endpoint, is_ephemeral: bool) {
        self.act(Act::Net(NetAct { op, proto, endpoint, is_ephemeral, peer: None }), 0);
    }

    fn temp(&mut self, path: &str) {
        let access = [Access::Read, Access::Write, Access::Create];
        self.file(FileOp::Open, path, &access, FileKind::Regular, 0);
    }

    fn temp_directory(&mut self, prefix: &str) {
        const PYTHON: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789_";
        let (len, alphabet) = if prefix.ends_with('-') { (6, ALNUM) } else { (8, PYTHON) };
        let name = format!("{}/{prefix}{}", self.at.tmpdir, self.chance.text(len, alphabet));
        let act = FileAct {
            op: FileOp::Mkdir,
            path: PathRef::resolved(name.clone()),
            requested: None,
            access: [].into(),
            kind: FileKind::Directory,
            is_path_only: false,
            is_private: true,
        };
        self.act(Act::File(act), 0);
        self.file(FileOp::Open, &format!("{name}/a"), &[Access::Write, Access::Create], FileKind::Regular, 0);
        self.file(FileOp::Rmdir, &name, &[], FileKind::Directory, 0);
    }

    fn tell(&mut self, step: &Step) {
        let (regular, directory) = (FileKind::Regular, FileKind::Directory);
        let create = [Access::Write, Access::Create];
        match step {
            Step::Read(path) => self.file(FileOp::Open, &self.place(path), &[Access::Read], regular, 0),
            Step::List(path) => self.file(FileOp::Open, &self.place(path), &[Access::Read], directory, 0),
            Step::Write(path) => self.file(FileOp::Open, &self.place(path), &[Access::Write], regular, 0),
            Step::Create(path) => self.file(FileOp::Open, &self.place(path), &create, regular, 0),
            Step::Mkdir(path) => self.file(FileOp::Mkdir, &self.place(path), &[], directory, 0),
            Step::Delete(path) => self.file(FileOp::Unlink, &self.place(path), &[], regular, 0),
            Step::Attr(path) => self.file(FileOp::Chmod, &self.place(path), &[], regular, 0),
            Step::Denied(path) => self.file(FileOp::Open, &self.place(path), &[Access::Read], regular, 13),
            Step::Missing(path) => self.file(FileOp::Open, &self.place(path), &[Access::Read], regular, 2),
            Step::Rename(a, b) => self.pair(PairOp::Rename, &self.place(a), PathRef::resolved(self.place(b))),
            Step::Link(a, b) => self.pair(PairOp::Link, &self.place(a), PathRef::resolved(self.place(b))),
            Step::Symlink(a, b) => {
                self.pair(PairOp::Symlink, &self.place(a), PathRef::literal(self.place(b)));
            }
            Step::Exec(path) => {
                let path = self.place(path);
                let act = ExecAct {
                    path: PathRef::resolved(path.clone()),
                    requested: None,
                    interpreter: None,
                    argv: vec![path.into_bytes()],
                    is_argv_cut: false,
                    is_privileged: false,
                };
                self.act(Act::Exec(act), 0);
            }
            Step::Connect(host, port) => {
                self.net(
                    NetOp::Connect,
                    "tcp",
                    Endpoint::Inet(format!("{host}:{port}").parse().unwrap()),
                    false,
                );
            }
            Step::Bind(host, port) => {
                self.net(
                    NetOp::Bind,
                    "udp",
                    Endpoint::Inet(format!("{host}:{port}").parse().unwrap()),
                    false,
                );
            }
            Step::UnixConnect(path) => {
                let endpoint = Endpoint::UnixPath(PathRef::resolved(self.place(path)));
                self.net(NetOp::Connect, "unix", endpoint, false);
            }
            Step::Temp(directory, suffix) => {
                let name = format!("{}/cc{}{suffix}", self.place(directory), self.chance.text(6, ALNUM));
                self.temp(&name);
                self.file(FileOp::Unlink, &name, &[], regular, 0);
            }
            Step::TempDirectory(prefix) => self.temp_directory(prefix),
            Step::TempRename(path) => {
                let target = self.place(path);
                let (directory, name) = target.rsplit_once('/').unwrap();
                let temp = format!("{directory}/.{name}.{}", self.chance.text(6, ALNUM));
                self.temp(&temp);
                self.file(FileOp::Chmod, &temp, &[], regular, 0);
                self.pair(PairOp::Rename, &temp, PathRef::resolved(target));
            }
            Step::PidFile(path) => {
                let path = format!("{}.{}", self.place(path), self.pid);
                self.file(FileOp::Open, &path, &create, regular, 0);
            }
            Step::Uuid(path) => {
                let mut hex = |len| self.chance.text(len, b"0123456789abcdef");
                let uuid = format!("{}-{}-{}-{}-{}", hex(8), hex(4), hex(4), hex(4), hex(12));
                self.file(FileOp::Open, &format!("{}-{uuid}", self.place(path)), &create, regular, 0);
            }
            Step::TimeLog(path) => {
                let path = format!("{}-{}.log", self.place(path), self.at.started_at + 7);
                self.file(FileOp::Open, &path, &create, regular, 0);
            }
            Step::Server => {
                let endpoint = || Endpoint::Inet(format!("127.0.0.1:{}", self.at.port).parse().unwrap());
                let [bind, listen, connect] = [endpoint(), endpoint(), endpoint()];
                self.net(NetOp::Bind, "tcp", bind, true);
                self.net(NetOp::Listen, "tcp", listen, false);
                self.net(NetOp::Connect, "tcp", connect, false);
            }
            Step::Proc(name) => {
                let path = format!("/proc/{}/{name}", self.pid);
                self.file(FileOp::Open, &path, &[Access::Read], regular, 0);
            }
        }
    }
}

/// Names that a script uses for two things at once, so that what is proved about them depends on which came first:
/// such a race is a real difference, and no circumstance.
fn is_racy(script: &[Vec<Step>]) -> bool {
    let mut users: std::collections::BTreeMap<String, BTreeSet<usize>> = std::collections::BTreeMap::new();
    for (process, steps) in script.iter().enumerate() {
        for step in steps {
            let text = format!("{step:?}");
            for name in text.split('"').skip(1).step_by(2) {
                users.entry(name.to_owned()).or_default().insert(process);
            }
        }
    }
    users.values().any(|processes| processes.len() > 1)
}

fn tell(script: &[Vec<Step>], at: &Circumstances) -> Canonical {
    let mut teller = Teller { at, chance: Chance(at.chance), pid: at.first_pid, out: Vec::new() };
    let mut queues = Vec::new();
    for (process, steps) in script.iter().enumerate() {
        teller.pid = at.first_pid + process as u32 * 3;
        let mut queue = std::collections::VecDeque::new();
        for step in steps {
            // Repetition is no difference, where it does not make a name anew.
            let is_repeatable = matches!(
                step,
                Step::Read(_) | Step::List(_) | Step::Write(_) | Step::Temp(..) | Step::Missing(_)
            );
            for _ in 0..if is_repeatable { at.repeats } else { 1 } {
                teller.tell(step);
            }
        }
        queue.extend(teller.out.drain(..));
        queues.push(queue);
    }
    let mut observations = Vec::new();
    teller.pid = at.first_pid;
    for process in 1..script.len() as u32 {
        let child = at.first_pid + process * 3;
        teller.act(Act::Fork { child_pid: child, child_tid: child }, 0);
    }
    observations.append(&mut teller.out);
    let mut order = Chance(at.interleaving);
    while !queues.is_empty() {
        let which = order.next() as usize % queues.len();
        match queues[which].pop_front() {
            Some(observation) => observations.push(observation),
            None => {
                queues.remove(which);
            }
        }
    }
    let roots = Roots {
        workdir: vec![at.workdir.clone().into_bytes()],
        home: vec![at.home.clone().into_bytes()],
        tmpdir: vec![at.tmpdir.clone().into_bytes()],
        user: Some(at.user.clone().into_bytes()),
        ..Roots::default()
    };
    let command = vec![b"prog".to_vec(), format!("--in={}/src", at.workdir).into_bytes()];
    let context =
        CanonContext { started_at: Some(at.started_at), ..CanonContext::new(roots, command, at.first_pid) };
    let mut canonicalizer = Canonicalizer::new(context);
    for observation in &observations {
        canonicalizer.observe(observation);
    }
    let ended_at = Some(at.started_at + 60);
    canonicalizer.finish(RunEnd { outcome: Outcome::ExitCode(0), degradations: Vec::new(), ended_at })
}

proptest! {
    #![proptest_config(Config::with_cases(128))]

    #[test]
    fn the_same_behaviour_is_the_same_identity(script in script(), a in circumstances(), b in circumstances()) {
        prop_assume!(!is_racy(&script));
        prop_assert_eq!(tell(&script, &a).identity, tell(&script, &b).identity);
    }

    #[test]
    fn undoing_the_folds_gives_the_names_of_the_run(script in script(), at in circumstances()) {
        let canonical = tell(&script, &at);
        let undone = undo(&canonical);
        let seen = names_seen(&script, &at);
        prop_assert_eq!(undone, seen);
    }
}

/// The paths behind the effects' names, as a reader gets them from `observed.folded` and `observed.roots`.
fn undo(canonical: &Canonical) -> BTreeSet<Vec<u8>> {
    let mut names = BTreeSet::new();
    let mut told = BTreeSet::new();
    for effect in &canonical.identity.effects {
        let (path, to) = match effect {
            Effect::Fs(fs) if fs.op == crate::profile::effect::FsOp::Symlink => (Some(&fs.path), None),
            Effect::Fs(fs) => (Some(&fs.path), fs.to.as_ref()),
            Effect::Exec(exec) => (Some(&exec.path), None),
            Effect::Net(net) => (net.address.as_ref().filter(|_| net.proto == "unix"), None),
        };
        told.extend(path.into_iter().chain(to).map(|name| name.as_str().trim_end_matches('/').to_owned()));
    }
    for name in &told {
        let is_root = |name: &str| canonical.roots.contains_key(name);
        let (root, rest) = match name.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
            Some((variable, rest)) if is_root(variable) => (canonical.roots[variable].as_str(), rest),
            _ => ("", name.as_str()),
        };
        // What a fold leads to is undone by the folds alone.
        if !rest.contains("${") && !canonical.folded.iter().any(|fold| fold.to.as_str() == name) {
            names.insert(unescape(&format!("{root}{rest}")).unwrap());
        }
    }
    // A fold is undone by its own entries; a temporary name that became another stands there too.
    names.extend(
        canonical
            .folded
            .iter()
            .filter(|fold| !fold.rule.contains("port"))
            .map(|fold| unescape(&fold.from).unwrap()),
    );
    names
}

/// The paths that a script's telling has an effect on.
fn names_seen(script: &[Vec<Step>], at: &Circumstances) -> BTreeSet<Vec<u8>> {
    let mut teller = Teller { at, chance: Chance(at.chance), pid: at.first_pid, out: Vec::new() };
    let mut names = BTreeSet::new();
    for (process, steps) in script.iter().enumerate() {
        teller.pid = at.first_pid + process as u32 * 3;
        for step in steps {
            let is_repeatable = matches!(
                step,
                Step::Read(_) | Step::List(_) | Step::Write(_) | Step::Temp(..) | Step::Missing(_)
            );
            for _ in 0..if is_repeatable { at.repeats } else { 1 } {
                teller.tell(step);
            }
        }
    }
    for observation in teller.out {
        if matches!(observation.result, CallResult::Errno(2)) {
            continue;
        }
        match observation.act {
            Act::File(act) => {
                names.insert(act.path.bytes);
            }
            Act::Pair(act) => {
                names.insert(act.path.bytes);
                if act.op != PairOp::Symlink {
                    names.insert(act.to.bytes);
                }
            }
            Act::Exec(act) => {
                names.insert(act.path.bytes);
            }
            Act::Net(NetAct { endpoint: Endpoint::UnixPath(path), .. }) => {
                names.insert(path.bytes);
            }
            _ => {}
        }
    }
    names
}

/// One change to a script that is a change of behaviour.
fn mutate(script: &[Vec<Step>], kind: usize, chance: &mut Chance) -> Option<Vec<Vec<Step>>> {
    let mut changed = script.to_vec();
    let process = chance.next() as usize % script.len();
    let at = chance.next() as usize % script[process].len();
    let fresh =
        |chance: &mut Chance| format!("W/zz{}/q{}", chance.text(5, b"abcdef"), chance.text(4, b"ghijk"));
    let step = &mut changed[process][at];
    match kind % 15 {
        0 => changed[process].push(Step::Read(fresh(chance))),
        1 => changed[process].push(Step::Create(fresh(chance))),
        2 => changed[process].push(Step::Delete(fresh(chance))),
        3 => changed[process].push(Step::Exec(fresh(chance))),
        4 => changed[process].push(Step::Connect("198.51.100.7".into(), 1000 + (chance.next() % 900) as u16)),
        5 => changed[process].push(Step::Rename(fresh(chance), fresh(chance))),
        6 => changed[process].push(Step::TempRename(fresh(chance))),
        7 => changed[process].push(Step::PidFile(fresh(chance))),
        8 => {
            changed[process].remove(at);
        }
        9 => match step.clone() {
            Step::Read(path) => *step = Step::Write(path),
            Step::Write(path) | Step::List(path) => *step = Step::Read(path),
            _ => return None,
        },
        10 => match step.clone() {
            Step::Read(path) => *step = Step::Denied(path),
            Step::Denied(path) => *step = Step::Read(path),
            _ => return None,
        },
        11 => match step {
            Step::Read(path)
            | Step::Write(path)
            | Step::Create(path)
            | Step::Delete(path)
            | Step::Exec(path) => path.push('x'),
            _ => return None,
        },
        12 => match step {
            Step::Connect(_, port) | Step::Bind(_, port) => *port += 1000,
            _ => return None,
        },
        13 => match step {
            Step::Connect(host, _) => host.push('0'),
            Step::Rename(_, to) | Step::Link(_, to) | Step::Symlink(_, to) => to.push('x'),
            _ => return None,
        },
        // A file two directories away.
        _ => match step {
            Step::Read(path) | Step::Write(path) | Step::Create(path) => {
                let (directory, name) = path.rsplit_once('/')?;
                *path = format!("{directory}/one/two/{name}");
            }
            _ => return None,
        },
    }
    changed.retain(|steps| !steps.is_empty());
    Some(changed)
}

/// What a script does, as a set: a step that another one says already is not a difference.
fn behaviour(script: &[Vec<Step>]) -> BTreeSet<Step> {
    script.iter().flatten().filter(|step| !matches!(step, Step::Missing(_))).cloned().collect()
}

#[test]
fn one_effect_more_less_or_different_is_another_identity() {
    let mut runner = TestRunner::deterministic();
    let mut done = [0usize; 15];
    let mut chance = Chance(42);
    while done.iter().sum::<usize>() < 600 || done.iter().any(|count| *count < 10) {
        let script = script().new_tree(&mut runner).unwrap().current();
        let (a, b) = (
            circumstances().new_tree(&mut runner).unwrap().current(),
            circumstances().new_tree(&mut runner).unwrap().current(),
        );
        let kind = chance.next() as usize % 15;
        let Some(changed) = mutate(&script, kind, &mut chance) else { continue };
        if is_racy(&script)
            || changed.is_empty()
            || is_racy(&changed)
            || behaviour(&script) == behaviour(&changed)
        {
            continue;
        }
        // Which names one step's removal leaves to another is a question of effects, not of steps.
        let (before, after) = (tell(&script, &a), tell(&changed, &b));
        let same = tell(&changed, &a);
        assert_eq!(same.identity, after.identity, "{changed:#?}");
        if kind == 8 && effects_of(&script) == effects_of(&changed) {
            continue;
        }
        assert_ne!(before.identity, after.identity, "mutation {kind}\n{script:#?}\n{changed:#?}");
        done[kind] += 1;
    }
    let rows = MUTATIONS.iter().zip(done).map(|(what, count)| format!("| {what} | {count} |\n"));
    let table = format!("| what changes | mutations |\n| --- | ---: |\n{}", rows.collect::<String>());
    assert!(STABILITY.contains(&table), "the table of docs/stability.md is to be:\n{table}");
}

const STABILITY: &str = include_str!("../../../../docs/stability.md");

/// What [`mutate`] does, by kind.
const MUTATIONS: [&str; 15] = [
    "another file is read",
    "another file is made",
    "another name is removed",
    "another program runs",
    "another address is connected to",
    "another file is renamed",
    "another file is written under a temporary name and renamed onto its target",
    "another file is made that has the id of its process in its name",
    "a step is left out",
    "a read becomes a write, or a write or a listing a read",
    "an allowed read becomes a denied one, or a denied one an allowed one",
    "a file, name or program is called otherwise by one letter",
    "another port",
    "another host, or another second name of a move or link",
    "a file two directories away",
];

/// What the script's steps come to, told by hand: each step under its own words, so that two steps with one effect are
/// one.
fn effects_of(script: &[Vec<Step>]) -> BTreeSet<String> {
    let mut effects = BTreeSet::new();
    for step in script.iter().flatten() {
        match step {
            Step::Missing(_) => {}
            // A temporary file of one form in one directory is one effect, however often.
            Step::Temp(directory, suffix) => {
                effects.insert(format!("temp {directory} {suffix}"));
            }
            Step::TempRename(path) => {
                effects.extend([format!("write {path}"), format!("attr {path}")]);
            }
            Step::Write(path) => {
                effects.insert(format!("write {path}"));
            }
            Step::Attr(path) => {
                effects.insert(format!("attr {path}"));
            }
            other => {
                effects.insert(format!("{other:?}"));
            }
        }
    }
    effects
}

#[test]
fn a_name_that_looks_random_but_was_given_is_kept() {
    let run = |name: &str| {
        let mut run = super::tests::Run::new(1234);
        run.create(&format!("/tmp/{name}")).delete(&format!("/tmp/{name}"));
        canonicalize(super::tests::context(&["prog", &format!("/tmp/{name}")], 1234), &run.observations)
            .identity
            .effects
    };
    for name in
        ["tmp.aB3xY9kL2q", "ccAbC123.s", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "x.1234", "1795979510"]
    {
        let effects = run(name);
        assert!(effects.iter().all(|effect| format!("{effect:?}").contains(name)), "{effects:?}");
    }
    assert_ne!(run("tmp.aB3xY9kL2q"), run("tmp.aB3xY9kL2r"));
}
