//! Names of any bytes where a run's own names do not come: the place it runs in, its home, its policy, the files that we
//! write; and what is told of them in the status file and beside the identity.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::canonical::hostile;
use crate::formats::Format;
use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// The bytes of a name in its text form.
fn undone(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_else(|| panic!("no name: {value}"));
    assert!(!text.chars().any(assay::profile::name::must_escape), "{text:?} has a raw control");
    assay::profile::name::unescape(text).unwrap_or_else(|| panic!("no text form: {text}"))
}

/// A folder at each place, with the name's own in it.
struct Places {
    base: tempfile::TempDir,
}

impl Places {
    fn new() -> Self {
        Self {
            base: tempfile::Builder::new().prefix("assay-hostile-").tempdir_in("/var/tmp").expect("a folder"),
        }
    }

    fn at(&self, place: &str, name: &[u8]) -> PathBuf {
        let path = self.base.path().join(place).join(OsStr::from_bytes(name));
        fs::create_dir_all(&path).expect("a folder");
        path
    }
}

/// A path as a policy has it, every byte that could mean something in hexadecimal digits.
fn in_policy(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'/';
    bytes(path)
        .into_iter()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("\\x{byte:02x}") })
        .collect()
}

/// Runs a program called so, in a place, from a home and under a policy called so, which is refused a file called so.
fn check(name: &[u8]) {
    let places = Places::new();
    let [work, home, out, secrets] = ["work", "home", "out", "secrets"].map(|place| places.at(place, name));
    let (program, secret) = (work.join(OsStr::from_bytes(name)), secrets.join(OsStr::from_bytes(name)));
    fs::copy("/bin/cat", &program).expect("a program");
    fs::write(&secret, "").expect("a file");
    let not_there = work.join("not-there").join(OsStr::from_bytes(name));
    fs::create_dir(work.join("not-there")).expect("a folder");
    let policy = out.join("policy.json");
    let allow = json!([{"path": "/", "access": ["read", "write", "execute"]}]);
    let deny = [in_policy(&secret), in_policy(&not_there)];
    fs::write(&policy, json!({"api_version": "assay/v1", "fs": {"allow": allow, "deny": deny}}).to_string())
        .expect("a policy");
    let artifacts = ["trace", "records", "bundle.tar.gz", "run.json", "status"].map(|file| out.join(file));
    let mut assay = Command::new(ASSAY);
    assay.args(["--quiet", "sandbox", "--enforce", "--profile-format", "json", "--policy"]).arg(&policy);
    for (option, path) in
        ["--trace", "--keep-records", "--bundle", "--profile", "--status-file"].iter().zip(&artifacts)
    {
        assay.arg(option).arg(path);
    }
    assay.args(["--", "sh", "-c", "\"./$1\" \"$2\" 2>/dev/null; mktemp -p . >/dev/null", "sh"]);
    assay.arg(OsStr::from_bytes(name)).arg(&secret);
    assay.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    let output = assay.current_dir(&work).env("HOME", &home).output().expect("assay");
    let stderr = text(&output.stderr);

    let read = |file: &str| -> Value {
        let text =
            fs::read_to_string(out.join(file)).unwrap_or_else(|error| panic!("{file}: {error}; {stderr}"));
        serde_json::from_str(&text).expect("JSON")
    };
    let status = read("status");
    Format::Status.check(&status);
    assert_eq!((&status["child"]["exit_code"], &status["exit_code"]), (&json!(0), &json!(0)), "{stderr}");
    let written: BTreeSet<Vec<u8>> = status["artifacts"]
        .as_object()
        .expect("artifacts")
        .values()
        .map(|one| undone(&one["path"]))
        .collect();
    let files = ["trace", "records", "bundle.tar.gz", "run.json", "run.evidence.json", "run.json.report.md"];
    assert_eq!(written, files.iter().map(|file| bytes(&out.join(file))).collect());
    let evidence = read("run.evidence.json");
    Format::Evidence.check(&evidence);
    let of_work = |text: &str| -> Vec<u8> {
        let rest =
            text.strip_prefix("${WORKDIR}").unwrap_or_else(|| panic!("{text} is beneath the work directory"));
        [bytes(&work), undone(&json!(rest))].concat()
    };
    // What could not be held, in both.
    for degradations in [&status["degradations"], &evidence["identity"]["degradations"]] {
        let degradations = degradations.as_array().expect("degradations").iter();
        let details = degradations.filter(|one| one["reason"] == "deny-not-yet-existing");
        let details: Vec<Vec<u8>> =
            details.map(|one| of_work(one["detail"].as_str().expect("a name"))).collect();
        assert_eq!(details, [bytes(&not_there)]);
    }

    let observed = &evidence["observed"];
    assert_eq!(undone(&observed["roots"]["WORKDIR"]), bytes(&work));
    assert_eq!(undone(&observed["roots"]["HOME"]), bytes(&home));
    let programs = observed["programs"].as_object().expect("programs").keys();
    let programs: Vec<&String> = programs.filter(|path| path.starts_with("${WORKDIR}/")).collect();
    assert_eq!(programs.len(), 1, "{programs:?}");
    assert_eq!(of_work(programs[0]), bytes(&program));
    let folded = observed["folded"].as_array().expect("folds");
    let drawn = folded.iter().find(|fold| fold["to"] == "${WORKDIR}/tmp.${RANDOM}").expect("a fold");
    assert!(undone(&drawn["from"]).starts_with(&[bytes(&work), b"/tmp.".to_vec()].concat()), "{drawn}");
    let refused = observed["effects"]["fs"].as_array().expect("effects").iter();
    let refused: Vec<&Value> = refused.filter(|effect| effect["result"] == "denied").collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    let refused = refused[0];
    assert_eq!(undone(&refused["path"]), bytes(&secret));
    assert_eq!(of_work(refused["by"]["program"].as_str().expect("a name")), bytes(&program));
    assert_eq!(undone(&refused["by"]["comm"]), name[..name.len().min(15)]);
    assert_eq!(unescaped(refused["refused"]["rule"].as_str().expect("a rule")), bytes(&secret));
    let at = refused["refused"]["at"].as_str().expect("a place").rsplitn(3, ':').last().expect("a file");
    assert_eq!(undone(&json!(at)), bytes(&policy));
    let argv = observed["processes"].as_array().expect("processes").iter();
    let argv = argv.flat_map(|process| process["programs"].as_array().expect("programs"));
    let argv: Vec<Vec<Vec<u8>>> =
        argv.map(|argv| argv.as_array().expect("arguments").iter().map(undone).collect()).collect();
    assert!(argv.contains(&vec![[b"./", name].concat(), bytes(&secret)]), "{argv:?}");
    let trace = fs::read_to_string(out.join("trace")).expect("a trace");
    let comm = trace.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut comm = comm.filter(|line| line["op"] == "open" && line["result"] == "EACCES");
    assert!(comm.any(|line| undone(&line["comm"]) == name[..name.len().min(15)]));
}

/// The bytes of a pattern without any that mean something.
fn unescaped(pattern: &str) -> Vec<u8> {
    assay::profile::name::unescape(pattern).unwrap_or_else(|| panic!("no text form: {pattern}"))
}

#[test]
fn names_of_any_bytes_come_back_from_the_status_file_and_from_what_is_observed() {
    let test = "hostile_places::names_of_any_bytes_come_back_from_the_status_file_and_from_what_is_observed";
    if are_met(test, &[Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(1)]) {
        for name in hostile() {
            check(&name);
        }
    }
}

/// A path of as many bytes as there can be: of what we write, and of what the run was refused.
#[test]
fn the_longest_path_comes_back_from_the_status_file_and_from_what_is_observed() {
    let test = "hostile_places::the_longest_path_comes_back_from_the_status_file_and_from_what_is_observed";
    if !are_met(test, &[Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(1)]) {
        return;
    }
    let places = Places::new();
    let mut folder = places.at("deep", b"x");
    while bytes(&folder).len() + 252 < 4095 {
        folder.push("d".repeat(250));
    }
    fs::create_dir_all(&folder).expect("folders");
    let left = 4095 - bytes(&folder).len() - 1;
    let long = |byte: u8| folder.join(OsStr::from_bytes(&vec![byte; left]));
    let policy = places.base.path().join("policy.json");
    let allow =
        json!([{"path": "/usr", "access": ["read", "execute"]}, {"path": "/etc", "access": ["read"]}]);
    fs::write(&policy, json!({"api_version": "assay/v1", "fs": {"allow": allow}}).to_string())
        .expect("a policy");
    let (secret, status) = (long(b'\n'), places.base.path().join("status"));
    fs::write(&secret, "").expect("a file");
    let profile = places.base.path().join("run.json");
    for (byte, kind, option) in
        [(0xff, "trace", "--trace"), (b'$', "records", "--keep-records"), (b'`', "bundle", "--bundle")]
    {
        let artifact = long(byte);
        let mut assay = Command::new(ASSAY);
        assay.args(["--quiet", "sandbox", "--enforce", "--profile-format", "json"]);
        assay.arg("--policy").arg(&policy).arg("--profile").arg(&profile).arg("--status-file").arg(&status);
        assay.arg(option).arg(&artifact).args(["--", "/usr/bin/cat"]).arg(&secret);
        assay.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
        let output = assay.current_dir("/").output().expect("assay");
        let read = |path: &Path| -> Value {
            let text = fs::read_to_string(path).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
            serde_json::from_str(&text).expect("JSON")
        };
        let told = read(&status);
        assert_eq!(told["child"]["exit_code"], 1, "{}", text(&output.stderr));
        assert_eq!(undone(&told["artifacts"][kind]["path"]), bytes(&artifact));
        assert!(fs::metadata(&artifact).expect("the artifact").len() > 0);
        let evidence = read(&places.base.path().join("run.evidence.json"));
        let effects = evidence["observed"]["effects"]["fs"].as_array().expect("effects").iter();
        let refused: Vec<Vec<u8>> = effects
            .filter(|effect| effect["result"] == "denied")
            .map(|effect| undone(&effect["path"]))
            .collect();
        assert_eq!(refused, [bytes(&secret)]);
    }
}
