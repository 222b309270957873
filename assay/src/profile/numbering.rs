//! Effects as they were told → each once, in the order of the identity, with the secrets in them numbered. Pure.

use super::actors::Told;
use super::effect::{Effect, FsOp};
use super::name::Name;
use super::order::sort_by_text;
use super::secrets::Secrets;

/// The effects in their order, each once, with secrets numbered by first occurrence in that order.
pub(super) fn numbered(effects: Vec<(Effect, Told)>, secrets: &mut Secrets) -> Vec<(Effect, Told)> {
    if secrets.is_empty() {
        return merged(effects);
    }
    let has_secret = |effect: &Effect| {
        let mut has_secret = false;
        effect.for_names(&mut |name| has_secret |= Secrets::has_mark(name));
        has_secret
    };
    let (mut hiding, mut plain): (Vec<_>, Vec<_>) =
        effects.into_iter().partition(|(effect, _)| has_secret(effect));
    // What has no secret has no part in the numbering, so only the others need their order: as if all secrets looked
    // alike, and where only they differ by their own bytes.
    hiding.sort_by_cached_key(|(effect, _)| {
        let mut hidden = Vec::new();
        let shown = effect.map_names(&mut |text| {
            let (text, values) = secrets.sort_key(text);
            hidden.extend(values.into_iter().map(<[u8]>::to_vec));
            text
        });
        (shown, hidden)
    });
    plain.extend(
        hiding.into_iter().map(|(effect, facts)| (effect.map_names(&mut |text| secrets.write(text)), facts)),
    );
    merged(plain)
}

/// Sorted, and what was told several times told once. All in place: there may be a million.
fn merged(mut effects: Vec<(Effect, Told)>) -> Vec<(Effect, Told)> {
    effects.sort_unstable_by_key(|(effect, _)| list(effect));
    for effects in effects.chunk_by_mut(|(a, _), (b, _)| list(a) == list(b)) {
        if matches!(effects[0].0, Effect::Net(_)) {
            effects.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        } else {
            sort_by_text(effects, |(effect, _)| first_name(effect), |(a, _), (b, _)| a.cmp(b));
        }
    }
    effects.dedup_by(|(later, facts), (effect, known)| {
        let is_same = later == effect;
        if is_same {
            known.add(*facts);
        }
        is_same
    });
    effects
}

/// What effects are sorted by before their names.
fn list(effect: &Effect) -> (u8, Option<FsOp>) {
    match effect {
        Effect::Fs(fs) => (0, Some(fs.op)),
        Effect::Exec(_) => (1, None),
        Effect::Net(_) => (2, None),
    }
}

fn first_name(effect: &Effect) -> &str {
    match effect {
        Effect::Fs(fs) => fs.path.as_str(),
        Effect::Exec(exec) => exec.path.as_str(),
        Effect::Net(net) => net.address.as_ref().map_or("", Name::as_str),
    }
}
