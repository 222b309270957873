//! Memory does not grow with the events of a bundle: each reader, and the writer, at two sizes of which one is ten times
//! the other. Peak memory as the kernel counts it of the program itself; no time is taken.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::process::{Command, Stdio};

use assay::evidence::events::Emission;
use assay::evidence::timestamp::Timestamp;
use assay::evidence::{Evidence, bundle};
use assay::profile::effect::{Effect, FsOp};

use crate::sample::{Dir, evidence, exec, fs as file};

/// How many events the larger bundle has, unless the environment says another number; the smaller has a tenth. As many as
/// make what is kept of each event stand out from what a process takes anyway, and no more: nothing here is optimised.
const EVENTS: usize = 20_000;

/// `ASSAY_EVENTS=200000 cargo test -p assay --test it memory -- --nocapture` for another size, and the figures.
const SIZE: &str = "ASSAY_EVENTS";

/// Tells this program, started again, to write a bundle of so many events; and the third, how many of them are others.
const WRITE: &str = "ASSAY_TEST_WRITE_BUNDLE";

/// Runs each command of a list and says how it ended and its peak memory in KiB: only a parent process is told that, and
/// Rust's library does not ask.
const WATCH: &str = "\
import json, os, sys
told = []
for words in json.load(sys.stdin):
    with open(os.devnull, 'w') as nothing:
        streams = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), 1)]
        child = os.posix_spawn(words[0], words, os.environ, file_actions=streams)
        _, status, used = os.wait4(child, 0)
        told.append([os.waitstatus_to_exitcode(status), used.ru_maxrss])
json.dump(told, sys.stdout)
";

/// What a run does that touches very many files; `others` of the names are not those of another such run.
fn touching(count: usize, others: usize) -> Evidence {
    let mut effects: Vec<Effect> = (0..count)
        .map(|n| {
            let word = if n < others { "lib" } else { "src" };
            let path =
                format!("${{WORKDIR}}/node_modules/package-{}/{word}/part-{}/module-{n}.js", n % 997, n % 31);
            match n % 20 {
                0 => exec(&format!("/usr/lib/tool/bin/helper-{n}")),
                1..10 => file(FsOp::Create, &path),
                _ => file(FsOp::Read, &path),
            }
        })
        .collect();
    effects.sort();
    let mut evidence = evidence(Vec::new(), Vec::new());
    evidence.identity.effects = effects;
    evidence
}

/// A figure of our own process in KiB.
fn own(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("our status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a figure of memory");
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().expect("a number")
}

/// Writes the bundle and says by how many KiB the peak lay above what the evidence had taken before.
fn write_and_tell(words: &str) {
    let mut words = words.splitn(3, ' ');
    let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
    let evidence = touching(number(), number());
    let path = words.next().expect("a path");
    let emission = Emission {
        time: Timestamp::new(1_767_323_045).expect("a moment of 2026"),
        producer: "assay".into(),
        version: "0.1.0".into(),
        git: "unknown".into(),
        is_reproducible: true,
    };
    // From here on the peak is that of the writing.
    fs::write("/proc/self/clear_refs", "5").expect("to forget the peak");
    let before = own("VmRSS");
    let out = BufWriter::new(File::create(path).expect("a file"));
    bundle::write(&evidence, &emission, out).expect("a bundle");
    println!("grew by {} KiB", own("VmHWM").saturating_sub(before));
}

/// Makes a bundle in a process of its own; how many KiB the writing took.
fn write(dir: &Dir, name: &str, count: usize, others: usize) -> u64 {
    let path = dir.path().join(name);
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "memory::memory_does_not_grow_with_the_events_of_a_bundle", "--nocapture"])
        .env(WRITE, format!("{count} {others} {}", path.display()))
        .output()
        .expect("this program, again");
    let told = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let kib = told.split("grew by ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    kib.unwrap_or_else(|| panic!("no figure: {told}"))
}

/// By how many bytes for each effect the writer's peak may be higher: it keeps eight to put them in order, in a list that
/// grows by doubling.
const OF_WRITER: u64 = 16;

/// Two runs of one command differ by so many KiB in what the kernel counts.
const NOISE: u64 = 1024;

/// The readers, and by how many bytes for each event their peak may be higher: what is kept of each event to compare it
/// (16 bytes, of both bundles), or of the identity's text, deflated. `B` is a bundle, `C` another with other names in a
/// hundredth of it.
const READERS: &[(&[&str], u64)] = &[
    (&["verify", "B"], 0),
    (&["lint", "B", "--no-config"], 16),
    (&["lint", "B", "--no-config", "--format", "sarif"], 16),
    (&["show", "B"], 0),
    (&["show", "B", "--format", "json"], 0),
    (&["export", "B", "--format", "jsonl"], 0),
    (&["export", "B", "--format", "perfetto"], 0),
    (&["gate", "B", "--policy", "policy.yaml"], 16),
    (&["gate", "B", "--baseline", "B"], 48),
    (&["attest", "B", "--unsigned"], 32),
    (&["diff", "B", "B"], 40),
    (&["diff", "B", "C", "--format", "json"], 64),
];

#[test]
fn memory_does_not_grow_with_the_events_of_a_bundle() {
    if let Ok(words) = std::env::var(WRITE) {
        return write_and_tell(&words);
    }
    let dir = Dir::new();
    dir.put(
        "policy.yaml",
        "api_version: assay/v1\nfs: {allow: [{path: '${WORKDIR}', access: [read, write]}, \
         {path: /usr/lib/tool/bin, access: [read, execute]}]}\n",
    );
    let size = std::env::var(SIZE).map_or(EVENTS, |text| text.parse().expect("a number of events"));
    let more = (size - size / 10) as u64;
    let few = write(&dir, "few", size / 10, 0);
    let many = write(&dir, "many", size, 0);
    write(&dir, "few-others", size / 10, size / 1000);
    write(&dir, "many-others", size, size / 100);
    println!("write: {few} KiB, {many} KiB");
    assert!(many <= few + more * OF_WRITER / 1024 + NOISE, "writing: {few} KiB, then {many} KiB");

    let of = |words: &[&str], (b, c): (&str, &str)| -> Vec<String> {
        let word = |word: &&str| match *word {
            "B" => b.to_owned(),
            "C" => c.to_owned(),
            other => other.to_owned(),
        };
        [env!("CARGO_BIN_EXE_assay"), "evidence"]
            .map(str::to_owned)
            .into_iter()
            .chain(words.iter().map(word))
            .collect()
    };
    let commands: Vec<Vec<String>> = READERS
        .iter()
        .flat_map(|(words, _)| [("few", "few-others"), ("many", "many-others")].map(|names| of(words, names)))
        .collect();
    let mut python = Command::new("python3")
        .args(["-c", WATCH])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let list = serde_json::to_vec(&commands).expect("JSON");
    python.stdin.take().expect("a pipe").write_all(&list).expect("to be read");
    let output = python.wait_with_output().expect("python3");
    let told: Vec<(i32, u64)> = serde_json::from_slice(&output.stdout).expect("JSON");
    for ((words, per_event), pair) in READERS.iter().zip(told.chunks(2)) {
        let [(few_code, few), (many_code, many)] = pair else { unreachable!("each was run twice") };
        println!("{}: {few} KiB, {many} KiB", words.join(" "));
        assert_eq!(few_code, many_code, "{words:?}");
        assert!([0, 1].contains(many_code), "{words:?}: {many_code}");
        assert!(*many <= few + more * per_event / 1024 + NOISE, "{words:?}: {few} KiB, then {many} KiB");
        assert!(*many < 64 << 10, "{words:?}: {many} KiB");
    }
}
