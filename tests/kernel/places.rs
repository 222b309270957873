//! The same rules wherever the work directory and the home lie, and however a rule spells its target: each act on each
//! target is as the table says, and what cannot be held there is named before anything ran.

mod table;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::confined::Scene;
use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};
use table::{ACTS, DIRECTORY, MISSING, PLACES, Place, Rule, Shape, TARGETS, Target};

const NEEDS: &[Need] = &[
    Need::Root,
    Need::Btf,
    Need::CgroupV2,
    Need::LandlockAbi(2),
    Need::Program("unshare"),
    Need::Program("mount"),
];

/// What a run of a place's targets left.
struct Played {
    scene: Scene,
    output: Output,
    evidence: Value,
}

impl Played {
    /// What was printed, a line for each act: target, way, act, and what came of it.
    fn lines(&self) -> Vec<[String; 4]> {
        let told = text(&self.output.stdout);
        let lines = told.lines().map(|line| line.split('|').map(str::to_owned).collect::<Vec<_>>());
        lines.map(|words| words.try_into().unwrap_or_else(|words| panic!("{words:?} in {told}"))).collect()
    }

    fn code(&self) -> String {
        let lines = self.lines();
        lines.iter().find(|line| line[0] == "code").unwrap_or_else(|| panic!("{:?}", self.output))[1].clone()
    }

    fn reasons(&self) -> Vec<&str> {
        let all = self.evidence["identity"]["degradations"].as_array().into_iter().flatten();
        all.filter_map(|one| one["reason"].as_str()).collect()
    }
}

/// A way to a target: a word for it, the path, and a folder of one's own beside it.
type Way = (&'static str, String, String);

/// How the script reaches a target. The ways do not depend on the place, so only one has them all.
fn ways(place: &Place, target: &Target, name: &str) -> Vec<Way> {
    if target.beneath == "~" {
        return [("by HOME", "$HOME"), ("by its real path", "$REAL_HOME")]
            .map(|(word, home)| (word, format!("{home}/open/{name}"), "$HOME/open/x".to_owned()))
            .into();
    }
    let mine = "mine".to_owned();
    let mut ways = vec![("by name", name.to_owned(), mine.clone())];
    if place.name == DIRECTORY.name {
        ways.extend([
            ("by its path", format!("$PWD/{name}"), mine.clone()),
            ("by a link", format!("$ROOT/away/back/{name}"), mine.clone()),
            ("by proc", format!("/proc/self/cwd/{name}"), mine.clone()),
            ("by dots", format!("$PWD/mine/../{name}"), mine),
        ]);
    }
    ways.extend(
        place
            .other
            .map(|other| ("by another path", format!("$ROOT/{other}/{name}"), format!("$ROOT/{other}/mine"))),
    );
    ways
}

/// The scripts of a place, and its denies.
struct Scripts {
    /// Makes the targets.
    fill: String,
    /// The acts, by the command.
    acts: String,
    /// Says what is not as it was, afterwards and from outside.
    check: String,
    denies: String,
}

impl Scripts {
    fn of(place: &Place, targets: &[Target], root: &str) -> Self {
        let mut all =
            Self { fill: String::new(), acts: String::new(), check: String::new(), denies: String::new() };
        for (index, target) in targets.iter().enumerate() {
            all.add(place, target, index, root);
        }
        all
    }

    fn add(&mut self, place: &Place, target: &Target, index: usize, root: &str) {
        let (start, name) = (format!("t-{index}-"), format!("t-{index}-E"));
        let (filled, left) =
            if target.beneath == "~" { ("$REAL_HOME/open", "$REAL_HOME/open") } else { ("$FILLED", ".") };
        let (fill, check) = match target.shape {
            Shape::File => {
                (format!("echo secret > {filled}/{name}"), format!("cmp -s $ROOT/secret {left}/{name}"))
            }
            Shape::Directory => (
                format!("mkdir {filled}/{name}; echo secret > {filled}/{name}/in"),
                format!("cmp -s $ROOT/secret {left}/{name}/in && test $(ls -A {left}/{name}) = in"),
            ),
            Shape::Missing => (String::new(), format!("test ! -e {left}/{name} && test ! -L {left}/{name}")),
        };
        writeln!(self.fill, "{fill}").unwrap();
        writeln!(self.check, "{{ {check}; }} || echo '{index}|after|change|done'").unwrap();
        for (way, path, mine) in ways(place, target, &name) {
            for act in ACTS.iter().filter(|act| act.shape == target.shape) {
                let (script, tell) = (act.script, format!("{index}|{way}|{}", act.name));
                writeln!(
                    self.acts,
                    "f={path}; m={mine}; if {{ {script}; }} >/dev/null 2>&1; then echo '{tell}|passed'; else echo '{tell}|blocked'; rm -rf $m/own $m/linked $m/moved $m/was; fi"
                )
                .unwrap();
            }
        }
        let Some(access) = target.rule.denied() else { return };
        let work = spelled(place.workdir);
        let text = target.spelled.replace('@', &name).replace('%', &start);
        let text = text.replace("ROOT", root).replace("WORK/", &format!("{work}/"));
        let text = text.replace("LAST/", &format!("{}/", work.rsplit('/').next().unwrap_or_default()));
        writeln!(self.denies, "    - {{path: '{text}', access: {access}}}").unwrap();
    }
}

/// A name of any bytes as a policy has it.
fn spelled(name: &[u8]) -> String {
    let one = |&byte: &u8| match byte {
        0..0x80 => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    name.iter().map(one).collect()
}

fn play(place: &Place, targets: &[Target], options: &[&str]) -> Played {
    let scene = Scene::new();
    for name in ["w", "home"] {
        fs::remove_dir(scene.path(name)).unwrap();
    }
    let root = scene.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let scripts = Scripts::of(place, targets, &root);
    let open = "access: [read, write, execute]";
    let mut allow = format!("    - {{path: '${{WORKDIR}}', {open}}}\n    - {{path: '~/open', {open}}}\n");
    writeln!(allow, "    - {{path: '{root}/acts.sh', access: [read]}}").unwrap();
    if let Some(other) = place.other {
        writeln!(allow, "    - {{path: '{root}/{other}', {open}}}").unwrap();
    }
    let policy = format!("api_version: assay/v1\nfs:\n  allow:\n{allow}  deny:\n{}", scripts.denies);
    scene.file("policy.yaml", &policy);
    scene.file("acts.sh", &scripts.acts);
    scene.file("secret", "secret\n");
    let outer = format!(
        "set -e
cd \"$ROOT\"
mkdir away elsewhere
ln -s \"$ROOT\" way
ln -s \"$ROOT/$WORK\" away/back
{before}
HOME=$ROOT/{home}
export HOME REAL_HOME=$(cd {home} && pwd -P)
mkdir -p $HOME/open/x \"$FILLED/mine\"
ln -s \"$ROOT/away\" \"$FILLED/mine/out\"
{fill}{after}
cd \"$WORK\"
set +e
\"$@\"
echo \"code|$?||\"
{check}",
        before = place.before,
        home = place.home,
        fill = scripts.fill,
        after = place.after,
        check = scripts.check,
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &outer, "sh", ASSAY, "sandbox"]).args(options);
    command.args(["--policy", &format!("{root}/policy.yaml")]);
    command.args(["--profile", &format!("{root}/run.json"), "--profile-format", "json"]);
    command.args(["--", "sh", &format!("{root}/acts.sh")]);
    let filled = if place.filled.is_empty() { place.workdir } else { place.filled.as_bytes() };
    let filled = OsString::from_vec([root.as_bytes(), b"/", filled].concat());
    command.env("ROOT", &root).env("WORK", OsStr::from_bytes(place.workdir)).env("FILLED", filled);
    command.env("TMPDIR", place.tmpdir.map_or_else(|| "/tmp".to_owned(), |path| format!("{root}/{path}")));
    command.env("LC_ALL", "C").env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    let output = command.output().expect("unshare");
    let evidence = fs::read(scene.path("run.evidence.json")).unwrap_or_default();
    Played { scene, output, evidence: serde_json::from_slice(&evidence).unwrap_or_default() }
}

/// What of a run is not as the table says.
fn wrong(place: &Place, targets: &[Target], played: &Played) -> Vec<String> {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for [index, way, act, result] in played.lines().iter().filter(|line| line[0] != "code") {
        let target = &targets[index.parse::<usize>().expect("a number")];
        let may = match ACTS.iter().find(|one| one.name == act && one.shape == target.shape) {
            Some(act) => act.may(target.rule),
            None => false,
        };
        count += 1;
        if (result != "blocked") != may {
            wrong.push(format!(
                "{}: `{}` {:?} {way}: {act} {result}",
                place.name, target.spelled, target.rule
            ));
        }
    }
    let wanted: usize = targets
        .iter()
        .map(|target| {
            ways(place, target, "").len() * ACTS.iter().filter(|act| act.shape == target.shape).count()
        })
        .sum();
    if count < wanted {
        wrong.push(format!("{}: {count} of {wanted} acts: {}", place.name, text(&played.output.stderr)));
    }
    wrong
}

#[test]
fn rules_hold_wherever_it_is_and_however_they_are_spelled() {
    if !are_met("places::rules_hold_wherever_it_is_and_however_they_are_spelled", NEEDS) {
        return;
    }
    let mut complaints = Vec::new();
    for place in PLACES {
        let played = play(place, TARGETS, &["--enforce"]);
        complaints.extend(wrong(place, TARGETS, &played));
        let reasons = played.reasons();
        for reason in ["deny-inside-allow", "deny-other-names-not-searched", "deny-not-yet-existing"] {
            if reasons.contains(&reason) {
                complaints.push(format!(
                    "{}: {reason}: {:#}",
                    place.name, played.evidence["identity"]["degradations"]
                ));
            }
        }
        if !reasons.contains(&"deny-pattern-not-yet-existing") {
            complaints.push(format!("{}: nothing says that later names are not held", place.name));
        }
    }
    assert!(complaints.is_empty(), "{}\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn names_that_are_not_there_hold_or_are_named_before_anything_ran() {
    if !are_met("places::names_that_are_not_there_hold_or_are_named_before_anything_ran", NEEDS) {
        return;
    }
    let mut complaints = Vec::new();
    for place in PLACES {
        let played = play(place, MISSING, &["--fail-closed"]);
        if place.holds_missing {
            complaints.extend(wrong(place, MISSING, &played));
            continue;
        }
        let told = text(&played.output.stderr);
        let is_named = MISSING.iter().enumerate().filter(|(_, target)| target.rule != Rule::Open);
        let is_named = is_named.count() == told.matches("a denied name that does not exist yet").count()
            || told.contains("times a denied name that does not exist yet");
        if played.code() != "2" || !is_named || played.lines().len() != 1 {
            complaints.push(format!("{}: {:?} {told}", place.name, played.lines()));
        }
        assert!(!played.scene.path("run.json").exists());
    }
    assert!(complaints.is_empty(), "{}\n{}", complaints.len(), complaints.join("\n"));
}

/// A scene in which `w/f`, `w/sub/f` and `f` can be read, and what a script says there.
fn say(scene: &Scene, at: &str, options: &[&OsStr], script: &str) -> (Option<i32>, String) {
    let mut command = Command::new(ASSAY);
    command.args(["--quiet", "sandbox", "--enforce"]).args(options).args(["--", "sh", "-c", script]);
    command.current_dir(scene.path(at)).env("HOME", scene.path("home")).env("LC_ALL", "C");
    let output = command.env_remove("SUDO_UID").env_remove("SUDO_GID").output().expect("assay runs");
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn a_policy_is_found_from_where_it_is_called_and_speaks_of_where_the_command_runs() {
    let test = "places::a_policy_is_found_from_where_it_is_called_and_speaks_of_where_the_command_runs";
    if !are_met(test, NEEDS) {
        return;
    }
    let scene = Scene::new();
    for name in ["w/f", "w/closed", "w/sub/f", "w/sub/closed"] {
        scene.file(name, "secret\n");
    }
    let policy = "api_version: assay/v1\nextends: [base.yaml]\nfs: {deny: [closed]}\n";
    let base = "api_version: assay/v1\nfs: {allow: ['${WORKDIR}']}\n";
    for folder in ["", "w/", "w/sub/", "policies/"] {
        scene.file(&format!("{folder}p.yaml"), policy);
        scene.file(&format!("{folder}base.yaml"), base);
        fs::write(scene.path(folder).join(OsStr::from_bytes(b"p\xff.yaml")), policy).unwrap();
    }
    std::os::unix::fs::symlink("../policies", scene.path("w/linked")).unwrap();
    let cases: &[(&str, &[u8], Option<&str>)] = &[
        ("w", b"p.yaml", None),
        ("w", b"./p.yaml", None),
        ("w", b"../p.yaml", None),
        ("w", b"sub/../p.yaml", None),
        ("w", b"../policies/p.yaml", None),
        ("w", b"linked/p.yaml", None),
        ("w", b"p\xff.yaml", None),
        ("w", b"../policies/p\xff.yaml", None),
        ("", b"policies/p.yaml", Some("w")),
        ("", b"p.yaml", Some("w/sub")),
        ("w", b"p.yaml", Some("sub")),
        ("w/sub", b"../p.yaml", Some("..")),
        ("policies", b"p.yaml", Some("../w/linked/../w")),
    ];
    for (at, path, workdir) in cases {
        let mut options = vec![OsStr::new("--policy"), OsStr::from_bytes(path)];
        options.extend(workdir.iter().flat_map(|workdir| [OsStr::new("--workdir"), OsStr::new(*workdir)]));
        let told = say(&scene, at, &options, "cat f; cat closed 2>/dev/null && echo READ");
        assert!(
            told.1.starts_with("secret\n") && !told.1.contains("READ"),
            "{at} {path:?} {workdir:?}: {told:?}"
        );
    }
}

#[test]
fn a_deny_of_the_root_is_a_deny_of_everything() {
    if !are_met("places::a_deny_of_the_root_is_a_deny_of_everything", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/f", "secret\n");
    let run = |deny: &str| {
        let allow = "{path: '${WORKDIR}', access: [read, write, execute]}";
        scene
            .file("p.yaml", &format!("api_version: assay/v1\nfs: {{allow: [{allow}, /], deny: [{deny}]}}\n"));
        let policy = scene.path("p.yaml");
        let script = "cat f; touch made && echo MADE; touch $TMPDIR/made && echo MADE; echo x >/dev/null && echo NULL; true";
        let told = say(&scene, "w", &[OsStr::new("--policy"), policy.as_os_str()], script);
        assert!(!scene.path("w/made").exists(), "{deny}: {told:?}");
        told
    };
    for all in [
        "/",
        "//",
        "/.",
        "/../",
        "'/**'",
        "/*",
        "'**', /",
        "{path: /, access: [read]}",
        "{path: /, access: [execute]}",
    ] {
        let (code, told) = run(all);
        assert!(code == Some(126) && !told.contains("secret"), "{all}: {code:?} {told}");
    }
    for write in ["/", "//", "/usr/..", "'/**'"] {
        let (code, told) = run(&format!("{{path: {write}, access: [write]}}"));
        assert!(code == Some(0) && told.starts_with("secret\n"), "{write}: {code:?} {told}");
        assert!(!told.contains("MADE") && !told.contains("NULL"), "{write}: {told}");
    }
}

#[test]
fn names_and_values_of_any_bytes_reach_the_command_and_are_held() {
    if !are_met("places::names_and_values_of_any_bytes_reach_the_command_and_are_held", NEEDS) {
        return;
    }
    let scene = Scene::new();
    let home = scene.path("home").join(OsStr::from_bytes(b"h\xe9"));
    for folder in [home.join(".ssh"), home.join("open")] {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(OsStr::from_bytes(b"k\xff\n")), "secret\n").unwrap();
    }
    let policy = "api_version: assay/v1\nfs: {allow: ['${HOME}'], deny: ['~/.ssh', '~/open/k*']}\nenv: {allow: ['MY_*']}\n";
    scene.file("p.yaml", policy);
    let all: [(&[u8], &[u8]); 4] =
        [(b"PLAIN", b"\xff\x01=\n\xc3"), (b"MY_SECRET", b"\x80"), (b"N\xff", b"v"), (b"LC_ALL", b"C")];
    let run = |command: &[&str]| {
        let mut assay = Command::new(ASSAY);
        assay.args(["--quiet", "sandbox", "--enforce", "--policy"]).arg(scene.path("p.yaml"));
        assay.arg("--").args(command).current_dir(scene.path("w")).env("HOME", &home);
        for (name, value) in all {
            assay.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        }
        assay.env(OsStr::from_bytes(b"\xff_TOKEN"), "hidden").output().expect("assay runs")
    };
    let output = run(&["env", "-0"]);
    let told: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
    for (name, value) in all {
        let line = [name, b"=", value].concat();
        assert!(told.contains(&&*line), "{:?}: {}", text(name), text(&output.stdout));
    }
    assert!(!told.iter().any(|line| line.ends_with(b"=hidden")), "{}", text(&output.stdout));
    let output = run(&["sh", "-c", "ls -d \"$HOME\"/o* && cat \"$HOME\"/.ssh/* \"$HOME\"/open/*"]);
    assert!(output.stdout.ends_with(b"/h\xe9/open\n"), "{output:?}");
}
