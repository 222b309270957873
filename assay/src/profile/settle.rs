//! The facts of a run, at its end → its effects, what was folded, and the rest of [`Settled`]. Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use super::actors::{ActorSeen, Seen, Told};
use super::acts::{ActClass, EffectKind, row};
use super::canonical::{Canonical, Canonicalizer, FileFact, NetFact, NetPlace, RunEnd};
use super::effect::{
    Effect, EffectResult, ExecEffect, FsEffect, FsOp, NetEffect, Port, bracketed, has_address,
};
use super::fold_rule::FoldRule;
use super::identity::{Actor, Fold, Peer, ProcessFacts};
use super::mounted::Mounted;
use super::name::Name;
use super::naming::{Namer, Naming};
use super::paths::{MadeAs, Moved, PathId, PathTable};
use super::ports::Ports;
use super::redact::{Secret, find_in_argv};
use super::secrets::Secrets;
use super::settled::Settled;

/// Settles a run. What it knew goes as soon as it has been told: there may be a million names.
pub(super) fn settle(mut run: Canonicalizer, end: RunEnd) -> Canonical {
    let mounted = Mounted::of(run.files.keys(), &run.paths);
    let mut files: Vec<(FileFact, Seen)> = std::mem::take(&mut run.files).into_iter().collect();
    // By path first: so what belongs to a path is looked at once.
    files.sort_unstable_by_key(|(fact, _)| (fact.path, fact.class, fact.to, fact.result));
    let settled = settled(&run, mounted, files, end.ended_at);
    let names = run.paths.len();
    run.paths = PathTable::default();
    settled.write(&run, names, end)
}

fn settled(
    run: &Canonicalizer,
    mounted: Mounted,
    files: Vec<(FileFact, Seen)>,
    ended_at: Option<u64>,
) -> Settled {
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
        namer: Namer::new(run, mounted, ended_at, secrets),
        effects: Vec::with_capacity(files.len() + run.sockets.len()),
        addresses: BTreeMap::new(),
        asked: BTreeMap::new(),
        peers: BTreeMap::new(),
        ports: BTreeMap::new(),
        folded: Vec::new(),
        is_told: vec![false; run.paths.len()],
        programs: BTreeMap::new(),
        run,
    };
    let command = settling.arguments(command, command_secrets);
    for (fact, seen) in files {
        settling.file(&fact, seen);
    }
    settling.sockets();
    settling.tell_what_is_itself();
    let processes = settling.processes(argv_secrets);
    let actors = settling.actors();
    Settled {
        command,
        effects: settling.effects,
        addresses: settling.addresses,
        asked: settling.asked,
        peers: settling.peers,
        ports: settling.ports,
        folded: settling.folded,
        programs: settling.programs,
        processes,
        actors,
        roots: settling.namer.roots().clone(),
        secrets: settling.namer.into_secrets(),
    }
}

fn learn(secrets: &mut Secrets, argv: &[Vec<u8>], found: &[Vec<Secret>]) {
    for (text, found) in argv.iter().zip(found) {
        secrets.learn(text, found);
    }
}

struct Settling<'a> {
    run: &'a Canonicalizer,
    namer: Namer<'a>,
    /// Names have their secrets marked. The same effect can stand here several times.
    effects: Vec<(Effect, Told)>,
    /// What the hosts of effects stand for.
    addresses: BTreeMap<Effect, BTreeSet<IpAddr>>,
    /// What clients asked for there besides.
    asked: BTreeMap<Effect, BTreeSet<String>>,
    /// Who was at the other end, with secrets marked.
    peers: BTreeMap<Effect, BTreeSet<Peer>>,
    ports: BTreeMap<Effect, BTreeSet<u16>>,
    folded: Vec<Fold>,
    /// Whether the entries that undo a path's name are in `folded`.
    is_told: Vec<bool>,
    programs: BTreeMap<Name, Vec<u8>>,
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

    fn file(&mut self, fact: &FileFact, seen: Seen) {
        let bytes = self.namer.bytes(fact.path);
        if fact.class == ActClass::InheritedWrite && self.run.context.stdio.iter().any(|file| file == bytes) {
            let path = Name::from_canonical("${STDIO}");
            self.fold_entry(bytes, &path, &[FoldRule::Stdio]);
            self.add(
                Effect::Fs(FsEffect { op: FsOp::Write, path, to: None, result: fact.result }),
                seen,
                false,
            );
            return;
        }
        let path = self.name(fact.path);
        let row = row(fact.class);
        let is_held = !self.run.held.is_empty() && self.run.held.contains(fact);
        let EffectKind::Fs(op) = row.effect else {
            let path = path.text.clone();
            self.programs.entry(path.clone()).or_insert_with(|| self.namer.bytes(fact.path).to_vec());
            self.add(Effect::Exec(ExecEffect { path, result: fact.result }), seen, is_held);
            return;
        };
        let is_denied = fact.result == EffectResult::Denied;
        let to = fact.to.map(|to| match fact.class {
            ActClass::Symlink => {
                let naming = self.namer.link_text(fact.path, to);
                self.fold_entry(self.namer.bytes(to), &naming.text, &naming.rules);
                naming
            }
            _ => self.name(to),
        });
        if path.own.is_some() && !is_denied {
            self.become_target(fact, &path, to.as_ref(), seen);
            return;
        }
        // A refused act on a temporary name is told by its own pattern, and so is a refused move onto one.
        let text = |naming: &Naming| {
            let own = naming.own.as_ref().filter(|_| is_denied);
            own.unwrap_or(&naming.text).clone()
        };
        let mut path = text(&path);
        if fact.class == ActClass::Mkdir {
            path = directory(&path);
        }
        let effect = FsEffect { op, path, to: to.as_ref().map(text), result: fact.result };
        self.add(Effect::Fs(effect), seen, is_held);
    }

    /// An act on a temporary name that became another: told as a write of the target, or not at all where the
    /// making of it is told already.
    fn become_target(&mut self, fact: &FileFact, path: &Naming, to: Option<&Naming>, seen: Seen) {
        let target = path.text.clone();
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
            let to = to.map(|to| to.text.clone());
            self.add(Effect::Fs(FsEffect { op, path, to, result: fact.result }), seen, false);
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
        let mut facts: Vec<(&NetFact, &Seen)> = self.run.sockets.iter().collect();
        facts.sort_unstable_by_key(|(fact, _)| *fact);
        for (fact, seen) in facts {
            let is_addressed = is_told_by_address(fact.proto);
            let is_made = has_address(fact.proto) && fact.class == ActClass::OtherFamily;
            // Making a socket that will be told by its address is no effect yet. One that was refused has none.
            if is_made && fact.result == EffectResult::Ok {
                continue;
            }
            let class = match (is_made, is_addressed) {
                (true, _) => ActClass::Connect,
                (false, true) => fact.class,
                (false, false) => ActClass::OtherFamily,
            };
            let EffectKind::Net(op) = row(class).effect else { continue };
            // Of another family nothing but the protocol is told.
            let place = if class == ActClass::OtherFamily { &NetPlace::None } else { &fact.place };
            let hosts = match (place, fact.class) {
                (NetPlace::Inet(address, port), ActClass::Connect | ActClass::Send) => {
                    self.run.hosts.of(*address, *port).map(|host| (host, *address))
                }
                _ => None,
            };
            let (address, port) = match place {
                NetPlace::Inet(address, port) => {
                    let text = address.to_string();
                    let port = if ports.is_ephemeral(fact) {
                        let host = bracketed(&text);
                        let (from, to) = (format!("{host}:{port}"), format!("{host}:${{EPHEMERAL}}"));
                        if *port != 0 {
                            self.folded.push(Fold {
                                rule: FoldRule::EphemeralPort.as_str().into(),
                                from,
                                to: Name::from_canonical(to),
                            });
                        }
                        Port::Ephemeral
                    } else {
                        Port::Number(*port)
                    };
                    (Some(Name::from_canonical(text)), Some(port))
                }
                NetPlace::Path(path) => {
                    let naming = self.name(*path);
                    (Some(naming.text.clone()), None)
                }
                NetPlace::Abstract(name) => {
                    let naming = self.namer.abstract_name(name, bound.contains(name.as_slice()));
                    let mut from = b"@".to_vec();
                    from.extend_from_slice(name);
                    self.fold_entry(&from, &naming.text, &naming.rules);
                    (Some(naming.text), None)
                }
                NetPlace::Unreadable => (Some(Name::from_canonical("${UNREADABLE}")), None),
                NetPlace::None => (None, None),
            };
            let effect = NetEffect {
                op,
                proto: fact.proto.into(),
                host: hosts.as_ref().map(|(host, _)| host.text.clone()),
                host_from: hosts.as_ref().map(|(host, _)| host.from),
                // A name that was given stands for the address, one that was only claimed stands beside it.
                address: address.filter(|_| !hosts.as_ref().is_some_and(|(host, _)| host.is_given)),
                port,
                result: fact.result,
            };
            let asked = match (&hosts, place) {
                (Some((host, address)), NetPlace::Inet(_, port)) => {
                    self.run.hosts.asked_beside(host, *address, *port)
                }
                _ => BTreeSet::new(),
            };
            let stands_for = hosts.filter(|(host, _)| host.is_given).map(|(_, address)| address);
            let effect = Effect::net(effect);
            if let Some(address) = stands_for {
                self.addresses.entry(effect.clone()).or_default().insert(address);
            }
            if !asked.is_empty() {
                self.asked.entry(effect.clone()).or_default().extend(asked);
            }
            let peers = self.run.endpoints.peers.of(fact, |name| self.own_text(name));
            if !peers.is_empty() {
                self.peers.entry(effect.clone()).or_default().extend(peers);
            }
            if let (NetPlace::Inet(_, number), Some(Port::Ephemeral), ActClass::Connect | ActClass::Send) =
                (place, port, fact.class)
            {
                self.ports.entry(effect.clone()).or_default().insert(*number);
            }
            self.add(effect, *seen, false);
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
                began_us: Some(process.began_ns / 1000),
                ended_us: process.ended_ns.map(|ns| ns / 1000),
            })
            .collect()
    }

    /// The name of a path, and the entry that undoes it.
    fn name(&mut self, id: PathId) -> Naming {
        let naming = self.namer.name(id);
        if !std::mem::replace(&mut self.is_told[id.0 as usize], true) {
            self.fold_entry(self.namer.bytes(id), &naming.text, &naming.rules);
            if let Some(own) = &naming.own {
                self.fold_entry(self.namer.bytes(id), own, &naming.rules);
            }
        }
        naming
    }

    /// A name that a fold leads to can be the name of a path as well: then it undoes to itself too.
    fn tell_what_is_itself(&mut self) {
        if self.folded.is_empty() {
            return;
        }
        let led_to: HashSet<Name> = self.folded.iter().map(|fold| fold.to.clone()).collect();
        // What was named as a path of its own: not the text of a link.
        let named: Vec<PathId> = self.run.paths.ids().filter(|path| self.is_told[path.0 as usize]).collect();
        for path in named {
            let naming = self.namer.name(path);
            if naming.rules.is_empty() && led_to.contains(&naming.text) {
                self.fold_entry(self.namer.bytes(path), &naming.text, &[FoldRule::Itself]);
            }
        }
    }

    fn fold_entry(&mut self, from: &[u8], to: &Name, rules: &[FoldRule]) {
        if rules.is_empty() {
            return;
        }
        let mut marked = String::new();
        let mut found = super::redact::find_key_shapes(from);
        let secrets = self.namer.secrets();
        secrets.add_learned(from, &mut found);
        secrets.mark(from, &found, &mut marked, super::name::escape_into);
        let rule = match rules {
            [rule] => Cow::Borrowed(rule.as_str()),
            rules => Cow::Owned(rules.iter().map(|rule| rule.as_str()).collect::<Vec<_>>().join("+")),
        };
        self.folded.push(Fold { rule, from: marked, to: to.clone() });
    }

    fn add(&mut self, effect: Effect, seen: Seen, is_held: bool) {
        self.effects.push((effect, Told { seen, is_held }));
    }

    /// A name that is told of this run only.
    fn own_text(&mut self, bytes: &[u8]) -> String {
        let found = super::redact::find_in_name(bytes);
        self.arguments(&[bytes.to_vec()], vec![found]).swap_remove(0)
    }

    /// Who did what, by number, with secrets marked.
    fn actors(&mut self) -> Vec<Actor> {
        let run = self.run;
        let actor = |seen: &ActorSeen| Actor {
            pid: seen.pid,
            program: seen.program.as_ref().map(|program| self.own_text(&program.bytes)),
            comm: self.own_text(&seen.comm),
        };
        run.actors.all().iter().map(actor).collect()
    }
}

/// Families whose acts have an address that is told; of the others `proto` alone is.
fn is_told_by_address(proto: &str) -> bool {
    has_address(proto) || matches!(proto, "icmp" | "sctp" | "mptcp" | "udplite" | "dccp" | "raw")
}

fn directory(name: &Name) -> Name {
    let slash = if name.as_str().ends_with('/') { "" } else { "/" };
    Name::from_canonical(format!("{name}{slash}"))
}
