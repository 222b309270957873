//! Every reader and the writer of bundles, side by side: time and peak memory at two sizes.
//!
//! Time is given twice: as the clock tells it, and as the processors were busy, which is what counts on a machine that
//! others use too.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::spread::Spread;
use super::watched::{Watched, watch};
use crate::step::{command, output, root, run};

/// How much to measure.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Turns each row gets.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many events a bundle has; may be given more than once.
    #[arg(long, default_values_t = [100_000, 1_000_000])]
    events: Vec<usize>,
}

struct Row {
    name: &'static str,
    command: Vec<String>,
}

#[derive(Default)]
struct Measured {
    clock: Vec<f64>,
    busy: Vec<f64>,
    kib: u64,
}

/// Measures and prints the table.
pub fn execute(options: &Options) -> Result<()> {
    run(command("cargo")
        .args(["build", "--quiet", "--release", "--package", "assay", "--bin", "assay"])
        .args(["--example", "evidence-bundles"]))?;
    let place = std::env::temp_dir().join(format!("assay-bench-evidence-{}", std::process::id()));
    fs::create_dir(&place)?;
    let result = measure(options, &place);
    fs::remove_dir_all(&place)?;
    result
}

fn measure(options: &Options, place: &Path) -> Result<()> {
    println!("| what | events | clock | processors | peak memory |\n| --- | ---: | --- | --- | ---: |");
    for &events in &options.events {
        let rows = rows(events, place)?;
        let mut all: Vec<Measured> = rows.iter().map(|_| Measured::default()).collect();
        for _ in 0..options.rounds {
            for (row, measured) in rows.iter().zip(&mut all) {
                once(row, measured)?;
            }
        }
        for (row, measured) in rows.iter().zip(&all) {
            let clock = Spread::of(&measured.clock).context("no rounds")?;
            let busy = Spread::of(&measured.busy).context("no rounds")?;
            let mebibytes = measured.kib.div_ceil(1024);
            println!("| {} | {events} | {clock:.2} s | {busy:.2} s | {mebibytes} MiB |", row.name);
        }
    }
    Ok(())
}

fn rows(events: usize, place: &Path) -> Result<Vec<Row>> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let program = |name: &str| target.join("release").join(name).to_string_lossy().into_owned();
    let file = |name: &str| place.join(format!("{name}-{events}")).to_string_lossy().into_owned();
    let write = |name: &str, different: usize| {
        vec![program("examples/evidence-bundles"), events.to_string(), file(name), different.to_string()]
    };
    let evidence = |words: &[&str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        [program("assay"), "evidence".into()].into_iter().chain(words).collect()
    };
    let (a, near, far) = (file("a"), file("near"), file("far"));
    for (name, different) in [("a", 0), ("near", events / 100), ("far", events)] {
        let words = write(name, different);
        output(command(&words[0]).args(&words[1..]))?;
    }
    let policy = place.join("policy.yaml");
    fs::write(
        &policy,
        "api_version: assay/v1\nfs: {allow: [{path: '${WORKDIR}', access: [read, write]}, /usr]}\nnet: {allow: ['127.0.0.0/8:*']}\n",
    )?;
    let policy = policy.to_string_lossy().into_owned();
    let written = file("written");
    let mut rows = vec![
        Row { name: "make up the evidence and write it", command: write("written", 0) },
        Row { name: "verify", command: evidence(&["verify", &a]) },
        Row { name: "lint", command: evidence(&["lint", &a, "--no-config"]) },
        Row { name: "show", command: evidence(&["show", &a]) },
        Row { name: "show as JSON", command: evidence(&["show", &a, "--format", "json"]) },
        Row { name: "gate with a policy", command: evidence(&["gate", &a, "--policy", &policy]) },
        Row { name: "gate with a baseline", command: evidence(&["gate", &a, "--baseline", &near]) },
        Row { name: "attest, unsigned", command: evidence(&["attest", &a, "--unsigned"]) },
        Row { name: "diff, the same behaviour", command: evidence(&["diff", &a, &written]) },
        Row { name: "diff, a hundredth differs", command: evidence(&["diff", &a, &near]) },
        Row { name: "diff, everything differs", command: evidence(&["diff", &a, &far]) },
        Row {
            name: "diff, everything differs, as JSON",
            command: evidence(&["diff", &a, &far, "--format", "json"]),
        },
    ];
    // What has run once has its files in memory.
    for row in &mut rows {
        once(row, &mut Measured::default())?;
    }
    Ok(rows)
}

fn once(row: &Row, measured: &mut Measured) -> Result<()> {
    let Watched { status, clock, busy, kib } = watch(&row.command, |_| {})?;
    // 1 is an answer: something was found.
    if !(0..=1).contains(&status) {
        bail!("{} ended with {status}", row.name);
    }
    measured.clock.push(clock);
    measured.busy.push(busy);
    measured.kib = measured.kib.max(kib);
    Ok(())
}
