//! The facts of a run, at its end → its effects, what was folded, and the rest of [`Canonical`]. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

use crate::observe::loss::{Gap, Kind};

use super::acts::{ActClass, EffectKind, row};
use super::canonical::{Canonical, Canonicalizer, FileFact, NetFact, NetPlace, RunEnd};
use super::effect::{Effect, EffectResult, ExecEffect, FsEffect, FsOp, NetEffect, Port};
use super::identity::{EffectFacts, Fold, Identity, ProcessFacts};
use super::name::Name;
use super::naming::{Namer, Naming};
use super::paths::{MadeAs, Moved, PathId};
use super::ports::Ports;
use super::redact::{Secret, find_in_argv};
use super::secrets::Secrets;

/// Settles a run.
pub(super) fn settle(run: &Canonicalizer, end: RunEnd) -> Canonical {
    let mut secrets = Secrets::default();
    let command = &run.context.command;
    let command_secrets = find_in_argv(command);
    learn(&mut secrets, command, &command_secrets);
    let argv_secrets: Vec<Vec<Vec<Vec<Secret>>>> = run
        .processes
        .processes()
        .iter()
        .map(|process| {
            process
                .programs
                .iter()
                .map(|(_, argv)| {
                    let found = find_in_argv(argv);
                    learn(&mut secrets, argv, &found);
                    found
                })
                .collect()
        })
        .collect();

    let mut settling = Settling {
        namer: Namer::new(run, end.ended_at, secrets),
        effects: BTreeMap::new(),
        folded: BTreeSet::new(),
        programs: BTreeMap::new(),
        run,
    };
    let command = settling.arguments(command, command_secrets);
    let mut files: Vec<(&FileFact, &u64)> = run.files.iter().collect();
    files.sort_unstable();
    for (fact, hits) in files {
        settling.file(fact, *hits);
    }
    settling.sockets();
    settling.tell_what_is_itself();
    let processes = settling.processes(argv_secrets);
    settling.write(&command, processes, end)
}

fn learn(secrets: &mut Secrets, argv: &[Vec<u8>], found: &[Vec<Secret>]) {
    for (text, found) in argv.iter().zip(found) {
        secrets.learn(text, found);
    }
}

struct Settling<'a> {
    run: &'a Canonicalizer,
    namer: Namer<'a>,
    /// Names have their secrets marked.
    effects: BTreeMap<Effect, EffectFacts>,
    folded: BTreeSet<(String, String, String)>,
    programs: BTreeMap<String, Vec<u8>>,
}

impl Settling<'_> {
    /// Arguments with roots replaced and secrets marked.
    fn arguments(&mut self, argv: &[Vec<u8>], found: Vec<Vec<Secret>>) -> Vec<String> {
        let roots = self.namer.roots().clone();
        let secrets = self.namer.secrets();
        argv.iter()
            .zip(found)
            .map(|(argument, mut found)| {
                let mut out = String::new();
                secrets.add_learned(argument, &mut found);
                secrets.mark(argument, &found, &mut out, |plain, out| roots.substitute_into(plain, out));
                out
            })
            .collect()
    }

    fn file(&mut self, fact: &FileFact, hits: u64) {
        let bytes = self.namer.bytes(fact.path);
        if fact.class == ActClass::InheritedWrite && self.run.context.stdio.iter().any(|file| file == bytes) {
            self.fold_entry(bytes, "${STDIO}", &["stdio"]);
            let path = Name::from_canonical("${STDIO}");
            self.add(
                Effect::Fs(FsEffect { op: FsOp::Write, path, to: None, result: fact.result }),
                hits,
                false,
            );
            return;
        }
        let path = self.name(fact.path);
        let row = row(fact.class);
        let is_held = self.run.held.contains(fact);
        let EffectKind::Fs(op) = row.effect else {
            self.programs.entry(path.text.clone()).or_insert_with(|| self.namer.bytes(fact.path).to_vec());
            let path = Name::from_canonical(path.text.clone());
            self.add(Effect::Exec(ExecEffect { path, result: fact.result }), hits, is_held);
            return;
        };
        let is_denied = fact.result == EffectResult::Denied;
        let to = fact.to.map(|to| match fact.class {
            ActClass::Symlink => {
                let naming = self.namer.link_text(fact.path, to);
                self.fold_entry(self.namer.bytes(to), &naming.text, &naming.rules);
                Rc::new(naming)
            }
            _ => self.name(to),
        });
        if path.own.is_some() && !is_denied {
            self.become_target(fact, &path, to.as_deref(), hits);
            return;
        }
        // A refused act on a temporary name is told by its own pattern, and so is a refused move onto one.
        let text = |naming: &Naming| {
            let own = naming.own.as_ref().filter(|_| is_denied);
            Name::from_canonical(own.unwrap_or(&naming.text).clone())
        };
        let mut path = text(&path);
        if fact.class == ActClass::Mkdir {
            path = directory(&path);
        }
        let effect = FsEffect { op, path, to: to.as_deref().map(text), result: fact.result };
        self.add(Effect::Fs(effect), hits, is_held);
    }

    /// An act on a temporary name that became another: told as a write of the target, or not at all where the
    /// making of it is told already.
    fn become_target(&mut self, fact: &FileFact, path: &Naming, to: Option<&Naming>, hits: u64) {
        let target = Name::from_canonical(path.text.clone());
        let life = self.run.paths.life(fact.path);
        let is_the_move = |to: Option<PathId>| to.is_some_and(|to| life.moved == Moved::To(to));
        let told = match fact.class {
            ActClass::OpenCreate | ActClass::OpenWrite | ActClass::Truncate | ActClass::InheritedWrite => {
                Some((FsOp::Write, target, None))
            }
            ActClass::Mkdir => Some((FsOp::Create, directory(&target), None)),
            ActClass::Mknod | ActClass::BindPath => Some((FsOp::Create, target, None)),
            ActClass::Attr => Some((FsOp::Attr, target, None)),
            ActClass::Mount => Some((FsOp::Mount, target, None)),
            ActClass::Symlink => Some((FsOp::Symlink, target, to)),
            // What the run reads back, and the removal of a name that lives on as its target.
            ActClass::OpenRead | ActClass::OpenList | ActClass::Delete
            // These are told before this is asked.
            | ActClass::Exec | ActClass::Connect | ActClass::Bind | ActClass::Listen | ActClass::Send
            | ActClass::OtherFamily => None,
            ActClass::Rename | ActClass::Link if is_the_move(fact.to) => {
                // The act that made the name tells what the target became; of a file that is a write.
                (life.made == Some(MadeAs::File)).then_some((FsOp::Write, target, None))
            }
            ActClass::Rename => Some((FsOp::Rename, target, to)),
            ActClass::Link => Some((FsOp::Link, target, to)),
        };
        if let Some((op, path, to)) = told {
            let to = to.map(|to| Name::from_canonical(to.text.clone()));
            self.add(Effect::Fs(FsEffect { op, path, to, result: fact.result }), hits, false);
        }
    }

    fn sockets(&mut self) {
        let ports = Ports::of(self.run);
        let bound: HashSet<&[u8]> = self
            .run
            .sockets
            .keys()
            .filter(|fact| matches!(fact.class, ActClass::Bind | ActClass::Listen))
            .filter_map(|fact| match &fact.place {
                NetPlace::Abstract(name) => Some(name.as_slice()),
                _ => None,
            })
            .collect();
        let mut facts: Vec<(&NetFact, &u64)> = self.run.sockets.iter().collect();
        facts.sort_unstable();
        for (fact, hits) in facts {
            let is_addressed = is_told_by_address(fact.proto);
            // Making a socket that will be told by its address is no effect yet.
            if matches!(fact.proto, "tcp" | "udp" | "unix" | "icmp") && fact.class == ActClass::OtherFamily {
                continue;
            }
            let class = if is_addressed { fact.class } else { ActClass::OtherFamily };
            let EffectKind::Net(op) = row(class).effect else { continue };
            // Of another family nothing but the protocol is told.
            let place = if class == ActClass::OtherFamily { &NetPlace::None } else { &fact.place };
            let (address, port) = match place {
                NetPlace::Inet(address, port) => {
                    let text = address.to_string();
                    let port = if ports.is_ephemeral(fact) {
                        let (from, to) = (
                            format!("{}:{port}", bracketed(&text)),
                            format!("{}:${{EPHEMERAL}}", bracketed(&text)),
                        );
                        if *port != 0 {
                            self.folded.insert(("ephemeral-port".into(), from, to));
                        }
                        Port::Ephemeral
                    } else {
                        Port::Number(*port)
                    };
                    (Some(Name::from_canonical(text)), Some(port))
                }
                NetPlace::Path(path) => {
                    let naming = self.name(*path);
                    (Some(Name::from_canonical(naming.text.clone())), None)
                }
                NetPlace::Abstract(name) => {
                    let naming = self.namer.abstract_name(name, bound.contains(name.as_slice()));
                    let mut from = b"@".to_vec();
                    from.extend_from_slice(name);
                    self.fold_entry(&from, &naming.text, &naming.rules);
                    (Some(Name::from_canonical(naming.text)), None)
                }
                NetPlace::Unreadable => (Some(Name::from_canonical("${UNREADABLE}")), None),
                NetPlace::None => (None, None),
            };
            let effect = NetEffect {
                op,
                proto: fact.proto.into(),
                host: None,
                host_from: None,
                address,
                port,
                result: fact.result,
            };
            self.add(Effect::Net(effect), *hits, false);
        }
    }

    fn processes(&mut self, mut secrets: Vec<Vec<Vec<Vec<Secret>>>>) -> Vec<ProcessFacts> {
        self.run
            .processes
            .processes()
            .iter()
            .zip(secrets.drain(..))
            .map(|(process, secrets)| ProcessFacts {
                pid: process.pid,
                ppid: process.ppid,
                programs: process
                    .programs
                    .iter()
                    .zip(secrets)
                    .map(|((path, argv), found)| {
                        if argv.is_empty() {
                            let found = vec![Vec::new()];
                            self.arguments(std::slice::from_ref(&path.bytes), found)
                        } else {
                            self.arguments(argv, found)
                        }
                    })
                    .collect(),
                status: process.status,
            })
            .collect()
    }

    /// The name of a path, and the entry that undoes it.
    fn name(&mut self, id: PathId) -> Rc<Naming> {
        let naming = self.namer.name(id);
        self.fold_entry(self.namer.bytes(id), &naming.text, &naming.rules);
        if let Some(own) = &naming.own {
            self.fold_entry(self.namer.bytes(id), own, &naming.rules);
        }
        naming
    }

    /// A name that a fold leads to can be the name of a path as well: then it undoes to itself too.
    fn tell_what_is_itself(&mut self) {
        let led_to: HashSet<String> = self.folded.iter().map(|(_, _, to)| to.clone()).collect();
        let files = self.run.files.keys().flat_map(|fact| {
            let to = fact.to.filter(|_| fact.class != ActClass::Symlink);
            std::iter::once(fact.path).chain(to)
        });
        let sockets = self.run.sockets.keys().filter_map(|fact| match fact.place {
            NetPlace::Path(path) => Some(path),
            _ => None,
        });
        let paths: BTreeSet<PathId> = files.chain(sockets).collect();
        for path in paths {
            let naming = self.namer.name(path);
            if naming.rules.is_empty() && led_to.contains(&naming.text) {
                self.fold_entry(self.namer.bytes(path), &naming.text, &["itself"]);
            }
        }
    }

    fn fold_entry(&mut self, from: &[u8], to: &str, rules: &[&'static str]) {
        if rules.is_empty() {
            return;
        }
        let mut marked = String::new();
        let mut found = super::redact::find_key_shapes(from);
        let secrets = self.namer.secrets();
        secrets.add_learned(from, &mut found);
        secrets.mark(from, &found, &mut marked, super::name::escape_into);
        self.folded.insert((rules.join("+"), marked, to.to_owned()));
    }

    fn add(&mut self, effect: Effect, hits: u64, is_held: bool) {
        let facts = self.effects.entry(effect).or_default();
        facts.hits += hits;
        if is_held {
            facts.denied_by = Some("policy");
        }
    }

    /// Gives the secrets their numbers and writes everything out.
    fn write(self, command: &[String], processes: Vec<ProcessFacts>, end: RunEnd) -> Canonical {
        let run = self.run;
        let roots = self.namer.roots().clone();
        let mut secrets = self.namer.into_secrets();
        let mut effects: Vec<(Effect, EffectFacts)> = self.effects.into_iter().collect();
        if !secrets.is_empty() {
            effects.sort_by_cached_key(|(effect, _)| {
                let mut plain = Vec::new();
                let mut hidden = Vec::new();
                let shown = effect.map_names(&mut |text| {
                    let (text, values) = secrets.sort_key(text);
                    plain.push(text.clone());
                    hidden.extend(values.into_iter().map(<[u8]>::to_vec));
                    text
                });
                (shown, hidden)
            });
        }
        let command: Vec<String> = command.iter().map(|text| secrets.write(text)).collect();
        let mut facts: BTreeMap<Effect, EffectFacts> = BTreeMap::new();
        for (effect, these) in effects {
            let effect = effect.map_names(&mut |text| secrets.write(text));
            let known = facts.entry(effect).or_default();
            known.hits += these.hits;
            known.denied_by = known.denied_by.or(these.denied_by);
        }
        let folded = self
            .folded
            .iter()
            .map(|(rule, from, to)| Fold {
                rule: rule.clone(),
                from: secrets.write(from),
                to: secrets.write(to),
            })
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let processes = processes
            .into_iter()
            .map(|process| ProcessFacts {
                programs: process
                    .programs
                    .iter()
                    .map(|argv| argv.iter().map(|text| secrets.write(text)).collect())
                    .collect(),
                ..process
            })
            .collect();
        let programs = self.programs.into_iter().map(|(name, path)| (secrets.write(&name), path)).collect();
        let mut degradations = end.degradations;
        degradations.sort();
        degradations.dedup();
        Canonical {
            identity: Identity {
                command,
                effects: facts.keys().cloned().collect(),
                outcome: end.outcome,
                degradations,
            },
            counters: counters(run, &facts, &secrets),
            facts,
            folded,
            processes,
            programs,
            roots: roots
                .primary()
                .map(|(var, path)| (var.name().to_owned(), Name::from_bytes(path).as_str().to_owned()))
                .collect(),
            gaps: gaps(run),
        }
    }
}

/// Families whose acts have an address that is told; of the others `proto` alone is.
fn is_told_by_address(proto: &str) -> bool {
    matches!(proto, "tcp" | "udp" | "unix" | "icmp" | "sctp" | "mptcp" | "udplite" | "dccp" | "raw")
}

fn directory(name: &Name) -> Name {
    let slash = if name.as_str().ends_with('/') { "" } else { "/" };
    Name::from_canonical(format!("{name}{slash}"))
}

fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

fn counters(
    run: &Canonicalizer,
    facts: &BTreeMap<Effect, EffectFacts>,
    secrets: &Secrets,
) -> BTreeMap<String, u64> {
    let mut counters: BTreeMap<String, u64> = run.failures().collect();
    let mut set = |name: &str, count: u64| {
        counters.insert(name.into(), count);
    };
    set("observations", run.counts.observations);
    set("without_effect", run.counts.without_effect);
    set("denied", run.counts.denied);
    set("processes", run.processes.count());
    set("processes_untold", run.processes.untold);
    set("threads", run.processes.threads);
    set("programs_started", run.processes.execs);
    set("names", run.paths.len() as u64);
    for (kind, effect_count) in [
        ("effects.fs", facts.keys().filter(|effect| matches!(effect, Effect::Fs(_))).count()),
        ("effects.exec", facts.keys().filter(|effect| matches!(effect, Effect::Exec(_))).count()),
        ("effects.net", facts.keys().filter(|effect| matches!(effect, Effect::Net(_))).count()),
    ] {
        set(kind, effect_count as u64);
    }
    for (rule, count) in secrets.counts() {
        set(&format!("secrets_redacted.{rule}"), *count);
    }
    for (means, count) in &run.blind {
        set(&format!("blind.{means}"), *count);
    }
    counters.retain(|_, count| *count > 0);
    counters
}

fn gaps(run: &Canonicalizer) -> BTreeSet<Gap> {
    let mut gaps = run.gaps.clone();
    let mut admit = |kinds: &[Kind], reason: &str, detail: String| {
        for &kind in kinds {
            gaps.insert(Gap { kind, reason: reason.into(), detail: detail.clone() });
        }
    };
    if run.counts.untold > 0 {
        admit(&Kind::ALL, "too-many-names", format!("{} acts found the tables full", run.counts.untold));
    }
    for (means, count) in &run.blind {
        let kinds: &[Kind] = match *means {
            // A task that left the run's group is still followed by the process tree.
            "cgroup_leave" => &[],
            means if means.starts_with("io_uring") => &[Kind::Fs, Kind::Net],
            _ => &Kind::ALL,
        };
        admit(kinds, means, format!("{count} times"));
    }
    gaps
}
