//! What the canonicaliser makes of a few acts, one rule at a time.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::*;
use crate::observe::observation::{FileKind, FileOp, PathState};
use crate::profile::effect::FsOp;
use crate::profile::roots::CgroupPlace;

mod corpora;

/// Writes observations as a run would cause them.
pub(crate) struct Run {
    pub(crate) observations: Vec<Observation>,
    pub(crate) pid: u32,
}

impl Run {
    pub(crate) fn new(pid: u32) -> Self {
        Self { observations: Vec::new(), pid }
    }

    pub(crate) fn act(&mut self, act: Act, result: CallResult) -> &mut Self {
        let seq = self.observations.len() as u64;
        self.observations.push(Observation {
            seq,
            t_ns: seq * 1000,
            pid: self.pid,
            tid: self.pid,
            ppid: 1,
            comm: b"x".to_vec(),
            act,
            result,
        });
        self
    }

    pub(crate) fn file(&mut self, op: FileOp, path: &str, access: &[Access], errno: i32) -> &mut Self {
        let act = FileAct {
            op,
            path: PathRef::resolved(path),
            requested: None,
            access: access.iter().copied().collect(),
            kind: FileKind::Regular,
            is_path_only: false,
            is_private: access.contains(&Access::Read) && access.contains(&Access::Create),
        };
        self.act(Act::File(act), if errno == 0 { CallResult::Ok } else { CallResult::Errno(errno) })
    }

    pub(crate) fn read(&mut self, path: &str) -> &mut Self {
        self.file(FileOp::Open, path, &[Access::Read], 0)
    }

    pub(crate) fn write(&mut self, path: &str) -> &mut Self {
        self.file(FileOp::Open, path, &[Access::Write, Access::Truncate], 0)
    }

    pub(crate) fn create(&mut self, path: &str) -> &mut Self {
        self.file(FileOp::Open, path, &[Access::Write, Access::Create, Access::Truncate], 0)
    }

    pub(crate) fn delete(&mut self, path: &str) -> &mut Self {
        self.file(FileOp::Unlink, path, &[], 0)
    }

    pub(crate) fn pair(&mut self, op: PairOp, path: &str, to: &str, errno: i32) -> &mut Self {
        let to = if op == PairOp::Symlink { PathRef::literal(to) } else { PathRef::resolved(to) };
        let act =
            PairAct { op, path: PathRef::resolved(path), to, requested: (None, None), is_exchange: false };
        self.act(Act::Pair(act), if errno == 0 { CallResult::Ok } else { CallResult::Errno(errno) })
    }

    pub(crate) fn rename(&mut self, path: &str, to: &str) -> &mut Self {
        self.pair(PairOp::Rename, path, to, 0)
    }

    pub(crate) fn exec(&mut self, path: &str, interpreter: Option<&str>, argv: &[&str]) -> &mut Self {
        let act = ExecAct {
            path: PathRef::resolved(path),
            requested: None,
            interpreter: interpreter.map(PathRef::resolved),
            argv: argv.iter().map(|text| text.as_bytes().to_vec()).collect(),
            is_argv_cut: false,
            is_privileged: false,
        };
        self.act(Act::Exec(act), CallResult::Ok)
    }

    pub(crate) fn net(&mut self, op: NetOp, proto: &'static str, address: &str, errno: i32) -> &mut Self {
        let endpoint = Endpoint::Inet(address.parse::<SocketAddr>().unwrap());
        let result = if errno == 0 { CallResult::Ok } else { CallResult::Errno(errno) };
        self.act(Act::Net(NetAct { op, proto, endpoint, is_ephemeral: false, peer: None }), result)
    }

    pub(crate) fn unix(&mut self, op: NetOp, endpoint: Endpoint) -> &mut Self {
        self.act(
            Act::Net(NetAct { op, proto: "unix", endpoint, is_ephemeral: false, peer: None }),
            CallResult::Ok,
        )
    }

    pub(crate) fn fork(&mut self, child: u32) -> &mut Self {
        self.act(Act::Fork { child_pid: child, child_tid: child }, CallResult::Ok)
    }
}

pub(crate) fn context(command: &[&str], pid: u32) -> CanonContext {
    let roots = Roots {
        workdir: vec![b"/home/u/w".to_vec()],
        home: vec![b"/home/u".to_vec()],
        tmpdir: vec![b"/tmp/assay.private".to_vec()],
        cgroups: vec![CgroupPlace {
            mount: b"/sys/fs/cgroup".to_vec(),
            group: b"/sys/fs/cgroup/assay/run-1".to_vec(),
        }],
        user: Some(b"alice".to_vec()),
        uid: Some(23_456),
        hostname: Some(b"box".to_vec()),
        ..Roots::default()
    };
    let command = command.iter().map(|text| text.as_bytes().to_vec()).collect();
    CanonContext { started_at: Some(1_795_979_501), ..CanonContext::new(roots, command, pid) }
}

pub(crate) fn end() -> RunEnd {
    RunEnd { outcome: Outcome::ExitCode(0), degradations: Vec::new(), ended_at: Some(1_795_979_560) }
}

pub(crate) fn canonicalize(context: CanonContext, observations: &[Observation]) -> Canonical {
    let mut canonicalizer = Canonicalizer::new(context);
    for observation in observations {
        canonicalizer.observe(observation);
    }
    canonicalizer.finish(end())
}

/// An effect as one line.
pub(crate) fn line(effect: &Effect) -> String {
    match effect {
        Effect::Fs(fs) => {
            let to = fs.to.as_ref().map(|to| format!(" -> {to}")).unwrap_or_default();
            format!("{} {}{to} {}", fs.op.as_str(), fs.path, fs.result.as_str())
        }
        Effect::Exec(exec) => format!("exec {} {}", exec.path, exec.result.as_str()),
        Effect::Net(net) => {
            let address = net.address.as_ref().map(|address| format!(" {address}")).unwrap_or_default();
            let port = match net.port {
                None => String::new(),
                Some(crate::profile::effect::Port::Number(port)) => format!(":{port}"),
                Some(crate::profile::effect::Port::Ephemeral) => ":ephemeral".into(),
            };
            format!("{} {}{address}{port} {}", net.op.as_str(), net.proto, net.result.as_str())
        }
    }
}

fn check(write: impl FnOnce(&mut Run), want: &[&str]) -> Canonical {
    check_in(context(&["prog", "named-a8Kd92.txt"], 1234), write, want)
}

fn check_in(context: CanonContext, write: impl FnOnce(&mut Run), want: &[&str]) -> Canonical {
    let mut run = Run::new(1234);
    write(&mut run);
    let canonical = canonicalize(context, &run.observations);
    assert!(canonical.identity.effects.is_sorted());
    let mut got: Vec<String> = canonical.identity.effects.iter().map(line).collect();
    got.sort();
    let mut want = want.to_vec();
    want.sort_unstable();
    assert_eq!(got, want);
    canonical
}

#[test]
fn acts_become_effects_by_the_table() {
    check(
        |run| {
            run.read("/etc/hosts").read("/etc/hosts").write("/home/u/w/a").create("/home/u/w/b");
            run.file(FileOp::Open, "/home/u/x", &[Access::Read, Access::Write], 0);
            run.file(FileOp::Mkdir, "/home/u/w/d", &[], 0).delete("/home/u/w/b");
            run.file(FileOp::Chmod, "/srv/c", &[], 1).file(FileOp::Open, "/no", &[Access::Read], 2);
            run.pair(PairOp::Symlink, "/home/u/w/l", "/home/u/x", 0).pair(
                PairOp::Link,
                "/srv/c",
                "/srv/d",
                0,
            );
            run.exec("/home/u/w/s.sh", Some("/usr/bin/bash"), &["/bin/sh", "s.sh"]);
        },
        &[
            "read /etc/hosts ok",
            "read ${HOME}/x ok",
            "write ${HOME}/x ok",
            "write ${WORKDIR}/a ok",
            "create ${WORKDIR}/b ok",
            "create ${WORKDIR}/d/ ok",
            "delete ${WORKDIR}/b ok",
            "link /srv/c -> /srv/d ok",
            "symlink ${WORKDIR}/l -> ${HOME}/x ok",
            "attr /srv/c denied",
            "exec /usr/bin/bash ok",
            "exec ${WORKDIR}/s.sh ok",
        ],
    );
}

#[test]
fn repetition_is_counted_and_failures_are_only_counted() {
    let canonical = check(
        |run| {
            run.read("/a").read("/a").file(FileOp::Open, "/a", &[Access::Read, Access::Write], 2);
        },
        &["read /a ok"],
    );
    assert_eq!(canonical.facts.values().next().unwrap().hits, 2);
    assert_eq!(canonical.counters["failed.ENOENT"], 1);
    assert_eq!(canonical.counters["observations"], 3);
}

#[test]
fn temporary_names_fold_and_can_be_undone() {
    let canonical = check(
        |run| {
            run.create("/tmp/ccabcdef.s").delete("/tmp/ccabcdef.s");
            run.create("/tmp/cczzzzzz.s").delete("/tmp/cczzzzzz.s");
            run.create("/home/u/w/named-a8Kd92.txt").delete("/home/u/w/named-a8Kd92.txt");
            run.create("/tmp/lock.1234").read("/proc/1234/status").read("/proc/1/stat");
        },
        &[
            "read /proc/${OTHER_PID}/stat ok",
            "read /proc/${PID}/status ok",
            "create /tmp/cc${RANDOM}.s ok",
            "create /tmp/lock.${PID} ok",
            "create ${WORKDIR}/named-a8Kd92.txt ok",
            "delete /tmp/cc${RANDOM}.s ok",
            "delete ${WORKDIR}/named-a8Kd92.txt ok",
        ],
    );
    let fold = |rule: &'static str, from: &str, to: &str| Fold {
        rule: rule.into(),
        from: from.into(),
        to: Name::from_canonical(to),
    };
    assert_eq!(
        canonical.folded,
        [
            fold("pid", "/tmp/lock.1234", "/tmp/lock.${PID}"),
            fold("proc-pid", "/proc/1/stat", "/proc/${OTHER_PID}/stat"),
            fold("proc-pid", "/proc/1234/status", "/proc/${PID}/status"),
            fold("temp-name", "/tmp/ccabcdef.s", "/tmp/cc${RANDOM}.s"),
            fold("temp-name", "/tmp/cczzzzzz.s", "/tmp/cc${RANDOM}.s"),
        ]
    );
}

#[test]
fn a_number_that_counts_is_no_id() {
    check(
        |run| {
            for number in [1232, 1233, 1234] {
                run.create(&format!("/home/u/w/part{number}"));
                run.create(&format!("/home/u/w/{number}-1234.log"));
                run.file(FileOp::Mkdir, &format!("/home/u/w/d{number}"), &[], 0);
                run.create(&format!("/home/u/w/d{number}/f"));
            }
        },
        &[
            "create ${WORKDIR}/1232-${PID}.log ok",
            "create ${WORKDIR}/1233-${PID}.log ok",
            "create ${WORKDIR}/1234-${PID}.log ok",
            "create ${WORKDIR}/d1232/ ok",
            "create ${WORKDIR}/d1232/f ok",
            "create ${WORKDIR}/d1233/ ok",
            "create ${WORKDIR}/d1233/f ok",
            "create ${WORKDIR}/d1234/ ok",
            "create ${WORKDIR}/d1234/f ok",
            "create ${WORKDIR}/part1232 ok",
            "create ${WORKDIR}/part1233 ok",
            "create ${WORKDIR}/part1234 ok",
        ],
    );
    // One name beside it proves nothing, and what was there already is not the run's.
    check(
        |run| {
            run.read("/home/u/w/a.7")
                .read("/home/u/w/a.8")
                .create("/home/u/w/a.1")
                .create("/home/u/w/a.1234");
            run.create("/home/u/w/b1/x").create("/home/u/w/b2/x").create("/home/u/w/b1234/x");
        },
        &[
            "read ${WORKDIR}/a.7 ok",
            "read ${WORKDIR}/a.8 ok",
            "create ${WORKDIR}/a.1 ok",
            "create ${WORKDIR}/a.${PID} ok",
            "create ${WORKDIR}/b1/x ok",
            "create ${WORKDIR}/b1234/x ok",
            "create ${WORKDIR}/b2/x ok",
        ],
    );
}

/// Every process calls its file by its own id: none of these numbers counts.
#[test]
fn ids_of_many_processes_are_ids() {
    check(
        |run| {
            for number in [1300, 1301, 1302] {
                run.act(Act::Fork { child_pid: number, child_tid: number }, CallResult::Ok);
                run.create(&format!("/home/u/w/of-child.{number}"));
            }
        },
        &["create ${WORKDIR}/of-child.${PID} ok"],
    );
}

/// A temporary name that came back and went again was still moved to one target only.
#[test]
fn a_temporary_name_that_was_linked_and_removed_twice_is_its_target() {
    check(
        |run| {
            run.create("/srv/ccabcdef.s").pair(PairOp::Link, "/srv/ccabcdef.s", "/srv/t", 0);
            run.delete("/srv/ccabcdef.s").create("/srv/ccabcdef.s").delete("/srv/ccabcdef.s");
        },
        &["write /srv/t ok"],
    );
}

#[test]
fn the_hosts_name_folds_where_making_the_file_was_refused() {
    check(
        |run| {
            run.file(FileOp::Open, "/srv/lock.box", &[Access::Write], 13);
        },
        &["write /srv/lock.${HOSTNAME} denied"],
    );
}

#[test]
fn a_name_that_was_there_before_never_folds() {
    check(
        |run| {
            run.read("/tmp/ccabcdef.s").delete("/tmp/ccabcdef.s").create("/tmp/ccabcdef.s");
            run.read("/srv/d41d8cd98f00b204e9800998ecf8427e");
        },
        &[
            "read /srv/d41d8cd98f00b204e9800998ecf8427e ok",
            "read /tmp/ccabcdef.s ok",
            "create /tmp/ccabcdef.s ok",
            "delete /tmp/ccabcdef.s ok",
        ],
    );
}

/// Whatever letters chance drew; and what stays, or is built of words and not made for the owner alone, is a name.
#[test]
fn what_a_program_spills_beside_its_work_is_drawn_in_small_letters_too() {
    for drawn in ["sortczniwf", "sortAb12Cd", "sort123456", ".merge_file_abcdef", ".merge_link_qwertz"] {
        let path = format!("/home/u/w/{drawn}");
        let part = &drawn[..drawn.len() - 6];
        let want = ["create", "delete"].map(|op| format!("{op} ${{WORKDIR}}/{part}${{RANDOM}} ok"));
        check(|run| _ = run.create(&path).delete(&path), &want.each_ref().map(String::as_str));
    }
    for kept in ["sortresult", "sorted", "sortkeys01"] {
        let path = format!("/home/u/w/{kept}");
        let want = ["create", "delete"].map(|op| format!("{op} ${{WORKDIR}}/{kept} ok"));
        check(|run| _ = run.create(&path).delete(&path), &want.each_ref().map(String::as_str));
    }
    check(|run| _ = run.create("/home/u/w/sortczniwf"), &["create ${WORKDIR}/sortczniwf ok"]);
}

/// Names in a place for temporary files that are gone at the end, and that nobody draws.
#[test]
fn what_somebody_called_a_file_that_is_gone_stays() {
    for kept in [
        "20190131235959_add_users.sql",
        "snap-00000012",
        "img_1920x1080.png",
        "cc1plus",
        "i18next.js",
        "1280x720",
        "b-202601011200",
    ] {
        let path = format!("/tmp/{kept}");
        let want = ["create", "delete"].map(|op| format!("{op} /tmp/{kept} ok"));
        check(|run| _ = run.create(&path).delete(&path), &want.each_ref().map(String::as_str));
    }
}

#[test]
fn a_temporary_file_renamed_onto_its_target_is_a_write_of_the_target() {
    let canonical = check(
        |run| {
            run.file(FileOp::Open, "/home/u/w/sedXyZ123", &[Access::Read, Access::Write, Access::Create], 0);
            run.file(FileOp::Chmod, "/home/u/w/sedXyZ123", &[], 0);
            run.rename("/home/u/w/sedXyZ123", "/home/u/w/data.txt");
            run.create("/home/u/w/.f.txt.abcdef").rename("/home/u/w/.f.txt.abcdef", "/home/u/w/f.txt");
            run.create("/home/u/w/index.lock").rename("/home/u/w/index.lock", "/home/u/w/index");
        },
        &[
            "write ${WORKDIR}/data.txt ok",
            "write ${WORKDIR}/f.txt ok",
            "create ${WORKDIR}/index.lock ok",
            "rename ${WORKDIR}/index.lock -> ${WORKDIR}/index ok",
            "attr ${WORKDIR}/data.txt ok",
        ],
    );
    let folds: Vec<(&str, &str)> =
        canonical.folded.iter().map(|fold| (fold.rule.as_ref(), fold.to.as_str())).collect();
    assert_eq!(
        folds,
        [
            ("derived-name+temp-rename", "${WORKDIR}/.f.txt.${RANDOM}"),
            ("derived-name+temp-rename", "${WORKDIR}/f.txt"),
            ("itself", "${WORKDIR}/data.txt"),
            ("itself", "${WORKDIR}/f.txt"),
            ("temp-name+temp-rename", "${WORKDIR}/data.txt"),
            ("temp-name+temp-rename", "${WORKDIR}/sed${RANDOM}"),
        ]
    );
}

#[test]
fn git_objects_fold_whether_made_or_read() {
    let hash = "0123456789abcdef0123456789abcdef012345";
    check_in(
        context(&["sh", "-c", "ef r && git commit"], 1234),
        |run| {
            let store = "/home/u/w/r/.git/objects";
            run.read(&format!("{store}/ab/{hash}")).file(FileOp::Mkdir, &format!("{store}/cd"), &[], 0);
            run.create(&format!("{store}/cd/tmp_obj_abcdef"));
            run.pair(PairOp::Link, &format!("{store}/cd/tmp_obj_abcdef"), &format!("{store}/cd/{hash}"), 0);
            run.delete(&format!("{store}/cd/tmp_obj_abcdef"));
            run.read(&format!("{store}/pack/pack-00{hash}.idx"));
            run.read(&format!("{store}/ef/{hash}"));
        },
        &[
            "read ${WORKDIR}/r/.git/objects/${HASH}/${HASH} ok",
            "read ${WORKDIR}/r/.git/objects/pack/pack-${HASH}.idx ok",
            "write ${WORKDIR}/r/.git/objects/${HASH}/${HASH} ok",
            "create ${WORKDIR}/r/.git/objects/${HASH}/ ok",
        ],
    );
}

#[test]
fn a_directory_made_under_a_random_name_takes_its_content_along() {
    check(
        |run| {
            run.file(FileOp::Mkdir, "/home/u/w/.pkg-aB3xY9kL", &[], 0);
            run.create("/home/u/w/.pkg-aB3xY9kL/index.js").rename("/home/u/w/.pkg-aB3xY9kL", "/home/u/w/pkg");
            run.read("/home/u/w/pkg/index.js");
        },
        &[
            "read ${WORKDIR}/pkg/index.js ok",
            "create ${WORKDIR}/pkg/ ok",
            "create ${WORKDIR}/pkg/index.js ok",
        ],
    );
}

#[test]
fn ports_of_the_kernels_choice_have_no_number() {
    let canonical = check(
        |run| {
            let endpoint = Endpoint::Inet("127.0.0.1:43211".parse().unwrap());
            let bind = NetAct { op: NetOp::Bind, proto: "tcp", endpoint, is_ephemeral: true, peer: None };
            run.act(Act::Net(bind), CallResult::Ok).net(NetOp::Listen, "tcp", "127.0.0.1:43211", 0);
            run.net(NetOp::Connect, "tcp", "127.0.0.1:43211", 115);
            run.net(NetOp::Connect, "tcp", "127.0.0.1:40000", 111);
            run.net(NetOp::Connect, "tcp", "[::1]:443", 0).net(NetOp::Bind, "udp", "0.0.0.0:5353", 13);
            run.net(NetOp::Connect, "tcp", "1.2.3.4:1", 99);
        },
        &[
            "connect tcp 127.0.0.1:40000 ok",
            "connect tcp 127.0.0.1:ephemeral ok",
            "connect tcp ::1:443 ok",
            "bind tcp 127.0.0.1:ephemeral ok",
            "bind udp 0.0.0.0:5353 denied",
            "listen tcp 127.0.0.1:ephemeral ok",
        ],
    );
    assert_eq!(canonical.folded.len(), 1);
    assert_eq!(canonical.folded[0].from, "127.0.0.1:43211");
}

#[test]
fn unix_sockets_are_names_and_other_families_are_their_protocol() {
    let netlink = |op| {
        Act::Net(NetAct { op, proto: "netlink", endpoint: Endpoint::None, is_ephemeral: false, peer: None })
    };
    check(
        |run| {
            run.unix(NetOp::Bind, Endpoint::UnixPath(PathRef::resolved("/tmp/assay.private/s")));
            run.unix(NetOp::Connect, Endpoint::UnixAbstract(b"x\0".to_vec()));
            run.unix(NetOp::Bind, Endpoint::UnixAbstract(b"000a1".to_vec()));
            run.act(netlink(NetOp::Socket), CallResult::Ok);
            run.act(netlink(NetOp::Bind), CallResult::Ok);
        },
        &[
            "create ${TMPDIR}/s ok",
            "connect unix @x\\x00 ok",
            "bind unix ${TMPDIR}/s ok",
            "bind unix @${RANDOM} ok",
            "connect netlink ok",
        ],
    );
}

#[test]
fn what_ended_on_our_own_means_was_denied() {
    let mut context = context(&["prog"], 1234);
    context.barriers = crate::profile::barriers::Barriers {
        hidden_processes: [1234, 4_000_001].into(),
        has_given_directories: false,
        masked: vec![b"/home/u/.ssh".to_vec()],
        read_only: vec![b"/home/u/w/.git".to_vec(), b"/home/u/w/.git/hooks".to_vec()],
        is_landlocked: true,
        mount_points: [&b"/"[..], b"/mnt", b"/home/u/w/.git", b"/home/u/w/.git/hooks"]
            .map(<[u8]>::to_vec)
            .into(),
    };
    let canonical = check_in(
        context,
        |run| {
            run.file(FileOp::Open, "/home/u/.ssh/x", &[Access::Read], 2);
            run.file(FileOp::Open, "/home/u/w/.git/hooks/h", &[Access::Write], 30);
            run.file(FileOp::Open, "/home/u/w/.git/hooks/h", &[Access::Read], 2);
            run.pair(PairOp::Rename, "/home/u/w/.git/hooks", "/home/u/w/x", 16);
            // What lies above a held name is not empty, whoever asks; what is held is.
            run.file(FileOp::Rmdir, "/home/u/w/.git", &[], 16);
            run.file(FileOp::Rmdir, "/home/u/w/.git/hooks", &[], 16);
            run.pair(PairOp::Rename, "/home/u/w/a", "/home/u/b", 18);
            run.pair(PairOp::Rename, "/home/u/w/a", "/mnt/b", 18);
            run.file(FileOp::Open, "/proc/4000001/status", &[Access::Read], 2);
            run.file(FileOp::Open, "/proc/4000002/status", &[Access::Read], 2);
            run.file(FileOp::Open, "/proc/1234/nothing", &[Access::Read], 2);
        },
        &[
            "read ${HOME}/.ssh/x denied",
            "write ${WORKDIR}/.git/hooks/h denied",
            "delete ${WORKDIR}/.git/hooks denied",
            "rename ${WORKDIR}/.git/hooks -> ${WORKDIR}/x denied",
            "rename ${WORKDIR}/a -> ${HOME}/b denied",
            "read /proc/${OTHER_PID}/status denied",
        ],
    );
    assert!(canonical.facts.values().all(|facts| facts.denied_by == Some("policy")));
}

#[test]
fn a_path_that_is_not_known_is_told_and_admitted() {
    let canonical = check(
        |run| {
            let act = |bytes: &[u8], state| {
                Act::File(FileAct {
                    op: FileOp::Open,
                    path: PathRef { bytes: bytes.to_vec(), state },
                    requested: None,
                    access: [Access::Read].into(),
                    kind: FileKind::Regular,
                    is_path_only: false,
                    is_private: false,
                })
            };
            run.act(act(b"/deep/x", PathState::Cut), CallResult::Ok);
            run.act(act(b"", PathState::Unreadable), CallResult::Errno(13));
            run.act(act(b"pipe:[77]", PathState::Nameless), CallResult::Ok);
            run.act(act(b"memfd:x", PathState::Nameless), CallResult::Ok);
            // What the kernel says of a file without a name, and real names that look the same.
            for state in [PathState::Nameless, PathState::Resolved] {
                run.act(act(b"/srv/q (deleted)", state), CallResult::Ok);
                run.act(act(b"/srv/#unnamed", state), CallResult::Ok);
            }
        },
        &[
            "read ${CUT}/deep/x ok",
            "read ${UNREADABLE} denied",
            "read /srv/#unnamed ok",
            "read /srv/q (deleted) ok",
            "read deleted:/srv/q ok",
            "read memfd:x ok",
            "read pipe: ok",
            "read unnamed:/srv/ ok",
        ],
    );
    let reasons: Vec<_> = canonical.gaps.iter().map(|gap| (gap.kind, gap.reason.as_str())).collect();
    assert_eq!(reasons, [(Kind::Fs, "path-cut"), (Kind::Fs, "path-unreadable")]);
}

#[test]
fn where_the_caller_sent_the_output_is_not_what_the_command_did() {
    let mut context = context(&["prog"], 1234);
    context.stdio = vec![b"/srv/log.1".to_vec()];
    check_in(
        context,
        |run| {
            run.file(FileOp::Write, "/srv/log.1", &[], 0).file(FileOp::Write, "/srv/other", &[], 0);
            run.write("/srv/log.1");
        },
        &["write ${STDIO} ok", "write /srv/log.1 ok", "write /srv/other ok"],
    );
}

#[test]
fn host_noise_folds_by_name() {
    check(
        |run| {
            run.read("/sys/fs/cgroup/assay/run-1/memory.max").read("/sys/fs/cgroup/assay/cpu.max");
            run.read("/dev/pts/7").fork(4321).file(
                FileOp::Open,
                "/proc/4321/task/4321/stat",
                &[Access::Read],
                0,
            );
            run.file(FileOp::Mkdir, "/tmp/pytest-of-alice", &[], 0).create("/home/u/w/.#x.box.1234");
        },
        &[
            "read /dev/pts/${PTS} ok",
            "read /proc/${PID}/task/${TID}/stat ok",
            "read ${CGROUP_PARENT}/cpu.max ok",
            "read ${CGROUP}/memory.max ok",
            "create /tmp/pytest-of-${USER}/ ok",
            "create ${WORKDIR}/.#x.${HOSTNAME}.${PID} ok",
        ],
    );
}

#[test]
fn secrets_are_numbered_in_canonical_order_wherever_they_stand() {
    let context = context(&["curl", "-u", "me:pa55word-long", "--token=t0k"], 1234);
    let canonical = check_in(
        context,
        |run| {
            run.read("/srv/ghp_0123456789abcdefghijABCDEFGHIJ012345").create("/home/u/w/pa55word-long");
            run.exec("/usr/bin/curl", None, &["curl", "--token", "other"]);
        },
        &["read /srv/${REDACTED:3} ok", "create ${WORKDIR}/${REDACTED:1} ok", "exec /usr/bin/curl ok"],
    );
    assert_eq!(canonical.identity.command, ["curl", "-u", "me:${REDACTED:1}", "--token=${REDACTED:2}"]);
    assert_eq!(canonical.processes[0].programs, [["curl", "--token", "${REDACTED:4}"]]);
    assert_eq!(canonical.counters["secrets_redacted.credential-flag"], 1);
    assert_eq!(canonical.counters["secrets_redacted.secret-flag"], 2);
    assert!(!format!("{canonical:?}").contains("pa55word"));
    assert!(!format!("{canonical:?}").contains("ghp_"));
}

#[test]
fn the_tree_of_processes_is_told_in_order_of_birth() {
    let mut run = Run::new(1234);
    run.exec("/bin/a", None, &["a", "/home/u/x"]).fork(1300);
    run.pid = 1300;
    run.exec("/bin/b", None, &["b"]).act(Act::Exit { status: 256 }, CallResult::Ok);
    for (at, observation) in run.observations.iter_mut().enumerate() {
        observation.t_ns = 2_000_500 * at as u64;
    }
    let canonical = canonicalize(context(&["a"], 1234), &run.observations);
    let strings = |argv: &[&str]| argv.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    assert_eq!(
        canonical.processes,
        [
            ProcessFacts {
                pid: 1234,
                ppid: 0,
                programs: vec![strings(&["a", "${HOME}/x"])],
                status: None,
                began_us: Some(0),
                ended_us: None
            },
            ProcessFacts {
                pid: 1300,
                ppid: 1234,
                programs: vec![strings(&["b"])],
                status: Some(256),
                began_us: Some(2000),
                ended_us: Some(6001)
            },
        ]
    );
    assert_eq!(canonical.programs.keys().collect::<Vec<_>>(), ["/bin/a", "/bin/b"]);
}

#[test]
fn a_root_that_the_run_mounted_elsewhere_keeps_its_name() {
    check(
        |run| {
            run.file(FileOp::Mount, "/newroot", &[], 0);
            run.file(FileOp::Mount, "/newroot/home/u/w", &[], 0);
            run.read("/newroot/home/u/w/a")
                .read("/newroot/etc/x")
                .read("/other/home/u/w/a")
                .read("/newroot2/home/u/w/a");
        },
        &[
            "read /newroot${WORKDIR}/a ok",
            "read /newroot/etc/x ok",
            "read /newroot2/home/u/w/a ok",
            "read /other/home/u/w/a ok",
            "mount /newroot ok",
            "mount /newroot${WORKDIR} ok",
        ],
    );
}

/// Each directory of a long path was made under a temporary name and moved: who walked every way to it would not come
/// to an end.
#[test]
fn directories_that_were_all_moved_are_walked_to_once() {
    let mut run = Run::new(1234);
    let mut at = "/srv/a".to_owned();
    for depth in 0..200 {
        let temporary = format!("{at}/tmp.abcdef{depth:04}");
        run.file(FileOp::Mkdir, &temporary, &[], 0).rename(&temporary, &format!("{at}/d{depth}"));
        at = temporary;
    }
    run.create(&format!("{at}/f"));
    let canonical = canonicalize(context(&["x"], 1234), &run.observations);
    let is_told = |text: &str| {
        canonical.facts.keys().any(|effect| matches!(effect, Effect::Fs(fs) if fs.path.as_str() == text))
    };
    assert!(is_told("/srv/a/d0/") && is_told("/srv/a/d0/d1/") && is_told("/srv/a/d0/d1/d2/"));
}

#[test]
fn a_name_is_drawn_where_a_program_that_draws_such_names_made_it() {
    let made_by = |program: &str| {
        let mut run = Run::new(1234);
        run.exec(program, None, &["x", "a"]);
        for name in ["/srv/stations", "/srv/zigzag01"] {
            run.file(FileOp::Open, name, &[Access::Read, Access::Write, Access::Create], 0).delete(name);
        }
        let canonical = canonicalize(context(&["x"], 1234), &run.observations);
        let names = canonical.facts.into_keys().filter_map(|effect| match effect {
            Effect::Fs(fs) if fs.op == FsOp::Create => Some(fs.path.to_string()),
            _ => None,
        });
        names.collect::<Vec<_>>()
    };
    assert_eq!(made_by("/usr/bin/x86_64-linux-gnu-strip"), ["/srv/st${RANDOM}", "/srv/zigzag01"]);
    assert_eq!(made_by("/usr/bin/zip"), ["/srv/stations", "/srv/zi${RANDOM}"]);
    assert_eq!(made_by("/usr/bin/python3"), ["/srv/stations", "/srv/zigzag01"]);
}

#[test]
fn a_clock_that_is_set_during_the_run_changes_neither_names_nor_order() {
    const START: u64 = 1_795_979_501;
    const YEAR: u64 = 365 * 86_400;
    let identity = |step: &dyn Fn(u64) -> u64| {
        let mut run = Run::new(7);
        run.create(&format!("/var/log/before-{}.log", START + 2));
        run.create(&format!("/var/log/after-{}.log", step(START + 4)));
        run.file(FileOp::Unlink, &format!("/var/log/after-{}.log", step(START + 4)), &[], 0);
        let mut canonicalizer = Canonicalizer::new(context(&["x"], 7));
        for observation in &run.observations {
            canonicalizer.observe(observation);
        }
        canonicalizer.finish(RunEnd { ended_at: Some(step(START + 60)), ..end() }).identity
    };
    let steady = identity(&|time| time);
    assert!(steady.effects.iter().all(|effect| line(effect).contains("-${TIME}.log")), "{steady:?}");
    assert_eq!(steady.effects.len(), 3);
    assert_eq!(identity(&|time| time + YEAR), steady, "forward");
    assert_eq!(identity(&|time| time - YEAR), steady, "back");
    assert_eq!(identity(&|time| time - 3600), steady, "back by an hour");
}

#[test]
fn directories_of_the_day_are_the_same_on_another_day_unless_the_command_names_it() {
    let identity = |command: &[&str], day: &str, days: u64| {
        let mut run = Run::new(7);
        // The second is there already, of an earlier run of the day.
        run.file(FileOp::Open, "/home/u/logs/2026", &[Access::Read], 0);
        run.create(&format!("/home/u/sessions/{day}/rollout"));
        run.read(&format!("/home/u/other/{day}/read"));
        let seconds = days * 86_400;
        let context = context(command, 7);
        let mut canonicalizer = Canonicalizer::new(CanonContext {
            started_at: context.started_at.map(|at| at + seconds),
            ..context
        });
        run.observations.iter().for_each(|observation| canonicalizer.observe(observation));
        let ended_at = end().ended_at.map(|at| at + seconds);
        let effects = canonicalizer.finish(RunEnd { ended_at, ..end() }).identity.effects;
        effects.iter().map(line).collect::<Vec<_>>()
    };
    let told = |day: &str, read: &str| {
        vec![
            format!("create ${{HOME}}/sessions/{day}/rollout ok"),
            "read ${HOME}/logs/2026 ok".to_owned(),
            format!("read ${{HOME}}/other/{read}/read ok"),
        ]
    };
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let folded = "${TIME}/${TIME}/${TIME}";
    for (day, days) in [("2026/11/29", 0), ("2026/12/01", 2), ("2027/1/3", 35)] {
        assert_eq!(sorted(identity(&["x", "-n", "12"], day, days)), sorted(told(folded, day)), "{day}");
    }
    assert_eq!(
        sorted(identity(&["x"], "2026/11", 0)),
        sorted(told("2026/11", "2026/11")),
        "a month is no day"
    );
    assert_eq!(sorted(identity(&["x"], "2026/10/29", 0)), sorted(told("2026/10/29", "2026/10/29")));
    let command = ["sh", "-c", "mkdir -p sessions/2026/11/29"];
    assert_eq!(sorted(identity(&command, "2026/11/29", 0)), sorted(told("2026/11/29", "2026/11/29")));
}

#[test]
fn the_users_id_is_a_variable_where_temporary_files_are_and_a_number_everywhere_else() {
    let told = |uid: u32, command: &[&str]| {
        let mut context = context(command, 7);
        context.roots.uid = Some(uid);
        let mut run = Run::new(7);
        run.file(FileOp::Mkdir, &format!("/tmp/claude-{uid}"), &[], 0);
        run.read(&format!("/dev/shm/{uid}.s/x")).read(&format!("/run/lock/{uid}")).read("/tmp/a-23456");
        // Within another token it is none, and neither where it counts.
        run.read(&format!("/tmp/v{uid}")).create(&format!("/home/u/w/out-{uid}"));
        for part in [uid, uid + 1, uid + 2] {
            run.read(&format!("/tmp/part-{part}"));
        }
        // An owner's directory, made as mkdtemp does, and gone.
        run.file(FileOp::Mkdir, &format!("/tmp/t/{uid}"), &[], 0).delete(&format!("/tmp/t/{uid}"));
        let canonical = canonicalize(context, &run.observations);
        let lines = canonical.identity.effects.iter().map(line);
        lines
            .map(|line| line.replace(&(uid + 1).to_string(), "U1").replace(&(uid + 2).to_string(), "U2"))
            .collect::<BTreeSet<_>>()
    };
    let of_others = |lines: BTreeSet<String>, uid: u32| {
        lines.into_iter().map(|line| line.replace(&uid.to_string(), "U")).collect::<BTreeSet<_>>()
    };
    let (first, second) = (told(12_345, &["x"]), told(1_000, &["x"]));
    for name in [
        "create /tmp/claude-${UID}/ ok",
        "read /dev/shm/${UID}.s/x ok",
        "read /run/lock/${UID} ok",
        "read /tmp/v12345 ok",
        "create ${WORKDIR}/out-12345 ok",
        "read /tmp/part-12345 ok",
        "read /tmp/a-23456 ok",
        "create /tmp/t/${UID}/ ok",
    ] {
        assert!(first.contains(name), "{name}: {first:?}");
    }
    assert_eq!(of_others(first, 12_345), of_others(second, 1_000));
    let named = told(12_345, &["x", "/tmp/claude-12345"]);
    assert!(named.contains("create /tmp/claude-12345/ ok"), "{named:?}");
    // Of three digits any number could be it.
    let short = told(123, &["x"]);
    assert!(short.contains("create /tmp/claude-123/ ok"), "{short:?}");
}
