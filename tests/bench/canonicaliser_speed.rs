//! How long a run's observations take to become its artifacts: `canonicaliser-speed [OBSERVATIONS NAMES [DIRECTORY]]`.
//!
//! Half of the names are read, the rest made, a quarter of them under temporary names. With a DIRECTORY, what the end
//! of a run writes is written there too, and each artifact's time told. Without arguments: the table of the docs.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use assay::evidence::events::Emission;
use assay::evidence::timestamp::Timestamp;
use assay::evidence::{Coverage, Evidence, Observed, bundle, identity, wire};
use assay::observe::observation::{
    Access, Act, CallResult, FileAct, FileKind, FileOp, Observation, PairAct, PairOp, PathRef,
};
use assay::policy::load::NoFiles;
use assay::policy::{Context, Judge, load_builtin};
use assay::profile::canonical::{CanonContext, Canonical, Canonicalizer, RunEnd};
use assay::profile::identity::Outcome;
use assay::profile::roots::Roots;
use assay::profile::suggest;
use assay::report::basis::Basis;
use assay::report::markdown;
use assay::sandbox::writing::protected;

const PID: u32 = 4242;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|arg| arg.parse::<u64>().ok());
    match (args.len(), number(0), number(1)) {
        (0, ..) => {
            println!("| observations | folding them | making the identity | memory kept |");
            println!("| --- | --- | --- | --- |");
            for names in [20, 50_000, 1_000_000] {
                measure(1_000_000, names);
            }
            measure(10_000_000, 50_000);
            ExitCode::SUCCESS
        }
        (2.., Some(observations), Some(names)) => {
            let canonical = measure(observations, names);
            if let Some(directory) = args.get(2) {
                write(canonical, Path::new(directory));
            }
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: canonicaliser-speed [OBSERVATIONS NAMES [DIRECTORY]]");
            ExitCode::from(2)
        }
    }
}

fn measure(observations: u64, names: u64) -> Canonical {
    let roots = Roots {
        workdir: vec![b"/home/u/src/project".to_vec()],
        home: vec![b"/home/u".to_vec()],
        tmpdir: vec![b"/run/assay/tmp-1".to_vec()],
        ..Roots::default()
    };
    let before = resident_mib();
    let command = vec![b"make".to_vec(), b"-j8".to_vec()];
    let mut canonicalizer = Canonicalizer::new(CanonContext::new(roots, command, PID));
    let (mut folding, mut folding_work) = (Duration::ZERO, Duration::ZERO);
    let mut done = 0;
    // Made in portions aside, so that making them is not measured.
    while done < observations {
        let portion: Vec<Observation> =
            (done..observations.min(done + 10_000)).map(|n| observation(n, names)).collect();
        let (start, work) = (Instant::now(), processor_time());
        for observation in &portion {
            canonicalizer.observe(observation);
        }
        folding += start.elapsed();
        folding_work += processor_time().saturating_sub(work);
        done += portion.len() as u64;
    }
    let kept = resident_mib().saturating_sub(before);
    let (start, work) = (Instant::now(), processor_time());
    let canonical = canonicalizer.finish(RunEnd {
        outcome: Outcome::ExitCode(0),
        degradations: Vec::new(),
        ended_at: None,
    });
    let (finishing, finishing_work) = (start.elapsed(), processor_time().saturating_sub(work));
    println!(
        "| {observations} over {names} names | {:.2} s ({:.2} s) | {:.2} s ({:.2} s), {} effects | {kept} MiB, at most {} MiB |",
        folding.as_secs_f64(),
        folding_work.as_secs_f64(),
        finishing.as_secs_f64(),
        finishing_work.as_secs_f64(),
        canonical.identity.effects.len(),
        peak_mib(),
    );
    canonical
}

fn observation(n: u64, names: u64) -> Observation {
    let k = n % names;
    let file = |op, path: String, access: &[Access]| {
        Act::File(FileAct {
            op,
            path: PathRef::resolved(path),
            requested: None,
            access: access.iter().copied().collect(),
            kind: FileKind::Regular,
            is_path_only: false,
            is_private: false,
        })
    };
    let directory = format!("/home/u/src/project/node_modules/package-{}/lib/part-{}", k % 997, k % 31);
    let act = match k % 4 {
        0 | 1 => file(FileOp::Open, format!("{directory}/module-{k}.js"), &[Access::Read]),
        2 => file(FileOp::Open, format!("{directory}/output-{k}.o"), &[Access::Write, Access::Create]),
        // A temporary file and its move onto the target, in turns.
        _ if k % 8 == 3 => file(
            FileOp::Open,
            format!("{directory}/target-{k}.tmp{:06x}Zq", k * 2_654_435_761 % 0xff_ffff),
            &[Access::Read, Access::Write, Access::Create],
        ),
        _ => {
            let j = k - 4;
            let from = format!("{directory}/target-{j}.tmp{:06x}Zq", j * 2_654_435_761 % 0xff_ffff);
            let from = from.replace(
                &directory,
                &format!("/home/u/src/project/node_modules/package-{}/lib/part-{}", j % 997, j % 31),
            );
            Act::Pair(PairAct {
                op: PairOp::Rename,
                path: PathRef::resolved(from),
                to: PathRef::resolved(format!("{directory}/target-{j}")),
                requested: (None, None),
                is_exchange: false,
            })
        }
    };
    Observation {
        seq: n,
        t_ns: n,
        pid: PID,
        tid: PID,
        ppid: 1,
        comm: b"make".to_vec(),
        act,
        result: CallResult::Ok,
    }
}

/// Everything that the end of a run writes.
fn write(canonical: Canonical, directory: &Path) {
    let whole = Instant::now();
    let observed = Observed {
        counters: canonical.counters,
        effects: canonical.facts,
        folded: canonical.folded,
        processes: canonical.processes,
        roots: canonical.roots,
        mode: "default".into(),
        verdict: "ok".into(),
        ..Observed::default()
    };
    let mut evidence = Evidence { identity: canonical.identity, observed, coverage: Coverage::default() };
    let (start, work) = (Instant::now(), processor_time());
    judge(&mut evidence.observed);
    println!(
        "judged: {} ms ({} ms)",
        start.elapsed().as_millis(),
        processor_time().saturating_sub(work).as_millis()
    );
    let (start, work) = (Instant::now(), processor_time());
    let digest = identity::digest(&evidence.identity);
    println!(
        "digest: {} ms ({} ms)",
        start.elapsed().as_millis(),
        processor_time().saturating_sub(work).as_millis()
    );
    let time = |what: &str, act: &mut dyn FnMut(BufWriter<File>)| {
        let (start, work) = (Instant::now(), processor_time());
        let path = directory.join(what);
        act(BufWriter::with_capacity(1 << 16, File::create(&path).expect("create the file")));
        let bytes = std::fs::metadata(&path).expect("the file").len();
        println!(
            "{what}: {} ms ({} ms), {bytes} bytes",
            start.elapsed().as_millis(),
            processor_time().saturating_sub(work).as_millis()
        );
    };
    time("evidence.yaml", &mut |mut out| {
        wire::write_to(&mut out, &evidence, &digest, wire::Format::Yaml).expect("write the evidence");
    });
    time("profile.yaml", &mut |mut out| {
        let run_id = identity::run_id(&digest);
        let effects = &evidence.identity.effects;
        let profile = suggest::suggest(effects, &evidence.observed.folded, &protected(&evidence));
        let comments = suggest::comments(&profile, &evidence.identity.command, &run_id, effects);
        std::io::Write::write_all(&mut out, profile.write(&comments, wire::Format::Yaml).as_bytes())
            .expect("write the profile");
    });
    time("report.md", &mut |mut out| {
        markdown::write(&mut out, &evidence, Basis::Known(&digest)).expect("write the report");
    });
    time("bundle.tar.gz", &mut |out| {
        let emission = Emission {
            time: Timestamp::new(1_767_323_045).expect("a moment of 2026"),
            producer: "assay".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            git: "unknown".into(),
            is_reproducible: true,
        };
        bundle::write_known(&evidence, &digest, &emission, out).expect("write the bundle");
    });
    println!("all: {} ms, at most {} MiB", whole.elapsed().as_millis(), peak_mib());
}

/// Asks the built-in policy about every effect, as the end of a run does.
fn judge(observed: &mut Observed) {
    let context = Context {
        home: Some(b"/home/u".to_vec()),
        workdir: b"/home/u/src/project".to_vec(),
        tmpdir: b"/run/assay/tmp-1".to_vec(),
        caller_tmpdir: b"/tmp".to_vec(),
        runtime_dir: b"/run/user/1000".to_vec(),
        nameservers: Vec::new(),
    };
    let policy = load_builtin(&context, &NoFiles).expect("the built-in policy");
    let roots: Vec<(String, Vec<u8>)> =
        observed.roots.iter().map(|(variable, path)| (variable.clone(), path.clone().into_bytes())).collect();
    let mut judge = Judge::new(&policy, &roots);
    for (effect, facts) in &mut observed.effects {
        facts.is_authorised = Some(judge.effect_at(effect, &facts.addresses).is_allowed());
        facts.by = None;
    }
}

/// How long this thread has had a processor, however busy the machine is.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn status_mib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap_or(0) / 1024
}

fn resident_mib() -> u64 {
    status_mib("VmRSS:")
}

fn peak_mib() -> u64 {
    status_mib("VmHWM:")
}
