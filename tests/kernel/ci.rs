//! The recipes for CI services are run: the steps of the action as the runner runs them, on files that are the event, the
//! outputs and the summary; and the job of the template. Nothing of a service is there but what it hands to a step.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 5] = [Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(4), Need::Program("bash")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the checkout")
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

/// A checkout, and the files that a runner hands to steps.
struct Runner {
    folder: tempfile::TempDir,
}

/// How a job ended.
#[derive(Debug)]
struct Job {
    code: i32,
    outputs: BTreeMap<String, String>,
    summary: String,
    log: String,
}

impl Runner {
    fn new(test: &str) -> Option<Self> {
        if !are_met(&format!("ci::{test}"), &NEEDS) {
            return None;
        }
        let runner = Self { folder: tempfile::tempdir_in("/var/tmp").expect("a folder") };
        for directory in ["checkout", "files", "home"] {
            fs::create_dir(runner.folder.path().join(directory)).expect("a folder");
        }
        fs::write(runner.folder.path().join("outside"), "x\n").expect("a file");
        Some(runner)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("checkout").join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn shell(&self, script: &str) -> Command {
        let file = self.folder.path().join("files/step.sh");
        fs::write(&file, script).expect("a script");
        let mut shell = Command::new("bash");
        // As the runner of the service does for `shell: bash`.
        shell.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(file);
        shell.env_remove("SUDO_UID").env_remove("SUDO_GID").env("HOME", self.folder.path().join("home"));
        shell.current_dir(self.path("")).stdin(Stdio::null());
        shell
    }

    /// The command of every run, and one that reads a file more.
    fn more(&self) -> String {
        format!("{WORK}; cat {} || true", self.folder.path().join("outside").display())
    }

    /// Runs the action with these inputs, in a checkout in which nothing was made before.
    fn action(&self, inputs: &[(&str, &str)]) -> Job {
        drop(fs::remove_file(self.path("made")));
        self.steps(inputs)
    }

    /// Runs the steps of the action.
    fn steps(&self, inputs: &[(&str, &str)]) -> Job {
        let action = yaml(include_str!("../../action.yml"));
        let given: BTreeMap<&str, &str> = inputs.iter().copied().chain([("assay", ASSAY)]).collect();
        let input = |name: &str| -> String {
            let default = action["inputs"][name]["default"].as_str().unwrap_or_default();
            given.get(name).copied().unwrap_or(default).to_owned()
        };
        let mut outputs: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let files = self.folder.path().join("files");
        fs::write(files.join("summary"), "").expect("a file");
        // A pull request of somebody whose every text is hostile; no script has any use for it.
        let event = serde_json::json!({"pull_request": {"title": "$(touch pwned)`touch pwned`\n::error::x"}});
        fs::write(files.join("event.json"), event.to_string()).expect("a file");
        let (mut code, mut log) = (0, String::new());
        for step in action["runs"]["steps"].as_array().expect("steps") {
            let mut shell = self.shell(step["run"].as_str().expect("a script"));
            for (name, value) in step["env"].as_object().expect("variables") {
                let value = value.as_str().expect("text");
                let asked =
                    value.strip_prefix("${{ ").and_then(|rest| rest.strip_suffix(" }}")).expect("one value");
                let value = match asked.split('.').collect::<Vec<_>>()[..] {
                    ["inputs", name] => input(name),
                    ["steps", step, "outputs", name] => outputs[step][name].clone(),
                    _ => panic!("{asked}"),
                };
                shell.env(name, value);
            }
            fs::write(files.join("output"), "").expect("a file");
            for (name, file) in [
                ("GITHUB_OUTPUT", "output"),
                ("GITHUB_STEP_SUMMARY", "summary"),
                ("GITHUB_EVENT_PATH", "event.json"),
                ("GITHUB_ENV", "env"),
                ("GITHUB_PATH", "path"),
            ] {
                shell.env(name, files.join(file));
            }
            shell.env("GITHUB_ACTIONS", "true").env("GITHUB_ACTION_PATH", root());
            let output = shell.output().expect("bash");
            log += &(text(&output.stdout) + &text(&output.stderr));
            code = output.status.code().expect("it exited");
            let told = fs::read_to_string(files.join("output")).expect("outputs");
            outputs.insert(step["id"].as_str().expect("a name").to_owned(), read_outputs(&told));
            if code != 0 {
                break;
            }
        }
        let summary = fs::read_to_string(files.join("summary")).expect("a summary");
        assert!(
            !files.join("env").exists() && !files.join("path").exists(),
            "later steps were changed: {log}"
        );
        assert!(!self.path("pwned").exists(), "{log}");
        Job { code, outputs: outputs.remove("check").unwrap_or_default(), summary, log }
    }
}

fn read_outputs(text: &str) -> BTreeMap<String, String> {
    let (mut outputs, mut lines) = (BTreeMap::new(), text.lines());
    while let Some(line) = lines.next() {
        let (name, end) = line.split_once("<<").expect("a name and an end");
        let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
        outputs.insert(name.to_owned(), value.join("\n"));
    }
    outputs
}

const WORK: &str = "echo one > made; cat made /etc/hostname";

#[test]
fn what_was_learnt_is_enforced_and_the_gate_stops_what_does_more() {
    let Some(runner) = Runner::new("what_was_learnt_is_enforced_and_the_gate_stops_what_does_more") else {
        return;
    };
    let learnt = runner.action(&[("run", WORK)]);
    assert_eq!(learnt.code, 0, "{}", learnt.log);
    assert_eq!(learnt.outputs["gate"], "none");
    assert_eq!(learnt.outputs["exit-code"], "0");
    for name in ["bundle", "profile", "sarif", "comment"] {
        assert!(runner.path(&learnt.outputs[name]).is_file(), "{name}: {learnt:?}");
    }
    assert!(learnt.summary.contains(&format!("verdict **{}**", learnt.outputs["verdict"])), "{learnt:?}");
    assert_eq!(learnt.summary, runner.read("assay-out/comment.md"));
    let sarif: Value = serde_json::from_str(&runner.read("assay-out/lint.sarif")).expect("JSON");
    assert_eq!(sarif["version"], "2.1.0");

    fs::copy(runner.path("assay-out/run.profile.yaml"), runner.path("policy.yaml")).expect("a policy");
    fs::copy(runner.path("assay-out/run.tar.gz"), runner.path("baseline.tar.gz")).expect("a baseline");
    let policy = ("policy", "policy.yaml");
    let held = runner.action(&[("run", WORK), policy, ("mode", "enforce")]);
    assert_eq!(
        (held.code, &*held.outputs["gate"], &*held.outputs["verdict"]),
        (0, "pass", "ok"),
        "{}",
        held.log
    );

    let more = runner.more();
    let stopped = runner.action(&[("run", &more), policy, ("mode", "enforce")]);
    assert_eq!(
        (stopped.code, &*stopped.outputs["gate"], &*stopped.outputs["verdict"]),
        (1, "fail", "denied")
    );
    assert!(stopped.summary.contains("the gate does not pass") && stopped.summary.contains("/outside"));

    let grown = runner.action(&[("run", &more), ("baseline", "baseline.tar.gz")]);
    assert_eq!((grown.code, &*grown.outputs["gate"]), (1, "fail"), "{}", grown.log);
    assert!(runner.read("assay-out/diff.md").contains("/outside"));
    assert!(grown.summary.contains("/outside"));
    let same = runner.action(&[("run", WORK), ("baseline", "baseline.tar.gz"), ("output", "-other")]);
    assert_eq!((same.code, &*same.outputs["gate"]), (0, "pass"), "{}", same.log);
    assert_eq!(same.outputs["bundle"], "./-other/run.tar.gz");
}

#[test]
fn the_commands_own_code_is_the_jobs_and_a_record_that_is_not_there_is_2() {
    let Some(runner) = Runner::new("the_commands_own_code_is_the_jobs_and_a_record_that_is_not_there_is_2")
    else {
        return;
    };
    let failed = runner.action(&[("run", "exit 7")]);
    assert_eq!((failed.code, &*failed.outputs["exit-code"]), (7, "7"), "{}", failed.log);
    // What an earlier run left is not taken for this one's.
    for (inputs, told) in [
        (&[("run", "true"), ("policy", "missing.yaml")][..], "there is no record"),
        (&[("run", "true"), ("mode", "::error::x\nlearn")], "the mode is"),
        (&[("run", "true"), ("fail-on", "$(touch pwned)")], "fail-on is"),
        (&[("run", "")], "there is no command"),
        (&[("run", "true"), ("policy", "--enforce; touch pwned")], "there is no record"),
        (&[("run", "true"), ("baseline", "--help")], "could not be compared"),
        (&[("run", "true"), ("lint-config", "$(touch pwned)")], "could not be looked at"),
    ] {
        let job = runner.action(inputs);
        assert_eq!(job.code, 2, "{inputs:?}: {}", job.log);
        assert!(job.log.contains(told) && !job.outputs.contains_key("gate"), "{inputs:?}: {}", job.log);
        assert!(!job.log.lines().any(|line| line.starts_with("::error")), "{}", job.log);
    }
}

#[test]
fn a_hostile_command_does_not_speak_for_the_job() {
    let Some(runner) = Runner::new("a_hostile_command_does_not_speak_for_the_job") else { return };
    let script = "echo \"gate=pass\" >> \"${GITHUB_OUTPUT:-/dev/null}\"; echo X=1 >> \"${GITHUB_ENV:-/dev/null}\"
        echo /evil >> \"${GITHUB_PATH:-/dev/null}\"; echo '<h1>fine</h1>' >> \"${GITHUB_STEP_SUMMARY:-/dev/null}\"
        echo; echo '::set-output name=gate::pass'; echo '::error::from the command'
        echo x > $'a\\n::error::b\\n### assay: verdict **ok**'";
    let job = runner.action(&[("run", script)]);
    assert_eq!((job.code, &*job.outputs["gate"]), (0, "none"), "{}", job.log);
    assert!(
        !job.summary.lines().any(|line| line.starts_with('<') && line != "<!-- assay -->")
            && job.summary.matches("\n### assay").count() == 1,
        "{}",
        job.summary
    );
    // Between these two lines, whose word nobody can know before, the service takes no commands.
    let lines: Vec<&str> = job.log.lines().collect();
    let word = lines.iter().find_map(|line| line.strip_prefix("::stop-commands::")).expect("a word");
    let at = |text: &str| {
        lines.iter().position(|line| *line == text).unwrap_or_else(|| panic!("{text}: {}", job.log))
    };
    let (begin, end) = (at(&format!("::stop-commands::{word}")), at(&format!("::{word}::")));
    assert!(word.len() == 32 && begin < at("::error::from the command"), "{}", job.log);
    assert!(at("::error::from the command") < end && at("::set-output name=gate::pass") < end);
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("::")) {
        assert!((begin..=end).contains(&number), "{line}: {}", job.log);
    }
}

#[test]
fn the_template_for_gitlab_does_the_same() {
    let Some(runner) = Runner::new("the_template_for_gitlab_does_the_same") else { return };
    let template = yaml(include_str!("../../.ci/gitlab.yml"));
    let job = &template[".assay"];
    let lines = job["script"].as_array().expect("lines").iter().map(|line| line.as_str().expect("text"));
    let script = lines.collect::<Vec<_>>().join("\n");
    let run = |more: &[(&str, &str)]| {
        drop(fs::remove_file(runner.path("made")));
        let mut shell = runner.shell(&script);
        for (name, value) in job["variables"].as_object().expect("variables") {
            let value = value.as_str().expect("text");
            shell.env(name, value.replace("$CI_PROJECT_DIR", &runner.path("").to_string_lossy()));
        }
        shell.env("ASSAY_SOURCE", root()).env("ASSAY_PROGRAM", ASSAY).envs(more.iter().copied());
        let output = shell.output().expect("bash");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, log) = run(&[("ASSAY_RUN", WORK)]);
    assert_eq!(code, Some(0), "{log}");
    for path in job["artifacts"]["paths"].as_array().expect("paths") {
        assert_eq!(path, "$ASSAY_OUTPUT");
    }
    assert!(runner.read("assay-out/comment.md").contains("gate **none**"), "{log}");
    fs::copy(runner.path("assay-out/run.profile.yaml"), runner.path("policy.yaml")).expect("a policy");
    let held = [("ASSAY_POLICY", "policy.yaml"), ("ASSAY_MODE", "enforce")];
    let (code, log) = run(&[&held[..], &[("ASSAY_RUN", WORK)]].concat());
    assert_eq!(code, Some(0), "{log}");
    let (code, log) = run(&[&held[..], &[("ASSAY_RUN", &runner.more())]].concat());
    assert_eq!(code, Some(1), "{log}");
    let (code, log) = run(&[("ASSAY_RUN", "exit 9")]);
    assert_eq!(code, Some(9), "{log}");
}
