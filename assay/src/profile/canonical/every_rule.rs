//! Every rule by its name: what folds by it alone, and what stands beside that and does not; and the page that specifies
//! them has the same rules.

use std::collections::BTreeSet;

use super::tests::{Run, canonicalize, context, line};
use super::*;
use crate::observe::observation::{FileKind, FileOp};
use crate::profile::fold_rule::FoldRule;

const PAGE: &str = include_str!("../../../../docs/formats/canonicalisation.md");

/// A name that folds, and one that must not.
struct Example {
    rule: FoldRule,
    acts: fn(&mut Run),
    from: &'static str,
    to: &'static str,
    stays: &'static str,
}

const fn example(
    rule: FoldRule,
    acts: fn(&mut Run),
    (from, to): (&'static str, &'static str),
    stays: &'static str,
) -> Example {
    Example { rule, acts, from, to, stays }
}

const EXAMPLES: &[Example] = &[
    example(
        FoldRule::PlaceName,
        |run| {
            run.read("/srv/_home_u_w_Packages").read("/srv/a_home_u_w_Packages");
        },
        ("/srv/_home_u_w_Packages", "/srv/${WORKDIR_NAME}_Packages"),
        "/srv/a_home_u_w_Packages",
    ),
    example(
        FoldRule::Template,
        |run| {
            run.create("/srv/of-template.abcdef").create("/srv/of-template.abcde");
        },
        ("/srv/of-template.abcdef", "/srv/of-template.${RANDOM}"),
        "/srv/of-template.abcde",
    ),
    example(
        FoldRule::TempName,
        |run| {
            run.create("/srv/ccabcdef.s").delete("/srv/ccabcdef.s").create("/srv/ccabcdeg.s");
        },
        ("/srv/ccabcdef.s", "/srv/cc${RANDOM}.s"),
        "/srv/ccabcdeg.s",
    ),
    example(
        FoldRule::Random,
        |run| {
            run.create("/srv/a8Kd92.x").delete("/srv/a8Kd92.x").create("/srv/b8Kd92.x");
        },
        ("/srv/a8Kd92.x", "/srv/${RANDOM}.x"),
        "/srv/b8Kd92.x",
    ),
    example(
        FoldRule::User,
        |run| {
            run.read("/tmp/of-alice/x").read("/srv/of-alice/x");
        },
        ("/tmp/of-alice/x", "/tmp/of-${USER}/x"),
        "/srv/of-alice/x",
    ),
    example(
        FoldRule::UserId,
        |run| {
            run.read("/tmp/claude-23456/x").read("/srv/claude-23456/x");
        },
        ("/tmp/claude-23456/x", "/tmp/claude-${UID}/x"),
        "/srv/claude-23456/x",
    ),
    example(
        FoldRule::Hostname,
        |run| {
            run.create("/srv/lock.box").create("/srv/lock.boxes");
        },
        ("/srv/lock.box", "/srv/lock.${HOSTNAME}"),
        "/srv/lock.boxes",
    ),
    example(
        FoldRule::Uuid,
        |run| {
            run.create("/srv/f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
            run.create("/srv/f81d4fae-7dec-11d0-a765-00a0c91e6bfg");
        },
        ("/srv/f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "/srv/${UUID}"),
        "/srv/f81d4fae-7dec-11d0-a765-00a0c91e6bfg",
    ),
    example(
        FoldRule::Time,
        |run| {
            run.create("/srv/run-20261129.log").create("/srv/run-20251129.log");
        },
        ("/srv/run-20261129.log", "/srv/run-${TIME}.log"),
        "/srv/run-20251129.log",
    ),
    example(
        FoldRule::Time,
        |run| {
            run.create("/srv/days/2026/11/29/log").create("/srv/days/2025/11/29/log");
        },
        ("/srv/days/2026/11/29/log", "/srv/days/${TIME}/${TIME}/${TIME}/log"),
        "/srv/days/2025/11/29/log",
    ),
    example(
        FoldRule::Pid,
        |run| {
            run.create("/srv/a.1234").create("/srv/a.1235");
        },
        ("/srv/a.1234", "/srv/a.${PID}"),
        "/srv/a.1235",
    ),
    example(
        FoldRule::Number,
        |run| {
            run.create("/tmp/a.9383746").create("/srv/a.9383746");
        },
        ("/tmp/a.9383746", "/tmp/a.${RANDOM}"),
        "/srv/a.9383746",
    ),
    example(
        FoldRule::Address,
        |run| {
            run.create("/srv/a0x55e0b1f0a0b0").create("/srv/a0x55e0b1f0");
        },
        ("/srv/a0x55e0b1f0a0b0", "/srv/a${ADDRESS}"),
        "/srv/a0x55e0b1f0",
    ),
    example(
        FoldRule::Hash,
        |run| {
            run.create("/srv/d41d8cd98f00b204.x").create("/srv/c0ffee00c0ffee00.x");
        },
        ("/srv/d41d8cd98f00b204.x", "/srv/${HASH}.x"),
        "/srv/c0ffee00c0ffee00.x",
    ),
    example(
        FoldRule::GitObject,
        |run| {
            run.read("/srv/r.git/objects/ab").read("/srv/r.git/objects/abc");
        },
        ("/srv/r.git/objects/ab", "/srv/r.git/objects/${HASH}"),
        "/srv/r.git/objects/abc",
    ),
    example(
        FoldRule::DerivedName,
        |run| {
            run.create("/srv/.f.txt.abcdefgh").rename("/srv/.f.txt.abcdefgh", "/srv/f.txt");
            run.create("/srv/g.txt.lock").rename("/srv/g.txt.lock", "/srv/g.txt");
        },
        ("/srv/.f.txt.abcdefgh", "/srv/.f.txt.${RANDOM}"),
        "/srv/g.txt.lock",
    ),
    example(
        FoldRule::TempRename,
        |run| {
            run.create("/srv/sedabcdef").rename("/srv/sedabcdef", "/srv/data");
            run.create("/srv/index.lock").rename("/srv/index.lock", "/srv/index");
        },
        ("/srv/sedabcdef", "/srv/data"),
        "/srv/index.lock",
    ),
    example(
        FoldRule::ProcPid,
        |run| {
            run.read("/proc/1234/task/1234/stat").read("/proc/meminfo");
        },
        ("/proc/1234/task/1234/stat", "/proc/${PID}/task/${TID}/stat"),
        "/proc/meminfo",
    ),
    example(
        FoldRule::Cgroup,
        |run| {
            run.read("/sys/fs/cgroup/assay/run-1/cpu.max").read("/sys/fs/cgroup/assay/run-2/cpu.max");
        },
        ("/sys/fs/cgroup/assay/run-1/cpu.max", "${CGROUP}/cpu.max"),
        "/sys/fs/cgroup/assay/run-2/cpu.max",
    ),
    example(
        FoldRule::Terminal,
        |run| {
            run.read("/dev/pts/3").read("/dev/pts/ptmx");
        },
        ("/dev/pts/3", "/dev/pts/${PTS}"),
        "/dev/pts/ptmx",
    ),
    example(
        FoldRule::Nameless,
        |run| {
            for name in ["pipe:[1789]", "memfd:1789"] {
                run.act(Act::File(read_of(name, PathState::Nameless)), CallResult::Ok);
            }
        },
        ("pipe:[1789]", "pipe:"),
        "memfd:1789",
    ),
    example(
        FoldRule::RootAlias,
        |run| {
            run.read("/link/w/a").read("/link/ww/a");
        },
        ("/link/w/a", "${WORKDIR}/a"),
        "/link/ww/a",
    ),
    example(
        FoldRule::MountedRoot,
        |run| {
            run.file(FileOp::Mount, "/newroot", &[], 0);
            run.read("/newroot/home/u/w/a").read("/oldroot/home/u/w/a");
        },
        ("/newroot/home/u/w/a", "/newroot${WORKDIR}/a"),
        "/oldroot/home/u/w/a",
    ),
    example(
        FoldRule::Autobind,
        |run| {
            for name in ["0001f", "0001g"] {
                run.unix(NetOp::Bind, Endpoint::UnixAbstract(name.into()));
            }
        },
        ("@0001f", "@${RANDOM}"),
        "@0001g",
    ),
    example(
        FoldRule::Stdio,
        |run| {
            run.file(FileOp::Write, "/srv/out.log", &[Access::Write], 0);
            run.file(FileOp::Write, "/srv/other.log", &[Access::Write], 0);
        },
        ("/srv/out.log", "${STDIO}"),
        "/srv/other.log",
    ),
    example(
        FoldRule::EphemeralPort,
        |run| {
            for (address, is_ephemeral) in [("127.0.0.1:40001", true), ("127.0.0.1:40002", false)] {
                let endpoint = Endpoint::Inet(address.parse().expect("an address"));
                let act = NetAct { op: NetOp::Bind, proto: "tcp", endpoint, is_ephemeral, peer: None };
                run.act(Act::Net(act), CallResult::Ok);
            }
        },
        ("127.0.0.1:40001", "127.0.0.1:${EPHEMERAL}"),
        "127.0.0.1:40002",
    ),
    example(
        FoldRule::Itself,
        |run| {
            run.create("/srv/sedabcdef").rename("/srv/sedabcdef", "/srv/data");
            run.read("/srv/data").read("/srv/date");
        },
        ("/srv/data", "/srv/data"),
        "/srv/date",
    ),
];

fn read_of(name: &str, state: PathState) -> FileAct {
    FileAct {
        op: FileOp::Open,
        path: PathRef { bytes: name.into(), state },
        requested: None,
        access: [Access::Read].into_iter().collect(),
        kind: FileKind::Regular,
        is_path_only: false,
        is_private: false,
    }
}

#[test]
fn a_name_folds_by_its_rule_and_the_one_beside_it_stays() {
    for Example { rule, acts, from, to, stays } in EXAMPLES {
        let mut context = context(&["prog", "of-template.XXXXXX"], 1234);
        context.roots.workdir.push(b"/link/w".to_vec());
        context.stdio = vec![b"/srv/out.log".to_vec()];
        let mut run = Run::new(1234);
        acts(&mut run);
        let canonical = canonicalize(context, &run.observations);
        let folds: Vec<&Fold> = canonical.folded.iter().filter(|fold| fold.from == *from).collect();
        let by: Vec<BTreeSet<&str>> = folds
            .iter()
            .filter(|fold| fold.to.as_str() == *to)
            .map(|fold| fold.rule.split('+').collect())
            .collect();
        // What became another has the rule that found its own name beside it.
        let wanted: BTreeSet<&str> = match rule {
            FoldRule::DerivedName | FoldRule::TempRename => {
                let found_by = if *rule == FoldRule::DerivedName { *rule } else { FoldRule::TempName };
                [found_by.as_str(), FoldRule::TempRename.as_str()].into()
            }
            rule => [rule.as_str()].into(),
        };
        assert_eq!(by, [wanted], "{from}: {:?}", canonical.folded);
        assert!(!canonical.folded.iter().any(|fold| fold.from == *stays), "{:?}", canonical.folded);
        let told: Vec<String> = canonical.identity.effects.iter().map(line).collect();
        let has = |name: &str| told.iter().any(|line| line.split(' ').any(|word| word == name));
        assert!(has(stays), "{stays}: {told:?}");
        // A port is told apart from its address, and what became another by that.
        let is_told = !matches!(rule, FoldRule::EphemeralPort | FoldRule::DerivedName);
        assert!(has(to) || !is_told, "{to}: {told:?}");
        assert!(from == to || !has(from), "{from}: {told:?}");
    }
}

#[test]
fn the_code_the_page_and_the_examples_have_the_same_rules() {
    let known: BTreeSet<&str> = FoldRule::ALL.iter().map(|rule| rule.as_str()).collect();
    assert_eq!(known.len(), FoldRule::ALL.len());
    let examples: BTreeSet<&str> = EXAMPLES.iter().map(|example| example.rule.as_str()).collect();
    assert_eq!(examples, known);
    let (_, rules) = PAGE.split_once("\n### Rules\n").expect("the rules");
    let (rules, _) = rules.split_once("\n### ").expect("what comes after them");
    let rows = rules.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let page: BTreeSet<&str> = rows.map(|(rule, _)| rule).collect();
    assert_eq!(page, known);
}
