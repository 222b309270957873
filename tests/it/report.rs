//! `assay report`: what a person is told of a bundle, and that nothing is made up of what a bundle does not hold.

use assay::evidence::{Component, Degradation};
use assay::profile::effect::FsOp;

use crate::damaged;
use crate::sample::{Dir, assay, bundle, connect, evidence, fs, harmless, of};

#[test]
fn a_bundle_is_told_in_every_form_from_a_file_and_from_stdin() {
    let dir = Dir::new();
    let bytes = of(harmless());
    dir.put("b", &bytes);
    for (format, head) in [
        ("markdown", "# Run report\n\n`make test`\n"),
        ("text", "make test\n\n"),
        ("html", "<!DOCTYPE html>\n<html lang=\"en\">\n"),
    ] {
        let ran = assay(&dir, &["report", "b", "--format", format], b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.starts_with(head), "{ran:?}");
        assert!(ran.stdout.contains("after 1234 ms") && ran.stdout.contains("127.0.0.1:8080"), "{ran:?}");
        assert_eq!(assay(&dir, &["report", "-", "--format", format], &bytes).stdout, ran.stdout);
    }
    // Without a word, a terminal's form; with a name, the form that the name asks for.
    let text = assay(&dir, &["report", "b"], b"").stdout;
    assert_eq!(text, assay(&dir, &["report", "b", "--format", "text"], b"").stdout);
    for (name, head) in [
        ("r.md", "# Run report"),
        ("r.MD", "# Run report"),
        ("r.html", "<!DOCTYPE html>"),
        ("r.HTM", "<!DOCTYPE html>"),
        ("r.txt", "make test"),
    ] {
        let ran = assay(&dir, &["report", "b", "-o", name], b"");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
        assert!(std::fs::read_to_string(dir.path().join(name)).unwrap().starts_with(head), "{name}");
    }
}

#[test]
fn what_a_bundle_does_not_hold_is_said_to_be_missing() {
    let dir = Dir::new();
    let degradation = Degradation { component: Component::Net, reason: "tcp-not-held".into(), detail: None };
    let evidence = evidence(harmless(), vec![degradation]);
    dir.put("b", bundle(&evidence));
    let markdown = assay(&dir, &["report", "b", "--format", "markdown"], b"").stdout;
    for line in [
        "## Processes",
        "A bundle does not tell them.",
        "- net `tcp-not-held`",
        "**What this bundle does not tell:**",
        "- the process tree, and when each process began and ended",
        "| `producer` | `assay 0.1.0` |",
    ] {
        assert!(markdown.lines().any(|there| there == line), "{line}\n{markdown}");
    }
    // No word of it where the run itself tells them.
    let mut whole = Vec::new();
    assay::report::markdown::write(&mut whole, &evidence, assay::report::basis::Basis::Run).unwrap();
    let whole = String::from_utf8(whole).unwrap();
    assert!(whole.contains("None was seen.") && !whole.contains("A bundle"), "{whole}");
    assert!(!markdown.contains("None was seen."), "{markdown}");
    let text = assay(&dir, &["report", "b"], b"").stdout;
    assert!(text.contains("\nWhat this bundle does not tell ("), "{text}");
}

#[test]
fn what_is_not_good_or_no_record_makes_no_report() {
    let dir = Dir::new();
    let check = |args: &[&str], stdin: &[u8], want: &str| {
        let ran = assay(&dir, args, stdin);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(want), "{args:?}: {ran:?}");
    };
    let mut bytes = of(harmless());
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    check(&["report", "-"], &bytes, "error: report stdin: integrity/");
    check(&["report", "-", "-o", "r.md"], &bytes, "error: report stdin: integrity/");
    assert!(!dir.path().join("r.md").exists());
    check(&["report", "gone"], b"", "error: report open gone: ");
    // A good bundle of another program, which does not say what it ran.
    let foreign = damaged::pack(
        include_bytes!("../fixtures/bundles/independent.manifest.json"),
        include_bytes!("../fixtures/bundles/independent.events.ndjson"),
    );
    check(&["report", "-"], &foreign, "it does not say what was run");
    check(&["report", "-"], &foreign, "hint: `assay evidence show` prints what is there");
    check(&["report", "-", "-o", "no/such/r.md"], &of(harmless()), "error: write no/such/r.md: ");
}

#[test]
fn a_hostile_bundle_cannot_change_what_a_report_says() {
    let dir = Dir::new();
    let hostile = "/tmp/`x`|\u{202e}\x1b[2J\n# Denied\n::error::<script>";
    let mut effects = harmless();
    effects.extend([fs(FsOp::Create, hostile), connect(hostile, 1)]);
    effects.sort();
    dir.put("b", of(effects));
    for format in ["markdown", "text"] {
        let ran = assay(&dir, &["report", "b", "--format", format], b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!ran.stdout.contains(['\u{202e}', '\x1b']), "{ran:?}");
        assert!(
            !ran.stdout.lines().any(|line| line.starts_with("# Denied") || line.starts_with("::")),
            "{ran:?}"
        );
        assert!(ran.stdout.contains("<script>"), "{ran:?}");
    }
}
