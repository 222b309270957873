//! `observed.effects`: each effect again, with how often, who decided, who did it and what the policy says. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::{Actor, EffectFacts, Peer, Refusal};
use super::super::{identity, peer, shapes};
use super::{Reader, WireError, wrong};
use crate::canon::node::{Item, Scalar};
use crate::canon::value::{Object, Value};
use crate::profile::effect::Effect;

/// One of the effects with its facts. Most are flat; who did it is told of what was denied or not authorised.
pub(super) fn item<'a>(effect: &'a Effect, facts: &'a EffectFacts) -> Item<'a> {
    let mut flat = identity::flat(effect);
    flat.set("hits", Scalar::Count(facts.hits));
    flat.text_if("denied_by", facts.denied_by);
    if let Some(is_authorised) = facts.is_authorised {
        flat.set("authorised", Scalar::Bool(is_authorised));
    }
    let has_lists = !facts.addresses.is_empty() || !facts.asked.is_empty() || !facts.peers.is_empty();
    if facts.by.is_none() && facts.refused.is_none() && !has_lists {
        return Item::Flat(flat);
    }
    let mut object = flat.to_object();
    if !facts.addresses.is_empty() {
        object.set("addresses", list_of(&facts.addresses));
    }
    if !facts.asked.is_empty() {
        object.set("asked", list_of(&facts.asked));
    }
    if !facts.peers.is_empty() {
        object.set("peers", Value::Array(facts.peers.iter().map(|one| peer::object(one).into()).collect()));
    }
    object.set_some("by", facts.by.as_deref().map(actor));
    object.set_some("refused", facts.refused.as_deref().map(refusal));
    Item::Object(object)
}

fn list_of(set: &BTreeSet<impl ToString>) -> Value {
    Value::Array(set.iter().map(|one| one.to_string().as_str().into()).collect())
}

fn actor(actor: &Actor) -> Object {
    let mut object = Object::new();
    object.set("pid", Value::count(actor.pid.into()));
    object.set_some("program", actor.program.as_deref());
    object.set("comm", actor.comm.as_str());
    object
}

fn refusal(refusal: &Refusal) -> Object {
    let mut object = Object::new();
    object.set_some("rule", refusal.rule.as_deref());
    object.set_some("at", refusal.at.as_deref());
    object.set("remedy", refusal.remedy.as_str());
    object
}

/// Reads them back.
pub(super) fn read(reader: &Reader<'_>) -> Result<BTreeMap<Effect, EffectFacts>, WireError> {
    let mut effects = BTreeMap::new();
    for list in ["fs", "exec", "net"] {
        for one in reader.objects(list)? {
            let mut object = one.object.clone();
            let facts = read_facts(&one, &mut object)?;
            let effect = match list {
                "fs" => Effect::Fs(identity::fs_effect(&object, &one.place)?),
                "exec" => Effect::Exec(identity::exec_effect(&object, &one.place)?),
                _ => Effect::net(identity::net_effect(&object, &one.place)?),
            };
            effects.insert(effect, facts);
        }
    }
    Ok(effects)
}

/// Takes the facts out of `object` and leaves the effect.
fn read_facts(one: &Reader<'_>, object: &mut Object) -> Result<EffectFacts, WireError> {
    let denied_by = match object.remove("denied_by") {
        None => None,
        Some(word) => Some(
            shapes::DENIERS
                .into_iter()
                .find(|known| word.as_str() == Some(known))
                .ok_or_else(|| wrong(&one.at("denied_by"), "not policy, launch or system"))?,
        ),
    };
    let is_authorised = match object.remove("authorised") {
        None => None,
        Some(value) => {
            Some(value.as_bool().ok_or_else(|| wrong(&one.at("authorised"), "not true or false"))?)
        }
    };
    let by = object.remove("by").map(|_| read_actor(&one.object("by")?)).transpose()?.map(Arc::new);
    let refused =
        object.remove("refused").map(|_| read_refusal(&one.object("refused")?)).transpose()?.map(Box::new);
    let hits = one.count("hits")?;
    object.remove("hits");
    let addresses = match object.remove("addresses") {
        None => BTreeSet::new(),
        Some(value) => value
            .as_array()
            .and_then(|list| list.iter().map(|one| one.as_str()?.parse().ok()).collect())
            .ok_or_else(|| wrong(&one.at("addresses"), "not a list of addresses"))?,
    };
    let asked = match object.remove("asked") {
        None => BTreeSet::new(),
        Some(value) => value
            .as_array()
            .and_then(|list| list.iter().map(|one| one.as_str().map(str::to_owned)).collect())
            .ok_or_else(|| wrong(&one.at("asked"), "not a list of names"))?,
    };
    let peers = match object.remove("peers") {
        None => BTreeSet::new(),
        Some(_) => one.objects("peers")?.iter().map(read_peer).collect::<Result<_, _>>()?,
    };
    Ok(EffectFacts { hits, denied_by, is_authorised, by, refused, addresses, asked, peers })
}

fn read_peer(reader: &Reader<'_>) -> Result<Peer, WireError> {
    let number =
        |key: &str| u32::try_from(reader.count(key)?).map_err(|_| wrong(&reader.at(key), "too large"));
    let process = match reader.object.get("pid") {
        None => None,
        Some(_) => Some((number("pid")?, number("uid")?)),
    };
    // Why something is missing follows from what is.
    Ok(Peer { process, program: optional(reader, "program")?, comm: optional(reader, "comm")? })
}

fn read_actor(reader: &Reader<'_>) -> Result<Actor, WireError> {
    let pid = u32::try_from(reader.count("pid")?).map_err(|_| wrong(&reader.at("pid"), "too large"))?;
    Ok(Actor { pid, program: optional(reader, "program")?, comm: reader.text("comm")?.to_owned() })
}

fn read_refusal(reader: &Reader<'_>) -> Result<Refusal, WireError> {
    let remedy = reader.text("remedy")?.to_owned();
    Ok(Refusal { rule: optional(reader, "rule")?, at: optional(reader, "at")?, remedy })
}

fn optional(reader: &Reader<'_>, key: &str) -> Result<Option<String>, WireError> {
    reader.object.get(key).map(|_| reader.text(key).map(str::to_owned)).transpose()
}
