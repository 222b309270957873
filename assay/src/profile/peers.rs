//! Who was at the other end of the run's UNIX connections, by what they were. Pure.

use std::collections::{BTreeSet, HashMap};

use super::canonical::NetFact;
use super::identity::Peer;
use crate::observe::observation::{NetAct, Peer as Seen};

/// The most that are told of one end: a server that starts anew for each connection would fill the record.
const MOST: usize = 16;
/// The most ends that are told.
const MOST_ENDS: usize = 10_000;

/// Peers by the act that found them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peers(HashMap<NetFact, BTreeSet<Seen>>);

impl Peers {
    /// Takes note of whom an act has found.
    pub fn see(&mut self, fact: &NetFact, act: &NetAct) {
        let Some(peer) = &act.peer else { return };
        if let Some(known) = self.0.get_mut(fact) {
            if known.len() < MOST && !known.contains(&**peer) {
                known.insert(Seen::clone(peer));
            }
        } else if self.0.len() < MOST_ENDS {
            self.0.insert(fact.clone(), BTreeSet::from([Seen::clone(peer)]));
        }
    }

    /// Those of one act, with names as `text` writes them.
    pub fn of(&self, fact: &NetFact, mut text: impl FnMut(&[u8]) -> String) -> BTreeSet<Peer> {
        let told = |peer: &Seen| Peer {
            process: peer.process,
            program: peer.program.as_ref().map(|program| text(&program.bytes)),
            comm: peer.comm.as_deref().map(&mut text),
        };
        self.0.get(fact).into_iter().flatten().map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::observation::{Endpoint, NetOp, PathRef};
    use crate::profile::acts::ActClass;
    use crate::profile::canonical::NetPlace;
    use crate::profile::effect::EffectResult;

    #[test]
    fn of_one_end_no_more_than_sixteen_are_told() {
        let place = NetPlace::Abstract(b"a".to_vec());
        let fact = NetFact {
            class: ActClass::Connect,
            proto: "unix",
            place,
            is_ephemeral: false,
            result: EffectResult::Ok,
        };
        let mut peers = Peers::default();
        for pid in 1..=100 {
            let peer = Seen {
                process: Some((pid, 0)),
                program: Some(PathRef::resolved("/usr/bin/server")),
                comm: Some(b"server".to_vec()),
            };
            let endpoint = Endpoint::UnixAbstract(b"a".to_vec());
            let (op, peer) = (NetOp::Connect, Some(Box::new(peer)));
            peers.see(&fact, &NetAct { op, proto: "unix", endpoint, is_ephemeral: false, peer });
        }
        let told = peers.of(&fact, |name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(told.len(), MOST);
        assert_eq!(told.first().map(ToString::to_string), Some("/usr/bin/server, uid 0".into()));
    }
}
