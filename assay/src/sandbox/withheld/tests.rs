use super::*;
use crate::evidence::EffectFacts;
use crate::evidence::samples;
use crate::observe::observation::{Endpoint, ExecAct, FileAct, FileKind, NetAct, NetOp, PathRef};
use crate::profile::effect::{ExecEffect, FsEffect, NetEffect, NetEffectOp};

fn file(op: FileOp, path: &str) -> Act {
    Act::File(FileAct {
        op,
        path: PathRef::resolved(path),
        requested: Some(path.into()),
        access: BTreeSet::new(),
        kind: FileKind::Unknown,
        is_path_only: false,
        is_private: false,
    })
}

fn by_handle() -> Act {
    let Act::File(act) = file(FileOp::Open, "") else { unreachable!("it is one") };
    Act::File(FileAct { path: PathRef::unreadable(), requested: None, ..act })
}

fn socket(proto: &'static str) -> Act {
    Act::Net(NetAct { op: NetOp::Socket, proto, endpoint: Endpoint::None, is_ephemeral: false, peer: None })
}

fn start(path: &str, is_privileged: bool) -> Act {
    Act::Exec(ExecAct {
        path: PathRef::resolved(path),
        requested: Some(path.into()),
        interpreter: None,
        argv: Vec::new(),
        is_argv_cut: false,
        is_privileged,
    })
}

fn seen(pid: u32, act: Act, errno: i32) -> Observation {
    let result = if errno == 0 { CallResult::Ok } else { CallResult::Errno(errno) };
    Observation { seq: 0, t_ns: 0, pid, tid: pid, ppid: 1, comm: b"x".to_vec(), act, result }
}

const ALL: Taken = Taken { from_command: CapabilitySet::all(), from_gaining: CapabilitySet::all() };
const OF_A_USER: Taken = Taken { from_command: CapabilitySet::empty(), from_gaining: CapabilitySet::all() };

#[test]
fn the_capability_is_told_by_act_and_errno() {
    let check = |act: Act, errno, expect: Option<&str>| {
        assert_eq!(guarding(&act, errno), expect, "{act:?} {errno}");
    };
    check(file(FileOp::Mknod, "/w/n"), EPERM, Some("MKNOD"));
    check(file(FileOp::Mknod, "/w/n"), EACCES, None);
    check(file(FileOp::Chroot, "/w"), EPERM, Some("SYS_CHROOT"));
    for op in [FileOp::Mount, FileOp::Umount, FileOp::PivotRoot, FileOp::Setxattr, FileOp::Removexattr] {
        check(file(op, "/w"), EPERM, Some("SYS_ADMIN"));
        check(file(op, "/w"), 22, None);
    }
    check(by_handle(), EPERM, Some("DAC_READ_SEARCH"));
    check(file(FileOp::Open, "/w/append-only"), EPERM, None);
    check(file(FileOp::Open, "/dev/mem"), EPERM, Some("SYS_RAWIO"));
    check(file(FileOp::Open, "/dev/mem"), EACCES, None);
    check(file(FileOp::Open, "/dev/kmsg"), EPERM, Some("SYSLOG"));
    check(file(FileOp::Open, "/proc/1/environ"), EACCES, Some("SYS_PTRACE"));
    check(file(FileOp::Open, "/proc/1/task/1/mem"), EPERM, Some("SYS_PTRACE"));
    check(file(FileOp::Open, "/proc/sys/maps"), EACCES, None);
    check(file(FileOp::Open, "/proc/1/cmdline"), EACCES, None);
    // These are guarded by capabilities that the command keeps.
    for op in [FileOp::Chown, FileOp::Chmod, FileOp::Unlink, FileOp::Utime] {
        check(file(op, "/w/n"), EPERM, None);
    }
    check(socket("packet"), EPERM, Some("NET_RAW"));
    check(socket("vsock"), EPERM, None);
    check(Act::Blind { means: "other-process", detail: Vec::new() }, EPERM, Some("SYS_PTRACE"));
    check(Act::Blind { means: "io-uring", detail: Vec::new() }, EPERM, None);
}

#[test]
fn every_capability_of_the_table_is_one_that_is_dropped() {
    for guard in GUARDS {
        assert!(
            capabilities::DROPPED.iter().any(|(name, _)| *name == guard.capability),
            "{}",
            guard.capability
        );
    }
}

/// A run with these denied effects, each refused by `system`.
fn evidence(effects: &[Effect]) -> Evidence {
    let mut evidence = samples::evidence(effects.to_vec(), Vec::new());
    evidence.observed.roots = BTreeMap::from([("WORKDIR".into(), "/w".into())]);
    evidence.observed.folded = Vec::new();
    evidence.observed.mode = "dry-run".into();
    evidence.observed.effects = effects
        .iter()
        .map(|effect| {
            let denied_by = (result_of(effect) == EffectResult::Denied).then_some("system");
            (effect.clone(), EffectFacts { hits: 1, denied_by, ..EffectFacts::default() })
        })
        .collect();
    evidence
}

fn fs(op: FsOp, path: &str) -> Effect {
    let path = Name::from_canonical(path.to_owned());
    Effect::Fs(FsEffect { op, path, to: None, result: EffectResult::Denied })
}

fn exec(path: &str, result: EffectResult) -> Effect {
    Effect::Exec(ExecEffect { path: Name::from_canonical(path.to_owned()), result })
}

fn nothing(_: &[u8]) -> CapabilitySet {
    CapabilitySet::empty()
}

#[test]
fn an_effect_is_attributed_and_the_option_named() {
    let (made, other) = (fs(FsOp::Create, "${WORKDIR}/n"), fs(FsOp::Create, "${WORKDIR}/o"));
    let packet = Effect::net(NetEffect {
        op: NetEffectOp::Use,
        proto: "packet".into(),
        host: None,
        host_from: None,
        address: None,
        port: None,
        result: EffectResult::Denied,
    });
    let mut evidence = evidence(&[made.clone(), other.clone(), packet.clone()]);
    let mut withheld = Withheld::new(ALL);
    for _ in 0..2 {
        withheld.see(&seen(7, file(FileOp::Mknod, "/w/n"), EPERM));
    }
    withheld.see(&seen(7, file(FileOp::Chroot, "/w"), EPERM));
    withheld.see(&seen(7, socket("packet"), EPERM));
    let told = withheld.attribute(&mut evidence, nothing);
    let by = |effect: &Effect| evidence.observed.effects[effect].denied_by;
    assert_eq!((by(&made), by(&other), by(&packet)), (Some("launch"), Some("system"), Some("launch")));
    assert_eq!(
        told,
        [
            "denied by the launch: chroot /w: SYS_CHROOT is dropped; `--keep-caps SYS_CHROOT` would allow it",
            "denied by the launch: mknod ${WORKDIR}/n: MKNOD is dropped; `--keep-caps MKNOD` would allow it",
            "denied by the launch: open a socket of family packet: NET_RAW is dropped; \
             `--keep-caps NET_RAW` would allow it",
        ]
    );
    let counted = |name: &str| evidence.observed.counters.get(name).copied();
    assert_eq!((counted("withheld.MKNOD"), counted("withheld.SYS_CHROOT")), (Some(2), Some(1)));
}

#[test]
fn what_the_policy_stopped_stays_its_own() {
    let mount = fs(FsOp::Mount, "${WORKDIR}/m");
    let mut evidence = evidence(std::slice::from_ref(&mount));
    evidence.observed.effects.get_mut(&mount).unwrap().denied_by = Some("policy");
    let mut withheld = Withheld::new(ALL);
    withheld.see(&seen(7, file(FileOp::Mount, "/w/m"), EPERM));
    assert_eq!(withheld.attribute(&mut evidence, nothing), Vec::<String>::new());
    assert_eq!(evidence.observed.effects[&mount].denied_by, Some("policy"));
}

#[test]
fn who_had_no_capability_was_not_refused_for_want_of_it() {
    let made = fs(FsOp::Create, "${WORKDIR}/n");
    let attributed = |observations: &[Observation]| {
        let mut evidence = evidence(std::slice::from_ref(&made));
        let mut withheld = Withheld::new(OF_A_USER);
        for observation in observations {
            withheld.see(observation);
        }
        withheld.attribute(&mut evidence, nothing);
        evidence.observed.effects[&made].denied_by
    };
    let refused = |pid| seen(pid, file(FileOp::Mknod, "/w/n"), EPERM);
    let fork = |child| Act::Fork { child_pid: child, child_tid: child };
    assert_eq!(attributed(&[refused(7)]), Some("system"));
    // What a setuid program does, and what it starts, had it.
    let su = || seen(7, start("/bin/su", true), 0);
    assert_eq!(attributed(&[su(), refused(7)]), Some("launch"));
    assert_eq!(attributed(&[su(), seen(7, fork(8), 0), refused(8)]), Some("launch"));
    assert_eq!(attributed(&[su(), refused(9)]), Some("system"));
    assert_eq!(attributed(&[su(), seen(7, Act::Exit { status: 0 }, 0), refused(7)]), Some("system"));
}

#[test]
fn a_program_whose_file_asks_for_what_is_dropped_is_told() {
    let ping = exec("/bin/ping", EffectResult::Denied);
    let mut evidence = evidence(std::slice::from_ref(&ping));
    let mut withheld = Withheld::new(OF_A_USER);
    withheld.see(&seen(7, start("/bin/ping", false), EPERM));
    let told = withheld.attribute(&mut evidence, |path| {
        assert_eq!(path, b"/bin/ping");
        CapabilitySet::NET_RAW | CapabilitySet::CHOWN
    });
    let expect =
        "denied by the launch: execute /bin/ping: NET_RAW is dropped; `--keep-caps NET_RAW` would allow it";
    assert_eq!(told, [expect]);
    assert_eq!(evidence.observed.effects[&ping].denied_by, Some("launch"));
}

#[test]
fn programs_that_gain_rights_are_listed() {
    let mut evidence =
        evidence(&[exec("/usr/bin/su", EffectResult::Ok), exec("/usr/bin/sh", EffectResult::Ok)]);
    let mut withheld = Withheld::new(ALL);
    withheld.see(&seen(7, start("/usr/bin/sh", false), 0));
    withheld.see(&seen(7, start("/usr/bin/su", true), 0));
    let told = withheld.attribute(&mut evidence, nothing);
    assert_eq!(
        told,
        ["/usr/bin/su is a setuid or setgid program: \
          under enforcement no_new_privs will keep it from gaining rights"]
    );
    assert_eq!(evidence.observed.counters["setuid./usr/bin/su"], 1);
}
