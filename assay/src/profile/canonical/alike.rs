//! Names with so few drawn characters that only the record says whether chance drew them: as coding agents call the file
//! that tells them where a shell ended, and the copies of a shell's settings.

use std::collections::BTreeSet;

use super::tests::{Run, canonicalize, context};

/// What became of files that a run made in a place for temporary files, read and removed.
fn called(names: &[&str]) -> BTreeSet<String> {
    let mut run = Run::new(1234);
    for name in names {
        let path = format!("/tmp/{name}");
        run.create(&path).read(&path).delete(&path);
    }
    let canonical = canonicalize(context(&["prog"], 1234), &run.observations);
    canonical.identity.effects.iter().map(super::tests::line).collect()
}

/// The run is the same, whatever chance drew.
fn same(runs: &[&[&str]], name: &str) {
    for names in runs {
        let wanted: BTreeSet<String> =
            called(&["stays"]).iter().map(|line| line.replace("stays", name)).collect();
        assert_eq!(called(names), wanted, "{names:?}");
    }
}

#[test]
fn four_drawn_digits_are_known_by_letters_among_them_or_by_others_that_are_called_so() {
    same(
        &[
            &["claude-12bc-cwd"],
            &["claude-21d9-cwd", "claude-65d3-cwd", "claude-6acf-cwd"],
            &["claude-8555-cwd", "claude-b567-cwd", "claude-d1be-cwd", "claude-f581-cwd"],
            // Chance draws the id of the process, too, and letters alone.
            &["claude-1234-cwd", "claude-face-cwd", "claude-9ae6-cwd"],
        ],
        "claude-${RANDOM}-cwd",
    );
    same(&[&["job_9f3e1.log"], &["job_12345.log", "job_0b1c2.log"]], "job_${RANDOM}.log");
}

#[test]
fn letters_alone_were_drawn_where_others_that_are_called_so_have_digits() {
    same(
        &[
            &["b7zk2m4qa.output", "bdgzxkzaj.output"],
            &["b7zk2m4qa.output", "bsvxmftfr.output", "bmmgcd123.output", "b3n9x0c2d.output"],
            &["b7zk2m4qa.output", "b1zk2m4qb.output"],
        ],
        "${RANDOM}.output",
    );
    let told = called(&["b7zk2m4qa.output", "c7zk2m4qa.output", "important.output", "settings2.output"]);
    for name in ["important.output", "settings2.output", "${RANDOM}.output"] {
        assert!(told.iter().any(|line| line.contains(name)), "{name}: {told:?}");
    }
    same(&[&["bdgzxkzaj.output"]], "bdgzxkzaj.output");
}

#[test]
fn numbers_words_and_what_counts_are_no_draws() {
    let stay: &[&[&str]] = &[
        &["report-2024-q", "report-2025-q"],
        &["claude-8555-cwd"],
        &["x-beef-y", "x-cafe-y"],
        &["part-a100-x", "part-b200-x"],
        &["part-000a-x", "part-00ff-x"],
        // A hexadecimal number that counts.
        &["blk-1a2b.d", "blk-1a2c.d", "blk-1a2d.d"],
        &["12bc", "x-12bc", "12bc-x", "x-12BC-y"],
    ];
    for names in stay {
        let told = called(names);
        for name in *names {
            let is_told = |line: &String| line.split(' ').any(|word| word.ends_with(&format!("/{name}")));
            assert!(told.iter().any(is_told), "{name}: {told:?}");
        }
    }
}

/// What looks like a form, or like a hash, and was not made as those make theirs.
#[test]
fn names_that_somebody_gave_stay() {
    let given = [
        "tmp_reports",
        "tmp_results",
        "ccreader",
        "zshprompt",
        "incoming-orders",
        "rustcdriver",
        "go-build1",
        "go-build2",
        "host1rack2row3",
        "host2rack1row3",
        "v1alpha2beta3",
        "report.secret",
    ];
    let mut run = Run::new(1234);
    for name in given {
        run.create(&format!("/srv/{name}"));
    }
    // A word stays in a temporary place, too.
    run.create("/tmp/tmpsettings")
        .delete("/tmp/tmpsettings")
        .create("/tmp/ccconfig.s")
        .delete("/tmp/ccconfig.s");
    let canonical = canonicalize(context(&["prog", "report.XXXXXX"], 1234), &run.observations);
    assert_eq!(canonical.folded, []);
}

#[test]
fn what_stays_or_lies_elsewhere_keeps_its_digits() {
    let mut run = Run::new(1234);
    run.create("/tmp/a-12bc-b")
        .create("/srv/a-12bc-b")
        .delete("/srv/a-12bc-b")
        .read("/tmp/c-12bc-d")
        .delete("/tmp/c-12bc-d");
    let canonical = canonicalize(context(&["prog"], 1234), &run.observations);
    assert_eq!(canonical.folded, []);
}

#[test]
fn what_stands_behind_a_time_was_drawn_unless_it_is_a_word() {
    // The run of the tests' context lies on this day.
    same(
        &[
            &["snapshot-bash-20261129-igeh43.sh"],
            &["snapshot-bash-20261129-iuhdpd.sh"],
            &["snapshot-bash-20261129-0corqr.sh"],
            &["snapshot-bash-20261129-x7zq1k.sh"],
        ],
        "snapshot-bash-${TIME}-${RANDOM}.sh",
    );
    same(&[&["dump-20261129-settings.sql"]], "dump-${TIME}-settings.sql");
    same(&[&["dump-20261129-users.sql"]], "dump-${TIME}-users.sql");
    same(&[&["snapshot-bash-igeh43.sh"]], "snapshot-bash-igeh43.sh");
}
