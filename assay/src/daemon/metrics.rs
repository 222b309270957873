//! What the service counts, as text of the `OpenMetrics` format 1.0: a table of families, and one page. Pure.

use core::time::Duration;
use std::fmt::{Display, Write as _};

use super::counts::{Counts, Histogram};
use super::report::Tally;

/// What the answer's `Content-Type` is.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What kind of number a family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many did not exceed each of some bounds.
    Histogram,
    /// A constant, in its labels.
    Info,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }

    /// How the names of its samples end.
    pub fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["_total"],
            Self::Gauge => &[""],
            Self::Histogram => &["_bucket", "_sum", "_count"],
            Self::Info => &["_info"],
        }
    }
}

/// A family of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What kind of numbers.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it is.
    pub help: &'static str,
}

const fn family(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind, labels, help }
}

const BUILD: Family = family("assay_build", Kind::Info, &["version"], "Which version this is.");
const STARTED: Family =
    family("assay_start_time_seconds", Kind::Gauge, &[], "When the service started, since 1970.");
const LOAD: Family =
    family("assay_load_seconds", Kind::Gauge, &[], "How long it took to load and attach the programs.");
const RUNNING: Family = family("assay_runs_running", Kind::Gauge, &[], "Runs that go on.");
const WAITING: Family =
    family("assay_connections_waiting", Kind::Gauge, &[], "Connections that have not started a run.");
const ENDED: Family =
    family("assay_runs", Kind::Counter, &["verdict"], "Runs that ended, by what they came to.");
const REFUSED: Family =
    family("assay_refused", Kind::Counter, &["reason"], "Connections that got no run, by the reason.");
const DIED: Family = family(
    "assay_workers_died",
    Kind::Counter,
    &[],
    "Workers that ended without saying what came of their connection.",
);
const RECORDS: Family = family("assay_records", Kind::Counter, &[], "Records read.");
const LOST: Family =
    family("assay_records_lost", Kind::Counter, &[], "Records lost, each counted in its run.");
const LAG: Family = family(
    "assay_run_lag_seconds",
    Kind::Histogram,
    &["le"],
    "The longest time between an act and the reading of its record, for each run that ended.",
);
const LENGTH: Family = family(
    "assay_run_seconds",
    Kind::Histogram,
    &["le"],
    "How long the command ran, for each run that ended.",
);
const MEMORY: Family = family(
    "assay_resident_bytes",
    Kind::Gauge,
    &["process"],
    "Resident memory of the service and of its workers together; what they share is counted in each.",
);
const SPOOLED: Family =
    family("assay_spool_written_bytes", Kind::Counter, &[], "Bytes that runs added to the spool.");
const ENTRIES: Family = family("assay_spool_entries", Kind::Gauge, &[], "Entries in the chain of the spool.");
const FREE: Family =
    family("assay_spool_free_bytes", Kind::Gauge, &[], "Bytes that are free where the spool lies.");
const PROGRAM_SECONDS: Family = family(
    "assay_program_seconds",
    Kind::Counter,
    &["program"],
    "Time spent in each program of the kernel half, where kernel.bpf_stats_enabled is on.",
);
const PROGRAM_RUNS: Family = family(
    "assay_program_runs",
    Kind::Counter,
    &["program"],
    "How often each program of the kernel half ran, where kernel.bpf_stats_enabled is on.",
);

/// Every family, in the order of the page.
pub const FAMILIES: [Family; 18] = [
    BUILD,
    STARTED,
    LOAD,
    RUNNING,
    WAITING,
    ENDED,
    REFUSED,
    DIED,
    RECORDS,
    LOST,
    LAG,
    LENGTH,
    MEMORY,
    SPOOLED,
    ENTRIES,
    FREE,
    PROGRAM_SECONDS,
    PROGRAM_RUNS,
];

/// How much a program of the kernel half ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramTime {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// How long.
    pub time: Duration,
}

/// All that the page tells, at one moment. What could not be found out is left out.
#[derive(Debug, Clone)]
pub struct Snapshot<'a> {
    /// Which version we are.
    pub version: &'a str,
    /// When the service started, since 1970.
    pub started: Duration,
    /// How long loading took.
    pub load: Duration,
    /// Runs that go on.
    pub running: u32,
    /// Connections without a run.
    pub waiting: u32,
    /// What was counted.
    pub counts: &'a Counts,
    /// What the observers of living workers told last, together.
    pub live: Tally,
    /// Resident bytes of the service.
    pub own_memory: Option<u64>,
    /// Resident bytes of its workers together.
    pub workers_memory: Option<u64>,
    /// Free bytes where the spool lies.
    pub spool_free: Option<u64>,
    /// The programs; empty where their time is not measured.
    pub programs: Vec<ProgramTime>,
}

/// The page.
pub fn page(snapshot: &Snapshot<'_>) -> String {
    let counts = snapshot.counts;
    let mut page = Page::default();
    page.one(&BUILD, &[("version", snapshot.version)], 1);
    page.one(&STARTED, &[], seconds(snapshot.started));
    page.one(&LOAD, &[], seconds(snapshot.load));
    page.one(&RUNNING, &[], snapshot.running);
    page.one(&WAITING, &[], snapshot.waiting);
    page.head(&ENDED);
    for (verdict, count) in &counts.ended {
        page.sample(&ENDED, "_total", &[("verdict", verdict.as_str())], count);
    }
    page.head(&REFUSED);
    for (reason, count) in &counts.refused {
        page.sample(&REFUSED, "_total", &[("reason", reason)], count);
    }
    page.one(&DIED, &[], counts.died);
    page.one(&RECORDS, &[], counts.records.saturating_add(snapshot.live.records));
    page.one(&LOST, &[], counts.lost.saturating_add(snapshot.live.lost));
    page.histogram(&LAG, &counts.lags);
    page.histogram(&LENGTH, &counts.lengths);
    page.head(&MEMORY);
    for (process, bytes) in [("service", snapshot.own_memory), ("workers", snapshot.workers_memory)] {
        if let Some(bytes) = bytes {
            page.sample(&MEMORY, "", &[("process", process)], bytes);
        }
    }
    page.one(&SPOOLED, &[], counts.spooled);
    page.one(&ENTRIES, &[], counts.entries);
    page.head(&FREE);
    if let Some(bytes) = snapshot.spool_free {
        page.sample(&FREE, "", &[], bytes);
    }
    page.head(&PROGRAM_SECONDS);
    for program in &snapshot.programs {
        page.sample(&PROGRAM_SECONDS, "_total", &[("program", &program.name)], seconds(program.time));
    }
    page.head(&PROGRAM_RUNS);
    for program in &snapshot.programs {
        page.sample(&PROGRAM_RUNS, "_total", &[("program", &program.name)], program.runs);
    }
    page.0 + "# EOF\n"
}

#[derive(Debug, Default)]
struct Page(String);

impl Page {
    fn head(&mut self, family: &Family) {
        let Family { name, kind, help, .. } = family;
        self.line(format_args!("# TYPE {name} {}", kind.word()));
        // A unit is the last word of the name.
        if let Some(unit) = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(unit)) {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {help}"));
    }

    fn sample(&mut self, family: &Family, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.line(format_args!("{}{suffix}{labels} {value}", family.name));
    }

    fn one(&mut self, family: &Family, labels: &[(&str, &str)], value: impl Display) {
        self.head(family);
        self.sample(family, family.kind.suffixes()[0], labels, value);
    }

    fn histogram(&mut self, family: &Family, histogram: &Histogram) {
        self.head(family);
        for (bound, count) in histogram.buckets() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), seconds);
            self.sample(family, "_bucket", &[("le", &bound)], count);
        }
        self.sample(family, "_sum", &[], seconds(histogram.sum()));
        self.sample(family, "_count", &[], histogram.count());
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes what it is given");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// As the format writes numbers that are no integers: `1.0`, `0.001`.
fn seconds(duration: Duration) -> String {
    let digits = format!("{:06}", duration.subsec_micros());
    let digits = digits.trim_end_matches('0');
    format!("{}.{}", duration.as_secs(), if digits.is_empty() { "0" } else { digits })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::report::Over;
    use super::*;
    use crate::sandbox::outcome::Verdict;

    fn page_of_something() -> String {
        let mut counts = Counts::default();
        counts.refuse("stranger");
        counts.refuse("stranger");
        counts.end(&Over {
            run_id: None,
            verdict: Verdict::Denied,
            tally: Tally { records: 10, lost: 1, lag_us: 1500 },
            bytes: 4096,
            ms: 90,
            seq: Some(7),
        });
        counts.settle(Tally { records: 10, lost: 1, lag_us: 1500 });
        page(&Snapshot {
            version: "1.2\"3",
            started: Duration::from_secs(1_700_000_000),
            load: Duration::from_millis(250),
            running: 2,
            waiting: 1,
            counts: &counts,
            live: Tally { records: 5, lost: 0, lag_us: 3 },
            own_memory: Some(1 << 20),
            workers_memory: None,
            spool_free: Some(12),
            programs: vec![ProgramTime { name: "act".into(), runs: 9, time: Duration::from_micros(10) }],
        })
    }

    #[test]
    fn the_page_is_openmetrics() {
        let page = page_of_something();
        for line in [
            "assay_build_info{version=\"1.2\\\"3\"} 1",
            "assay_start_time_seconds 1700000000.0",
            "assay_load_seconds 0.25",
            "assay_runs_running 2",
            "assay_runs_total{verdict=\"ok\"} 0",
            "assay_runs_total{verdict=\"denied\"} 1",
            "assay_refused_total{reason=\"stranger\"} 2",
            "assay_records_total 15",
            "assay_records_lost_total 1",
            "assay_run_lag_seconds_bucket{le=\"0.001\"} 0",
            "assay_run_lag_seconds_bucket{le=\"0.01\"} 1",
            "assay_run_lag_seconds_bucket{le=\"+Inf\"} 1",
            "assay_run_lag_seconds_sum 0.0015",
            "assay_run_seconds_count 1",
            "assay_resident_bytes{process=\"service\"} 1048576",
            "assay_spool_written_bytes_total 4096",
            "assay_spool_entries 8",
            "assay_program_seconds_total{program=\"act\"} 0.00001",
        ] {
            assert!(page.lines().any(|other| other == line), "no line {line} in\n{page}");
        }
        assert!(!page.contains("workers\"}"), "{page}");
        assert!(page.ends_with("\n# EOF\n") && !page.contains("\n\n"), "{page}");
    }

    #[test]
    fn every_family_is_there_once_with_its_labels_and_nothing_else_is() {
        let page = page_of_something();
        let heads: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let expect: Vec<String> =
            FAMILIES.iter().map(|family| format!("{} {}", family.name, family.kind.word())).collect();
        assert_eq!(heads, expect);
        let mut used = BTreeSet::new();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let family = FAMILIES.iter().find(|family| {
                family.kind.suffixes().iter().any(|suffix| name == format!("{}{suffix}", family.name))
            });
            let family = family.unwrap_or_else(|| panic!("{name}"));
            used.insert(family.name);
            let labels = line.split_once('{').map_or("", |(_, rest)| rest);
            for label in family.labels.iter().filter(|_| !labels.is_empty()) {
                assert!(labels.contains(&format!("{label}=")), "{line}");
            }
        }
        assert_eq!(used.len(), FAMILIES.len(), "{used:?}");
    }
}
