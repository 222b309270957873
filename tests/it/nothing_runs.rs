//! No reader of a bundle starts a program: not of what a bundle says, of its name, or of the environment. Seen from
//! outside, by strace. The one that `show` starts is the person's pager, on a terminal and nowhere else.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use assay::canon::digest::Digest;
use assay::evidence::{Component, Degradation};
use assay::profile::effect::FsOp;

use crate::sample::{Dir, bundle, connect, evidence, exec, fs as file, harmless, of};

const ASSAY: &str = env!("CARGO_BIN_EXE_assay");

/// Environment by which programs are told which others to start.
const OF_PROGRAMS: &[&str] = &[
    "BASH_ENV",
    "BROWSER",
    "COSIGN",
    "EDITOR",
    "ENV",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "LESSCLOSE",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "SHELL",
    "SSH_ASKPASS",
    "VISUAL",
];

/// Programs that a reader of evidence might have thought of.
const ON_PATH: &[&str] = &[
    "cat", "cosign", "diff", "git", "gzip", "jq", "less", "more", "openssl", "sh", "tar", "tput", "xdg-open",
];

/// A folder with a program that leaves a mark, under every name that might be asked for.
struct Trap {
    dir: Dir,
}

impl Trap {
    fn new() -> Self {
        let dir = Dir::new();
        let mark = dir.path().join("mark");
        fs::create_dir(dir.path().join("bin")).expect("a folder");
        for name in ON_PATH.iter().chain(&["trap"]) {
            let path = dir.put(&format!("bin/{name}"), format!("#!/bin/sh\n: > '{}'\n", mark.display()));
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        Self { dir }
    }

    fn program(&self) -> String {
        self.dir.path().join("bin/trap").to_str().expect("a plain name").to_owned()
    }

    /// Sets everything that could lead to the program.
    fn arm<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(self.dir.path()).env("PATH", self.dir.path().join("bin"));
        command.envs(OF_PROGRAMS.iter().map(|name| (name, self.program())))
    }

    /// What a reader of these words started, a line each as strace has it, without its own start; and its exit code.
    fn started(&self, words: &[&str]) -> (Vec<String>, Option<i32>) {
        let log = self.dir.path().join("log");
        let mut strace = Command::new("/usr/bin/strace");
        strace.args([
            "-f",
            "-qq",
            "-e",
            "trace=execve,execveat,fork,vfork,clone,clone3",
            "-e",
            "signal=none",
        ]);
        strace.arg("-o").arg(&log).arg(ASSAY);
        strace.args(Some("evidence").filter(|_| words[0] != "report")).args(words);
        let bundle = fs::File::open(self.dir.path().join("b")).expect("the bundle");
        let output =
            self.arm(&mut strace).stdin(bundle).stderr(Stdio::piped()).output().expect("strace is installed");
        let code = output.status.code();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(code, Some(0..=2)), "{words:?}: {code:?} {stderr}");
        assert!(!stderr.contains("strace:"), "{stderr}");
        let log = fs::read_to_string(log).expect("what strace saw");
        let (own, others): (Vec<&str>, Vec<&str>) =
            log.lines().partition(|line| line.contains(&format!("execve(\"{ASSAY}\", ")));
        assert_eq!(own.len(), 1, "{words:?}: {log}");
        // Its own threads are no programs.
        let is_other = |line: &&str| !line.contains("CLONE_THREAD") && !line.contains("resumed>");
        (others.into_iter().filter(is_other).map(str::to_owned).collect(), code)
    }

    fn has_sprung(&self) -> bool {
        self.dir.path().join("mark").exists()
    }
}

/// Shell, in every way that somebody might have put names together with a command.
fn shell_syntax(program: &str) -> Vec<String> {
    vec![
        format!("$({program})"),
        format!("`{program}`"),
        format!("; {program};"),
        format!("x\\x0a{program}\\x0a"),
        format!("| {program}"),
        format!("|| {program} #"),
        format!("'; {program} '"),
        format!("\"; {program} \""),
        format!("!{program}"),
        format!("|{program}|"),
        format!("--pager={program}"),
        format!("--use-compress-program={program}"),
        format!("--checkpoint-action=exec={program}"),
        format!("ext::{program}"),
        program.to_owned(),
    ]
}

/// A run of which everything it says would start the program, if somebody handed it to a shell.
fn hostile(program: &str) -> Vec<u8> {
    let words = shell_syntax(program);
    let mut effects = harmless();
    for word in &words {
        effects.push(file(FsOp::Write, &format!("${{WORKDIR}}/{word}")));
        effects.push(exec(&format!("/{word}")));
        effects.push(connect(word, 80));
    }
    effects.push(exec(program));
    let degradations = words.iter().map(|word| Degradation {
        component: Component::Net,
        reason: "no-bpf".into(),
        detail: Some(word.clone()),
    });
    let mut evidence = evidence(effects, degradations.collect());
    evidence.identity.command = words;
    program.clone_into(&mut evidence.observed.verdict);
    evidence.observed.programs.insert(program.to_owned(), Ok(Digest::of(b"it")));
    bundle(&evidence)
}

/// The readers, and every way to be told. `B` is the bundle.
const READERS: &[&[&str]] = &[
    &["verify", "B"],
    &["verify", "B", "--format", "json"],
    &["verify", "B", "--attestation", "a.json", "--key", "k.pub"],
    &["lint", "B"],
    &["lint", "B", "--format", "json"],
    &["lint", "B", "--format", "sarif"],
    &["diff", "good", "B"],
    &["diff", "B", "good", "--format", "markdown"],
    &["diff", "good", "B", "--format", "json"],
    &["show", "B"],
    &["show", "B", "--format", "json"],
    &["export", "B", "--format", "jsonl"],
    &["gate", "B", "--policy", "policy.yaml"],
    &["gate", "B", "--baseline", "good", "--format", "json"],
    &["attest", "B", "--unsigned"],
    &["attest", "B", "--key", "k.key"],
    &["report", "B"],
    &["report", "B", "--format", "markdown"],
    &["report", "B", "--format", "html"],
];

/// A trap with what the readers ask for beside the bundle.
fn furnished() -> Trap {
    let trap = Trap::new();
    let mut policy = "api_version: assay/v1\nfs:\n  allow:\n".to_owned();
    for word in shell_syntax(&trap.program()) {
        let path = format!("/{word}").replace('\'', "''");
        writeln!(policy, "    - {{path: '{path}', access: [read]}}").expect("a String takes everything");
    }
    trap.dir.put("policy.yaml", policy);
    trap.dir.put("assay.yaml", "api_version: assay/v1\nlint: {}\n");
    trap.dir.put("good", of(harmless()));
    trap.dir.put("b", of(harmless()));
    for words in [
        &["genpkey", "-algorithm", "ed25519", "-out", "k.key"][..],
        &["pkey", "-in", "k.key", "-pubout", "-out", "k.pub"],
    ] {
        let made = Command::new("openssl").args(words).current_dir(trap.dir.path()).output();
        assert!(made.expect("openssl is installed").status.success());
    }
    let attested = Command::new(ASSAY)
        .args(["evidence", "attest", "good", "--key", "k.key"])
        .current_dir(trap.dir.path())
        .output();
    trap.dir.put("a.json", attested.expect("assay").stdout);
    trap
}

#[test]
fn no_reader_of_a_bundle_starts_a_program() {
    let trap = furnished();
    let program = trap.program();
    let mut cut = of(harmless());
    cut.truncate(200);
    // Names that are not for a shell, or for the reader's own flags; and the bundle itself may be a program.
    let script = format!("#!{program}\n");
    for (name, bytes, is_good) in [
        ("b", hostile(&program), true),
        ("-", hostile(&program), true),
        ("$(trap)`trap`; trap; |trap #", of(harmless()), true),
        ("b", cut, false),
        ("b", script.into_bytes(), false),
    ] {
        trap.dir.put("b", &bytes);
        let path = trap.dir.put(if name == "-" { "b" } else { name }, &bytes);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
        for reader in READERS {
            let words: Vec<&str> = reader.iter().map(|word| if *word == "B" { name } else { word }).collect();
            let (started, code) = trap.started(&words);
            assert_eq!(started, [""; 0], "{words:?}");
            // The attestation is of another bundle than the hostile one.
            let is_refused = !is_good || words.contains(&"a.json") && name != "$(trap)`trap`; trap; |trap #";
            assert_eq!(code == Some(2), is_refused, "{words:?}");
            assert!(!trap.has_sprung(), "{words:?}");
        }
    }
}

/// The same on a terminal: `show` starts the pager that the person named, and nothing else starts anything.
#[test]
fn on_a_terminal_only_show_starts_a_program_and_that_is_the_pager() {
    let trap = furnished();
    trap.dir.put("b", hostile(&trap.program()));
    let log = trap.dir.path().join("log");
    for reader in READERS {
        let under = if reader[0] == "report" { "" } else { "evidence " };
        let words = under.to_owned() + &reader.join(" ").replace('B', "b");
        let line = format!(
            "/usr/bin/strace -f -qq -s 200 -e trace=execve,execveat -e signal=none -o {} {ASSAY} {words}",
            log.display()
        );
        // It makes the terminal; the line has only names of ours in it.
        let mut script = Command::new("/usr/bin/script");
        script.args(["-q", "-e", "-c", &line, "/dev/null"]);
        trap.arm(&mut script).env("SHELL", "/bin/sh").env("TERM", "xterm");
        let output = script.stdin(Stdio::null()).output().expect("script is installed");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let log = fs::read_to_string(&log).unwrap_or_else(|error| panic!("{error}: {told}"));
        let started = log.lines().filter_map(|line| line.split("execve(\"").nth(1)?.split('"').next());
        let started: Vec<&str> = started.skip_while(|program| *program != ASSAY).skip(1).collect();
        if reader[0] == "show" {
            // A shell is asked whether there is such a program, and another runs the line that the person wrote.
            assert_eq!(started, ["/bin/sh", "/bin/sh", &trap.program()], "{log}");
            assert!(log.contains(&format!("[\"/bin/sh\", \"-c\", \"{}\"]", trap.program())), "{log}");
            assert!(trap.has_sprung(), "the pager was started: {told}");
            fs::remove_file(trap.dir.path().join("mark")).expect("the pager's mark");
        } else {
            assert_eq!(started, [""; 0], "{words}: {told}");
            assert!(!trap.has_sprung(), "{words}");
        }
    }
}
