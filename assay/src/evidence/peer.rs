//! Who answered at a UNIX socket, in evidence and in the attributes of an event. Pure.

use std::collections::BTreeSet;

use super::Peer;
use crate::canon::value::{Object, Value};
use crate::canon::{read, write};

/// One of them.
pub fn object(peer: &Peer) -> Object {
    let mut object = Object::new();
    if let Some((pid, uid)) = peer.process {
        object.set("pid", Value::count(pid.into()));
        object.set("uid", Value::count(uid.into()));
    }
    object.set_some("program", peer.program.as_deref());
    object.set_some("comm", peer.comm.as_deref());
    object.set_some("unread", peer.unread());
    object
}

/// All of them as the text of a JSON array, for an attribute of an event is a string, a number or a truth value.
pub fn text(peers: &BTreeSet<Peer>) -> String {
    write::to_string(&Value::Array(peers.iter().map(|peer| object(peer).into()).collect()))
}

/// Those that such a text tells of. What it says otherwise is passed over: it may be another program's.
pub fn from_text(text: &str) -> Vec<Peer> {
    let list = read::parse(text.as_bytes()).ok();
    let list = list.as_ref().and_then(Value::as_array).unwrap_or_default();
    list.iter().filter_map(Value::as_object).map(of_object).collect()
}

fn of_object(object: &Object) -> Peer {
    let number =
        |key| object.get(key).and_then(Value::as_count).and_then(|number| u32::try_from(number).ok());
    let name = |key| object.str(key).map(str::to_owned);
    Peer { process: number("pid").zip(number("uid")), program: name("program"), comm: name("comm") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::EffectFacts;
    use crate::evidence::samples;

    #[test]
    fn no_hash_covers_who_answered() {
        let socket = samples::connect("unix", "/run/docker.sock", None);
        let of = |peers: BTreeSet<Peer>| {
            let mut evidence = samples::evidence(vec![socket.clone()], Vec::new());
            evidence
                .observed
                .effects
                .insert(socket.clone(), EffectFacts { hits: 1, peers, ..EffectFacts::default() });
            let objects = samples::objects(&evidence).into_iter();
            let event = objects.clone().find(|event| event.str("subject") == Some("unix:/run/docker.sock"));
            let hash = |event: &Object| event.str("assaycontenthash").map(str::to_owned);
            let told = event.and_then(|event| event.str("assaypeers").map(str::to_owned));
            (objects.map(|event| hash(&event)).collect::<Vec<_>>(), told)
        };
        let daemon = Peer { process: Some((7, 0)), program: Some("/usr/bin/dockerd".into()), comm: None };
        let (without, none) = of(BTreeSet::new());
        let (with, told) = of([daemon].into());
        assert_eq!((without, none), (with, None));
        assert!(told.is_some_and(|told| told.contains(r#""program":"/usr/bin/dockerd""#)));
    }

    #[test]
    fn what_is_written_of_each_is_read_back() {
        let name = |name: &str| Some(name.to_owned());
        let peers: BTreeSet<Peer> = [
            Peer { process: Some((7, 0)), program: name("/usr/bin/dockerd"), comm: name("dockerd") },
            Peer { process: Some((8, 1)), program: None, comm: None },
            Peer { process: None, program: None, comm: None },
        ]
        .into();
        let text = text(&peers);
        let daemon = r#"{"comm":"dockerd","pid":7,"program":"/usr/bin/dockerd","uid":0}"#;
        assert!(text.contains(daemon), "{text}");
        assert_eq!(from_text(&text).into_iter().collect::<BTreeSet<_>>(), peers);
    }

    #[test]
    fn what_another_program_wrote_is_read_as_far_as_it_goes() {
        for odd in ["", "{}", "[1]", "7", "[", "[{\"pid\":-1,\"uid\":0}", "[[]]"] {
            assert_eq!(from_text(odd), [], "{odd}");
        }
        let nobody = Peer { process: None, program: None, comm: None };
        assert_eq!(from_text(r#"[{"pid":4294967296,"uid":0,"comm":3}]"#), [nobody]);
    }
}
