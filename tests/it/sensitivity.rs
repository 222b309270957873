//! One effect of a recorded run changed is another run id, and the diff names it; the same run under other
//! circumstances is the same run id. Over streams as they came off the ring, not over made-up acts.

use std::collections::BTreeSet;

use assay::evidence::identity;
use assay::observe::observation::{
    Access, Act, CallResult, Endpoint, FileAct, FileKind, FileOp, NetAct, NetOp, Observation, PathRef,
};
use assay::observe::pipeline::Pipeline;
use assay::observe::stream::RecordReader;
use assay::profile::canonical::{CanonContext, Canonical, Canonicalizer, RunEnd};
use assay::profile::diff;
use assay::profile::identity::{Identity, Outcome};
use assay::profile::roots::Roots;

/// A run as it was recorded.
pub struct Recorded {
    observations: Vec<Observation>,
    root_pid: u32,
    workdir: Vec<u8>,
}

/// The classes of changes, in the words of what they change.
pub const CLASSES: [&str; 12] = [
    "another file",
    "a file two directories away",
    "read become write",
    "write become read",
    "denied instead of allowed",
    "another program",
    "another host",
    "another port",
    "another second name",
    "an act more",
    "an act less",
    "another operation",
];

impl Recorded {
    /// Reads a stream.
    pub fn read(records: &[u8], workdir: &[u8]) -> Self {
        let mut reader = RecordReader::new(records).expect("a stream");
        let subject = reader.subject();
        let mut pipeline = Pipeline::new(subject);
        let mut observations = Vec::new();
        while let Some(record) = reader.next_record().expect("a whole record") {
            pipeline.push(record, |observation| observations.push(observation));
        }
        pipeline.finish(|observation| observations.push(observation));
        let mut recorded = Self { observations, root_pid: subject.root_pid, workdir: workdir.to_vec() };
        // What few runs do, so that each class has something to change.
        for address in ["192.0.2.1:443", "[2001:db8::1]:80", "127.0.0.1:8080"] {
            recorded.more(Act::Net(NetAct {
                op: NetOp::Connect,
                proto: "tcp",
                endpoint: Endpoint::Inet(address.parse().expect("an address")),
                is_ephemeral: false,
                peer: None,
            }));
        }
        for path in ["/srv/data/log", "/etc/app.conf"] {
            recorded.more(open(path.as_bytes().to_vec(), &[Access::Write]));
        }
        recorded
    }

    fn more(&mut self, act: Act) {
        let mut last = self.observations.last().expect("a run").clone();
        (last.act, last.result, last.pid, last.tid) = (act, CallResult::Ok, self.root_pid, self.root_pid);
        self.observations.push(last);
    }

    fn canonical(&self, observations: &[Observation], command: &[&str]) -> Canonical {
        let roots = Roots { workdir: vec![self.workdir.clone()], ..Roots::default() };
        let command = command.iter().map(|word| word.as_bytes().to_vec()).collect();
        let mut canonicalizer = Canonicalizer::new(CanonContext::new(roots, command, self.root_pid));
        for observation in observations {
            canonicalizer.observe(observation);
        }
        let outcome = Outcome::ExitCode(0);
        canonicalizer.finish(RunEnd { outcome, degradations: Vec::new(), ended_at: None })
    }

    /// Makes every change of every class, and returns how many of each there were. Shows `look` what the run was and what
    /// it is with the change.
    pub fn check_changes(&self, look: &mut dyn FnMut(&str, &Identity, &Identity)) -> [usize; CLASSES.len()] {
        self.check_changes_from(0, look)
    }

    /// The same of the acts from this one on.
    fn check_changes_from(
        &self,
        first: usize,
        look: &mut dyn FnMut(&str, &Identity, &Identity),
    ) -> [usize; CLASSES.len()] {
        let base = self.canonical(&self.observations, &["x"]);
        let base_id = identity::digest(&base.identity);
        let base_facts = facts(&self.observations);
        let folded: BTreeSet<Vec<u8>> =
            base.folded.iter().filter_map(|fold| assay::profile::name::unescape(&fold.from)).collect();
        let mut counts = [0; CLASSES.len()];
        // Of the opens of a long run so many all along it, and all else: which acts are looked at must not hang on how
        // many files the run happened to read before.
        let mut opens = 0;
        let step = (self.observations.len() / 120).max(1);
        for (at, observation) in self.observations.iter().enumerate() {
            let is_open = matches!(&observation.act, Act::File(act) if act.op == FileOp::Open);
            opens += usize::from(is_open);
            if at < first || (is_open && opens % step != 0) {
                continue;
            }
            // A name that folds stands for others like it.
            let is_folded = names(&observation.act).iter().any(|name| folded.contains(*name));
            if is_folded || observation.result != CallResult::Ok {
                continue;
            }
            for (class, count) in counts.iter_mut().enumerate() {
                let mut changed = self.observations.clone();
                if !change(class, &mut changed, at) || facts(&changed) == base_facts {
                    continue;
                }
                let after = self.canonical(&changed, &["x"]);
                let what = CLASSES[class];
                assert_ne!(identity::digest(&after.identity), base_id, "{what}: {:?}", observation.act);
                let differences = diff::effects(&base.identity.effects, &after.identity.effects);
                assert!(!differences.is_empty(), "{what}: {:?}", observation.act);
                // The read of a file that the run neither made nor moved has no part in anything else.
                if is_plain_read(observation, &base) && class < 6 {
                    assert!(differences.len() <= 2, "{what}: {differences:?}");
                }
                look(what, &base.identity, &after.identity);
                *count += 1;
            }
        }
        counts
    }

    /// The same run with other process ids, in another directory, later, and with what repeats repeated more often. Shows
    /// `look` what the run was and what it is then.
    pub fn check_circumstances(&self, look: &mut dyn FnMut(&Identity, &Identity)) {
        let base = self.canonical(&self.observations, &["x"]);
        for (shift, workdir, repeats) in
            [(1_000, "/elsewhere", 1), (77_777, "/mnt/ci/3/checkout", 3), (5, "/w", 2)]
        {
            let mut others = Vec::new();
            for observation in &self.observations {
                let mut other = observation.clone();
                other.pid += shift;
                other.tid += shift;
                other.t_ns += 1_000_000 * u64::from(shift);
                if let Act::Fork { child_pid, child_tid } = &mut other.act {
                    *child_pid += shift;
                    *child_tid += shift;
                }
                for name in names_mut(&mut other.act) {
                    *name = moved(name, &self.workdir, workdir.as_bytes());
                    *name = shifted(name, shift, |id| self.observations.iter().any(|one| one.pid == id));
                }
                let times = if is_repeatable(&other) { repeats } else { 1 };
                others.extend(std::iter::repeat_n(other, times));
            }
            let there =
                Self { observations: Vec::new(), root_pid: self.root_pid + shift, workdir: workdir.into() };
            let after = there.canonical(&others, &["x"]);
            assert_eq!(after.identity.effects, base.identity.effects, "{shift} {workdir}");
            assert_eq!(identity::digest(&after.identity), identity::digest(&base.identity));
            look(&base.identity, &after.identity);
        }
    }

    /// A name that looks drawn by chance is kept when it stands in the arguments.
    pub fn check_named(&self) {
        for (one, other) in [
            ("tmp.aB3xY9kL2q", "tmp.bC4yZ0lM3r"),
            ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "0a1b2c3d-7dec-11d0-a765-00a0c91e6bf6"),
            ("cache-0123456789abcdef0123456789abcdef", "cache-fedcba9876543210fedcba9876543210"),
        ] {
            let with = |name: &str, command: &[&str]| {
                let mut changed = self.like();
                let path = format!("/tmp/{name}");
                changed.more(open(path.clone().into_bytes(), &[Access::Read, Access::Write, Access::Create]));
                changed.more(unlink(path.into_bytes()));
                identity::digest(&self.canonical(&changed.observations, command).identity)
            };
            assert_eq!(with(one, &["x"]), with(other, &["x"]), "{one} is drawn by chance");
            let (named_one, named_other) = (["x", &format!("/tmp/{one}")], ["x", &format!("/tmp/{other}")]);
            let (named_one, named_other) =
                (named_one.each_ref().map(|word| &**word), named_other.each_ref().map(|word| &**word));
            assert_ne!(with(one, &named_one), with(other, &named_one), "{one} was asked for");
            assert_ne!(with(one, &named_one), with(other, &named_other), "{one} was asked for");
        }
    }

    fn like(&self) -> Self {
        Self {
            observations: self.observations.clone(),
            root_pid: self.root_pid,
            workdir: self.workdir.clone(),
        }
    }
}

fn open(path: Vec<u8>, access: &[Access]) -> Act {
    Act::File(FileAct {
        op: FileOp::Open,
        path: PathRef::resolved(path),
        requested: None,
        access: access.iter().copied().collect(),
        kind: FileKind::Regular,
        is_path_only: false,
        is_private: false,
    })
}

fn unlink(path: Vec<u8>) -> Act {
    let Act::File(act) = open(path, &[]) else { unreachable!("an open is of a file") };
    Act::File(FileAct { op: FileOp::Unlink, ..act })
}

/// What an observation is, told without any of the canonicaliser: two runs with equal sets do the same.
fn facts(observations: &[Observation]) -> BTreeSet<String> {
    let is_act =
        |one: &&Observation| !matches!(one.act, Act::Fork { .. } | Act::Exit { .. } | Act::Blind { .. });
    let is_told = |one: &&Observation| matches!(one.result, CallResult::Ok | CallResult::Errno(1 | 13 | 30));
    let bound: BTreeSet<u16> = observations.iter().filter_map(port_bound_by_number).collect();
    let fact = |one: &Observation| {
        let mut act = one.act.clone();
        match &mut act {
            Act::File(file) => {
                let told = |word: &str| format!("{word} {:?} {:?}", file.path.bytes, one.result);
                let writes = [Access::Write, Access::Truncate, Access::Append];
                let is_create = file.access.contains(&Access::Create);
                let is_write = !is_create && writes.iter().any(|one| file.access.contains(one));
                return match file.op {
                    FileOp::Open | FileOp::Receive => ["read", "write", "create"]
                        .iter()
                        .zip([file.access.contains(&Access::Read), is_write, is_create])
                        .filter(|(_, has)| *has && !file.is_path_only)
                        .map(|(word, _)| told(word))
                        .collect(),
                    FileOp::Truncate | FileOp::Write => vec![told("write")],
                    FileOp::Mknod => vec![told("create")],
                    FileOp::Mkdir => vec![told("mkdir")],
                    FileOp::Unlink | FileOp::Rmdir => vec![told("delete")],
                    FileOp::Chmod
                    | FileOp::Chown
                    | FileOp::Utime
                    | FileOp::Setxattr
                    | FileOp::Removexattr => {
                        vec![told("attr")]
                    }
                    FileOp::Mount | FileOp::Umount | FileOp::PivotRoot => vec![told("mount")],
                    FileOp::Chdir | FileOp::Chroot => Vec::new(),
                };
            }
            Act::Pair(pair) => pair.requested = (None, None),
            // What happens on a socket of another family is one effect, whatever it was.
            Act::Net(net)
                if net.endpoint == Endpoint::None && !["tcp", "udp", "unix"].contains(&net.proto) =>
            {
                return vec![format!("use {} {:?}", net.proto, one.result)];
            }
            // Which port the kernel chose is nothing that the run did: of a bind to none, and of a socket that listens
            // on one that nobody bound by its number.
            Act::Net(net) => {
                let is_chosen = match net.op {
                    NetOp::Bind => net.is_ephemeral,
                    NetOp::Listen => true,
                    _ => false,
                };
                if let Endpoint::Inet(address) = &mut net.endpoint
                    && is_chosen
                    && !bound.contains(&address.port())
                {
                    address.set_port(0);
                }
            }
            Act::Exec(exec) => {
                let programs = std::iter::once(&exec.path).chain(&exec.interpreter);
                return programs.map(|path| format!("exec {:?} {:?}", path.bytes, one.result)).collect();
            }
            _ => {}
        }
        vec![format!("{act:?} {:?}", one.result)]
    };
    observations.iter().filter(is_act).filter(is_told).flat_map(fact).collect()
}

fn port_bound_by_number(observation: &Observation) -> Option<u16> {
    match &observation.act {
        Act::Net(NetAct {
            op: NetOp::Bind, endpoint: Endpoint::Inet(address), is_ephemeral: false, ..
        }) => Some(address.port()),
        _ => None,
    }
}

/// Makes a change of this class to one observation; whether it can be made.
fn change(class: usize, observations: &mut Vec<Observation>, at: usize) -> bool {
    let observation = &mut observations[at];
    match (CLASSES[class], &mut observation.act) {
        ("another file", Act::File(act)) if act.path.bytes.len() > 1 => act.path.bytes.push(b'q'),
        ("another file", Act::Pair(act)) => act.path.bytes.push(b'q'),
        ("another file", Act::Net(NetAct { endpoint: Endpoint::UnixPath(path), .. })) => {
            path.bytes.push(b'q');
        }
        ("a file two directories away", Act::File(act)) => {
            let Some(slash) = act.path.bytes.iter().rposition(|byte| *byte == b'/') else { return false };
            drop(act.path.bytes.splice(slash..slash, b"/one/two".iter().copied()));
        }
        ("read become write", Act::File(act)) if act.access.contains(&Access::Read) => {
            act.access = [Access::Write].into();
        }
        ("write become read", Act::File(act)) if act.access.contains(&Access::Write) => {
            act.access = [Access::Read].into();
        }
        ("denied instead of allowed", Act::Fork { .. } | Act::Exit { .. } | Act::Blind { .. }) => {
            return false;
        }
        ("denied instead of allowed", _) => observation.result = CallResult::Errno(13),
        ("another program", Act::Exec(act)) => act.path.bytes.push(b'q'),
        ("another host", Act::Net(NetAct { endpoint: Endpoint::Inet(address), .. })) => {
            address.set_ip("198.51.100.7".parse().expect("an address"));
        }
        ("another port", Act::Net(NetAct { endpoint: Endpoint::Inet(address), .. })) => {
            address.set_port(address.port().checked_add(1).unwrap_or(1));
        }
        ("another second name", Act::Pair(act)) => act.to.bytes.push(b'q'),
        ("an act more", Act::File(_)) => {
            let mut more = observation.clone();
            more.act = open(format!("/srv/more/{at}").into_bytes(), &[Access::Read]);
            observations.insert(at, more);
        }
        ("an act less", Act::Fork { .. } | Act::Exit { .. } | Act::Blind { .. }) => return false,
        ("an act less", _) => drop(observations.remove(at)),
        ("another operation", Act::File(act)) if act.op == FileOp::Open => act.op = FileOp::Chmod,
        ("another operation", Act::Net(act)) if act.op == NetOp::Connect => act.op = NetOp::Send,
        _ => return false,
    }
    true
}

fn is_plain_read(observation: &Observation, base: &Canonical) -> bool {
    let Act::File(act) = &observation.act else { return false };
    let name = assay::profile::name::Name::from_bytes(&act.path.bytes);
    let last = name.as_str().rsplit('/').next().unwrap_or_default();
    let touches = |effect: &&assay::profile::effect::Effect| {
        let mut is_it = false;
        effect.for_names(&mut |text| is_it |= text.contains(last));
        is_it
    };
    act.access == [Access::Read].into() && base.identity.effects.iter().filter(touches).count() == 1
}

fn names(act: &Act) -> Vec<&Vec<u8>> {
    match act {
        Act::File(act) => vec![&act.path.bytes],
        Act::Pair(act) => vec![&act.path.bytes, &act.to.bytes],
        Act::Exec(act) => vec![&act.path.bytes],
        Act::Net(NetAct { endpoint: Endpoint::UnixPath(path), .. }) => vec![&path.bytes],
        _ => Vec::new(),
    }
}

fn names_mut(act: &mut Act) -> Vec<&mut Vec<u8>> {
    match act {
        Act::File(act) => vec![&mut act.path.bytes],
        Act::Pair(act) => vec![&mut act.path.bytes, &mut act.to.bytes],
        Act::Exec(act) => {
            std::iter::once(&mut act.path).chain(&mut act.interpreter).map(|path| &mut path.bytes).collect()
        }
        Act::Net(NetAct { endpoint: Endpoint::UnixPath(path), .. }) => vec![&mut path.bytes],
        _ => Vec::new(),
    }
}

fn moved(name: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match name.strip_prefix(from) {
        Some(rest) if rest.is_empty() || rest[0] == b'/' => [to, rest].concat(),
        _ => name.to_vec(),
    }
}

/// `/proc/<pid>` of the run.
fn shifted(name: &[u8], shift: u32, is_ours: impl Fn(u32) -> bool) -> Vec<u8> {
    let parts = name.split(|byte| *byte == b'/');
    let is_proc = name.starts_with(b"/proc/");
    let number = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<u32>().ok().filter(|id| is_ours(*id));
    let part = |part: &[u8]| match number(part) {
        Some(id) if is_proc => (id + shift).to_string().into_bytes(),
        _ => part.to_vec(),
    };
    parts.map(part).collect::<Vec<_>>().join(&b'/')
}

/// Acts that change nothing when they are done again.
fn is_repeatable(observation: &Observation) -> bool {
    match &observation.act {
        Act::File(act) => {
            matches!(act.op, FileOp::Open | FileOp::Chmod | FileOp::Utime)
                && !act.access.contains(&Access::Create)
        }
        Act::Net(act) => act.op == NetOp::Connect,
        _ => false,
    }
}

/// The run of a shell script that does something of everything.
pub fn shell() -> Recorded {
    let records = include_bytes!("../fixtures/streams/shell.records");
    let trace = include_str!("../fixtures/streams/shell.trace");
    let made =
        trace.lines().find(|line| line.contains("\"op\":\"mkdir\"")).expect("the script makes a directory");
    let made: serde_json::Value = serde_json::from_str(made).expect("JSON");
    let workdir = made["path"].as_str().expect("a path").trim_end_matches("/d").as_bytes();
    Recorded::read(records, workdir)
}

/// A bind to no port and a socket that listens unbound tell a number that the kernel drew.
#[test]
fn another_port_of_the_kernels_choice_is_the_same_run() {
    let net = |op, address: &str, is_ephemeral| {
        let endpoint = Endpoint::Inet(address.parse().expect("an address"));
        Act::Net(NetAct { op, proto: "tcp", endpoint, is_ephemeral, peer: None })
    };
    for acts in [&[(NetOp::Bind, true), (NetOp::Listen, false)][..], &[(NetOp::Listen, false)]] {
        let mut run = shell();
        let first = run.observations.len();
        for port in ["127.0.0.1:38667", "[::1]:60999"] {
            for (op, is_ephemeral) in acts {
                run.more(net(*op, port, *is_ephemeral));
            }
            run.more(net(NetOp::Connect, port, false));
        }
        let counts = run.check_changes_from(first, &mut |_, _, _| ());
        let of = |class| counts[CLASSES.iter().position(|one| *one == class).expect("a class")];
        let all = run.observations.len() - first;
        // The two connects, to what is then no port of the run's own; and each act is denied, and left out.
        assert_eq!((of("another port"), of("denied instead of allowed"), of("an act less")), (2, all, all));
        run.check_circumstances(&mut |_, _| ());
    }
}

#[test]
fn one_effect_changed_in_a_recorded_run_is_another_run() {
    let recorded = shell();
    let counts = recorded.check_changes(&mut |_, _, _| ());
    println!("{:?}", CLASSES.iter().zip(counts).collect::<Vec<_>>());
    assert!(counts.iter().sum::<usize>() >= 150, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "a class has nothing in it: {counts:?}");
    recorded.check_circumstances(&mut |_, _| ());
    recorded.check_named();
}
