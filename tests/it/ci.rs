//! The recipes for CI services, as far as they need no run: their files follow the published schemas, their scripts are
//! clean, and no input becomes part of a line of shell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::python;
use crate::sample::Dir;

const ACTION: &str = include_str!("../../action.yml");
const GITLAB: &str = include_str!("../../.ci/gitlab.yml");
const GUIDE: &str = include_str!("../../docs/guides/ci.md");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the checkout")
}

/// Asks the published schema of this name.
fn follows(schema: &str, file: &Path) -> Option<()> {
    let mut check = Command::new(python::programs()?.join("python"));
    check.args(["-I", "-m", "check_jsonschema", "--builtin-schema", schema]).arg(file);
    let output = check.stdin(Stdio::null()).output().expect("start Python");
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", file.display());
    Some(())
}

/// The blocks of a page in this language that hold this word.
fn blocks<'a>(page: &'a str, language: &str, word: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let blocks = page.split(&*fence).skip(1).map(|rest| rest.split("```").next().expect("an end"));
    blocks.filter(|block| block.contains(word)).collect()
}

#[test]
fn the_action_the_template_and_the_recipes_follow_the_published_schemas() {
    if follows("vendor.github-actions", &root().join("action.yml")).is_none() {
        return;
    }
    follows("vendor.gitlab-ci", &root().join(".ci/gitlab.yml"));
    let dir = Dir::new();
    let (github, gitlab) = (blocks(GUIDE, "yml", "runs-on:"), blocks(GUIDE, "yml", "extends:"));
    assert!(!github.is_empty() && !gitlab.is_empty(), "the guide has a recipe for both");
    for (schema, block) in github
        .iter()
        .map(|block| ("vendor.github-workflows", block))
        .chain(gitlab.iter().map(|block| ("vendor.gitlab-ci", block)))
    {
        follows(schema, &dir.put("recipe.yml", block));
    }
    // The check can fail.
    let bad = dir.put("bad.yml", ACTION.replace("using: composite", "using: hope"));
    let mut check = Command::new(python::programs().expect("it is there").join("python"));
    check.args(["-I", "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions"]).arg(bad);
    assert!(!check.output().expect("start Python").status.success());
}

/// What is put into a line of shell is run; so inputs are in the environment, and nowhere else.
#[test]
fn no_input_becomes_part_of_a_line_of_shell() {
    let inputs: Vec<&str> = ACTION
        .split("\ninputs:\n")
        .nth(1)
        .and_then(|rest| rest.split("\noutputs:\n").next())
        .expect("inputs")
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'))
        .filter(|name| !name.starts_with(' '))
        .collect();
    assert!(inputs.len() >= 8, "{inputs:?}");
    let script = fs::read_to_string(root().join(".ci/action/check.sh")).expect("a script")
        + &fs::read_to_string(root().join(".ci/action/find-assay.sh")).expect("a script");
    for input in inputs {
        let used: Vec<&str> =
            ACTION.lines().filter(|line| line.contains(&format!("inputs.{input} "))).collect();
        let [line] = used[..] else { panic!("{input}: {used:?}") };
        let (name, value) = line.trim().split_once(": ").expect("a variable");
        assert!(name.starts_with("ASSAY_") && value == format!("${{{{ inputs.{input} }}}}"), "{line}");
        assert!(script.contains(&format!("${{{name}")), "no script reads {name}");
    }
    let steps = ACTION.split("  steps:\n").nth(1).expect("steps");
    for line in steps.lines().filter(|line| line.contains("${{")) {
        assert!(line.trim().starts_with("ASSAY_"), "{line}");
    }
    for page in [GITLAB, GUIDE] {
        for line in
            page.lines().filter(|line| line.trim_start().trim_start_matches("- ").starts_with("run: "))
        {
            assert!(!line.contains("${{"), "{line}");
        }
    }
}

#[test]
fn the_scripts_are_clean() {
    let scripts = root().join(".ci/action");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&scripts).expect("scripts").map(|entry| entry.expect("an entry").path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    let dir = Dir::new();
    files.push(dir.put("gitlab.sh", gitlab_script()));
    files.push(root().join(".ci/run"));
    let mut check = Command::new("shellcheck");
    check.args(["-x", "-P"]).arg(&scripts).args(&files);
    let output = match check.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("not run: shellcheck: {error}; `cargo xtask setup` installs it");
            return;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The lines of the template's job, as GitLab joins them.
fn gitlab_script() -> String {
    let lines = GITLAB.split("  script:\n").nth(1).and_then(|rest| rest.split("  artifacts:").next());
    let mut script = "#!/usr/bin/env bash\n".to_owned();
    for line in lines.expect("a script").lines().filter(|line| *line != "    - |") {
        let line = line.strip_prefix("    - ").unwrap_or(line);
        script
            .extend([line.strip_prefix('\'').and_then(|line| line.strip_suffix('\'')).unwrap_or(line), "\n"]);
    }
    script
}

/// Runs `find-assay.sh`, with an empty file for its outputs.
fn find(dir: &Dir, program: &str, path: &str) -> (Output, String) {
    let outputs = dir.put("outputs", "");
    let mut script = Command::new("/bin/bash");
    script.arg(root().join(".ci/action/find-assay.sh"));
    script.env_clear().env("PATH", path).env("ASSAY_PROGRAM", program).env("GITHUB_OUTPUT", &outputs);
    let output = script.current_dir(dir.path()).stdin(Stdio::null()).output().expect("a shell");
    (output, fs::read_to_string(outputs).expect("outputs"))
}

/// The outputs of a step, as the service reads them.
fn outputs(text: &str) -> Vec<(String, String)> {
    let (mut outputs, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        let (name, end) = line.split_once("<<").expect("a name and an end");
        let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
        outputs.push((name.to_owned(), value.join("\n")));
    }
    outputs
}

#[test]
fn the_program_is_the_one_that_is_named_or_the_one_on_the_path() {
    let dir = Dir::new();
    let assay = env!("CARGO_BIN_EXE_assay");
    let here = Path::new(assay).parent().expect("a directory").to_str().expect("a plain name");
    for (program, path) in [(assay, "/usr/bin:/bin".to_owned()), ("", format!("{here}:/usr/bin:/bin"))] {
        let (output, told) = find(&dir, program, &path);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(outputs(&told), [("program".to_owned(), assay.to_owned())]);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), assay);
    }
    // A name that would be several outputs, or a command, is one name.
    let odd = dir.path().join("as say\nbundle<<x\n$(touch pwned);`touch pwned`");
    std::os::unix::fs::symlink(assay, &odd).expect("a link");
    let odd = odd.to_str().expect("text");
    let (output, told) = find(&dir, odd, "/usr/bin:/bin");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(outputs(&told).len(), 1, "{told}");
    dir.put("text", "no program");
    for program in ["missing", "text", "/", "-x", "::error::a\n::error::b"] {
        let (output, told) = find(&dir, program, "/usr/bin:/bin");
        assert_eq!((output.status.code(), &*told), (Some(2), ""), "{program}: {output:?}");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(log.lines().count() == 1 && log.starts_with("assay: "), "{program}: {log}");
    }
    let (output, _) = find(&dir, "", "/usr/bin:/bin");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && log.contains("no assay on PATH"), "{log}");
    assert!(!dir.path().join("pwned").exists());
}
