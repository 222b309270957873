//! Identity <-> its canonical JSON, its digest and the run id.
//!
//! Pure. The bytes of [`to_json`] are what the run id is computed from, and nothing else is. Reading is strict: a
//! key that is not in the format, or a value of another type, is an error that names the place.

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::{CANONICALIZER, Component, Degradation, Identity, Outcome};
use crate::profile::effect::{
    Effect, EffectResult, ExecEffect, FsEffect, FsOp, HostFrom, NetEffect, NetEffectOp, Port,
};
use crate::profile::name::Name;

/// The canonical JSON of an identity.
pub fn to_json(identity: &Identity) -> Vec<u8> {
    write::to_string(&Value::Object(to_object(identity))).into_bytes()
}

/// The digest of the canonical JSON.
pub fn digest(identity: &Identity) -> Digest {
    Digest::of(&to_json(identity))
}

/// `sandbox_` and the first 16 hex digits of the digest.
pub fn run_id(digest: &Digest) -> String {
    format!("sandbox_{}", &digest.hex()[..16])
}

/// The identity as a JSON object. Effects and degradations come out sorted and once each, whatever order they
/// were in.
pub fn to_object(identity: &Identity) -> Object {
    let mut sorted: Vec<&Effect> = identity.effects.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let (mut fs, mut exec, mut net) = (Vec::new(), Vec::new(), Vec::new());
    for effect in sorted {
        match effect {
            Effect::Fs(effect) => fs.push(fs_object(effect).into()),
            Effect::Exec(effect) => exec.push(exec_object(effect).into()),
            Effect::Net(effect) => net.push(net_object(effect).into()),
        }
    }
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
        ("effects", Object::from([("exec", exec.into()), ("fs", fs.into()), ("net", net.into())]).into()),
        ("outcome", outcome_object(&identity.outcome).into()),
    ])
}

/// `{op, path, to?, result}`
pub fn fs_object(effect: &FsEffect) -> Object {
    let mut object = Object::new();
    object.set("op", effect.op.as_str());
    object.set("path", effect.path.as_str());
    object.set("result", effect.result.as_str());
    object.set_some("to", effect.to.as_ref().map(Name::as_str));
    object
}

/// `{path, result}`
pub fn exec_object(effect: &ExecEffect) -> Object {
    Object::from([("path", effect.path.as_str().into()), ("result", effect.result.as_str().into())])
}

/// `{op, proto, host?, host_from?, address?, port?, result}`; an act known by `proto` only has nothing else but
/// `op` and `result`.
pub fn net_object(effect: &NetEffect) -> Object {
    let mut object = Object::new();
    if effect.op != NetEffectOp::Use {
        object.set_some("address", effect.address.as_ref().map(Name::as_str));
        object.set_some("host", effect.host.as_deref());
        object.set_some("host_from", effect.host_from.map(HostFrom::as_str));
        object.set_some(
            "port",
            effect.port.map(|port| match port {
                Port::Number(number) => Value::from(number),
                Port::Ephemeral => Value::from("ephemeral"),
            }),
        );
    }
    object.set("op", effect.op.as_str());
    object.set("proto", effect.proto.as_str());
    object.set("result", effect.result.as_str());
    object
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
        effects.push(Effect::Net(net_effect(member(one, &place)?, &place)?));
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

fn has_address(proto: &str) -> bool {
    matches!(proto, "tcp" | "udp" | "unix" | "icmp")
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
