//! What the run was refused for want of a capability that the launch took from it, and which of its programs gain
//! rights when they start, which `no_new_privs` takes from them. Observations in, attributions out. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rustix::thread::CapabilitySet;

use super::capabilities;
use super::hold::{result_of, roots_of};
use crate::evidence::{Evidence, GAINING_COUNTER, WITHHELD_COUNTER};
use crate::observe::observation::{Act, CallResult, FileOp, Observation};
use crate::policy::check::path_of_name;
use crate::profile::effect::{Effect, EffectResult, FsOp};
use crate::profile::name::{Name, unescape};

const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// More different acts than this are only counted.
const MAX_WANTS: usize = 1000;

/// Which acts a capability guards.
enum Acts {
    /// These calls, on anything.
    Calls(&'static [FileOp]),
    /// An open that names its file by a handle.
    OpenByHandle,
    /// An open of one of these.
    OpenOf(&'static [&'static str]),
    /// An open of one of these files of a process under `/proc`.
    OpenOfProcess(&'static [&'static str]),
    /// A socket of this family.
    Socket(&'static str),
    /// Reaching into another process.
    Means(&'static [&'static str]),
}

/// A capability, acts that it guards, and the errors by which they are refused without it.
struct Guard {
    acts: Acts,
    errors: &'static [i32],
    capability: &'static str,
}

const fn guard(acts: Acts, errors: &'static [i32], capability: &'static str) -> Guard {
    Guard { acts, errors, capability }
}

/// The table: `capabilities(7)`, of what is dropped and of what the observer sees.
const GUARDS: &[Guard] = &[
    guard(Acts::Calls(&[FileOp::Mknod]), &[EPERM], "MKNOD"),
    guard(Acts::Calls(&[FileOp::Chroot]), &[EPERM], "SYS_CHROOT"),
    guard(Acts::Calls(&[FileOp::Mount, FileOp::Umount, FileOp::PivotRoot]), &[EPERM], "SYS_ADMIN"),
    // `trusted.*` and `security.*`: the observer does not tell the attribute's name.
    guard(Acts::Calls(&[FileOp::Setxattr, FileOp::Removexattr]), &[EPERM], "SYS_ADMIN"),
    guard(Acts::OpenByHandle, &[EPERM], "DAC_READ_SEARCH"),
    guard(Acts::OpenOf(&["/dev/mem", "/dev/port", "/proc/kcore"]), &[EPERM], "SYS_RAWIO"),
    guard(Acts::OpenOf(&["/dev/kmsg", "/proc/kmsg"]), &[EPERM], "SYSLOG"),
    // A root process that has more capabilities than the one that looks.
    guard(
        Acts::OpenOfProcess(&[
            "auxv",
            "environ",
            "io",
            "maps",
            "mem",
            "numa_maps",
            "pagemap",
            "personality",
            "smaps",
            "smaps_rollup",
            "stack",
            "syscall",
        ]),
        &[EPERM, EACCES],
        "SYS_PTRACE",
    ),
    guard(Acts::Socket("packet"), &[EPERM], "NET_RAW"),
    guard(Acts::Means(&["other-process"]), &[EPERM], "SYS_PTRACE"),
];

impl Acts {
    fn has(&self, act: &Act) -> bool {
        match (self, act) {
            (Self::Calls(ops), Act::File(file)) => ops.contains(&file.op),
            (Self::OpenByHandle, Act::File(file)) => file.op == FileOp::Open && file.requested.is_none(),
            (Self::OpenOf(paths), Act::File(file)) => {
                file.op == FileOp::Open && paths.iter().any(|path| file.path.bytes == path.as_bytes())
            }
            (Self::OpenOfProcess(leaves), Act::File(file)) => {
                file.op == FileOp::Open
                    && leaf_of_process(&file.path.bytes)
                        .is_some_and(|leaf| leaves.iter().any(|known| leaf == known.as_bytes()))
            }
            (Self::Socket(proto), Act::Net(net)) => net.proto == *proto,
            (Self::Means(known), Act::Blind { means, .. }) => known.contains(means),
            _ => false,
        }
    }
}

/// `maps` of `/proc/7/maps` and of `/proc/7/task/8/maps`.
fn leaf_of_process(path: &[u8]) -> Option<&[u8]> {
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let parts: Vec<&[u8]> = path.strip_prefix(b"/proc/")?.split(|byte| *byte == b'/').collect();
    match parts.as_slice() {
        [pid, leaf] if is_number(pid) => Some(leaf),
        [pid, b"task", tid, leaf] if is_number(pid) && is_number(tid) => Some(leaf),
        _ => None,
    }
}

/// The capability without which this act ends so.
fn guarding(act: &Act, errno: i32) -> Option<&'static str> {
    GUARDS
        .iter()
        .find(|guard| guard.errors.contains(&errno) && guard.acts.has(act))
        .map(|guard| guard.capability)
}

/// What the launch takes away that would be there without us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// From the command itself.
    pub from_command: CapabilitySet,
    /// From a program that gains capabilities when it starts.
    pub from_gaining: CapabilitySet,
}

/// Takes note as the run goes.
#[derive(Debug)]
pub struct Withheld {
    taken: Taken,
    /// Processes in which a program that gains rights was started.
    gained: HashSet<u32>,
    wants: BTreeMap<Want, u64>,
    /// Programs that gain rights, with the number of starts.
    gaining: BTreeMap<Vec<u8>, u64>,
    /// Programs that were refused to start.
    refused: BTreeMap<Vec<u8>, u64>,
}

/// One kind of refusal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Want {
    capability: &'static str,
    effect: Told,
    /// The call, for a person.
    call: &'static str,
    /// The path, the protocol, or the process.
    object: Vec<u8>,
}

/// As which kind of effect it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Fs(FsOp),
    Exec,
    Net,
    /// As none: it is in the trace only.
    Nowhere,
}

impl Withheld {
    /// Of a run from which this was taken.
    pub fn new(taken: Taken) -> Self {
        Self {
            taken,
            gained: HashSet::new(),
            wants: BTreeMap::new(),
            gaining: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Takes note of one observation.
    pub fn see(&mut self, observation: &Observation) {
        let pid = observation.pid;
        match (&observation.act, observation.result) {
            (Act::Fork { child_pid, .. }, _) if *child_pid != pid && self.gained.contains(&pid) => {
                self.gained.insert(*child_pid);
            }
            (Act::Exit { .. }, _) if pid == observation.tid => {
                self.gained.remove(&pid);
            }
            (Act::Exec(exec), CallResult::Ok) if exec.is_privileged => {
                self.gained.insert(pid);
                let file = exec.interpreter.as_ref().unwrap_or(&exec.path);
                count(&mut self.gaining, file.bytes.clone());
            }
            (Act::Exec(exec), CallResult::Errno(EPERM)) => count(&mut self.refused, exec.path.bytes.clone()),
            (act, CallResult::Errno(errno)) => {
                if let Some(capability) = guarding(act, errno)
                    && self.was_taken(capability, pid)
                    && let Some(want) = Want::of(act, capability)
                {
                    count(&mut self.wants, want);
                }
            }
            _ => {}
        }
    }

    fn was_taken(&self, capability: &str, pid: u32) -> bool {
        let taken = if self.gained.contains(&pid) {
            self.taken.from_command | self.taken.from_gaining
        } else {
            self.taken.from_command
        };
        capabilities::parse(capability).is_ok_and(|capability| taken.contains(capability))
    }

    /// Attributes to the launch what the policy did not stop; a sentence for each, with the option that would allow
    /// it. `file_capabilities` are those that a program is to have from its first instruction: the kernel refuses to
    /// start it without them.
    pub fn attribute(
        mut self,
        evidence: &mut Evidence,
        file_capabilities: impl Fn(&[u8]) -> CapabilitySet,
    ) -> Vec<String> {
        for (path, hits) in std::mem::take(&mut self.refused) {
            let wanted = file_capabilities(&path) & (self.taken.from_command | self.taken.from_gaining);
            for (capability, _) in capabilities::DROPPED.iter().filter(|(_, one)| wanted.contains(*one)) {
                let want = Want { capability, effect: Told::Exec, call: "execute", object: path.clone() };
                self.wants.insert(want, hits);
            }
        }
        let mut sentences = BTreeSet::new();
        for (want, hits) in &self.wants {
            let name = match want.effect {
                Told::Nowhere => Some(Name::from_bytes(&want.object)),
                told => want.claim(told, evidence),
            };
            // What the policy stopped would be stopped with the capability, too.
            let Some(name) = name else { continue };
            *evidence
                .observed
                .counters
                .entry(format!("{WITHHELD_COUNTER}{}", want.capability))
                .or_default() += hits;
            sentences.insert(format!(
                "denied by the launch: {} {name}: {capability} is dropped; `--keep-caps {capability}` would allow it",
                want.call,
                capability = want.capability
            ));
        }
        let mut sentences: Vec<String> = sentences.into_iter().collect();
        sentences.extend(self.tell_gaining(evidence));
        sentences
    }

    fn tell_gaining(&self, evidence: &mut Evidence) -> Vec<String> {
        let roots = roots_of(evidence);
        let programs: Vec<Name> = evidence
            .observed
            .effects
            .keys()
            .filter_map(|effect| match effect {
                Effect::Exec(exec) if exec.result == EffectResult::Ok => Some(exec.path.clone()),
                _ => None,
            })
            .collect();
        let mut sentences = Vec::new();
        for (path, starts) in &self.gaining {
            let known = programs.iter().find(|name| is_name_of(name, path, evidence, &roots));
            let Some(name) = known else { continue };
            *evidence.observed.counters.entry(format!("{GAINING_COUNTER}{name}")).or_default() += starts;
            let words = if evidence.observed.mode == "dry-run" {
                "under enforcement no_new_privs will keep it from gaining rights"
            } else {
                "no_new_privs kept it from gaining rights"
            };
            sentences.push(format!("{name} is a setuid or setgid program: {words}"));
        }
        sentences
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    if let Some(hits) = counts.get_mut(&key) {
        *hits += 1;
    } else if counts.len() < MAX_WANTS {
        counts.insert(key, 1);
    }
}

impl Want {
    fn of(act: &Act, capability: &'static str) -> Option<Self> {
        let (effect, call, object) = match act {
            Act::File(file) => {
                let (effect, call) = match file.op {
                    FileOp::Mknod => (Told::Fs(FsOp::Create), "mknod"),
                    FileOp::Mount => (Told::Fs(FsOp::Mount), "mount"),
                    FileOp::Umount => (Told::Fs(FsOp::Mount), "umount"),
                    FileOp::PivotRoot => (Told::Fs(FsOp::Mount), "pivot_root"),
                    FileOp::Setxattr => (Told::Fs(FsOp::Attr), "setxattr"),
                    FileOp::Removexattr => (Told::Fs(FsOp::Attr), "removexattr"),
                    FileOp::Chroot => (Told::Nowhere, "chroot"),
                    FileOp::Open => (Told::Fs(FsOp::Read), "open"),
                    FileOp::Unlink
                    | FileOp::Rmdir
                    | FileOp::Mkdir
                    | FileOp::Truncate
                    | FileOp::Chmod
                    | FileOp::Chown
                    | FileOp::Utime
                    | FileOp::Chdir
                    | FileOp::Write
                    | FileOp::Receive => return None,
                };
                (effect, call, file.path.bytes.clone())
            }
            Act::Net(net) => (Told::Net, "open a socket of family", net.proto.as_bytes().to_vec()),
            Act::Blind { detail, .. } => (Told::Nowhere, "reach into", detail.clone()),
            Act::Namespaces(_)
            | Act::Pair(_)
            | Act::Exec(_)
            | Act::Fork { .. }
            | Act::Exit { .. }
            | Act::Named(_) => return None,
        };
        Some(Self { capability, effect, call, object })
    }

    /// Attributes every effect that this is told as; the name of the last one that is ours to explain.
    fn claim(&self, told: Told, evidence: &mut Evidence) -> Option<Name> {
        let roots = roots_of(evidence);
        let mine: Vec<Effect> = evidence
            .observed
            .effects
            .iter()
            .filter(|(effect, facts)| {
                result_of(effect) == EffectResult::Denied && facts.denied_by != Some("policy")
            })
            .filter(|(effect, _)| match effect {
                Effect::Fs(fs) => {
                    let is_kind = match told {
                        // An open for reading and writing is two effects.
                        Told::Fs(FsOp::Read) => {
                            matches!(fs.op, FsOp::Read | FsOp::Write | FsOp::Create | FsOp::List)
                        }
                        Told::Fs(op) => fs.op == op,
                        Told::Exec | Told::Net | Told::Nowhere => false,
                    };
                    is_kind && is_name_of(&fs.path, &self.object, evidence, &roots)
                }
                Effect::Exec(exec) => {
                    told == Told::Exec && is_name_of(&exec.path, &self.object, evidence, &roots)
                }
                Effect::Net(net) => told == Told::Net && net.proto.as_bytes() == self.object,
            })
            .map(|(effect, _)| effect.clone())
            .collect();
        for effect in &mine {
            if let Some(facts) = evidence.observed.effects.get_mut(effect) {
                facts.denied_by = Some("launch");
            }
        }
        mine.last().map(|effect| match effect {
            Effect::Fs(fs) => fs.path.clone(),
            Effect::Exec(exec) => exec.path.clone(),
            Effect::Net(net) => Name::from_bytes(net.proto.as_bytes()),
        })
    }
}

/// Whether this name of the identity stands for that path of the run, folded or not.
fn is_name_of(name: &Name, path: &[u8], evidence: &Evidence, roots: &[(String, Vec<u8>)]) -> bool {
    // What is named by a handle has no name.
    if path.is_empty() {
        return name.as_str() == "${UNREADABLE}";
    }
    let plain = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
    plain(&path_of_name(name, roots)) == plain(path)
        || evidence.observed.folded.iter().any(|fold| {
            fold.to == *name && unescape(&fold.from).is_some_and(|from| plain(&from) == plain(path))
        })
}

#[cfg(test)]
mod tests;
