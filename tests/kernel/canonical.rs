//! The identity of real runs, made again by another program from the page that specifies it; names of any bytes and
//! secrets of every shape through every artifact of real runs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::page;
use crate::harness::sandbox::text;
use crate::stage::Stage;

#[path = "../fixtures/secrets.rs"]
mod corpus;
#[path = "../it/sensitivity.rs"]
mod sensitivity;

/// What each does is mostly its own business; together they have every kind of effect.
const WORKLOADS: &[&[&str]] = &[
    &["true"],
    &["sh", "-c", "echo a >a; mkdir -p d/e; mv a d/b; ln d/b d/c; ln -s ../a d/e/l; chmod 600 d/b; rm -r d"],
    &[
        "sh",
        "-c",
        "d=$(mktemp -d); f=$(mktemp); echo x >$f; sed -i s/x/y/ $f; cp $f $d/k; rm -r $d $f; cat /proc/$$/stat",
    ],
    &[
        "sh",
        "-c",
        "echo x >t.tmp; sed -i s/x/y/ t.tmp; mv t.tmp t; git init -q r 2>/dev/null; cd r && git status >/dev/null",
    ],
    &[
        "sh",
        "-c",
        "printf '#!/bin/sh\\nexit 0\\n' >s; chmod +x s; ./s; ls / >/dev/null; cat /nonexistent; exit 3",
    ],
    &["sh", "-c", "kill -TERM $$"],
    &[
        "python3",
        "-c",
        "import os,socket,tempfile\n\
        t=tempfile.NamedTemporaryFile(dir='.',delete=False); t.write(b'x'); t.close(); os.replace(t.name,'target')\n\
        s=socket.create_server(('127.0.0.1',0)); c=socket.create_connection(s.getsockname()); c.close()\n\
        u=socket.socket(socket.AF_UNIX); u.bind('sock'); u.listen()\n\
        v=socket.socket(socket.AF_UNIX); v.connect('sock')\n\
        a=socket.socket(socket.AF_UNIX); a.bind('\\0assay-canonical-test')\n\
        n=socket.socket(socket.AF_NETLINK,socket.SOCK_RAW); n.bind((0,0))\n\
        d=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); d.sendto(b'x',('127.0.0.1',9))\n\
        x=socket.socket(); x.setblocking(False)\n\
        try: x.connect(('127.0.0.1',1))\n\
        except OSError: pass\n\
        os.mkdir('m'); os.rmdir('m'); os.truncate('target',0); os.utime('target'); os.listdir('.')",
    ],
    &[
        "sh",
        "-c",
        "echo --in=\"$PWD/x\" -I\"$PWD\" file://\"$HOME\"/y >/dev/null; /bin/echo \"$HOME:$PWD\" >/dev/null",
    ],
];

#[test]
fn another_implementation_makes_the_same_identity_of_real_runs() {
    for command in WORKLOADS {
        let Some(stage) =
            Stage::new("canonical::another_implementation_makes_the_same_identity_of_real_runs")
        else {
            return;
        };
        let played = stage.run(command);
        assert!(!played.trace.is_empty(), "{}", played.stderr);
        let check = |evidence: &Path| page::differences(evidence, &stage.artifact("trace"), None, command);
        let evidence = stage.artifact("run.profile.evidence.json");
        assert_eq!(check(&evidence), "", "{command:?}");
        // The same for every change of one act of it, and for the same acts under other circumstances.
        let records = fs::read(stage.artifact("records")).expect("records");
        let workdir = stage.path("").into_os_string().into_encoded_bytes();
        let recorded = sensitivity::Recorded::read(&records, workdir.strip_suffix(b"/").unwrap_or(&workdir));
        assert!(recorded.check_changes(&mut |_, _, _| ()).iter().sum::<usize>() >= 10, "{command:?}");
        recorded.check_circumstances(&mut |_, _| ());
        recorded.check_named();
        // And it can say no: one effect less, one more, another digest.
        let changed = stage.artifact("changed.json");
        for (from, to) in
            [("\"op\": \"read\"", "\"op\": \"write\""), ("\"digest\": \"sha256:", "\"digest\": \"sha256:0")]
        {
            let text = fs::read_to_string(&evidence).expect("evidence");
            fs::write(&changed, text.replacen(from, to, 1)).expect("a file");
            assert_ne!(check(&changed), "", "{command:?}: {from} became {to}, and it agrees");
        }
    }
}

/// Names of every kind that the page speaks of and near misses of them, made in places of every kind. Here the other
/// implementation is also told what no trace tells (which files were made as mkstemp does, say), and so has to say the same
/// of each.
#[test]
fn odd_names_fold_as_the_page_says() {
    let Some(stage) = Stage::new("canonical::odd_names_fold_as_the_page_says") else { return };
    // A home by another name, and an output that is a file.
    let stage =
        stage.before("cd ..; mkdir home; ln -s home link; export HOME=$PWD/link; exec > stdout.txt; cd w");
    stage.file("odd_names.py", include_str!("odd_names.py"));
    let outside = tempfile::Builder::new().prefix("assay-odd-").tempdir_in("/tmp").expect("a folder");
    let (outside, told) = (outside.path().to_string_lossy(), stage.at("told"));
    let command: &[&str] = &[
        "python3",
        "odd_names.py",
        "11",
        "700",
        &outside,
        &told,
        &page::user(),
        // A template, and a word that was drawn by whoever gave it.
        "of.XXXXXX",
        "a8Kd92",
    ];
    let played = stage.run(command);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let trace = stage.artifact("trace");
    let evidence = stage.artifact("run.profile.evidence.json");
    let check = |evidence: &Path| page::differences(evidence, &trace, Some(Path::new(&told)), command);
    assert_eq!(check(&evidence), "");
    // Each rule that the other implementation judges took part, and each is missed where it is taken away.
    let folded = played.evidence["observed"]["folded"].as_array().expect("folds");
    let mut damaged = played.evidence.clone();
    let mut gone = Vec::new();
    for rule in JUDGED {
        let has = |fold: &&serde_json::Value| {
            fold["rule"].as_str().is_some_and(|all| all.split('+').any(|one| one == *rule))
        };
        let fold = folded.iter().find(has).unwrap_or_else(|| panic!("nothing folded by {rule}"));
        damaged["observed"]["folded"].as_array_mut().expect("folds").retain(|one| one != fold);
        gone.push(fold["from"].as_str().expect("a name"));
    }
    let changed = stage.artifact("changed.json");
    fs::write(&changed, serde_json::to_vec(&damaged).expect("JSON")).expect("a file");
    let told = check(&changed);
    for name in gone {
        assert!(told.lines().any(|line| line.starts_with(name)), "without the fold of {name}: {told}");
    }
}

/// The user's id in names of every place, as the page says: where it is told from other numbers, and where it counts.
#[test]
fn the_users_id_folds_as_the_page_says() {
    let Some(stage) = Stage::new("canonical::the_users_id_folds_as_the_page_says") else { return };
    let stage = stage.option(&["--user", "23456:23456"]);
    stage.mode("", 0o777);
    let outside = tempfile::Builder::new().prefix("assay-id-").tempdir_in("/tmp").expect("a folder");
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    let script = format!(
        "cd {}; mkdir -m 700 a-$(id -u) $(id -u) v$(id -u); for n in 23455 $(id -u) 23457; do echo > part-$n; done
        mkdir q; echo > q/part-$(id -u); echo > q/part-1; mktemp -d ./$(id -u)-XXXXXX; rm -r $(id -u) $(id -u)-*
        cd - > /dev/null; echo > out-$(id -u); echo > \"$TMPDIR/s.$(id -u).sock\"; ln -s $(id -u) \"$TMPDIR/l\"",
        outside.path().display()
    );
    let command = ["sh", "-ec", script.as_str()];
    let played = stage.run(&command);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let (evidence, trace) = (stage.artifact("run.profile.evidence.json"), stage.artifact("trace"));
    let who = (":23456", page::host());
    assert_eq!(page::differences_of((who.0, &who.1), &evidence, &trace, None, &command), "");
    let folded = played.evidence["observed"]["folded"].as_array().expect("folds");
    let names: Vec<&str> = folded.iter().filter_map(|fold| fold["to"].as_str()).collect();
    for end in ["/a-${UID}/", "/${UID}/", "/q/part-${UID}", "/${UID}-${RANDOM}/", "/s.${UID}.sock"] {
        assert!(names.iter().any(|name| name.ends_with(end.trim_end_matches('/'))), "{end}: {names:?}");
    }
    // With the id of another it says otherwise.
    assert_ne!(page::differences_of((":23457", &who.1), &evidence, &trace, None, &command), "");
}

/// The rules of which a trace and what the program tells beside it tell enough.
const JUDGED: &[&str] = &[
    "place-name",
    "template",
    "temp-name",
    "random",
    "user",
    "hostname",
    "uuid",
    "time",
    "pid",
    "number",
    "address",
    "hash",
    "git-object",
    "derived-name",
    "temp-rename",
    "nameless",
    "autobind",
    "itself",
    "cgroup",
    "root-alias",
    "stdio",
];

/// A program that makes, links, runs, binds and connects by names given in hexadecimal digits.
const ACTS: &str = r#"
import json, os, socket, sys
base = os.getcwd().encode()
for kind, digits in json.load(open(sys.argv[1])):
    name = b"" if kind == "argv" else bytes.fromhex(digits)
    if kind == "name":
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600))
        os.symlink(name, b"l" + name[:250])
        os.rename(name, b"r" + name[:250])
        os.mkdir(name)
        os.chdir(name)
        os.symlink(base + b"/tiny", b"x")
        os.link(base + b"/tiny", b"p")
        os.spawnv(os.P_WAIT, b"p", [name, name])
        s = socket.socket(socket.AF_UNIX)
        s.bind(b"s")
        s.listen()
        socket.socket(socket.AF_UNIX).connect(b"s")
        if len(name) < 100:
            socket.socket(socket.AF_UNIX).bind(b"\0" + name)
        os.chdir(base)
    elif kind == "read":
        open(name).close()
    elif kind == "path":
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600))
    elif kind == "argv":
        argv = [bytes.fromhex(one) for one in digits.split(",")]
        os.spawnv(os.P_WAIT, base + b"/bin/" + os.path.basename(argv[0]), argv)
"#;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A stage with that program, programs that do nothing by these names, and what is to be done.
fn acting(test: &str, programs: &[&str], acts: &[(&str, String)]) -> Option<Stage> {
    let stage = Stage::new(test)?;
    stage.file("acts.py", ACTS).program("tiny").dir("bin");
    for program in programs {
        stage.program(&format!("bin/{program}"));
    }
    stage.file("acts.json", &serde_json::to_string(acts).expect("JSON"));
    Some(stage)
}

/// Names that have broken formats before, of one component each.
pub fn hostile() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        "new\nline",
        "\n# injected heading\n\n| a | b |\n",
        "\x1b[1mred\x1b[0m\x1b]0;title\x07",
        "${HOME}",
        "${WORKDIR}",
        "${REDACTED:1}",
        "back\\slash\\x41\\",
        "- a: [b, {c: d}] # &anchor *alias !tag",
        "| cell | `code` <b>&amp;<br> ![x](y) #",
        "'single' \"double\"",
        "yes",
        "~",
        "null",
        "\u{202e}gnp.exe\u{2066}\u{200f}",
        "\u{2028}\u{2029}\u{feff}\u{85}\u{9b}2J",
        "caf\u{e9}\u{1f980}",
        "cafe\u{301}",
        "*?[glob]**",
        " leading and trailing ",
        "-rf",
        "\r",
        "\t",
        "file (deleted)",
        "#unnamed",
        "@abstract",
        "unnamed:x",
    ]
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.push(b"\xff\xfe\x80invalid\xc3(\xed\xa0\x80".to_vec());
    names.push((1..=255u8).filter(|byte| *byte != b'/').take(250).collect());
    names.push(vec![b'n'; 250]);
    names
}

/// The longest path there can be, in folders that are made.
fn longest(stage: &Stage) -> Vec<u8> {
    let mut path = stage.at("").into_bytes();
    while path.len() + 252 < 4095 {
        path.extend([&[b'd'; 250][..], b"/"].concat());
    }
    fs::create_dir_all(OsStr::from_bytes(&path)).expect("folders");
    path.resize(4095, b'\xff');
    path
}

/// A file by each name, in a directory of its own, so that a profile has a rule for the file and not for what it lies in.
fn files_by(names: &[Vec<u8>], place: &Path) -> Vec<PathBuf> {
    let file = |(number, name): (usize, &Vec<u8>)| {
        let folder = place.join(number.to_string());
        fs::create_dir(&folder).expect("a folder");
        let path = folder.join(OsStr::from_bytes(name));
        fs::write(&path, "").expect("a file");
        path
    };
    names.iter().enumerate().map(file).collect()
}

#[test]
fn names_of_any_bytes_come_back_from_every_artifact() {
    let names = hostile();
    let acts: Vec<(&str, String)> = names.iter().map(|name| ("name", hex(name))).collect();
    let test = "canonical::names_of_any_bytes_come_back_from_every_artifact";
    let Some(stage) = acting(test, &[], &acts) else { return };
    let long = longest(&stage);
    let mut acts = acts;
    acts.push(("path", hex(&long)));
    let outside = tempfile::Builder::new().prefix("assay-hostile-").tempdir_in("/var/tmp").expect("a folder");
    let read = files_by(&names, outside.path());
    acts.extend(read.iter().map(|path| ("read", hex(path.as_os_str().as_bytes()))));
    stage.file("acts.json", &serde_json::to_string(&acts).expect("JSON"));
    let played = stage.run(&["python3", "acts.py", "acts.json"]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);

    let workdir = stage.path("").into_os_string().into_encoded_bytes();
    let unescape = |text: &str| assay::profile::name::unescape(text).expect("a name in its text form");
    // A name of the identity → the bytes of the path.
    let undone = |text: &str| match text.strip_prefix("${WORKDIR}") {
        Some(rest) => [&workdir[..workdir.len() - 1], &unescape(rest)].concat(),
        None => unescape(text),
    };
    let at = |parts: &[&[u8]]| [&[&workdir[..]], parts].concat().concat();
    let list = |value: &serde_json::Value, key: &str, wanted: &[(&str, &str)]| -> Vec<String> {
        let effects = value.as_array().expect("a list").iter();
        let fits = |effect: &&serde_json::Value| wanted.iter().all(|(key, word)| effect[*key] == *word);
        effects.filter(fits).filter_map(|effect| effect[key].as_str().map(str::to_owned)).collect()
    };
    let effects = &played.evidence["identity"]["effects"];
    let data: serde_json::Value = played.events.iter().map(|event| event["data"].clone()).collect();
    let of = |value: &serde_json::Value, key: &str, wanted: &[(&str, &str)]| -> Vec<Vec<u8>> {
        list(value, key, wanted).iter().map(|text| undone(text)).collect()
    };
    let has = |what: &str, all: &[Vec<u8>], wanted: &[u8]| {
        assert!(all.iter().any(|one| one == wanted), "{what} lacks {:?}", text(wanted));
    };
    for (which, fs_list, exec_list, net_list) in [
        ("the evidence", &effects["fs"], &effects["exec"], &effects["net"]),
        ("the bundle", &data, &data, &data),
    ] {
        let created = of(fs_list, "path", &[("op", "create")]);
        let renamed = of(fs_list, "to", &[("op", "rename")]);
        let texts = list(fs_list, "to", &[("op", "symlink")]);
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| unescape(text)).collect();
        let links = of(fs_list, "path", &[("op", "symlink")]);
        let programs = of(exec_list, "path", &[]);
        let sockets = of(net_list, "address", &[("proto", "unix"), ("op", "connect")]);
        let abstracts = list(net_list, "address", &[("proto", "unix"), ("op", "bind")]);
        let abstracts: Vec<Vec<u8>> = abstracts.iter().map(|text| unescape(text)).collect();
        has(which, &created, &long);
        for name in &names {
            let cut = &name[..name.len().min(250)];
            has(which, &created, &at(&[name]));
            has(which, &created, &at(&[name, b"/"]));
            has(which, &renamed, &at(&[b"r", cut]));
            has(which, &links, &at(&[b"l", cut]));
            has(which, &texts, name);
            has(which, &programs, &at(&[name, b"/p"]));
            has(which, &sockets, &at(&[name, b"/s"]));
            if name.len() < 100 {
                has(which, &abstracts, &[b"@", name.as_slice()].concat());
            }
        }
    }
    let told = |key: &str| -> Vec<Vec<u8>> {
        played.trace.iter().filter_map(|line| line[key].as_str().map(unescape)).collect()
    };
    let (paths, texts) = (told("path"), told("to"));
    has("the trace", &paths, &long);
    let argv: Vec<Vec<u8>> = played
        .trace
        .iter()
        .flat_map(|line| line["argv"].as_array().into_iter().flatten())
        .filter_map(|word| word.as_str().map(unescape))
        .collect();
    let processes: Vec<Vec<u8>> = played.evidence["observed"]["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .flat_map(|process| process["programs"].as_array().expect("programs"))
        .flat_map(|argv| argv.as_array().expect("arguments"))
        .filter_map(|word| word.as_str().map(unescape))
        .collect();
    for name in &names {
        has("the trace", &paths, &at(&[name]));
        has("the trace", &paths, &at(&[name, b"/p"]));
        has("the trace", &texts, name);
        has("the arguments of the trace", &argv, name);
        has("the arguments of the evidence", &processes, name);
    }
    check_pages(&stage);
    check_rules(&stage, &read);
    check_yaml(&stage);
}

/// The profile has a rule for each of these files, which allows reading it, and nothing else of that directory.
fn check_rules(stage: &Stage, read: &[PathBuf]) {
    // What a `*` that is a part of a name would stand for, were it a pattern; and anything.
    let other = |path: &PathBuf| {
        let name = path.file_name().expect("a name").as_bytes();
        let other: Vec<u8> = name.iter().map(|byte| if *byte == b'*' { b'z' } else { *byte }).collect();
        path.with_file_name(if other == name { OsStr::new("beside") } else { OsStr::from_bytes(&other) })
    };
    let beside: Vec<PathBuf> = read.iter().map(other).collect();
    let mut check = Command::new(crate::harness::sandbox::ASSAY);
    check.args(["policy", "check", "--format", "json"]).arg(stage.artifact("run.profile.json"));
    for path in read.iter().chain(&beside) {
        check.arg("--path").arg(path);
    }
    let output = check.current_dir(stage.path("")).env("HOME", stage.path("")).output().expect("assay");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let answers = answer["answers"].as_array().expect("answers");
    let verdict = |path: &Path| {
        let name = assay::profile::name::Name::from_bytes(path.as_os_str().as_bytes());
        let request = format!("read {}", name.as_str());
        let found = answers.iter().find(|answer| answer["request"] == request);
        found.unwrap_or_else(|| panic!("{request}: {answer:#}"))["verdict"].clone()
    };
    for (path, beside) in read.iter().zip(&beside) {
        assert_eq!(verdict(path), "allowed", "{}", path.display());
        assert_eq!(verdict(beside), "denied", "{}", beside.display());
    }
}

/// The evidence as YAML says what it says as JSON, and is of its format.
fn check_yaml(stage: &Stage) {
    let json = fs::read_to_string(stage.artifact("run.profile.evidence.json")).expect("evidence");
    let evidence = assay::evidence::wire::read(&json).expect("evidence");
    let yaml = assay::evidence::wire::write(&evidence, assay::profile::wire::Format::Yaml);
    assert!(!yaml.chars().any(|c| c != '\n' && assay::profile::name::must_escape(c)), "a raw control");
    let value = assay::evidence::wire::parse(&yaml).expect("YAML");
    assert!(value == assay::evidence::wire::parse(&json).expect("JSON"), "{yaml}");
    let value: serde_json::Value =
        serde_json::from_str(&assay::canon::write::to_string(&value)).expect("JSON");
    crate::formats::Format::Evidence.check(&value);
}

/// A person's page keeps its layout, and a policy made of it is one.
fn check_pages(stage: &Stage) {
    let report = fs::read_to_string(stage.artifact("run.profile.json.report.md")).expect("a report");
    assert!(!report.contains("\n# injected"), "{report}");
    assert!(!report.chars().any(|c| c != '\n' && assay::profile::name::must_escape(c)), "a raw control");
    let profile = stage.artifact("run.profile.json");
    let check = Command::new(crate::harness::sandbox::ASSAY)
        .args(["policy", "check"])
        .arg(&profile)
        .current_dir(stage.path(""))
        .output()
        .expect("assay");
    assert!(check.status.success(), "{}", text(&check.stderr));
}

#[test]
fn no_artifact_of_a_real_run_has_a_secret() {
    let mut programs: Vec<String> = Vec::new();
    let mut acts = Vec::new();
    for row in corpus::COMMANDS {
        let argv: Vec<String> = row.iter().map(|text| hex(corpus::plain(text).as_bytes())).collect();
        programs.push(row[0].to_owned());
        acts.push(("argv", argv.join(",")));
        for secret in row.iter().flat_map(|text| corpus::secrets(text)) {
            // Keys of known shape, and what was learned from the arguments, in the names of files and sockets.
            if (8..90).contains(&secret.len()) && !secret.contains(['/', '\n']) {
                acts.push(("name", hex(secret.as_bytes())));
            }
        }
    }
    // What only looks like a secret goes through as it is.
    programs.push("harmless".to_owned());
    let harmless = std::iter::once(&"harmless").chain(corpus::HARMLESS).map(|text| hex(text.as_bytes()));
    acts.push(("argv", harmless.collect::<Vec<_>>().join(",")));
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    let test = "canonical::no_artifact_of_a_real_run_has_a_secret";
    let Some(stage) = acting(test, &programs, &acts) else { return };
    let played =
        stage.run(&["python3", "acts.py", "acts.json", "--token", "top-secret-9", "PW_TOKEN=top-secret-8"]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let bundle = Command::new("tar").arg("-xzOf").arg(stage.artifact("bundle.tar.gz")).output().expect("tar");
    let mut texts = vec![("the bundle", text(&bundle.stdout)), ("stderr", played.stderr.clone())];
    for name in
        ["trace", "status", "run.profile.json", "run.profile.evidence.json", "run.profile.json.report.md"]
    {
        texts.push((name, fs::read_to_string(stage.artifact(name)).expect("an artifact")));
    }
    let secrets: Vec<String> = corpus::COMMANDS
        .iter()
        .flat_map(|row| row.iter().flat_map(|text| corpus::secrets(text)))
        .chain(["top-secret-9".to_owned(), "top-secret-8".to_owned()])
        .collect();
    assert!(secrets.len() >= 87, "the corpus has lost some: {}", secrets.len());
    for (name, text) in &texts {
        for secret in secrets.iter().filter(|secret| secret.len() >= 5) {
            assert!(!text.contains(secret.as_str()), "{name} has {secret}");
        }
    }
    for text in corpus::HARMLESS {
        let name = assay::profile::name::Name::from_bytes(text.as_bytes());
        let has = |line: &serde_json::Value| {
            line["argv"].as_array().is_some_and(|argv| argv.iter().any(|word| word == name.as_str()))
        };
        assert!(played.trace.iter().any(has), "{text} is gone from the trace");
    }
    for name in ["trace", "run.profile.evidence.json"] {
        let told = texts.iter().find(|(known, _)| *known == name).map(|(_, text)| text).expect("it");
        assert!(
            told.contains("--token\", \"${REDACTED:") || told.contains("--token\",\"${REDACTED:"),
            "{name}"
        );
    }
}

#[test]
fn a_program_that_is_not_there_does_not_tell_a_secret() {
    let test = "canonical::a_program_that_is_not_there_does_not_tell_a_secret";
    let Some(stage) = Stage::new(test) else { return };
    let key = corpus::plain("gh\u{a7}p_0123456789abcdefghijABCDEFGHIJ012345");
    let output = stage.command(&[&format!("./{key}"), "--token", "top-secret-7"]).output().expect("assay");
    assert_eq!(output.status.code(), Some(127), "{}", text(&output.stderr));
    for entry in fs::read_dir(stage.artifact("")).expect("artifacts").flatten() {
        let bytes = fs::read(entry.path()).expect("an artifact");
        for secret in [key.as_str(), "top-secret-7"] {
            let is_told = text(&bytes).contains(secret);
            assert!(!is_told, "{} has {secret}", entry.path().display());
        }
    }
}

/// Makes and removes what its names say, for its owner alone, as mkdtemp and mkstemp would.
const PRIVATE: &str = r#"
import os, subprocess, tempfile
tmp = os.environ["TMPDIR"]
os.chdir(tmp)
for name in ("secrets", "openpgp-revocs.d", "team-database", "shared_memory", "config"):
    os.mkdir(name, 0o700)
    os.rmdir(name)
for name in ("payload", "app.settings.json", "worker01"):
    os.close(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(name)
subprocess.run("mkdir -m 700 qvxzkw && rmdir qvxzkw", shell=True, check=True)
for prefix in ("node-test-", "glued", "with_"):
    os.rmdir(tempfile.mkdtemp(prefix=prefix))
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=".json")
    os.unlink(name)
"#;

#[test]
fn what_somebody_called_it_stays_in_a_temporary_place_and_what_chance_drew_does_not() {
    let test = "canonical::what_somebody_called_it_stays_in_a_temporary_place_and_what_chance_drew_does_not";
    let mut ids = Vec::new();
    for script in [PRIVATE, PRIVATE, &PRIVATE.replace("\"payload\"", "\"package\"")] {
        let Some(stage) = Stage::new(test) else { return };
        stage.file("acts.py", script);
        let played = stage.run(&["python3", "acts.py"]);
        assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
        let effects = played.evidence["identity"]["effects"]["fs"].as_array().expect("a list");
        let made: Vec<&str> = effects
            .iter()
            .filter(|effect| effect["op"] == "create")
            .filter_map(|effect| effect["path"].as_str()?.strip_prefix("${TMPDIR}/"))
            .collect();
        let payload = if script == PRIVATE { "payload" } else { "package" };
        let wanted = [
            // By which Python tries whether it can write there.
            "${RANDOM}",
            "${RANDOM}.json",
            "${RANDOM}/",
            "app.settings.json",
            "config/",
            "node-test-${RANDOM}.json",
            "node-test-${RANDOM}/",
            "openpgp-revocs.d/",
            payload,
            "qvxzkw/",
            "secrets/",
            "shared_memory/",
            "team-database/",
            "with_${RANDOM}.json",
            "with_${RANDOM}/",
            "worker01",
        ];
        assert_eq!(made, wanted);
        ids.push(played.evidence["run_id"].clone());
    }
    assert_eq!(ids[0], ids[1], "the same names");
    assert_ne!(ids[0], ids[2], "another name");
}

/// Calls through links with a long text to what the policy hides, each link gone before it can be read again.
const VANISHING: &str = r#"
import os
target = os.getcwd() + "/" + "d" * 80 + "/hidden/file"
for number in range(150):
    link = "ghp_" + "0123456789abcdefghijABCDEFGHIJ" + f"{number:06}"
    os.symlink(target, link)
    try: os.close(os.open(link, os.O_RDONLY))
    except OSError: pass
    os.unlink(link)
"#;

#[test]
fn what_is_admitted_has_no_secret_and_ends() {
    let test = "canonical::what_is_admitted_has_no_secret_and_ends";
    let Some(stage) = Stage::new(test) else { return };
    let hidden = format!("{}/hidden", "d".repeat(80));
    stage.dir(&"d".repeat(80)).dir(&hidden).file(&format!("{hidden}/file"), "secret");
    stage.file("acts.py", VANISHING);
    let policy = format!(
        "api_version: assay/v1\nfs:\n  allow:\n    - {{path: \"${{WORKDIR}}\", access: [read, write, execute]}}\n    \
         - /usr\n  deny: [\"{hidden}\"]\n"
    );
    stage.file("policy.yaml", &policy);
    let stage = stage.option(&["--enforce"]);
    let policy = stage.at("policy.yaml");
    let stage = stage.option(&["--policy", &policy]);
    let played = stage.run(&["python3", "acts.py"]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let bundle = Command::new("tar").arg("-xzOf").arg(stage.artifact("bundle.tar.gz")).output().expect("tar");
    let evidence = played.evidence.to_string();
    for (name, text) in
        [("the bundle", text(&bundle.stdout)), ("stderr", played.stderr), ("evidence", evidence)]
    {
        assert!(!text.contains("ghp_0123456789"), "{name}: {text}");
    }
    let reasons = played.evidence["coverage"]["reasons"].as_array().expect("a list");
    let unverified =
        reasons.iter().filter(|reason| reason["reason"] == "path-unverified").collect::<Vec<_>>();
    assert!((1..=200).contains(&unverified.len()), "{}", unverified.len());
    let is_hidden = |reason: &&serde_json::Value| {
        reason["detail"].as_str().is_some_and(|detail| detail.contains("${REDACTED:"))
    };
    assert!(unverified.iter().all(is_hidden), "{unverified:?}");
}
