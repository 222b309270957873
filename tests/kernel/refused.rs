//! What the system refuses an ordinary user is in the record by its name, and leaves no doubt of the record.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::Value;

use crate::harness::sandbox::run;
use crate::needs::{Need, are_met};

/// Each asks for a file the user may not have. What is beyond a directory that may not be searched is not there to be
/// looked up, or is: both are known.
#[test]
fn what_another_user_is_refused_is_known_by_its_name() {
    if !are_met(
        "refused::what_another_user_is_refused_is_known_by_its_name",
        &[Need::Root, Need::Btf, Need::CgroupV2],
    ) {
        return;
    }
    // What is asked for, what it is, and whether the record vouches for it.
    let cases = [
        ("cat secret", "secret", true),
        ("cat link", "secret", true),
        ("cat ./closed/f", "closed/f", true),
        ("cat closed/there/f", "closed/there/f", true),
        ("cat closed/none", "closed/none", true),
        ("cat closed/no/such/file", "closed/no/such/file", true),
        ("cat closed/f/beyond", "closed/f/beyond", true),
        ("mkdir closed/no/new", "closed/no/new/", true),
        ("rm -f closed/no/old", "closed/no/old", true),
        ("cat open/in/no/such", "closed/no/such", true),
        ("exec closed/no/program", "closed/no/program", true),
        // Where this leads nobody went, so nobody knows.
        ("cat closed/no/../f", "closed/no/../f", false),
    ];
    for (script, want, is_known) in cases {
        let base = tempfile::tempdir().expect("a folder");
        let at = |name: &str| base.path().join(name);
        for folder in ["closed/there", "open"] {
            fs::create_dir_all(at(folder)).expect("a folder");
        }
        for file in ["secret", "closed/f", "closed/there/f"] {
            fs::write(at(file), "x").expect("a file");
            fs::set_permissions(at(file), fs::Permissions::from_mode(0o600)).expect("a mode");
        }
        symlink("secret", at("link")).expect("a link");
        symlink(at("closed"), at("open/in")).expect("a link");
        fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o700)).expect("a mode");
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let plain = |name: &str| at(name).to_string_lossy().into_owned();
        let (profile, status, work) = (plain("p.json"), plain("status"), plain(""));
        let files = ["--profile", &profile, "--profile-format", "json", "--status-file", &status];
        let options = [&["--dry-run", "--user", "65534", "--workdir", &work], &files[..]].concat();
        run(&options, &["sh", "-c", script]);
        let read = |name: &str| -> Value {
            serde_json::from_slice(&fs::read(at(name)).expect("it is there")).expect("JSON")
        };
        let (status, evidence) = (read("status"), read("p.evidence.json"));
        let is_complete = evidence["coverage"]["reasons"] == Value::Array(Vec::new());
        assert_eq!(is_complete, is_known, "{script}: {}", evidence["coverage"]);
        assert_eq!(status["verdict"], if is_known { "ok" } else { "incomplete" }, "{script}: {status}");
        let effects = evidence["identity"]["effects"].as_object().expect("kinds").values();
        let denied =
            effects.flat_map(|kind| kind.as_array().expect("a list")).filter(|e| e["result"] == "denied");
        // A loader that is told to look elsewhere may be refused there too.
        let paths = denied.map(|effect| effect["path"].as_str().expect("a path"));
        let paths: Vec<&str> = paths.filter(|path| path.starts_with("${WORKDIR}")).collect();
        if is_known {
            assert_eq!(paths, [format!("${{WORKDIR}}/{want}")], "{script}");
        }
    }
}
