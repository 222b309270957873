//! Writes a bundle of N events, as a run that read, wrote and ran a great deal would give it, and says how long the
//! writing took: `evidence-bundles N FILE [DIFFERENT]`. With DIFFERENT, that many effects have other names.
//!
//! The time is that of `bundle::write` alone; the evidence lies in memory before, as it does at the end of a run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::process::ExitCode;
use std::time::Instant;

use assay::canon::digest::Digest;
use assay::evidence::events::Emission;
use assay::evidence::timestamp::Timestamp;
use assay::evidence::{Coverage, Evidence, Identity, Observed, Outcome, bundle};
use assay::profile::effect::{
    Effect, EffectResult, ExecEffect, FsEffect, FsOp, NetEffect, NetEffectOp, Port,
};
use assay::profile::name::Name;

/// The first event, the summary and the last.
const FRAME: usize = 3;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|arg| arg.parse::<usize>().ok());
    let (Some(events), Some(path)) = (number(0).filter(|events| *events > FRAME), args.get(1)) else {
        eprintln!("usage: evidence-bundles EVENTS FILE [DIFFERENT]");
        return ExitCode::from(2);
    };
    let evidence = evidence(events - FRAME, number(2).unwrap_or(0));
    let emission = Emission {
        time: Timestamp::new(1_767_323_045).expect("a moment of 2026"),
        producer: "assay".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        git: "unknown".into(),
        is_reproducible: true,
    };
    let start = Instant::now();
    let file = BufWriter::new(File::create(path).expect("create the file"));
    let written = bundle::write(&evidence, &emission, file).expect("write the bundle");
    println!("{} events, {} in {} ms", written.event_count, path, start.elapsed().as_millis());
    ExitCode::SUCCESS
}

fn evidence(effects: usize, different: usize) -> Evidence {
    let mut programs = BTreeMap::new();
    let mut effects: Vec<Effect> = (0..effects)
        .map(|n| {
            let word = if n < different { "lib" } else { "src" };
            let directory = format!("${{WORKDIR}}/node_modules/package-{}/{word}/part-{}", n % 997, n % 31);
            let file = |op, result| {
                let path = Name::from_canonical(format!("{directory}/module-{n}.js"));
                Effect::Fs(FsEffect { op, path, to: None, result })
            };
            match n % 20 {
                0 => {
                    let path = format!("/usr/lib/tool/bin/helper-{n}");
                    programs.insert(path.clone(), Ok(Digest::of(path.as_bytes())));
                    Effect::Exec(ExecEffect { path: Name::from_canonical(path), result: EffectResult::Ok })
                }
                1 => Effect::net(NetEffect {
                    op: NetEffectOp::Connect,
                    proto: "tcp".into(),
                    host: None,
                    host_from: None,
                    address: Some(Name::from_canonical(format!("127.{}.{}.1", n >> 8 & 255, n & 255))),
                    port: Some(Port::Number((n >> 16) as u16 + 1024)),
                    result: EffectResult::Ok,
                }),
                2..8 => file(FsOp::Create, EffectResult::Ok),
                8 => file(FsOp::Delete, EffectResult::Ok),
                9 => file(FsOp::Write, EffectResult::Denied),
                _ => file(FsOp::Read, EffectResult::Ok),
            }
        })
        .collect();
    effects.sort();
    effects.dedup();
    let identity = Identity {
        command: vec!["npm".into(), "install".into()],
        effects,
        outcome: Outcome::ExitCode(0),
        degradations: Vec::new(),
    };
    let observed = Observed { programs, mode: "default".into(), verdict: "ok".into(), ..Observed::default() };
    Evidence { identity, observed, coverage: Coverage::default() }
}
