//! A run whose records are kept, and the fixtures that `tests/it/replay.rs` reads.

use std::fs;
use std::path::Path;

use assay::observe::pipeline::Pipeline;
use assay::observe::stream::RecordReader;
use assay::observe::trace::TraceWriter;

use crate::stage::Stage;

/// The folder for new fixtures: set to `tests/fixtures/streams` when the wire format has changed.
const FIXTURES: &str = "ASSAY_FIXTURES";

/// A little of everything.
const SCRIPT: &str = r#"
mkdir d; echo text > d/a; echo more >> d/a; mv d/a d/b; ln -s b d/l; ln d/b hard
cat d/l hard d/none; chmod 600 d/l; touch -h d/l; truncate -s 3 d/b
printf '#!/bin/cat\nscript\n' > s; chmod +x s; ./s; ./none; /etc/passwd
printf 'x' > "$(printf 'a\nb\377')"; rm -r d hard s a*
bash -c ': < /dev/tcp/127.0.0.1/9; : < /proc/self/cwd/none'; true
"#;

#[test]
fn records_that_are_kept_tell_the_same_again() {
    let Some(stage) = Stage::new("replay::records_that_are_kept_tell_the_same_again") else { return };
    let command = ["sh", "-c", SCRIPT];
    // The same wherever the fixtures are made.
    let mut assay = stage.command(&command);
    assay.env("PATH", "/usr/bin:/bin");
    let played = stage.finish(assay);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let told = fs::read_to_string(stage.artifact("trace")).expect("a trace");
    let records = fs::read(stage.artifact("records")).expect("records");

    let mut reader = RecordReader::new(&records[..]).expect("a stream");
    let mut pipeline = Pipeline::new(reader.subject());
    let mut writer = TraceWriter::new(&command.map(|word| word.as_bytes().to_vec()));
    let mut again = String::new();
    while let Some(record) = reader.next_record().expect("a whole record") {
        pipeline.push(record, |observation| writer.line(&observation, &mut again));
    }
    let totals = pipeline.finish(|observation| writer.line(&observation, &mut again));
    again.push_str(&writer.end(totals.ledger.total_lost()));
    assert!(again == told, "the replay tells something else:\n{again}\nthan the run:\n{told}");
    assert!(told.lines().count() > 60, "{told}");

    if let Some(folder) = std::env::var_os(FIXTURES) {
        let folder = Path::new(&folder);
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join("shell.records"), &records).expect("a fixture");
        fs::write(folder.join("shell.trace"), &told).expect("a fixture");
    }
}
