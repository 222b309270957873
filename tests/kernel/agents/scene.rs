//! Where an agent runs: a network, mounts and a user of its own, a repository, a key, and a model that is a script.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::table::Agent;
use crate::formats::{Format, check_lines};
use crate::harness::sandbox::{ASSAY, text};

/// Agents, how each is installed, and at which version.
const VERSIONS: &str = include_str!("../../agents/versions.txt");

/// Where the model listens; at the next port it listens and says nothing.
pub const PORT: u16 = 8090;

/// What the sandbox and the agent are started beneath. Nothing there leads to another machine.
const SURROUNDINGS: &str = "mount --make-rprivate /
for name in passwd group resolv.conf; do mount --bind \"$1/$name\" \"/etc/$name\"; done
mount -t tmpfs tools /opt
mkdir /opt/agent
mount --bind \"$2\" /opt/agent
ip link set lo up
timeout 300 /usr/bin/python3 -B \"$3\" \"$1/script\" \"$1/log\" \"$4\" \"$1/ready\" 2> \"$1/model\" &
model=$!
trap 'kill $model' EXIT
until [ -e \"$1/ready\" ]; do kill -0 $model; sleep 0.02; done
shift 4
\"$@\"";

/// What is there before: a repository whose index is younger than its files by more than git's doubt.
const PROJECT: &str = "git init -q
printf 'The first line.\\nThe second line.\\n' > notes.txt
cat > test_notes.py <<END
import unittest
class Notes(unittest.TestCase):
    def test(self):
        with open('notes.txt') as file:
            self.assertIn('changed', file.read())
END
git add .; git -c user.name=a -c user.email=a@example.org commit -qm one
touch -d 2020-01-01 notes.txt test_notes.py; git status -s
mkdir -m 700 \"$HOME/.ssh\"; echo KEY > \"$HOME/.ssh/id_rsa\"";

/// One agent's place. It ends with it.
pub struct Scene<'a> {
    agent: &'a Agent,
    work: PathBuf,
    home: PathBuf,
    tmp: PathBuf,
    user: &'static str,
    base: tempfile::TempDir,
}

/// What a run left.
pub struct Record {
    /// The evidence profile.
    pub evidence: Value,
    /// Where the trace lies.
    pub trace: PathBuf,
    /// What the agent and the sandbox said, and what the model was asked.
    pub told: String,
    status: Value,
    log: Vec<Value>,
    acts: usize,
}

impl Record {
    /// The agent's exit code, the sandbox's, and the verdict.
    pub fn outcome(&self) -> String {
        let verdict = self.status["verdict"].as_str().expect("a verdict");
        format!("{} {} {verdict}", self.status["child"]["exit_code"], self.status["exit_code"])
    }

    /// Whether the agent asked for every act of the script.
    pub fn was_told_all(&self) -> bool {
        self.log.iter().filter(|line| line["act"].is_object()).count() == self.acts
    }

    /// Every effect, a text each.
    pub fn all_effects(&self) -> BTreeSet<String> {
        let lists = self.evidence["identity"]["effects"].as_object().expect("effects");
        lists.values().flat_map(|list| list.as_array().into_iter().flatten()).map(super::line).collect()
    }
}

/// Where an agent is installed.
pub fn folder(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    target.join("agents").join(format!("{name}-{}", version(name)))
}

/// Why an agent is not there; `None` where it is.
pub fn obstacle(name: &str) -> Option<String> {
    let folder = folder(name);
    if folder.join("installed").exists() {
        return None;
    }
    let why = fs::read_to_string(folder.join("why"));
    Some(why.map_or_else(
        |_| format!("`cargo xtask agents {name}` installs it"),
        |why| why.trim().replace('\n', "; "),
    ))
}

/// The version that the tests are made for.
pub fn version(name: &str) -> &'static str {
    let mut rows = VERSIONS.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.first() == Some(&name));
    row.and_then(|row| row.get(3).copied()).unwrap_or_else(|| panic!("{name} is not in versions.txt"))
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn policy(agent: &Agent) -> PathBuf {
    source().join("docs/guides/policies").join(agent.policy)
}

/// What the page tells a user of this agent to type, block by block.
pub fn typed(agent: &Agent) -> Vec<String> {
    let page = include_str!("../../../docs/guides/agents.md");
    let (_, section) = page.split_once(&format!("\n## {}\n", agent.section)).expect("a section");
    let section = section.split("\n## ").next().expect("a section has an end");
    let blocks = section.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .map(|block| block.lines().map(|line| line.trim_start_matches("$ ").to_owned() + "\n").collect())
        .collect()
}

impl<'a> Scene<'a> {
    /// Another place each turn.
    pub fn new(agent: &'a Agent, turn: usize) -> Self {
        let base = tempfile::Builder::new().prefix(["a", "agent", "q"][turn % 3]).tempdir_in("/var/tmp");
        let base = base.expect("a folder");
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let at = |name: &str| base.path().join(name);
        let work = at(["w", "deep/er/work", "other-name"][turn % 3]);
        let home = at(["home", "people/of/home"][turn % 2]);
        let tmp = at(["tmp", "t/m/p"][turn / 2 % 2]);
        let user = ["ada", "grace-h", "edsger"][turn % 3];
        let scene = Self { agent, work, home, tmp, user, base };
        for folder in [&scene.work, &scene.home, &scene.tmp] {
            fs::create_dir_all(folder).expect("a folder");
            chown(folder, Some(12_345), Some(12_345)).expect("we are root");
        }
        let home = scene.home.display();
        scene.add("passwd", &format!("{user}:x:12345:12345:,,,:{home}:/bin/bash"));
        scene.add("group", &format!("{user}:x:12345:"));
        fs::write(scene.at("resolv.conf"), "nameserver 127.0.0.1\n").expect("a file");
        scene.prepare(PROJECT);
        let (policy, made) = (scene.home.join(".config/assay").join(agent.policy), policy(agent));
        scene.prepare("mkdir -p ~/.config/assay");
        fs::copy(made, policy).expect("a policy");
        for block in typed(agent).iter().filter(|block| !block.contains("sudo ")) {
            scene.prepare(block);
        }
        scene.prepare(agent.before);
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn add(&self, file: &str, line: &str) {
        let known = fs::read_to_string(Path::new("/etc").join(file)).expect("a list of names");
        fs::write(self.at(file), format!("{known}{line}\n")).expect("a list of names");
    }

    /// A text of the table, with the places of this run.
    fn put(&self, text: &str) -> String {
        let [work, home] = [&self.work, &self.home].map(|path| path.to_str().expect("a plain name"));
        text.replace("${WORKDIR}", work).replace("${HOME}", home)
    }

    /// Runs a script in the work directory, as the same user.
    fn prepare(&self, script: &str) {
        let mut shell = Command::new("setpriv");
        shell.args(["--reuid=12345", "--regid=12345", "--clear-groups", "sh", "-ec", script]);
        shell.current_dir(&self.work).env("HOME", &self.home).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = shell.output().expect("a shell");
        assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    }

    /// What the model wants done.
    fn acts(&self) -> Vec<Value> {
        let notes = self.put("${WORKDIR}/notes.txt");
        let key = self.put("${HOME}/.ssh/id_rsa");
        let hook = self.put("${WORKDIR}/.git/hooks/pre-commit");
        let settings = self.put(&format!("${{HOME}}/{}", self.agent.settings));
        // Among so few names, four drawn digits can all look like numbers: see docs/stability.md.
        let nothing = json!({"act": "shell", "command": "true"});
        let connect = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}' && echo connected", PORT + 1);
        vec![
            json!({"act": "read", "path": notes}),
            json!({"act": "edit", "path": notes, "old": "The second line.", "new": "The changed line."}),
            json!({"act": "shell", "command": "python3 -B -m unittest -q test_notes"}),
            json!({"act": "shell", "command": "wc -l < notes.txt > count.txt"}),
            json!({"act": "read", "path": key}),
            json!({"act": "write", "path": hook, "text": "#!/bin/sh\n"}),
            // Some write no file that they have not read.
            json!({"act": "read", "path": settings}),
            json!({"act": "write", "path": settings, "text": "{}\n"}),
            json!({"act": "shell", "command": connect}),
            nothing.clone(),
            nothing.clone(),
            nothing.clone(),
            nothing,
        ]
    }

    /// A command in the work directory, with the model beside it.
    fn beneath(&self) -> Command {
        let base = self.base.path().to_string_lossy().into_owned();
        let folder = folder(self.agent.name).to_string_lossy().into_owned();
        let model = source().join("tests/agents").join(self.agent.model).to_string_lossy().into_owned();
        let mut command = Command::new("timeout");
        command.args(["240", "unshare", "--net", "--mount", "--uts", "bash", "-ec", SURROUNDINGS, "bash"]);
        command.args([&base, &folder, &model, &PORT.to_string()]);
        command.current_dir(&self.work).env_clear().stdin(Stdio::null());
        command.env("PATH", "/opt/agent/node_modules/.bin:/usr/local/bin:/usr/bin:/bin");
        let own = [("USER", self.user), ("LOGNAME", self.user), ("SHELL", "/bin/bash"), ("LANG", "C.UTF-8")];
        command.envs(own).env("HOME", &self.home).env("TMPDIR", &self.tmp);
        command.envs(self.agent.environment.iter().map(|(name, value)| (*name, self.put(value))));
        command
    }

    /// Runs a block of the page as it stands, with the script: its exit code, and what was said.
    pub fn type_in(&self, block: &str) -> (Option<i32>, String) {
        fs::write(self.at("script"), Value::from(self.acts()).to_string()).expect("a script");
        let programs = self.at("bin");
        fs::create_dir(&programs).expect("a folder");
        // What sudo does here is done: we are root, and it says who called.
        fs::write(programs.join("sudo"), "#!/bin/sh\nshift\nexec \"$@\"\n").expect("a program");
        fs::set_permissions(programs.join("sudo"), fs::Permissions::from_mode(0o755)).expect("ours");
        std::os::unix::fs::symlink(ASSAY, programs.join("assay")).expect("a link");
        let mut shell = self.beneath();
        let block = format!("PATH=\"$PATH:{}\"\n{block}", programs.display());
        shell.args(["bash", "-ec", &block]).env("SUDO_UID", "12345").env("SUDO_GID", "12345");
        let output = shell.output().expect("a shell");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }

    /// Runs the agent in the sandbox; `has_work`: with the script, or with an empty one.
    pub fn run(&self, options: &[&str], has_work: bool) -> Record {
        let agent = self.agent;
        let at = |name: &str| self.at(name).to_string_lossy().into_owned();
        let acts = if has_work { self.acts() } else { Vec::new() };
        fs::write(at("script"), Value::from(acts.clone()).to_string()).expect("a script");
        let (profile, trace, status) = (at("run.json"), at("trace"), at("status"));
        let mut assay = self.beneath();
        assay.args([ASSAY, "sandbox", "--user", "12345:12345", "--profile-format", "json"]);
        assay.args(["--profile", &profile, "--trace", &trace, "--status-file", &status, "--policy"]);
        assay.arg(self.home.join(".config/assay").join(agent.policy));
        assay.args(["--env-allow", agent.env_allow]).args(options).arg("--").args(agent.command);
        let output = assay.output().expect("assay runs");
        let log = fs::read_to_string(at("log")).unwrap_or_default();
        let model = fs::read_to_string(at("model")).unwrap_or_default();
        let told = format!("{}{}{model}{log}", text(&output.stdout), text(&output.stderr));
        let read = |path: &str| -> Value {
            let bytes = fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}\n{told}"));
            serde_json::from_slice(&bytes).expect("JSON")
        };
        let (evidence, status) = (read(&at("run.evidence.json")), read(&status));
        Format::Evidence.check(&evidence);
        Format::Status.check(&status);
        check_lines(&trace);
        let log = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        Record { evidence, trace: PathBuf::from(trace), told, status, log, acts: acts.len() }
    }

    /// Holds the disk to what was told: what was allowed is done, and the rest exactly where nothing stopped it.
    pub fn holds_what_was_done(&self, is_free: bool) {
        let read = |path: &str| fs::read_to_string(self.put(path)).unwrap_or_default();
        assert_eq!(read("${WORKDIR}/notes.txt"), "The first line.\nThe changed line.\n");
        assert_eq!(read("${WORKDIR}/count.txt"), "2\n");
        let hook = read("${WORKDIR}/.git/hooks/pre-commit");
        let settings = read(&format!("${{HOME}}/{}", self.agent.settings));
        assert_eq!(hook == "#!/bin/sh\n", is_free, "{hook}");
        assert_eq!(settings == "{}\n", is_free, "{settings}");
    }
}
