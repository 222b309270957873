//! What must hold for any bytes: used by the fuzz targets here, and by `tests/it/mutations.rs` on a stable compiler.

use assay::canon::{read, write};
use assay::evidence::diff::{Outline, Picker, changes};
use assay::evidence::gate::{Gate, Terms};
use assay::evidence::integrity::Limits;
use assay::evidence::lint::Linter;
use assay::evidence::lint::settings::{self, Settings};
use assay::evidence::statement::Draft;
use assay::evidence::verify::{Verified, verify};
use assay::evidence::{archive, dsse};
use assay::report;
use assay::report::show::Head;
use assay::report::text::Paint;

/// Any bytes as JSON: what is read is written and read again as the same.
pub fn json(bytes: &[u8]) {
    if let Ok(value) = read::parse(bytes) {
        let text = write::to_string(&value);
        assert_eq!(read::parse(text.as_bytes()).as_ref(), Ok(&value));
        assert_eq!(read::parse(report::json::to_text(&value).as_bytes()), Ok(value));
    }
}

/// Any bytes as an archive: a verdict, never a panic; what is good can be told by every reader. True when it was good.
pub fn archive(bytes: &[u8]) -> bool {
    match verify(bytes, Limits::FORMAT, |_, _| {}) {
        Ok(verified) => {
            tell(bytes, &verified);
            true
        }
        Err(failure) => {
            assert!(is_harmless(&failure.to_string()), "{failure}");
            false
        }
    }
}

/// Any bytes as the two members of an archive that is whole.
pub fn members(manifest: &[u8], events: &[u8]) -> bool {
    let bundle = archive::write(Vec::new(), manifest, events.len() as u64, |out| out.write_all(events));
    archive(&bundle.expect("a Vec takes everything"))
}

/// Any bytes as an envelope.
pub fn envelope(bytes: &[u8]) {
    if let Ok(envelope) = dsse::from_json(bytes) {
        assert_eq!(dsse::from_json(dsse::to_json(&envelope).as_bytes()), Ok(envelope));
    }
}

/// Any text as a project's settings.
pub fn settings(bytes: &[u8]) {
    if let Err(problems) = settings::parse(&String::from_utf8_lossy(bytes)) {
        assert!(!problems.is_empty());
    }
}

/// Every reader on a good bundle; nothing they print for a person can act on a terminal.
fn tell(bytes: &[u8], verified: &Verified) {
    let settings = Settings::default();
    let (mut linter, mut gate, mut head) =
        (Linter::new(&settings), Gate::new(Terms::default()), Head::default());
    let (mut outline, mut draft, mut shown) = (Outline::default(), Draft::default(), Vec::new());
    verify(bytes, Limits::FORMAT, |manifest, event| {
        linter.event(manifest, event);
        gate.event(manifest, event);
        head.add(event);
        outline.add(event);
        draft.add(event);
        report::show::line(&mut shown, event, Paint::Plain).expect("a Vec takes everything");
    })
    .expect("it was good before");
    outline.finish();
    let findings = linter.finish(verified);
    let mut picker = Picker::of_second();
    verify(bytes, Limits::FORMAT, |_, event| picker.add(event)).expect("it was good before");
    let different = changes(&Outline::default(), &outline, Vec::new(), picker.finish());
    let manifest = &verified.manifest;
    let whole = "a Vec takes everything";
    head.write(&mut shown, verified, Paint::Plain).expect(whole);
    report::text::lint(&mut shown, &findings, verified, Paint::Plain).expect(whole);
    report::diff::text(&mut shown, &different, manifest, manifest, Paint::Plain).expect(whole);
    report::diff::markdown(&mut shown, &different, manifest, manifest).expect(whole);
    report::gate::text(&mut shown, &gate.finish(), verified, Paint::Plain).expect("a Vec takes everything");
    for value in [
        report::json::lint(&findings, verified),
        report::sarif::lint(&findings, "bundle", "0"),
        report::diff::json(&different, manifest, manifest),
    ] {
        shown.extend_from_slice(report::json::to_text(&value).as_bytes());
    }
    read::parse(&draft.finish(verified, "bundle")).expect("a statement is strict JSON");
    let shown = String::from_utf8(shown).expect("text is UTF-8");
    assert!(is_harmless(&shown), "{}", shown.escape_debug());
}

fn is_harmless(text: &str) -> bool {
    !text.contains(|c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}
