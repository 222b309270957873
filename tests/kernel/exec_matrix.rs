//! Every door to running a program × every kind of rule about it: blocked or not as the policy says, or named by the run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use libc::{
    AT_EMPTY_PATH, AT_FDCWD, O_CREAT, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE, O_WRONLY, SYS_dup3, SYS_execve,
    SYS_execveat, SYS_linkat, SYS_memfd_create, SYS_openat, SYS_renameat2, SYS_sendfile, SYS_symlinkat,
    SYS_write,
};
use serde_json::Value;

use crate::actor::{Act, Arg, Part, Step, Told, act, call, count};
use crate::confined::Scene;
use crate::harness::sandbox::{sandbox, text};
use crate::needs::{Need, are_met};
use crate::stage::command_of;

const NEEDS: &[Need] = &[Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(3), Need::Program("ldd")];
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// The descriptor of a target that was opened for the command before it was confined.
const GIVEN: i64 = 8;
/// So much is more than a target has.
const MUCH: i64 = 1 << 24;

/// What is to come of a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Passes,
    Blocked,
    /// The policy does not allow it; nothing here can stop it; and this stands in what the run says is not governed.
    Named(&'static str),
}

use Want::{Blocked, Named, Passes};

const READING: &str = "running a readable file through an interpreter or the ELF loader";
const MEMORY: &str = "a program that is only in memory";
const OTHER_NAME: &str = "an allowed program by another name that the command gave it";
const DESCRIPTORS: &str = "descriptors the command was given";

/// A way of running the target `t`, with `mine` for a folder of the command's own.
struct Door {
    name: &'static str,
    steps: fn(t: &str, mine: &str) -> Vec<Step>,
}

const DOORS: &[Door] = &[
    Door { name: "direct", steps: |t, _| vec![run(t, &[])] },
    Door {
        name: "link",
        steps: |t, mine| {
            vec![
                call(SYS_symlinkat, [t.into(), AT_FDCWD.into(), path(mine, "other").as_str().into()]),
                run(&path(mine, "other"), &[]),
            ]
        },
    },
    Door { name: "descriptor", steps: |t, _| vec![open(t, O_PATH), run_descriptor(Arg::Kept(10))] },
    Door { name: "proc", steps: |t, _| vec![open(t, O_RDONLY), at_50(), run("/proc/self/fd/50", &[])] },
    Door { name: "given", steps: |_, _| vec![run_descriptor(GIVEN.into())] },
    Door { name: "given_by_proc", steps: |_, _| vec![run("/proc/self/fd/8", &[])] },
    Door {
        name: "interpreter",
        steps: |t, mine| {
            let mut steps = make(mine, "script", O_WRONLY | O_CREAT);
            let line = format!("#!{t}\n");
            steps.push(call(SYS_write, [Arg::Kept(11), line.as_str().into(), (line.len() as i64).into()]));
            steps.push(call(libc::SYS_close, [Arg::Kept(11)]));
            steps.push(run(&path(mine, "script"), &[]));
            steps
        },
    },
    Door { name: "loader", steps: |t, _| vec![run(LOADER, &[t])] },
    Door { name: "loader_given", steps: |_, _| vec![run(LOADER, &["/proc/self/fd/8"])] },
    Door {
        name: "memory",
        steps: |t, _| {
            let mut steps =
                vec![open(t, O_RDONLY), call(SYS_memfd_create, ["memory".into(), 0.into()]).keep(11)];
            steps.extend([copy(), run_descriptor(Arg::Kept(11))]);
            steps
        },
    },
    Door {
        name: "memory_by_proc",
        steps: |t, _| {
            vec![
                open(t, O_RDONLY),
                call(SYS_memfd_create, ["memory_by_proc".into(), 0.into()]).keep(11),
                copy(),
                call(SYS_dup3, [Arg::Kept(11), 50.into(), 0.into()]),
                run("/proc/self/fd/50", &[]),
            ]
        },
    },
    Door {
        name: "copy",
        steps: |t, mine| {
            let mut steps = vec![open(t, O_RDONLY)];
            steps.extend(make(mine, "other", O_WRONLY | O_CREAT));
            steps.extend([copy(), call(libc::SYS_close, [Arg::Kept(11)]), run(&path(mine, "other"), &[])]);
            steps
        },
    },
    Door {
        name: "unnamed",
        steps: |t, mine| {
            let mut steps = vec![open(t, O_RDONLY)];
            steps.push(
                call(SYS_openat, [AT_FDCWD.into(), mine.into(), (O_TMPFILE | O_RDWR).into(), 0o755.into()])
                    .keep(11),
            );
            // What is open for writing does not run.
            steps.extend([copy(), call(SYS_dup3, [Arg::Kept(11), 51.into(), 0.into()])]);
            steps.push(
                call(SYS_openat, [AT_FDCWD.into(), "/proc/self/fd/51".into(), O_RDONLY.into()]).keep(12),
            );
            steps.extend([call(libc::SYS_close, [51.into()]), call(libc::SYS_close, [Arg::Kept(11)])]);
            steps.push(run_descriptor(Arg::Kept(12)));
            steps
        },
    },
    Door {
        name: "hard_link",
        steps: |t, mine| {
            let other = path(mine, "other");
            let link = [AT_FDCWD.into(), t.into(), AT_FDCWD.into(), other.as_str().into(), 0.into()];
            vec![call(SYS_linkat, link), run(&other, &[])]
        },
    },
    Door {
        name: "moved",
        steps: |t, mine| {
            let other = path(mine, "other");
            let to = [AT_FDCWD.into(), t.into(), AT_FDCWD.into(), other.as_str().into(), 0.into()];
            vec![call(SYS_renameat2, to), run(&other, &[])]
        },
    },
];

fn path(mine: &str, name: &str) -> String {
    format!("{mine}/{name}")
}

fn open(path: &str, flags: i32) -> Step {
    call(SYS_openat, [AT_FDCWD.into(), path.into(), flags.into()]).keep(10)
}

/// Puts what was opened where its name in `/proc` is known.
fn at_50() -> Step {
    call(SYS_dup3, [Arg::Kept(10), 50.into(), 0.into()])
}

fn make(mine: &str, name: &str, flags: i32) -> Vec<Step> {
    vec![
        call(SYS_openat, [AT_FDCWD.into(), path(mine, name).as_str().into(), flags.into(), 0o755.into()])
            .keep(11),
    ]
}

fn copy() -> Step {
    call(SYS_sendfile, [Arg::Kept(11), Arg::Kept(10), 0.into(), MUCH.into()])
}

fn words(all: &[&str]) -> Arg {
    let mut parts: Vec<Part> =
        all.iter().map(|word| Part::To(vec![Part::Bytes([word.as_bytes(), b"\0"].concat())])).collect();
    parts.push(Part::Word(0));
    Arg::At(parts)
}

fn run(path: &str, more: &[&str]) -> Step {
    call(SYS_execve, [path.into(), words(&[&[path], more].concat()), words(&[])])
}

fn run_descriptor(fd: Arg) -> Step {
    call(SYS_execveat, [fd, "".into(), words(&["x"]), words(&[]), AT_EMPTY_PATH.into()])
}

/// A policy, and what is to come of each door that is not as the first says.
struct Case {
    name: &'static str,
    /// Where the target lies, in the scene.
    folder: &'static str,
    /// Rules of `fs` and `exec`: `TARGETS` stands for the targets, `ACTOR` for the program of the cells.
    rules: &'static str,
    want: Want,
    but: &'static [(&'static str, Want)],
}

const CASES: &[Case] = &[
    Case {
        name: "allowed",
        folder: "w/t",
        rules: "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}, ACTOR]}",
        want: Passes,
        but: &[],
    },
    Case {
        name: "listed",
        folder: "w/t",
        rules: "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}, ACTOR]}\nexec: {allow: [ACTOR, TARGETS]}",
        want: Passes,
        but: &[
            // None but the target is listed; the loader is not either, and any program needs it.
            ("interpreter", Blocked),
            ("copy", Blocked),
            ("unnamed", Blocked),
            ("hard_link", Named(OTHER_NAME)),
            ("moved", Named(OTHER_NAME)),
            ("loader", Named(READING)),
            ("loader_given", Named(READING)),
            ("memory", Named(MEMORY)),
            ("memory_by_proc", Named(MEMORY)),
        ],
    },
    Case {
        name: "not listed",
        folder: "w/t",
        rules: "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}, ACTOR]}\nexec: {allow: [ACTOR]}",
        want: Blocked,
        but: &[
            ("loader", Named(READING)),
            ("loader_given", Named(READING)),
            ("memory", Named(MEMORY)),
            ("memory_by_proc", Named(MEMORY)),
        ],
    },
    Case {
        name: "denied where it may be written",
        folder: "w/t",
        rules: "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}, ACTOR]}\nexec: {deny: [TARGETS]}",
        want: Blocked,
        but: &[
            ("given", Named(DESCRIPTORS)),
            ("given_by_proc", Named(DESCRIPTORS)),
            ("loader_given", Named(DESCRIPTORS)),
            // Another file with the same bytes is another file.
            ("memory", Passes),
            ("memory_by_proc", Passes),
            ("copy", Passes),
            ("unnamed", Passes),
        ],
    },
    Case {
        name: "denied where it may only be read",
        folder: "outside/t",
        rules: "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}, ACTOR, ../outside]}\nexec: {deny: [TARGETS]}",
        want: Blocked,
        but: &[
            ("loader_given", Named(DESCRIPTORS)),
            ("memory", Passes),
            ("memory_by_proc", Passes),
            ("copy", Passes),
            ("unnamed", Passes),
        ],
    },
    Case {
        name: "not to be read",
        folder: "w/t",
        rules: "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}, ACTOR], deny: [TARGETS]}",
        want: Blocked,
        but: &[
            ("given", Named(DESCRIPTORS)),
            ("given_by_proc", Named(DESCRIPTORS)),
            ("loader_given", Named(DESCRIPTORS)),
        ],
    },
    Case {
        name: "only to be read",
        folder: "outside/t",
        rules: "fs: {allow: [{path: '${WORKDIR}', access: [read, write]}, ACTOR, {path: ../outside, access: [read]}]}",
        want: Blocked,
        but: &[
            ("loader", Named(READING)),
            ("loader_given", Named(READING)),
            ("memory", Passes),
            ("memory_by_proc", Passes),
        ],
    },
    Case {
        name: "not allowed",
        folder: "outside/t",
        rules: "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}, ACTOR]}",
        want: Blocked,
        but: &[],
    },
];

impl Case {
    fn want(&self, door: &str) -> Want {
        self.but.iter().find(|(name, _)| *name == door).map_or(self.want, |(_, want)| *want)
    }

    /// Tries all doors in one run; of each whether it was passed and what its steps returned, and the evidence.
    fn play(&self) -> (Vec<(bool, Vec<i64>)>, Value) {
        let scene = Scene::new();
        for name in [self.folder, "w/mine"] {
            fs::create_dir_all(scene.path(name)).unwrap();
        }
        let text_of = |path: &Path| path.to_str().unwrap().to_owned();
        let folder = scene.path(self.folder);
        let (mut steps, mut targets) = (Vec::new(), Vec::new());
        for door in DOORS {
            let t = folder.join(target_of(door));
            fs::copy("/bin/true", &t).unwrap();
            let mine = scene.path("w/mine").join(door.name);
            fs::create_dir(&mine).unwrap();
            steps.push(act(Act::Fork((door.steps)(&text_of(&t), &text_of(&mine)))));
            targets.push(format!("'{}'", t.display()));
        }
        let actor = format!("'{}'", std::env::current_exe().unwrap().display());
        let rules = self.rules.replace("ACTOR", &actor).replace("TARGETS", &targets.join(", "));
        scene.file("p.yaml", &format!("api_version: assay/v1\n{rules}\n"));
        let command = command_of(&steps);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let (policy, profile) = (text_of(&scene.path("p.yaml")), text_of(&scene.path("run.json")));
        let options = ["--enforce", "--policy", &policy, "--profile", &profile, "--profile-format", "json"];
        let assay = sandbox(&options, &command);
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 8<\"$0\"; exec \"$@\"", &text_of(&folder.join("program.given"))]);
        shell.arg(assay.get_program()).args(assay.get_args());
        let output = shell.current_dir(scene.path("w")).stdin(Stdio::null()).output().expect("assay");
        let told: Told = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.name, text(&output.stderr)));
        let mut at = 0;
        let results = steps.iter().map(|step| {
            let returns = told.returns[at..at + count(std::slice::from_ref(step))].to_vec();
            at += returns.len();
            let is_done = returns[1..].iter().all(|returned| !(-4095..0).contains(returned));
            (is_done && returns[0] == 0, returns)
        });
        let results = results.collect();
        let evidence = fs::read(scene.path("run.evidence.json")).unwrap();
        (results, serde_json::from_slice(&evidence).unwrap())
    }
}

/// The name of a door's target. Those that come by a descriptor have one.
fn target_of(door: &Door) -> String {
    format!("program.{}", if door.name.contains("given") { "given" } else { door.name })
}

/// Whether a program of this name was started, and is told as not authorised.
fn is_unauthorised(evidence: &Value, name: &str) -> bool {
    let effects = evidence["observed"]["effects"]["exec"].as_array().unwrap();
    effects.iter().any(|one| {
        let is_it = one["path"].as_str().is_some_and(|path| path.ends_with(name));
        is_it && one["result"] == "ok" && one["authorised"] == false
    })
}

#[test]
fn each_door_to_a_program_is_as_the_policy_says_or_named() {
    if !are_met("exec_matrix::each_door_to_a_program_is_as_the_policy_says_or_named", NEEDS) {
        return;
    }
    let mut wrong = Vec::new();
    for case in CASES {
        let (results, evidence) = case.play();
        let said =
            format!("{} {}", evidence["observed"]["not_governed"], evidence["identity"]["degradations"]);
        for (door, (has_passed, returns)) in DOORS.iter().zip(results) {
            let want = case.want(door.name);
            let is_right = match want {
                Passes => has_passed,
                Blocked => !has_passed,
                Named(what) => has_passed && said.contains(what),
            };
            // What was started though no rule allows it is told as done without authority. Of a program in memory and of
            // a loader there is no other name than its own.
            let (name, must_be_told) = match (want, door.name) {
                (Named(MEMORY), name) => (format!("memfd:{name}"), true),
                (Named(READING), _) => {
                    (LOADER.rsplit('/').next().unwrap().to_owned(), case.rules.contains("exec: {allow"))
                }
                (Named(OTHER_NAME), name) => (format!("/{name}/other"), true),
                (Named(_), "given" | "given_by_proc") => (target_of(door), true),
                (_, _) => (target_of(door), false),
            };
            let is_told = is_unauthorised(&evidence, &name);
            // What passes by another name passes with that name's authority.
            let is_told_elsewhere = is_unauthorised(&evidence, &format!("/{}/other", door.name));
            if !is_right || must_be_told && !is_told || want == Passes && (is_told || is_told_elsewhere) {
                wrong.push(format!("{}, {}: {want:?}, {returns:?}, told: {is_told}", case.name, door.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
