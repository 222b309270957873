//! Whole runs, side by side: a command bare, under `assay sandbox` in its forms, and under strace, in turns.
//!
//! By the clock and of the processors, medians over the rounds; what is compared is always measured in the same rounds. On a
//! machine that others use, the processors' time is the steadier of the two.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use super::spread::Spread;
use super::watched::{Watched, watch};
use crate::step::{command, find, root, run};

/// How much to measure.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Turns each variant of each command gets.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Writes the figures to this file too, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Only commands whose names hold this.
    filter: Option<String>,
}

/// A command that is measured. It runs in an empty directory of its own, as `sh -c`.
struct Workload {
    name: &'static str,
    script: &'static str,
}

const WORKLOADS: [Workload; 8] = [
    Workload { name: "start: `true`", script: "exec true" },
    Workload { name: "python start-up", script: "exec python3 -c pass" },
    Workload { name: "git clone of this repository", script: "git clone --quiet \"$ROOT\" clone" },
    Workload {
        name: "tar of this repository's sources",
        script: "tar -cf out.tar -C \"$ROOT\" assay xtask tests docs",
    },
    Workload {
        name: "find and grep in /usr/include",
        script: "find /usr/include -name '*.h' | xargs grep -l main | wc -l",
    },
    Workload {
        name: "gcc of 20 files",
        script: "for i in $(seq 20); do echo \"int f$i(){return $i;}\" > f$i.c; done; gcc -c f*.c",
    },
    Workload {
        name: "fork and exec, 500 times",
        script: "i=0; while [ $i -lt 500 ]; do /bin/true; i=$((i+1)); done",
    },
    Workload {
        name: "open and close, 100 000 times",
        script: "exec python3 -c \"import os\nfor i in range(100000): os.close(os.open('/etc/hostname', 0))\"",
    },
];

/// By the clock and of the processors, in milliseconds.
#[derive(Clone, Copy)]
struct Measured {
    clock: Spread,
    busy: Spread,
}

impl Measured {
    fn of((clock, busy): &(Vec<f64>, Vec<f64>)) -> Option<Self> {
        Some(Self { clock: Spread::of(clock)?, busy: Spread::of(busy)? })
    }

    fn against(self, bare: Self) -> String {
        let (clock, busy) = (self.clock, self.busy);
        format!(
            "{clock:.1} ms, {:.2}×; {:.1} ms, {:+.1}, {:.2}×",
            clock.median / bare.clock.median,
            busy.median,
            busy.median - bare.busy.median,
            busy.median / bare.busy.median
        )
    }
}

/// A way to run it.
struct Way {
    name: &'static str,
    before: Vec<String>,
}

/// Measures and prints the table.
pub fn execute(options: &Options) -> Result<()> {
    run(command("cargo").args(["build", "--quiet", "--release", "--package", "assay"]))?;
    let place = std::env::temp_dir().join(format!("assay-bench-runs-{}", std::process::id()));
    fs::create_dir(&place)?;
    let result = measure(options, &place);
    fs::remove_dir_all(&place)?;
    result
}

fn measure(options: &Options, place: &Path) -> Result<()> {
    let ways = ways(place)?;
    println!("| command | {} |", ways.iter().map(|way| way.name).collect::<Vec<_>>().join(" | "));
    println!("| --- |{}", " --- |".repeat(ways.len()));
    let wanted =
        |workload: &&Workload| options.filter.as_deref().is_none_or(|part| workload.name.contains(part));
    let mut results = Vec::new();
    for workload in WORKLOADS.iter().filter(wanted) {
        let mut times: Vec<(Vec<f64>, Vec<f64>)> = vec![(Vec::new(), Vec::new()); ways.len()];
        // One round that does not count fills the caches.
        for round in 0..=options.rounds {
            for (way, times) in ways.iter().zip(&mut times) {
                let took = once(workload, way, place)?;
                if round > 0 {
                    times.0.push(took.clock * 1e3);
                    times.1.push(took.busy * 1e3);
                }
            }
        }
        let spreads: Vec<Measured> = times.iter().filter_map(Measured::of).collect();
        let bare = *spreads.first().context("no rounds")?;
        let cells: Vec<String> = spreads.iter().map(|one| one.against(bare)).collect();
        println!("| {} | {} |", workload.name, cells.join(" | "));
        results.push(json_of(workload, &ways, &spreads));
    }
    if let Some(file) = &options.json {
        let text = format!(
            "{{\"unit\":\"ms\",\"rounds\":{},\"kernel\":{},\"commands\":[\n{}\n]}}\n",
            options.rounds,
            quoted(fs::read_to_string("/proc/sys/kernel/osrelease")?.trim()),
            results.join(",\n")
        );
        fs::write(file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

/// One command's figures.
fn json_of(workload: &Workload, ways: &[Way], spreads: &[Measured]) -> String {
    let figures: Vec<String> = ways
        .iter()
        .zip(spreads)
        .map(|(way, spread)| {
            format!(
                "{{\"way\":{},\"median\":{:.2},\"first_quartile\":{:.2},\"third_quartile\":{:.2},\"processors\":{:.2}}}",
                quoted(way.name),
                spread.clock.median,
                spread.clock.first_quartile,
                spread.clock.third_quartile,
                spread.busy.median
            )
        })
        .collect();
    format!("{{\"command\":{},\"ways\":[{}]}}", quoted(workload.name), figures.join(","))
}

/// A text of ours as JSON: nothing in it but quotes and backslashes has to be written otherwise.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn ways(place: &Path) -> Result<Vec<Way>> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let assay = target.join("release/assay").to_str().context("the target folder is UTF-8")?.to_owned();
    let file = |name: &str| place.join(name).to_string_lossy().into_owned();
    let sandbox = |more: &[String]| {
        let mut words = vec![assay.clone(), "sandbox".into(), "--quiet".into(), "--dry-run".into()];
        words.extend(more.iter().cloned());
        words.push("--".into());
        words
    };
    let profile = ["--profile".to_owned(), file("p.yaml"), "--bundle".to_owned(), file("b.tar.gz")];
    let mut traced = profile.to_vec();
    traced.extend(["--trace".to_owned(), file("t.ndjson")]);
    let mut ways = vec![
        Way { name: "bare", before: Vec::new() },
        Way { name: "assay, profile and bundle", before: sandbox(&profile) },
        Way { name: "assay, trace too", before: sandbox(&traced) },
    ];
    if find("strace").is_some() {
        let words = ["strace", "-f", "--seccomp-bpf", "-e", "trace=%file,%process,%network", "-o"];
        let mut before: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        before.push(file("strace"));
        ways.push(Way { name: "strace -f --seccomp-bpf", before });
    }
    Ok(ways)
}

/// One run.
fn once(workload: &Workload, way: &Way, place: &Path) -> Result<Watched> {
    let work = place.join("work");
    fs::create_dir(&work)?;
    let words: Vec<&str> =
        way.before.iter().map(String::as_str).chain(["sh", "-c", workload.script]).collect();
    let took = watch(&words, |command| {
        command.current_dir(&work).env("ROOT", root()).stdin(Stdio::null());
    })?;
    fs::remove_dir_all(&work)?;
    // A dry run that saw something its policy does not authorise ends with 4.
    if !matches!(took.status, 0 | 4) {
        bail!("`{}` under {} ended with {}", workload.name, way.name, took.status);
    }
    Ok(took)
}
