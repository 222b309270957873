//! Bundles for the tests here, made through the library's public face, and a way to run the program on them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assay::canon::digest::Digest;
use assay::evidence::events::Emission;
use assay::evidence::timestamp::Timestamp;
use assay::evidence::{
    Actor, Coverage, Degradation, EffectFacts, Evidence, Identity, Observed, Outcome, Refusal, bundle,
};
use assay::profile::effect::{
    Effect, EffectResult, ExecEffect, FsEffect, FsOp, NetEffect, NetEffectOp, Port,
};
use assay::profile::name::Name;

pub fn fs(op: FsOp, path: &str) -> Effect {
    Effect::Fs(FsEffect { op, path: Name::from_canonical(path), to: None, result: EffectResult::Ok })
}

pub fn exec(path: &str) -> Effect {
    Effect::Exec(ExecEffect { path: Name::from_canonical(path), result: EffectResult::Ok })
}

pub fn connect(address: &str, port: u16) -> Effect {
    Effect::net(NetEffect {
        op: NetEffectOp::Connect,
        proto: "tcp".into(),
        host: None,
        host_from: None,
        address: Some(Name::from_canonical(address)),
        port: Some(Port::Number(port)),
        result: EffectResult::Ok,
    })
}

/// A few harmless effects of every kind.
pub fn harmless() -> Vec<Effect> {
    vec![
        fs(FsOp::Read, "${WORKDIR}/Makefile"),
        fs(FsOp::Create, "${WORKDIR}/out/a.o"),
        exec("/usr/bin/make"),
        connect("127.0.0.1", 8080),
    ]
}

/// Evidence of these effects, complete.
pub fn evidence(effects: Vec<Effect>, degradations: Vec<Degradation>) -> Evidence {
    let by = Actor { pid: 7, program: Some("/usr/bin/make".into()), comm: "make".into() };
    let refused = Refusal { rule: None, at: None, remedy: "fs.allow: - /a".into() };
    let facts = EffectFacts {
        hits: 3,
        denied_by: None,
        is_authorised: Some(true),
        by: Some(by.into()),
        refused: Some(Box::new(refused)),
        ..EffectFacts::default()
    };
    let programs = effects.iter().filter_map(|effect| match effect {
        Effect::Exec(exec) => Some((exec.path.to_string(), Ok(Digest::of(exec.path.as_str().as_bytes())))),
        _ => None,
    });
    let observed = Observed {
        started_at: "2026-01-02T03:04:05Z".into(),
        duration_ms: 1234,
        effects: effects.iter().map(|effect| (effect.clone(), facts.clone())).collect(),
        programs: programs.collect(),
        host: BTreeMap::from([("kernel".into(), "6.18.0".into())]),
        mode: "default".into(),
        verdict: "ok".into(),
        ..Observed::default()
    };
    let command = vec!["make".into(), "test".into()];
    let identity = Identity { command, effects, outcome: Outcome::ExitCode(0), degradations };
    Evidence { identity, observed, coverage: Coverage::default() }
}

/// The bytes of its bundle.
pub fn bundle(evidence: &Evidence) -> Vec<u8> {
    let emission = Emission {
        time: Timestamp::new(1_767_323_045).unwrap(),
        producer: "assay".into(),
        version: "0.1.0".into(),
        git: "unknown".into(),
        is_reproducible: false,
    };
    let mut out = Vec::new();
    bundle::write(evidence, &emission, &mut out).unwrap();
    out
}

/// A bundle of these effects.
pub fn of(effects: Vec<Effect>) -> Vec<u8> {
    bundle(&evidence(effects, Vec::new()))
}

/// A directory of its own, with files in it.
pub struct Dir(tempfile::TempDir);

impl Dir {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `assay` in a directory with these arguments and this on stdin.
pub fn assay(dir: &Dir, args: &[&str], stdin: &[u8]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_assay"))
        .args(args)
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may stop reading early, for good reasons.
    drop(child.stdin.take().unwrap().write_all(stdin));
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
