//! Identity <-> its canonical JSON, its digest and the run id.
//!
//! Pure. The bytes of [`to_json`] are what the run id is computed from, and nothing else is. Reading is strict: a
//! key that is not in the format, or a value of another type, is an error that names the place.

use std::io;

use sha2::{Digest as _, Sha256};

use crate::canon::digest::Digest;
use crate::canon::node::{Flat, Item, Node, Scalar};
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::{CANONICALIZER, Component, Degradation, Identity, Outcome};
use crate::profile::effect::{
    Effect, EffectResult, ExecEffect, FsEffect, FsOp, HostFrom, NetEffect, NetEffectOp, Port, has_address,
};
use crate::profile::name::Name;

/// The canonical JSON of an identity.
pub fn to_json(identity: &Identity) -> Vec<u8> {
    let mut out = Vec::new();
    write::write_node(node(identity), &mut out).expect("writing to a Vec cannot fail");
    out
}

/// The digest of the canonical JSON, which is never there as a whole: a run can have a million effects.
pub fn digest(identity: &Identity) -> Digest {
    let mut hasher = Hashing(Sha256::new());
    write::write_node(node(identity), &mut hasher).expect("hashing cannot fail");
    Digest::from_raw(hasher.0.finalize().into())
}

struct Hashing(Sha256);

impl io::Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The identity, its effects made one by one while it is written. Effects and degradations come out sorted and once
/// each, whatever order they were in.
pub fn node(identity: &Identity) -> Node<'_> {
    let lists = by_kind(identity.effects.iter()).map(|(name, effects)| {
        let items = effects.into_iter().map(|effect| Item::Flat(flat(effect)));
        (name.to_owned(), Node::List(Box::new(items)))
    });
    Node::with(frame(identity), vec![("effects", Node::Map(lists.into()))])
}

/// Effects in order and once each, by the names of their lists in the format, in canonical order.
fn by_kind<'a>(effects: impl Iterator<Item = &'a Effect>) -> [(&'static str, Vec<&'a Effect>); 3] {
    let mut fs: Vec<&Effect> = effects.collect();
    // Mostly they are in order already, which takes one look.
    fs.sort();
    fs.dedup();
    let net = fs.split_off(fs.partition_point(|effect| !matches!(effect, Effect::Net(_))));
    let exec = fs.split_off(fs.partition_point(|effect| matches!(effect, Effect::Fs(_))));
    [("exec", exec), ("fs", fs), ("net", net)]
}

/// An effect as its object has it.
pub fn flat(effect: &Effect) -> Flat<'_> {
    let mut flat = Flat::default();
    match effect {
        Effect::Fs(effect) => {
            flat.text("op", effect.op.as_str());
            flat.text("path", effect.path.as_str());
            flat.text_if("to", effect.to.as_ref().map(Name::as_str));
        }
        Effect::Exec(effect) => flat.text("path", effect.path.as_str()),
        Effect::Net(effect) => {
            if effect.op != NetEffectOp::Use {
                flat.text_if("address", effect.address.as_ref().map(Name::as_str));
                flat.text_if("host", effect.host.as_deref());
                flat.text_if("host_from", effect.host_from.map(HostFrom::as_str));
                match effect.port {
                    Some(Port::Number(number)) => flat.set("port", Scalar::Count(number.into())),
                    Some(Port::Ephemeral) => flat.text("port", "ephemeral"),
                    None => {}
                }
            }
            flat.text("op", effect.op.as_str());
            flat.text("proto", &effect.proto);
        }
    }
    flat.text("result", effect.result().as_str());
    flat
}

/// `sandbox_` and the first 16 hex digits of the digest.
pub fn run_id(digest: &Digest) -> String {
    format!("sandbox_{}", &digest.hex()[..16])
}

/// All of the identity but its effects.
fn frame(identity: &Identity) -> Object {
    let mut degradations: Vec<&Degradation> = identity.degradations.iter().collect();
    degradations.sort_unstable();
    degradations.dedup();
    Object::from([
        ("canonicalizer", CANONICALIZER.into()),
        ("command", Value::Array(identity.command.iter().map(|word| word.as_str().into()).collect())),
        (
            "degradations",
            Value::Array(degradations.into_iter().map(|one| degradation_object(one).into()).collect()),
        ),
        ("outcome", outcome_object(&identity.outcome).into()),
    ])
}

/// `{op, path, to?, result}`
pub fn fs_object(effect: &FsEffect) -> Object {
    flat(&Effect::Fs(effect.clone())).to_object()
}

/// `{path, result}`
pub fn exec_object(effect: &ExecEffect) -> Object {
    flat(&Effect::Exec(effect.clone())).to_object()
}

/// `{op, proto, host?, host_from?, address?, port?, result}`; an act known by `proto` only has nothing else but
/// `op` and `result`.
pub fn net_object(effect: &NetEffect) -> Object {
    flat(&Effect::net(effect.clone())).to_object()
}

/// `{component, reason, detail?}`
pub fn degradation_object(degradation: &Degradation) -> Object {
    let mut object = Object::new();
    object.set("component", degradation.component.as_str());
    object.set_some("detail", degradation.detail.as_deref());
    object.set("reason", degradation.reason.as_str());
    object
}

/// `{exit_code}`, `{signal}` or `{timeout: true}`
pub fn outcome_object(outcome: &Outcome) -> Object {
    match outcome {
        Outcome::ExitCode(code) => Object::from([("exit_code", u16::from(*code).into())]),
        Outcome::Signal(name) => Object::from([("signal", name.as_str().into())]),
        Outcome::Timeout => Object::from([("timeout", true.into())]),
    }
}

/// Why an object is not what the format says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the identity: {place}: {problem}")]
pub struct IdentityError {
    /// Where, as `effects.fs[3].op`.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

fn error(place: impl Into<String>, problem: impl Into<String>) -> IdentityError {
    IdentityError { place: place.into(), problem: problem.into() }
}

/// Reads an identity back from its JSON object.
pub fn from_object(object: &Object) -> Result<Identity, IdentityError> {
    only(object, "identity", &["canonicalizer", "command", "degradations", "effects", "outcome"])?;
    let canonicalizer = text(object, "identity", "canonicalizer")?;
    if canonicalizer != CANONICALIZER {
        return Err(error(
            "canonicalizer",
            format!("\"{}\" is not known here", canonicalizer.escape_debug()),
        ));
    }
    let command = array(object, "identity", "command")?
        .iter()
        .map(|word| word.as_str().map(str::to_owned).ok_or_else(|| error("command", "not a list of strings")))
        .collect::<Result<_, _>>()?;
    let lists =
        object.get("effects").and_then(Value::as_object).ok_or_else(|| error("effects", "not an object"))?;
    only(lists, "effects", &["exec", "fs", "net"])?;
    let mut effects = Vec::new();
    for (at, one) in array(lists, "effects", "fs")?.iter().enumerate() {
        effects.push(Effect::Fs(fs_effect(
            member(one, &format!("effects.fs[{at}]"))?,
            &format!("effects.fs[{at}]"),
        )?));
    }
    for (at, one) in array(lists, "effects", "exec")?.iter().enumerate() {
        let place = format!("effects.exec[{at}]");
        effects.push(Effect::Exec(exec_effect(member(one, &place)?, &place)?));
    }
    for (at, one) in array(lists, "effects", "net")?.iter().enumerate() {
        let place = format!("effects.net[{at}]");
        effects.push(Effect::net(net_effect(member(one, &place)?, &place)?));
    }
    let mut degradations = Vec::new();
    for (at, one) in array(object, "identity", "degradations")?.iter().enumerate() {
        let place = format!("degradations[{at}]");
        degradations.push(degradation(member(one, &place)?, &place)?);
    }
    let outcome =
        object.get("outcome").and_then(Value::as_object).ok_or_else(|| error("outcome", "not an object"))?;
    Ok(Identity { command, effects, outcome: self::outcome(outcome, "outcome")?, degradations })
}

/// Reads what [`fs_object`] wrote.
pub fn fs_effect(object: &Object, place: &str) -> Result<FsEffect, IdentityError> {
    only(object, place, &["op", "path", "result", "to"])?;
    let word = text(object, place, "op")?;
    let op = FsOp::ALL
        .into_iter()
        .find(|op| op.as_str() == word)
        .ok_or_else(|| error(format!("{place}.op"), "not an operation on files"))?;
    Ok(FsEffect {
        op,
        path: Name::from_canonical(text(object, place, "path")?),
        to: optional_text(object, place, "to")?.map(Name::from_canonical),
        result: result(object, place)?,
    })
}

/// Reads what [`exec_object`] wrote.
pub fn exec_effect(object: &Object, place: &str) -> Result<ExecEffect, IdentityError> {
    only(object, place, &["path", "result"])?;
    exec_effect_with_digest(object, place)
}

/// The same of an event's data, where a digest may stand beside it that the identity does not hold.
pub fn exec_effect_with_digest(object: &Object, place: &str) -> Result<ExecEffect, IdentityError> {
    only(object, place, &["path", "result", "sha256"])?;
    Ok(ExecEffect {
        path: Name::from_canonical(text(object, place, "path")?),
        result: result(object, place)?,
    })
}

/// Reads what [`net_object`] wrote.
pub fn net_effect(object: &Object, place: &str) -> Result<NetEffect, IdentityError> {
    only(object, place, &["address", "host", "host_from", "op", "port", "proto", "result"])?;
    let proto = text(object, place, "proto")?.to_owned();
    let host = optional_text(object, place, "host")?.map(str::to_owned);
    let address = optional_text(object, place, "address")?.map(Name::from_canonical);
    let port = match object.get("port") {
        None => None,
        Some(Value::String(word)) if word == "ephemeral" => Some(Port::Ephemeral),
        Some(value) => Some(Port::Number(
            value
                .as_count()
                .and_then(|number| u16::try_from(number).ok())
                .ok_or_else(|| error(format!("{place}.port"), "neither a port nor \"ephemeral\""))?,
        )),
    };
    let host_from = match optional_text(object, place, "host_from")? {
        None => None,
        Some(word) => Some(
            HostFrom::ALL
                .into_iter()
                .find(|from| from.as_str() == word)
                .ok_or_else(|| error(format!("{place}.host_from"), "not a source of host names"))?,
        ),
    };
    let op = match text(object, place, "op")? {
        // These four always have an address that is told, or one that could not be read.
        "connect" if host.is_none() && address.is_none() && port.is_none() && !has_address(&proto) => {
            NetEffectOp::Use
        }
        "connect" => NetEffectOp::Connect,
        "bind" => NetEffectOp::Bind,
        "listen" => NetEffectOp::Listen,
        "send" => NetEffectOp::Send,
        _ => return Err(error(format!("{place}.op"), "not an operation on sockets")),
    };
    Ok(NetEffect { op, proto, host, host_from, address, port, result: result(object, place)? })
}

/// Reads what [`degradation_object`] wrote.
pub fn degradation(object: &Object, place: &str) -> Result<Degradation, IdentityError> {
    only(object, place, &["component", "detail", "reason"])?;
    let word = text(object, place, "component")?;
    let component = Component::ALL
        .into_iter()
        .find(|component| component.as_str() == word)
        .ok_or_else(|| error(format!("{place}.component"), "not a component"))?;
    Ok(Degradation {
        component,
        reason: text(object, place, "reason")?.to_owned(),
        detail: optional_text(object, place, "detail")?.map(str::to_owned),
    })
}

/// Reads what [`outcome_object`] wrote.
pub fn outcome(object: &Object, place: &str) -> Result<Outcome, IdentityError> {
    let mut members = object.iter();
    match (members.next(), members.next()) {
        (Some(("exit_code", value)), None) => value
            .as_count()
            .and_then(|code| u8::try_from(code).ok())
            .map(Outcome::ExitCode)
            .ok_or_else(|| error(format!("{place}.exit_code"), "not 0 to 255")),
        (Some(("signal", Value::String(name))), None) => Ok(Outcome::Signal(name.clone())),
        (Some(("timeout", Value::Bool(true))), None) => Ok(Outcome::Timeout),
        _ => Err(error(place, "none of {exit_code}, {signal}, {timeout: true}")),
    }
}

fn member<'a>(value: &'a Value, place: &str) -> Result<&'a Object, IdentityError> {
    value.as_object().ok_or_else(|| error(place, "not an object"))
}

fn only(object: &Object, place: &str, keys: &[&str]) -> Result<(), IdentityError> {
    match object.iter().find(|(key, _)| !keys.contains(key)) {
        Some((key, _)) => Err(error(place, format!("unknown key \"{}\"", key.escape_debug()))),
        None => Ok(()),
    }
}

fn text<'a>(object: &'a Object, place: &str, key: &str) -> Result<&'a str, IdentityError> {
    object.str(key).ok_or_else(|| error(format!("{place}.{key}"), "not a string, or absent"))
}

fn optional_text<'a>(object: &'a Object, place: &str, key: &str) -> Result<Option<&'a str>, IdentityError> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(error(format!("{place}.{key}"), "not a string")),
    }
}

fn array<'a>(object: &'a Object, place: &str, key: &str) -> Result<&'a [Value], IdentityError> {
    object
        .get(key)
        .and_then(Value::as_array)
        .ok_or_else(|| error(format!("{place}.{key}"), "not a list, or absent"))
}

fn result(object: &Object, place: &str) -> Result<EffectResult, IdentityError> {
    match text(object, place, "result")? {
        "ok" => Ok(EffectResult::Ok),
        "denied" => Ok(EffectResult::Denied),
        _ => Err(error(format!("{place}.result"), "neither ok nor denied")),
    }
}

#[cfg(test)]
mod tests;
