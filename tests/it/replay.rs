//! Records that were kept tell the same again: the whole of the observer behind the ring runs from a file.
//!
//! `tests/fixtures/streams/NAME.records` came off the ring of a real run, `NAME.trace` is what that run told. The kernel
//! test `replay` makes them; see `docs/contributing.md`.

use std::fs;
use std::path::{Path, PathBuf};

use assay::observe::loss::Kind;
use assay::observe::pipeline::Pipeline;
use assay::observe::stream::{RecordReader, StreamError};
use assay::observe::trace::TraceWriter;
use assay_common::WIRE_VERSION;
use assay_common::calls::Op;
use assay_common::kind::RecordKind;
use assay_common::record::{Header, flags};
use zerocopy::{FromBytes as _, IntoBytes as _};

fn streams() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/streams")
}

/// The trace that these records make.
fn replay(records: &[u8], command: &[Vec<u8>]) -> Result<String, StreamError> {
    let mut reader = RecordReader::new(records)?;
    let mut pipeline = Pipeline::new(reader.subject());
    let mut writer = TraceWriter::new(command);
    let mut text = String::new();
    while let Some(record) = reader.next_record()? {
        pipeline.push(record, |observation| writer.line(&observation, &mut text));
    }
    let totals = pipeline.finish(|observation| writer.line(&observation, &mut text));
    text.push_str(&writer.end(totals.ledger.total_lost()));
    assert_eq!(
        totals.records,
        totals.observations + totals.filtered.values().sum::<u64>() + totals.ledger.total_lost(),
        "what comes in must come out or be counted"
    );
    Ok(text)
}

fn fixture(name: &str) -> (Vec<u8>, String) {
    let path = |ending: &str| streams().join(format!("{name}.{ending}"));
    let records = fs::read(path("records")).expect("records that were kept");
    (records, fs::read_to_string(path("trace")).expect("the trace of the same run"))
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(streams())
        .expect("the fixtures")
        .map(|entry| entry.expect("a fixture").file_name().to_string_lossy().into_owned())
        .filter_map(|name| name.strip_suffix(".records").map(str::to_owned))
        .collect();
    names.sort();
    names
}

#[test]
fn kept_records_tell_what_the_run_told() {
    assert!(!names().is_empty(), "no fixtures");
    for name in names() {
        let (records, told) = fixture(&name);
        let again = replay(&records, &[]).expect("a stream of this version");
        for (line, told) in again.lines().zip(told.lines()) {
            assert_eq!(line, told, "{name}");
        }
        assert_eq!(again.lines().count(), told.lines().count(), "{name}");
    }
}

/// Records that were kept when their wire format had the version in their name: told as they were then, or, where this
/// program writes another one, refused with both.
pub fn check_version(path: &Path) {
    let name = path.file_name().expect("a name").to_string_lossy();
    let version: u32 =
        name.trim_start_matches('v').trim_end_matches(".records").parse().expect("a version in the name");
    let records = fs::read(path).expect("records that were kept");
    assert_eq!(records[8..12], version.to_le_bytes(), "{name} is of its version");
    let told = fs::read_to_string(path.with_extension("records.trace")).expect("the trace of the same run");
    for other in [0, version + 1, version + 0x100, u32::MAX] {
        let mut changed = records.clone();
        changed[8..12].copy_from_slice(&other.to_le_bytes());
        if other != WIRE_VERSION {
            check_refused(&changed, other);
        }
    }
    if version == WIRE_VERSION {
        assert_eq!(replay(&records, &[]).expect("a stream of this version"), told);
    } else {
        check_refused(&records, version);
    }
}

fn check_refused(records: &[u8], version: u32) {
    let error = RecordReader::new(records).expect_err("a stream of another version");
    let told = format!("version {version}, this program reads version {WIRE_VERSION}");
    assert!(error.to_string().ends_with(&told), "{error}");
}

/// Wherever a stream is cut, what was whole is told and the rest is an error, never a guess.
#[test]
fn a_stream_that_is_cut_tells_its_beginning_or_says_so() {
    let (records, told) = fixture("shell");
    let whole = told.lines().count() - 1;
    for cut in (0..records.len()).step_by(1_499) {
        match replay(&records[..cut], &[]) {
            Ok(text) => assert!(text.lines().count() - 1 <= whole),
            Err(StreamError::Magic | StreamError::Io(_)) => {}
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
}

/// Any byte of any record may be wrong: the sums hold, and nothing panics.
#[test]
fn a_damaged_record_is_counted_or_told_differently() {
    let (records, _) = fixture("shell");
    let mut damaged = records.clone();
    for at in (20..records.len()).step_by(997) {
        damaged[at] ^= 0x55;
        match replay(&damaged, &[]) {
            Ok(_) | Err(StreamError::Size { .. } | StreamError::Io(_)) => {}
            Err(other) => panic!("damaged at {at}: {other}"),
        }
        damaged[at] = records[at];
    }
}

/// The kernel half says of a name that it may be another's: the act is told, and its kind is partial.
#[test]
fn a_name_that_is_not_confirmed_is_told_and_admitted() {
    let (records, _) = fixture("shell");
    for (op, kind) in [(Op::Unlink, Kind::Fs), (Op::Mkdir, Kind::Fs), (Op::Connect, Kind::Net)] {
        let mut reader = RecordReader::new(records.as_slice()).expect("a stream");
        let mut pipeline = Pipeline::new(reader.subject());
        let mut is_changed = false;
        while let Some(record) = reader.next_record().expect("a record") {
            let (mut header, rest) = Header::read_from_prefix(record).expect("a header");
            let mut record = record.to_vec();
            if !is_changed && header.kind == RecordKind::Call as u16 && header.ret >= 0 {
                header.op = op as u16;
                header.flags |= flags::UNCONFIRMED;
                record = [header.as_bytes(), rest].concat();
                is_changed = true;
            }
            pipeline.push(&record, |_| {});
        }
        assert!(is_changed);
        let ledger = pipeline.finish(|_| {}).ledger;
        let told: Vec<_> = ledger
            .gaps
            .iter()
            .filter(|gap| gap.reason == "name-unconfirmed")
            .map(|gap| (gap.kind, gap.detail.clone()))
            .collect();
        assert_eq!(told, [(kind, op.as_str().to_owned())]);
    }
}
