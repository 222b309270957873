//! Whole runs, side by side: a command bare, under `assay sandbox` in its forms, and under strace, in turns.
//!
//! Wall time of each, medians over the rounds; what is compared is always measured in the same rounds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::spread::Spread;
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
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
        // One round that does not count fills the caches.
        for round in 0..=options.rounds {
            for (way, times) in ways.iter().zip(&mut times) {
                let took = once(workload, way, place)?;
                if round > 0 {
                    times.push(took);
                }
            }
        }
        let spreads: Vec<Spread> = times.iter().filter_map(|times| Spread::of(times)).collect();
        let bare = spreads.first().context("no rounds")?.median;
        let cells: Vec<String> = spreads
            .iter()
            .map(|spread| {
                format!("{spread:.1} ms, {:+.1}, {:.2}×", spread.median - bare, spread.median / bare)
            })
            .collect();
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
fn json_of(workload: &Workload, ways: &[Way], spreads: &[Spread]) -> String {
    let figures: Vec<String> = ways
        .iter()
        .zip(spreads)
        .map(|(way, spread)| {
            format!(
                "{{\"way\":{},\"median\":{:.2},\"first_quartile\":{:.2},\"third_quartile\":{:.2}}}",
                quoted(way.name),
                spread.median,
                spread.first_quartile,
                spread.third_quartile
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

/// One run, in milliseconds.
fn once(workload: &Workload, way: &Way, place: &Path) -> Result<f64> {
    let work = place.join("work");
    fs::create_dir(&work)?;
    let mut words = way.before.iter().map(String::as_str).chain(["sh", "-c", workload.script]);
    let mut command = Command::new(words.next().context("a way without a word")?);
    command.args(words).current_dir(&work).env("ROOT", root()).stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status().with_context(|| format!("run {}", way.name))?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    fs::remove_dir_all(&work)?;
    // A dry run that saw something its policy does not authorise ends with 4.
    if !status.success() && status.code() != Some(4) {
        bail!("`{}` under {} ended with {status}", workload.name, way.name);
    }
    Ok(took)
}
