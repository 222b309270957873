//! What is said when something is not as it was meant, and the code it ends with.

use std::fs::{self, OpenOptions};
use std::process::Command;

use crate::sample::{harmless, of};

fn assay(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    command.args(args);
    command
}

fn stderr_of(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("assay");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_gate_without_terms_names_both() {
    let (code, told) = stderr_of(&mut assay(&["evidence", "gate", "b.tar.gz"]));
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--policy") && told.contains("--baseline"), "{told}");
}

#[test]
fn a_result_that_cannot_be_written_is_trouble() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("p.yaml");
    fs::write(&profile, "api_version: assay/v1\n").expect("a profile");
    let profile = profile.to_str().expect("a plain name");
    let bundle = folder.path().join("b");
    fs::write(&bundle, of(harmless())).expect("a bundle");
    let bundle = bundle.to_str().expect("a plain name");
    for args in [
        &["doctor"][..],
        &["doctor", "--format", "json"],
        &["policy", "check", "--builtin"],
        &["profile", "merge", profile, profile],
        &["completions", "bash"],
        &["report", bundle],
        &["report", "--format", "markdown", bundle],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let (code, told) = stderr_of(assay(args).stdout(full));
        assert_eq!(code, Some(2), "{args:?}: {told}");
        assert!(told.contains("No space left"), "{args:?}: {told}");
    }
}

/// Each mistake is told by what happened, where, and what to do: the words that must be there.
#[test]
fn each_mistake_is_told_with_its_place_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    put("bad.yaml", "api_version: assay/v1\nfs: {alow: [/]}\n");
    put("good.yaml", "api_version: assay/v1\n");
    put("plain", "no program\n");
    let run = |words: &[&str]| -> Vec<String> {
        ["sandbox", "--allow-unobserved"].iter().chain(words).map(|&word| word.to_owned()).collect()
    };
    let plain = |line: &str| line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
    let cases: Vec<(Vec<String>, i32, &[&str])> = vec![
        // Words that are not ours.
        (plain("sandbx -- true"), 2, &["'sandbx'", "'sandbox'"]),
        (plain("evidence verfy x"), 2, &["'verfy'", "'verify'"]),
        (plain("profile merg x"), 2, &["'merg'", "'merge'"]),
        (plain("policy chek x"), 2, &["'chek'", "'check'"]),
        (plain("sandbox --polcy x -- true"), 2, &["'--polcy'", "'--policy'"]),
        (plain("evidence gate x --basline y"), 2, &["'--basline'", "'--baseline'"]),
        (plain("doctor --fix-hint"), 2, &["'--fix-hint'", "'--fix-hints'"]),
        (plain("completions bsh"), 2, &["'bsh'", "'bash'"]),
        (plain("sandbox --descendants kil -- true"), 2, &["'kil'", "'kill'"]),
        // A command without its separator, or none.
        (plain("sandbox true"), 2, &["'true'", "assay sandbox [OPTIONS] -- true"]),
        (plain("sandbox"), 2, &["COMMAND", "behind `--`"]),
        // Values that are none.
        (plain("sandbox --timeout 5x -- true"), 2, &["`5x` is no duration", "1h30m"]),
        (
            plain("sandbox --keep-caps FOO -- true"),
            2,
            &["`FOO` is no capability", "those that are dropped are"],
        ),
        (plain("sandbox --user no-such-user -- true"), 2, &["no-such-user", "there is none of that name"]),
        (plain("sandbox --dry-run --enforce -- true"), 2, &["--dry-run", "--enforce"]),
        (plain("sandbox --profile a --trace a -- true"), 2, &["profile and trace", "written to a"]),
        // Policies.
        (
            plain("sandbox --policy nope.yaml -- true"),
            2,
            &["nope.yaml:1:1:", "it is not there", "policy check --builtin"],
        ),
        (plain("sandbox --policy bad.yaml -- true"), 2, &["bad.yaml:2:6:", "`alow`", "did you mean `allow`"]),
        (plain("policy check ."), 2, &[".:1:1:", "it is a directory"]),
        // Files.
        (plain("evidence verify nope.tar.gz"), 2, &["open nope.tar.gz", "No such file"]),
        (plain("evidence show good.yaml"), 2, &["good.yaml", "integrity/gzip"]),
        (plain("evidence lint --explain no-rule"), 2, &["no rule `no-rule`", "--explain all"]),
        (plain("evidence verify --explain no-code"), 2, &["no code `no-code`", "--explain all"]),
        (plain("evidence attest good.yaml --key nokey"), 2, &["open nokey", "No such file"]),
        (
            plain("profile merge nope.yaml bad.yaml"),
            2,
            &["open nope.yaml", "bad.yaml:2:6:", "did you mean `allow`"],
        ),
        (plain("man plain/x"), 2, &["plain/x", "Not a directory"]),
        // Commands.
        (run(&["--", "no-such-command"]), 127, &["no-such-command", "in no directory of PATH"]),
        (run(&["--", "./no-such-file"]), 127, &["./no-such-file", "No such file"]),
        (run(&["--", "./plain"]), 126, &["./plain", "not executable"]),
        (run(&["--workdir", "/no/such", "--", "true"]), 125, &["/no/such (--workdir)", "No such file"]),
    ];
    for (words, expect, wanted) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
        command.args(&words).current_dir(folder.path()).env("RUST_BACKTRACE", "1");
        let (code, told) = stderr_of(&mut command);
        assert_eq!(code, Some(expect), "{words:?}: {told}");
        for word in wanted {
            assert!(told.contains(word), "{words:?} does not say `{word}`: {told}");
        }
        for word in ["panicked", "stack backtrace", "src/"] {
            assert!(!told.contains(word), "{words:?}: {told}");
        }
    }
}
