use std::path::Path;

use super::*;
use crate::spool::begun::Begin;
use crate::spool::chain::Walked;
use crate::spool::entry::{Summary, User};
use crate::spool::staging::{Staging, Step};

fn moment() -> Timestamp {
    Timestamp::new(1_767_323_045).unwrap()
}

fn begin(uid: u32) -> Begin {
    let writer = Writer { pid: 7, started: 12, boot: "b".into() };
    Begin { user: User { uid, name: None }, command: vec!["make".into()], time: moment(), writer }
}

fn summary(exit_code: u8) -> Summary {
    Summary { exit_code, verdict: "ok".into(), command: vec!["make".into()], ..Summary::default() }
}

struct Place {
    spool: Spool,
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::create(&directory.path().join("spool"), moment()).unwrap();
        Self { spool, directory }
    }

    fn chain(&self) -> std::path::PathBuf {
        self.directory.path().join("spool/chain.ndjson")
    }

    fn staging(&self, text: &str) -> Staging {
        let staging = self.spool.begin(&begin(1000)).unwrap();
        std::fs::write(staging.directory().join("report.md"), text).unwrap();
        staging
    }

    fn recover(&self) -> Vec<Recovered> {
        self.spool.recover(moment(), &|_| false).unwrap()
    }

    fn bodies(&self) -> (Vec<Body>, Walked) {
        let mut bodies = Vec::new();
        let walked = self.spool.walk(None, |_, entry| bodies.extend(entry.map(|entry| entry.body))).unwrap();
        (bodies, walked)
    }

    fn kinds(&self) -> Vec<&'static str> {
        let (bodies, walked) = self.bodies();
        assert_eq!(walked.faults, []);
        bodies.iter().map(Body::kind).collect()
    }

    fn names(&self, beneath: &str) -> Vec<String> {
        let path = self.directory.path().join("spool").join(beneath);
        let mut names: Vec<String> = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_commit_that_is_stopped_anywhere_is_whole_or_lost() {
    for stop in Step::ALL {
        let place = Place::new();
        let mut staging = place.staging("text");
        let name = staging.name().to_owned();
        let stopped = staging.commit_by_steps(summary(3), moment(), &mut |step| {
            if step == stop { Err(SpoolError::Length { bytes: 0, spool: "stopped".into() }) } else { Ok(()) }
        });
        assert!(stopped.is_err());
        drop(staging);
        let is_written = !matches!(stop, Step::FilesSynced | Step::Locked);
        let recovered = place.recover();
        let expect = if is_written { "run" } else { "lost" };
        assert_eq!(place.kinds(), ["begun", expect], "{stop:?}");
        match (recovered.as_slice(), stop) {
            ([Recovered::Lost { seq: 1, lost }], Step::FilesSynced | Step::Locked) => {
                assert_eq!(lost.files["report.md"].bytes, 4);
                assert_eq!(lost.not_whole, Vec::<String>::new());
                assert_eq!(lost.begun, Some(begin(1000)));
            }
            ([Recovered::Settled { seq: 1 }], Step::Written | Step::Synced | Step::Signed)
            | ([], Step::Settled | Step::Done) => {}
            (other, _) => panic!("{stop:?}: {other:?}"),
        }
        assert_eq!(place.names("open"), [""; 0]);
        assert_eq!(place.names("runs"), [name.as_str()]);
        assert_eq!(place.recover(), [], "a second time there is nothing to do");
    }
}

#[test]
fn a_line_that_is_cut_anywhere_is_no_entry_and_is_told() {
    let place = Place::new();
    let mut staging = place.staging("text");
    let before = std::fs::read(place.chain()).unwrap();
    staging
        .commit_by_steps(summary(3), moment(), &mut |step| {
            if step == Step::Written {
                Err(SpoolError::Length { bytes: 0, spool: "".into() })
            } else {
                Ok(())
            }
        })
        .unwrap_err();
    drop(staging);
    let whole = std::fs::read(place.chain()).unwrap();
    // Each takes some waiting for the disk.
    let (begin, end) = (before.len(), whole.len());
    for cut in (begin..end).step_by(41).chain([begin + 1, end - 2, end - 1]) {
        let place = Place::new();
        place.staging("text");
        std::fs::write(place.chain(), &whole[..cut]).unwrap();
        place.recover();
        let expect: &[&str] = match cut {
            _ if cut == before.len() => &["begun", "lost"],
            // Only the line feed is missing.
            _ if cut == whole.len() - 1 => &["begun", "run"],
            _ => &["begun", "torn", "lost"],
        };
        assert_eq!(place.kinds(), expect, "cut at {cut}");
        let told = std::fs::read(place.chain()).unwrap();
        assert!(told.starts_with(&whole[..cut]), "what was there stays");
        // Who closed it was stopped as well.
        if expect[1] == "torn" {
            std::fs::write(place.chain(), &told[..cut + 20]).unwrap();
            place.staging("more").commit(summary(0), moment()).unwrap();
            assert_eq!(place.kinds(), ["begun", "torn", "run"]);
        }
    }
}

#[test]
fn whoever_is_alive_is_left_alone_and_who_was_closed_is_told() {
    let place = Place::new();
    let mut alive = place.staging("alive");
    assert_eq!(place.spool.recover(moment(), &|writer| writer.pid == 7).unwrap(), []);
    assert_eq!(place.names("open"), [alive.name()]);
    let closed = place.recover();
    assert!(matches!(closed.as_slice(), [Recovered::Lost { seq: 1, .. }]));
    let error = alive.commit(summary(0), moment()).unwrap_err();
    assert!(matches!(error, SpoolError::Taken { .. }), "{error}");
    assert_eq!(place.kinds(), ["begun", "lost"]);
}

#[test]
fn a_commit_that_failed_can_be_made_again_and_is_one_entry() {
    let place = Place::new();
    let mut staging = place.staging("text");
    for stop in Step::ALL {
        let stopped = staging.commit_by_steps(summary(0), moment(), &mut |step| {
            if step == stop { Err(SpoolError::Length { bytes: 0, spool: "".into() }) } else { Ok(()) }
        });
        assert!(stopped.is_err());
    }
    let committed = staging.commit(summary(0), moment()).unwrap();
    assert_eq!(place.kinds(), ["begun", "run"]);
    let (_, walked) = place.bodies();
    assert_eq!(walked.head.map(|head| (head.seq, head.sha256)), Some((committed.seq, committed.sha256)));
    assert_eq!(std::fs::read(committed.directory.join("report.md")).unwrap(), b"text");
}

#[test]
fn two_who_recover_at_once_close_each_run_once() {
    let place = Place::new();
    for _ in 0..20 {
        place.staging("text");
    }
    let paths: Vec<_> = (0..4).map(|_| place.spool.path().to_owned()).collect();
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let recover = |path: &Path| {
            let spool = Spool::open(path).unwrap();
            spool.recover(moment(), &|_| false).unwrap().len()
        };
        let running: Vec<_> = paths.iter().map(|path| scope.spawn(move || recover(path))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(counts.iter().sum::<usize>(), 20);
    let kinds = place.kinds();
    assert_eq!((kinds.len(), kinds.iter().filter(|kind| **kind == "lost").count()), (21, 20));
}

#[test]
fn what_is_left_of_a_run_is_told_for_what_it_is() {
    let place = Place::new();
    let staging = place.staging("");
    let put = |name: &str, bytes: &[u8]| std::fs::write(staging.directory().join(name), bytes).unwrap();
    put("bundle.tar.gz", b"no bundle");
    put("trace.ndjson", b"{\"seq\":0}\n{\"se");
    put("evidence.yaml", b"whole as far as anybody can tell");
    put(".assay-7-0.tmp", b"half");
    std::os::unix::fs::symlink("/etc/passwd", staging.directory().join("link")).unwrap();
    std::fs::write(place.directory.path().join("x"), "x").unwrap();
    std::fs::hard_link(place.directory.path().join("x"), staging.directory().join("other-name")).unwrap();
    drop(staging);
    // A run that had not begun, one whose note is damaged, and what is none.
    let open = place.spool.path().join("open");
    std::fs::create_dir(open.join("nothing")).unwrap();
    std::fs::create_dir(open.join("damaged")).unwrap();
    std::fs::write(open.join("damaged/begun.json"), "{").unwrap();
    std::fs::write(open.join("file"), "").unwrap();
    std::os::unix::fs::symlink("/etc", open.join("etc")).unwrap();
    let mut lost = Vec::new();
    let mut removed = Vec::new();
    for one in place.recover() {
        match one {
            Recovered::Lost { lost: one, .. } => lost.push(one),
            Recovered::Removed { directory } => removed.push(directory),
            Recovered::Settled { .. } => panic!("nothing was in the chain"),
        }
    }
    assert_eq!(removed, ["nothing"]);
    let of = |directory: &str| lost.iter().find(|lost| lost.directory.starts_with(directory)).unwrap();
    assert_eq!(of("2026").not_whole, ["bundle.tar.gz", "report.md", "trace.ndjson"]);
    let names: Vec<&String> = of("2026").files.keys().collect();
    assert_eq!(names, ["begun.json", "bundle.tar.gz", "evidence.yaml", "report.md", "trace.ndjson"]);
    assert_eq!((&of("damaged").begun, &of("damaged").not_whole), (&None, &vec!["begun.json".to_owned()]));
    assert_eq!(lost.len(), 2);
    assert_eq!(place.names("open"), ["etc", "file"]);
    assert!(Path::new("/etc/passwd").exists());
}

#[test]
fn each_user_has_what_is_theirs() {
    let place = Place::new();
    let usage = |uid| place.spool.usage(uid).unwrap();
    assert_eq!(usage(1000), crate::spool::usage::Usage::default());
    let note = begun::to_json(&begin(1000)).len() as u64;
    for text in ["12345", "123"] {
        place.staging(text).commit(summary(0), moment()).unwrap();
    }
    let running = place.staging("1");
    place.spool.begin(&begin(7)).unwrap();
    let mine = usage(1000);
    assert_eq!((mine.runs, mine.bytes, mine.open, mine.open_bytes), (2, 8 + 2 * note, 1, 1 + note));
    assert_eq!((usage(7).runs, usage(7).open), (0, 1));
    running.discard().unwrap();
    assert_eq!((usage(1000).open, usage(1000).runs), (0, 2));
    // What somebody else appended is seen, and so is another chain.
    let other = Spool::open(place.spool.path()).unwrap();
    other.begin(&begin(1000)).unwrap().commit(summary(0), moment()).unwrap();
    assert_eq!((usage(1000).runs, usage(1000).bytes), (3, 8 + 3 * note));
    std::fs::remove_file(place.chain()).unwrap();
    assert_eq!(usage(1000).runs, 0);
    place.staging("").commit(summary(0), moment()).unwrap();
    assert_eq!(usage(1000).runs, 1);
    let (bodies, _) = place.bodies();
    assert_eq!(bodies[0], Body::BegunAnew { found: 3 });
}

#[test]
fn what_is_no_file_of_a_run_is_not_committed() {
    let place = Place::new();
    for name in ["a b", ".hidden", "\u{202e}x"] {
        let mut staging = place.staging("text");
        std::fs::write(staging.directory().join(name), "x").unwrap();
        let error = staging.commit(summary(0), moment()).unwrap_err();
        assert!(matches!(error, SpoolError::Foreign { .. }), "{error}");
        staging.discard().unwrap();
    }
    let mut staging = place.staging("text");
    std::os::unix::fs::symlink("/etc/passwd", staging.directory().join("link")).unwrap();
    assert!(matches!(staging.commit(summary(0), moment()), Err(SpoolError::Io { .. })));
    assert_eq!(place.kinds(), ["begun"]);
}

#[test]
fn a_place_that_others_decide_is_no_spool() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let path = place.spool.path();
    let open = |path: &Path| Spool::open(path).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(open(path), "");
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
    let link = place.directory.path().join("link");
    std::os::unix::fs::symlink(path, &link).unwrap();
    assert!(open(&link).contains("open the directory"), "{}", open(&link));
    for beneath in ["", "open", "runs"] {
        let path = path.join(beneath);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o720)).unwrap();
        assert!(open(place.spool.path()).contains("others may write to it"), "{beneath}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    std::fs::remove_file(place.chain()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.chain()).unwrap();
    assert!(Spool::create(path, moment()).is_err());
}
