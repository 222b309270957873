//! Makes a spool of many runs and says how long each thing takes that is done to it:
//! `cargo run --release --example spool-runs -- 10000 DIR`. In a directory in memory no time is spent on the disk.

use std::path::Path;
use std::time::Instant;

use assay::canon::digest::Digest;
use assay::evidence::events::Emission;
use assay::evidence::timestamp::Timestamp;
use assay::evidence::{Coverage, EffectFacts, Evidence, Identity, Observed, Outcome, bundle};
use assay::profile::effect::{Effect, EffectResult, ExecEffect, FsEffect, FsOp};
use assay::profile::name::Name;
use assay::spool::entry::Why;
use assay::spool::query::Query;
use assay::spool::{Begin, Spool, Summary, User, Writer};

/// Effects of one run: what a small build does.
const EFFECTS: u64 = 300;
const MOMENT: i64 = 1_767_323_045;

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(count), Some(directory)) = (args.next().and_then(|count| count.parse().ok()), args.next())
    else {
        println!("usage: spool-runs COUNT DIR");
        return;
    };
    let spool = Spool::create(&Path::new(&directory).join("spool"), moment(0)).expect("a new spool");
    let bundles: Vec<(Summary, Vec<u8>)> = (0..20).map(run).collect();
    timed("commit all", || fill(&spool, &bundles, count));
    let whole = Query::default();
    let path = |path: &str| Query { path: Some(path.to_owned()), ..Query::default() };
    timed("list all, no index yet", || spool.find(&whole, None).expect("an index").runs.len());
    timed("list all", || spool.find(&whole, None).expect("an index").runs.len());
    timed("list the last 50", || spool.find(&whole, Some(50)).expect("an index").runs.len());
    timed("list one user's", || {
        let user = Some(assay::spool::query::Whose::Id(1003));
        spool.find(&Query { user, ..Query::default() }, None).expect("an index").runs.len()
    });
    timed("list by path, no bundle read yet", || {
        spool.find(&path("/srv/7"), None).expect("an index").runs.len()
    });
    timed("list by path", || spool.find(&path("/srv/7"), None).expect("an index").runs.len());
    timed("usage, first", || spool.usage(1003).expect("a chain").runs);
    timed("usage", || spool.usage(1003).expect("a chain").runs);
    timed("one more commit", || fill(&spool, &bundles, 1));
    timed("recover", || spool.recover(moment(0), &|_| true).expect("a spool").len());
    timed("verify the chain alone", || spool.walk(None, |_, _| {}).expect("a chain").entries);
    timed("verify all", || spool.check(None, &[]).expect("a spool").faults.len());
    timed("plan a collection", || {
        spool.plan_collection(Why::KeepDays(1), moment(1 << 20)).expect("a spool").runs.len()
    });
    timed("collect all", || spool.collect(Why::KeepDays(1), moment(1 << 20)).expect("a spool").runs.len());
}

fn timed<R: std::fmt::Display>(what: &str, work: impl FnOnce() -> R) {
    let start = Instant::now();
    let result = work();
    println!("{what:<34} {:>9.1} ms  ({result})", start.elapsed().as_secs_f64() * 1000.0);
}

fn moment(seconds: i64) -> Timestamp {
    Timestamp::new(MOMENT + seconds).expect("a moment of this century")
}

fn fill(spool: &Spool, bundles: &[(Summary, Vec<u8>)], count: usize) -> usize {
    let writer = Writer::ourselves().expect("we are there");
    for number in 0..count {
        let (summary, bundle) = &bundles[number % bundles.len()];
        let user = User { uid: 1000 + (number % 20) as u32, name: Some("somebody".into()) };
        let time = moment(number as i64);
        let begin = Begin { user, command: summary.command.clone(), time, writer: writer.clone() };
        let mut staging = spool.begin(&begin).expect("a staging directory");
        std::fs::write(staging.directory().join("bundle.tar.gz"), bundle).expect("a file");
        staging.commit(summary.clone(), time).expect("a commit");
    }
    count
}

fn run(variant: u64) -> (Summary, Vec<u8>) {
    let mut effects: Vec<Effect> = (0..EFFECTS)
        .map(|number| {
            // A part of the names is the run's own.
            let path = if number % 10 == 0 {
                format!("/srv/{variant}/out/{number}.o")
            } else {
                format!("/usr/include/a/{number}.h")
            };
            let path = Name::from_canonical(path);
            Effect::Fs(FsEffect { op: FsOp::Read, path, to: None, result: EffectResult::Ok })
        })
        .collect();
    effects.push(Effect::Exec(ExecEffect {
        path: Name::from_canonical("/usr/bin/make"),
        result: EffectResult::Ok,
    }));
    effects.sort();
    let facts = EffectFacts { hits: 3, ..EffectFacts::default() };
    let observed = Observed {
        started_at: moment(0).to_string(),
        duration_ms: 1234,
        effects: effects.iter().map(|effect| (effect.clone(), facts.clone())).collect(),
        mode: "default".into(),
        verdict: "ok".into(),
        policy_digest: Some(Digest::of(b"policy")),
        ..Observed::default()
    };
    let command = vec!["make".into(), format!("target-{variant}")];
    let identity = Identity { command, effects, outcome: Outcome::ExitCode(0), degradations: vec![] };
    let evidence = Evidence { identity, observed, coverage: Coverage::default() };
    let emission = Emission {
        time: moment(0),
        producer: "assay".into(),
        version: "0.1.0".into(),
        git: "unknown".into(),
        is_reproducible: false,
    };
    let mut bytes = Vec::new();
    bundle::write(&evidence, &emission, &mut bytes).expect("writing to a Vec cannot fail");
    (Summary::of(&evidence), bytes)
}
