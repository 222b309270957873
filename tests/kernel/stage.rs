//! A folder, an actor in it, and what assay tells of the actor: line by line, against what the actor itself was told.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use serde_json::Value;

use crate::actor::{self, Step, Told};
use crate::formats::{self, Format};
use crate::harness::sandbox::{sandbox, text};
use crate::needs::{Need, are_met};

/// What every test with an actor needs.
pub const NEEDS: [Need; 3] = [Need::Root, Need::Btf, Need::CgroupV2];

/// A folder for one test, and options for the run.
pub struct Stage {
    folder: tempfile::TempDir,
    base: PathBuf,
    options: Vec<String>,
    /// Shell that runs before, in the shell that becomes assay.
    before: String,
    /// Coverage that is expected: kind and reason. None means that all of it is complete.
    partial: Vec<(&'static str, &'static str)>,
}

/// A run of an actor, or of any command.
#[derive(Debug)]
pub struct Played {
    /// How assay ended.
    pub status: ExitStatus,
    /// The lines of the trace, but for the last.
    pub trace: Vec<Value>,
    /// What the last line says was lost.
    pub lost: u64,
    /// The status file.
    pub outcome: Value,
    /// The evidence profile.
    pub evidence: Value,
    /// The bundle's events.
    pub events: Vec<Value>,
    /// What the actor told; nothing for another command.
    pub told: Told,
    /// What the command printed.
    pub stdout: String,
    /// What we said.
    pub stderr: String,
}

impl Stage {
    /// A folder for this test, or none where it cannot run.
    pub fn new(test: &str) -> Option<Self> {
        if !are_met(test, &NEEDS) {
            return None;
        }
        let folder = tempfile::Builder::new().prefix("assay-stage-").tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("its name");
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::create_dir(base.join("out")).expect("a folder");
        fs::create_dir(base.join("w")).expect("a folder");
        Some(Self {
            folder,
            base: base.join("w"),
            options: Vec::new(),
            before: String::new(),
            partial: Vec::new(),
        })
    }

    /// With one option more.
    pub fn option(mut self, option: &[&str]) -> Self {
        self.options.extend(option.iter().map(|&word| word.to_owned()));
        self
    }

    /// Shell that runs before, in the shell that becomes assay: what it opens is inherited.
    pub fn before(mut self, script: &str) -> Self {
        script.clone_into(&mut self.before);
        self
    }

    /// The coverage of `kind` will be partial, for this reason.
    pub fn partial(mut self, kind: &'static str, reason: &'static str) -> Self {
        self.partial.push((kind, reason));
        self
    }

    /// A path on the stage.
    pub fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// The same as text.
    pub fn at(&self, name: &str) -> String {
        self.path(name).to_str().expect("a plain name").to_owned()
    }

    /// A file with this text.
    pub fn file(&self, name: &str, content: &str) -> &Self {
        fs::write(self.path(name), content).expect("a file");
        self
    }

    /// A folder, and those above it.
    pub fn dir(&self, name: &str) -> &Self {
        fs::create_dir_all(self.path(name)).expect("a folder");
        self
    }

    /// A program that does nothing.
    pub fn program(&self, name: &str) -> &Self {
        fs::write(self.path(name), tiny_program()).expect("a file");
        self.mode(name, 0o755)
    }

    /// A link.
    pub fn link(&self, name: &str, to: &str) -> &Self {
        symlink(to, self.path(name)).expect("a link");
        self
    }

    /// The mode of a file.
    pub fn mode(&self, name: &str, mode: u32) -> &Self {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("a mode");
        self
    }

    /// Gives a file to a user.
    pub fn owner(&self, name: &str, id: u32) -> &Self {
        chown(self.path(name), Some(id), Some(id)).expect("an owner");
        self
    }

    /// Where an artifact lies.
    pub fn artifact(&self, name: &str) -> PathBuf {
        self.folder.path().join("out").join(name)
    }

    /// `assay sandbox` with every artifact we look at.
    pub fn command(&self, command: &[&str]) -> Command {
        let artifact = |name: &str| self.artifact(name).to_str().expect("a plain name").to_owned();
        let [trace, records, bundle, profile, status] =
            ["trace", "records", "bundle.tar.gz", "run.profile.json", "status"].map(artifact);
        let mut options =
            vec!["--dry-run", "--trace", &trace, "--keep-records", &records, "--bundle", &bundle];
        options.extend(["--profile", &profile, "--profile-format", "json", "--status-file", &status]);
        options.extend(self.options.iter().map(String::as_str));
        if options.contains(&"--fail-closed") || options.contains(&"--enforce") {
            options.retain(|&option| option != "--dry-run");
        }
        let plain = sandbox(&options, command);
        let mut assay = if self.before.is_empty() {
            plain
        } else {
            let mut shell = Command::new("bash");
            shell.arg("-ec").arg(format!("{}\nexec \"$0\" \"$@\"", self.before));
            shell.arg(plain.get_program()).args(plain.get_args());
            shell.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
            shell
        };
        assay.current_dir(&self.base).stdout(Stdio::piped()).stderr(Stdio::piped());
        assay
    }

    /// Runs a command to its end and reads what was written.
    pub fn run(&self, command: &[&str]) -> Played {
        self.finish(self.command(command))
    }

    /// Runs `assay` to its end and reads what was written.
    pub fn finish(&self, mut assay: Command) -> Played {
        self.read(&assay.output().expect("assay"))
    }

    /// Reads what was written by a run that has ended, and holds each file against the schema of its format.
    pub fn read(&self, output: &Output) -> Played {
        let read = |name: &str| fs::read_to_string(self.artifact(name));
        let stderr = text(&output.stderr);
        let trace = read("trace").unwrap_or_else(|error| panic!("no trace: {error}; {stderr}"));
        let mut lines: Vec<Value> =
            trace.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        let end = lines.pop().expect("a last line");
        assert_eq!(end["end"], true, "the trace has no end: {stderr}");
        assert_eq!(end["events"], lines.len(), "the trace does not add up");
        lines.iter().chain([&end]).for_each(|line| Format::TraceLine.check(line));
        let json = |name: &str| -> Value {
            let text = read(name).unwrap_or_else(|error| panic!("no {name}: {error}; {stderr}"));
            serde_json::from_str(&text).expect("JSON")
        };
        let (outcome, evidence, profile) =
            (json("status"), json("run.profile.evidence.json"), json("run.profile.json"));
        Format::Status.check(&outcome);
        Format::Evidence.check(&evidence);
        Format::Profile.check(&profile);
        Format::Policy.check(&profile);
        let bundle = self.artifact("bundle.tar.gz");
        Format::Manifest.check(&formats::manifest(&bundle));
        let events = events(&bundle);
        for event in &events {
            Format::Event.check(event);
        }
        let stdout = text(&output.stdout);
        Played {
            status: output.status,
            trace: lines,
            lost: end["lost"].as_u64().expect("a number"),
            outcome,
            evidence,
            events,
            told: serde_json::from_str(&stdout).unwrap_or_default(),
            stdout,
            stderr,
        }
    }

    /// Runs an actor.
    pub fn play(&self, steps: &[Step]) -> Played {
        let command = command_of(steps);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let played = self.run(&command);
        assert!(
            matches!(played.status.code(), Some(0 | 4)) && played.outcome["child"]["exit_code"] == 0,
            "{:?}: {}{}",
            played.status,
            played.outcome,
            played.stderr
        );
        assert_eq!(played.told.returns.len(), actor::count(steps));
        played
    }

    /// Runs these steps; each must be told as the lines beside it say, and by nothing else, with the result that the
    /// step itself got. `$` is the stage.
    pub fn check(&self, script: &[(Step, &str)]) -> Played {
        let steps: Vec<Step> = script.iter().map(|(step, _)| step.clone()).collect();
        let played = self.play(&steps);
        let told: Vec<String> = played.act().iter().map(|line| self.shown(line)).collect();
        let mut expected = Vec::new();
        let mut index = 0;
        for (step, lines) in script {
            let result = result_of(played.told.returns[index]);
            let size = actor::count(std::slice::from_ref(step));
            for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
                // What is within a fork has its result written out.
                let is_whole = line.contains(" = ");
                expected.push(if is_whole { line.to_owned() } else { format!("{line} = {result}") });
            }
            index += size;
        }
        assert!(told == expected, "{}", difference(&expected, &told));
        assert_eq!(played.lost, 0);
        self.check_coverage(&played);
        played
    }

    /// The coverage must be complete but for what was announced.
    pub fn check_coverage(&self, played: &Played) {
        let coverage = &played.evidence["coverage"];
        for kind in ["fs", "exec", "net"] {
            let wanted = if self.partial.iter().any(|(of, _)| *of == kind) { "partial" } else { "complete" };
            assert_eq!(coverage[kind], wanted, "{kind}: {coverage} {}", played.stderr);
            assert_eq!(played.summary()[format!("assaycoverage{kind}")], wanted, "the bundle says otherwise");
        }
        for (_, reason) in &self.partial {
            assert!(coverage["reasons"].to_string().contains(reason), "nothing says {reason}: {coverage}");
        }
    }

    /// A line of the trace as the tests have it.
    pub fn shown(&self, line: &Value) -> String {
        let base = self.base.to_str().expect("a plain name");
        let text = |key: &str| line[key].as_str().map(|text| text.replace(base, "$"));
        let mut shown = line["op"].as_str().expect("an op").to_owned();
        let mut add = |before: &str, key: &str| {
            if let Some(text) = text(key) {
                add_text(&mut shown, before, &text);
            }
        };
        add(" ", "path");
        add(" #", "path_state");
        add(" -> ", "to");
        add(" #", "to_state");
        for (before, key) in [(" < ", "requested"), (" << ", "requested_to")] {
            match line[key].as_str() {
                Some("") => add_text(&mut shown, before, "''"),
                Some(text) => add_text(&mut shown, before, &text.replace(base, "$")),
                None => {}
            }
        }
        let mut add = |before: &str, key: &str| {
            if let Some(text) = text(key) {
                add_text(&mut shown, before, &text);
            }
        };
        add(" by ", "interpreter");
        add(" ", "proto");
        add(" ", "address");
        add(" #", "address_state");
        if line["ephemeral"] == true {
            shown.push_str(":?");
        } else if let Some(port) = line["port"].as_u64() {
            // Writing to a String cannot fail.
            let _ = write!(shown, ":{port}");
        }
        if let Some(access) = line["access"].as_array().filter(|access| !access.is_empty()) {
            let words: Vec<&str> = access.iter().filter_map(Value::as_str).collect();
            let _ = write!(shown, " [{}]", words.join(" "));
        }
        if let Some(kinds) = line["namespaces"].as_array() {
            let words: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            let _ = write!(shown, " [{}]", words.join(" "));
        }
        for word in ["path_only", "exchange", "ephemeral"] {
            if line[word] == true {
                let _ = write!(shown, " {word}");
            }
        }
        let _ = write!(shown, " = {}", line["result"].as_str().expect("a result"));
        shown
    }
}

impl Played {
    /// What the actor did: the lines between its marks.
    pub fn act(&self) -> Vec<Value> {
        let at = |mark: &str| {
            self.trace
                .iter()
                .position(|line| line["path"] == mark || line["requested"] == mark)
                .unwrap_or_else(|| panic!("no {mark} in the trace: {}", self.stderr))
        };
        let (begin, end) = (at(actor::BEGIN), at(actor::END));
        self.trace[begin + 1..end].to_vec()
    }

    /// The bundle's summary.
    pub fn summary(&self) -> &Value {
        self.events_of("assay.sandbox.summary")[0]
    }

    /// The bundle's events of this type.
    pub fn events_of(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == kind).collect()
    }
}

/// Ourselves, as the actor is called.
pub fn program() -> String {
    std::env::current_exe().expect("our own name").to_str().expect("a plain name").to_owned()
}

/// The command that plays these steps.
pub fn command_of(steps: &[Step]) -> Vec<String> {
    let script = serde_json::to_string(steps).expect("JSON");
    let mut command = vec![program(), actor::FLAG.to_owned()];
    // The kernel takes 128 KiB an argument. All of the script is ASCII.
    command.extend(script.as_bytes().chunks(100_000).map(text));
    command
}

/// The word for what a call returned.
pub fn result_of(returned: i64) -> String {
    if (-4095..0).contains(&returned) {
        assay::observe::errno::errno_name(-returned as i32)
    } else {
        "ok".to_owned()
    }
}

/// The first difference, with what lies around it.
fn difference(expected: &[String], told: &[String]) -> String {
    let same = expected.iter().zip(told).take_while(|(one, other)| one == other).count();
    let show = |lines: &[String]| {
        lines
            .iter()
            .skip(same.saturating_sub(2))
            .take(40)
            .fold(String::new(), |text, line| text + "\n  " + line)
    };
    format!("from line {same}:\nexpected:{}\ntold:{}", show(expected), show(told))
}

/// The events of a bundle, read with what is on every machine.
fn events(bundle: &Path) -> Vec<Value> {
    let output = Command::new("tar").arg("-xzOf").arg(bundle).arg("events.ndjson").output().expect("tar");
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn add_text(shown: &mut String, before: &str, text: &str) {
    shown.push_str(before);
    shown.push_str(text);
}

/// A program that does nothing but end with 0: 64-bit ELF, without a loader.
pub fn tiny_program() -> Vec<u8> {
    const AT: u64 = 0x40_0000;
    const CODE: &[u8] = b"\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05";
    let head = 64 + 56;
    let size = head + CODE.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    elf.extend([AT + head, 64, 0].map(u64::to_le_bytes).concat());
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    elf.extend([0, AT, AT, size, size, 4096].map(u64::to_le_bytes).concat());
    elf.extend(CODE);
    elf
}
