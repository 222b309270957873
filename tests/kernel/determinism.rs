//! Equal behaviour has equal bytes: from another directory, with another temporary directory, at another time.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::sandbox::{sandbox, text};
use crate::needs::{Need, are_met};

/// What a run left.
struct Left {
    profile: String,
    identity: String,
    run_id: String,
}

/// Runs the script in `work`, where `before` was run first.
fn record(base: &Path, work: &str, before: &str, script: &str) -> Left {
    let work = base.join(work);
    fs::create_dir_all(&work).expect("a folder to work in");
    let ready =
        std::process::Command::new("sh").args(["-ec", before]).current_dir(&work).status().expect("a shell");
    assert!(ready.success(), "{before}");
    let profile = base.join(format!("{}.profile.yaml", work.file_name().expect("a name").to_string_lossy()));
    let output = sandbox(&["--dry-run", "--profile", &profile.to_string_lossy()], &["sh", "-ec", script])
        .current_dir(&work)
        .output()
        .expect("assay runs");
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}: {}", output.status, text(&output.stderr));
    let evidence = fs::read_to_string(profile.with_extension("evidence.yaml")).expect("evidence");
    let section = |from: &str, to: &str| {
        let (_, rest) = evidence.split_once(from).expect("the section begins");
        rest.split_once(to).expect("the section ends").0.to_owned()
    };
    Left {
        profile: fs::read_to_string(&profile).expect("a profile"),
        identity: section("\nidentity:\n", "\ncoverage:\n"),
        run_id: section("\nrun_id: ", "\n"),
    }
}

fn check(name: &str, programs: &[&'static str], before: &str, script: &str) {
    let mut needs = vec![Need::Root, Need::Btf, Need::CgroupV2];
    needs.extend(programs.iter().map(|program| Need::Program(program)));
    if !are_met(&format!("determinism::{name}"), &needs) {
        return;
    }
    let folders: [PathBuf; 2] =
        [tempfile::tempdir(), tempfile::tempdir()].map(|folder| folder.expect("a folder").keep());
    let first = record(&folders[0], "one", before, script);
    let second = record(&folders[1], "elsewhere", before, script);
    for folder in &folders {
        fs::remove_dir_all(folder).expect("it was ours");
    }
    assert_eq!(first.identity, second.identity);
    assert_eq!(first.run_id, second.run_id);
    assert_eq!(first.profile, second.profile);
}

#[test]
fn a_clone_and_a_commit() {
    // Without `gc.auto`, for it lists `objects/17` where the commit's hash, and so its time, made one.
    check(
        "a_clone_and_a_commit",
        &["git"],
        "git init -q src && cd src && for i in 1 2 3; do echo $i > f$i; done && git add . \
         && git -c user.name=a -c user.email=a@example.org commit -qm one --date=2026-01-01T00:00:00Z",
        "git clone -q src dst && cd dst && echo more >> f1 && git -c gc.auto=0 -c user.name=a -c user.email=a@example.org commit -qam two",
    );
}

#[test]
fn a_compiler() {
    check("a_compiler", &["gcc"], "echo 'int main(void){return 0;}' > a.c", "gcc -o a a.c && ./a");
}

#[test]
fn a_virtual_environment() {
    check("a_virtual_environment", &["python3"], "", "python3 -m venv --without-pip v");
}

#[test]
fn pipes_and_editing_in_place() {
    check(
        "pipes_and_editing_in_place",
        &["sed", "awk"],
        "for i in 1 2 3; do echo hello > $i.txt; done",
        "cat *.txt | sort | tee sorted | awk '{print NR}' > n; sed -i s/hello/bye/ *.txt; mktemp > /dev/null; mv 1.txt one",
    );
}

/// Among so many numbers are the ids of all who make the names, where the kernel gives none above 32768.
#[test]
fn names_with_every_number_there_is() {
    check(
        "names_with_every_number_there_is",
        &["seq", "xargs"],
        "",
        "seq -f %.0f.log 1 33000 | xargs touch; seq -f part%.0f 1 33000 | xargs touch; echo x > \"of-$$.pid\"",
    );
}

#[test]
fn one_act_more_is_another_run() {
    if !are_met("determinism::one_act_more_is_another_run", &[Need::Root, Need::Btf, Need::CgroupV2]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let before = "echo x > a; echo y > b; echo 'cat a' > script";
    let first = record(folder.path(), "one", before, ". ./script");
    let second = record(folder.path(), "two", &format!("{before}; echo 'cat b' >> script"), ". ./script");
    assert_ne!(first.run_id, second.run_id);
    assert!(second.identity.contains("${WORKDIR}/b"), "{}", second.identity);
}

/// With `SOURCE_DATE_EPOCH` the archives of two runs are one, byte for byte, though everything about the runs that is no
/// behaviour differs: directories, temporary directories, times, and how often each thing was done.
#[test]
fn archives_of_one_source_date_are_equal() {
    // Twice at least: the first makes the file, and all others write it.
    const SCRIPT: &str = "n=$(od -An -N1 -tu1 /dev/urandom); n=$((n + 2)); while [ $n -gt 0 ]; do cat in > $TMPDIR/out; n=$((n / 2)); done; \
                          rm -f $TMPDIR/out; echo done > result";
    if !are_met(
        "determinism::archives_of_one_source_date_are_equal",
        &[Need::Root, Need::Btf, Need::CgroupV2],
    ) {
        return;
    }
    let record = |work: &str, epoch: &str| {
        let base = tempfile::tempdir().expect("a folder");
        let work = base.path().join(work);
        fs::create_dir_all(&work).expect("a folder to work in");
        fs::write(work.join("in"), "in").expect("a file");
        let [profile, bundle] = ["p.yaml", "b.tar.gz"].map(|name| base.path().join(name));
        let [profile, archive] = [&profile, &bundle].map(|path| path.to_str().expect("a plain name"));
        let output =
            sandbox(&["--dry-run", "--profile", profile, "--bundle", archive], &["sh", "-ec", SCRIPT])
                .current_dir(&work)
                .env("SOURCE_DATE_EPOCH", epoch)
                .output()
                .expect("assay runs");
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}: {}", output.status, text(&output.stderr));
        fs::read(&bundle).expect("a bundle")
    };
    let first = record("one", "1767323045");
    assert!(first == record("some/where/else", "1767323045"), "the archives differ");
    assert!(first == record("third", "1767323045"), "the archives differ");
    assert!(first != record("one", "1767323046"), "the date is in them");
}
