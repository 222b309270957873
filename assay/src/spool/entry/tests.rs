use super::wire::{LineError, LineReader, to_line};
use super::*;
use crate::canon::value::Value;
use crate::canon::{read, write};
use crate::evidence::Component;
use crate::evidence::samples;
use crate::profile::effect::FsOp;
use crate::spool::begun::{Begin, Writer};

fn moment() -> Timestamp {
    Timestamp::new(1_767_323_045).unwrap()
}

fn begin() -> Begin {
    let user = User { uid: 1000, name: Some("ann\\x1b".into()) };
    let writer = Writer { pid: 7, started: 12, boot: "b".into() };
    Begin { user, command: vec!["make".into(), "\u{202e}x".into()], time: moment(), writer }
}

fn files() -> Files {
    [("bundle.tar.gz", 7), ("begun.json", 0)]
        .map(|(name, bytes)| (name.to_owned(), FileFacts { sha256: Digest::of(name.as_bytes()), bytes }))
        .into()
}

fn summary() -> Summary {
    Summary {
        run_id: Some("sandbox_0123456789abcdef".into()),
        digest: Some(Digest::of(b"identity")),
        command: vec!["sh".into(), "-c".into(), "a\nb".into()],
        workdir: Some("/home/ann/x".into()),
        mode: "enforce".into(),
        policy_digest: Some(Digest::of(b"policy")),
        outcome: Some(Outcome::Signal("SIGKILL".into())),
        exit_code: 137,
        verdict: "denied".into(),
        reasons: vec!["1 effect was denied".into()],
        degradations: vec![Degradation::about(Component::Net, "tcp-not-held", "10.0.0.1:5")],
        coverage: Some([Completeness::Complete, Completeness::Partial, Completeness::None]),
        counts: [("fs".to_owned(), u64::MAX)].into(),
        duration_ms: 1 << 60,
        left_out: BTreeMap::new(),
    }
}

fn bodies() -> Vec<Body> {
    let run = |summary| {
        let user = User { uid: u32::MAX, name: None };
        Body::Run(Box::new(Run {
            user,
            begun_at: moment(),
            directory: "a-1".into(),
            files: files(),
            summary,
        }))
    };
    let lost = |begun| {
        let not_whole = vec!["bundle.tar.gz".to_owned()];
        Body::Lost(Box::new(Lost { begun, directory: "a-1".into(), files: files(), not_whole }))
    };
    vec![
        Body::Begun,
        Body::BegunAnew { found: 3 },
        run(summary()),
        run(Summary { left_out: [("command".to_owned(), 1)].into(), ..Summary::default() }),
        run(Summary { outcome: Some(Outcome::Timeout), ..summary() }),
        lost(Some(begin())),
        lost(None),
        Body::Collected(Collected { runs: vec![1, 5], bytes: 9, why: Why::KeepDays(30) }),
        Body::Collected(Collected { runs: vec![u64::MAX], bytes: u64::MAX, why: Why::MaxBytes(0) }),
        Body::Torn(Torn { sha256: Digest::of(b"half"), bytes: 4 }),
    ]
}

fn entry(body: Body) -> Entry {
    Entry { seq: 1 << 60, prev: Digest::of(b"before"), time: moment(), body }
}

#[test]
fn every_entry_is_read_back() {
    for body in bodies() {
        let entry = entry(body);
        assert_eq!(LineReader::default().read(to_line(&entry).as_bytes()), Ok(entry));
    }
}

#[test]
fn a_line_that_is_changed_anywhere_is_another_entry_or_none() {
    let reader = LineReader::default();
    for body in bodies() {
        let entry = entry(body);
        let line = to_line(&entry).into_bytes();
        for at in 0..line.len() {
            for byte in [b'0', b'a', b'"', b' ', 0, 0xff] {
                let mut changed = line.clone();
                changed[at] = byte;
                // Of all texts one stands for an entry.
                if changed != line
                    && let Ok(read) = reader.read(&changed)
                {
                    assert_ne!(read, entry);
                    assert_eq!(to_line(&read).into_bytes(), changed);
                }
            }
            assert!(reader.read(&line[..at]).is_err());
        }
    }
}

#[test]
fn what_is_not_as_the_format_has_it_is_no_entry() {
    let check = |change: &dyn Fn(&mut crate::canon::value::Object), body: Body, expect: &str| {
        let Value::Object(mut object) = read::parse(to_line(&entry(body)).as_bytes()).unwrap() else {
            panic!("an entry is an object")
        };
        change(&mut object);
        let line = write::to_string(&object.into());
        let error = LineReader::default().read(line.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    let run = || bodies().remove(2);
    check(&|run| run.set("schema", "assay.spool-entry/v2"), run(), "another version");
    check(&|run| run.set("more", "x"), run(), "more: not a key of the format");
    check(&|run| run.set("directory", "../x"), run(), "directory");
    check(&|run| run.set("directory", ""), run(), "directory");
    check(&|run| run.set("time", "2026-01-02T03:04:05.5Z"), run(), "time");
    check(&|run| run.set("time", "2026-13-02T03:04:05Z"), run(), "time");
    check(&|run| run.set("exit_code", 256), run(), "exit_code");
    check(&|run| drop(run.remove("files")), run(), "files: missing");
    let named = |name: &'static str| {
        move |run: &mut crate::canon::value::Object| {
            let mut files = run.get("files").and_then(Value::as_object).unwrap().clone();
            let file = files.remove("bundle.tar.gz").unwrap();
            files.set(name, file);
            run.set("files", files);
        }
    };
    for name in ["", ".", "..", ".x", "a/b", "/etc/passwd", "a\u{1b}", "\u{e9}", "-x"] {
        check(&named(name), run(), "files");
    }
    let lost = || bodies().remove(5);
    check(&|lost| lost.set("not_whole", vec!["other".into()]), lost(), "not_whole");
    let collected = || bodies().remove(7);
    check(&|one| one.set("runs", vec![Value::count(5), Value::count(1)]), collected(), "runs");
    check(&|one| one.set("runs", Vec::new()), collected(), "runs: empty");
    let long = format!("\"{}\"", "x".repeat(MOST_BYTES));
    assert_eq!(LineReader::default().read(long.as_bytes()), Err(LineError::Length));
}

#[test]
fn the_longest_run_has_room_in_a_line() {
    // Of all characters these take the most bytes where they are escaped.
    let long = || vec!["\u{1}".repeat(1000); 5000];
    let degradations =
        (0..100_000).map(|n| Degradation::about(Component::Fs, "deny-inside-allow", format!("/{n}")));
    let whole =
        Summary { command: long(), reasons: long(), degradations: degradations.collect(), ..summary() };
    let cut = whole.clone().bounded();
    assert_eq!(cut.left_out["command"], 5000 - cut.command.len() as u64);
    assert_eq!(cut.left_out["degradations"], 100_000 - cut.degradations.len() as u64);
    assert!(cut.command.len() > 50 && cut.degradations.len() > 500);
    assert_eq!(cut.clone().bounded(), cut, "what was cut is not cut again");
    let run = Run {
        user: User { uid: 0, name: None },
        begun_at: moment(),
        directory: "d".into(),
        files: files(),
        summary: cut,
    };
    let line = to_line(&entry(Body::Run(Box::new(run))));
    assert!(line.len() <= MOST_BYTES, "{}", line.len());
    assert_eq!(summary().bounded(), summary());
}

#[test]
fn a_summary_tells_what_the_evidence_says() {
    let degradations = vec![Degradation::about(Component::Net, "tcp-not-held", "10.0.0.1:5")];
    let mut effects = samples::harmless();
    effects.push(samples::fs(FsOp::Read, "/etc/shadow", None, EffectResult::Denied));
    let evidence = samples::evidence(effects, degradations);
    let summary = Summary::of(&evidence);
    assert_eq!(summary.command, evidence.identity.command);
    assert_eq!(summary.run_id, Some(identity::run_id(&identity::digest(&evidence.identity))));
    let effects = evidence.identity.effects.len() as u64;
    assert_eq!(summary.counts["fs"] + summary.counts["exec"] + summary.counts["net"], effects);
    let denied = evidence.identity.effects.iter().filter(|effect| effect.result() == EffectResult::Denied);
    assert_eq!(summary.counts["denied"], denied.count() as u64);
    assert_eq!(summary.counts["denied"], 1);
    assert_eq!(summary.verdict, evidence.observed.verdict);
    assert_eq!(summary.degradations, evidence.identity.degradations);
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        assert!(LineReader::default().read(&bytes).is_err());
        assert_eq!(crate::spool::begun::from_json(&bytes), None);
    }
}
