//! `assay evidence diff` of two bundles names exactly the effects in which their runs differ, for each change of one act
//! of a recorded run; and is silent where the runs are one.

use std::collections::{BTreeMap, BTreeSet};

use assay::evidence::Evidence;
use assay::profile::effect::{Effect, HostFrom, Port};
use assay::profile::identity::Identity;
use serde_json::{Map, Value, json};

use crate::sample::{Dir, assay, bundle, evidence};
use crate::sensitivity::shell;

/// A bundle of the run of this identity, by the real writer.
fn packed(identity: &Identity) -> Vec<u8> {
    let of_effects = evidence(identity.effects.clone(), Vec::new());
    bundle(&Evidence { identity: identity.clone(), ..of_effects })
}

/// An effect in the words of a bundle, told from the effect alone.
fn told(effect: &Effect) -> String {
    let mut words = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            words.insert(key.to_owned(), value);
        }
    };
    set("result", Some(effect.result().as_str().into()));
    match effect {
        Effect::Fs(fs) => {
            set("op", Some(fs.op.as_str().into()));
            set("path", Some(fs.path.as_str().into()));
            set("to", fs.to.as_ref().map(|to| to.as_str().into()));
        }
        Effect::Exec(exec) => set("path", Some(exec.path.as_str().into())),
        Effect::Net(net) => {
            set("op", Some(net.op.as_str().into()));
            set("proto", Some(net.proto.as_str().into()));
            set("host", net.host.as_deref().map(Value::from));
            set("host_from", net.host_from.map(|from: HostFrom| from.as_str().into()));
            set("address", net.address.as_ref().map(|address| address.as_str().into()));
            set(
                "port",
                net.port.map(|port| match port {
                    Port::Number(number) => json!(number),
                    Port::Ephemeral => json!("ephemeral"),
                }),
            );
        }
    }
    Value::Object(words).to_string()
}

/// Which effects the first has and the second lacks.
fn lacking(first: &Identity, second: &Identity) -> BTreeSet<String> {
    let second: BTreeSet<&Effect> = second.effects.iter().collect();
    first.effects.iter().filter(|effect| !second.contains(effect)).map(told).collect()
}

/// Everything that the changes say of one side, and how often they say anything of it.
fn side(changes: &[Value], name: &str) -> (BTreeSet<String>, usize) {
    let told: Vec<String> = changes
        .iter()
        .filter_map(|change| change[name].as_object())
        .map(|data| {
            let mut data = data.clone();
            // A fact of the program, and not of the effect.
            data.remove("sha256");
            Value::Object(data).to_string()
        })
        .collect();
    let count = told.len();
    (told.into_iter().collect(), count)
}

/// What `assay evidence diff` says of the bundles of two runs, and its exit code.
fn diff(dir: &Dir, first: &Identity, second: &Identity) -> (Option<i32>, Value) {
    dir.put("a", packed(first));
    dir.put("b", packed(second));
    let ran = assay(dir, &["evidence", "diff", "a", "b", "--format", "json"], b"");
    assert_eq!(ran.stderr, "");
    (ran.code, serde_json::from_str(&ran.stdout).expect("JSON"))
}

#[test]
fn each_change_of_one_act_is_named_by_exactly_the_effects_it_changes() {
    let dir = Dir::new();
    let recorded = shell();
    let (mut kinds, mut words) = (BTreeSet::new(), BTreeSet::new());
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut check = |what: &str, before: &Identity, after: &Identity| {
        // Of the classes with many changes a part, all along the run: each costs a process.
        let seen = seen.entry(what.to_owned()).or_default();
        *seen += 1;
        if *seen > 4 && !seen.is_multiple_of(7) {
            return;
        }
        let (code, value) = diff(&dir, before, after);
        let changes = value["changes"].as_array().expect("a list");
        let (gone, new) = (lacking(before, after), lacking(after, before));
        assert_eq!((code, &value["same"]), (Some(1), &Value::Bool(false)), "{what}");
        assert_eq!(side(changes, "before"), (gone.clone(), gone.len()), "{what}");
        assert_eq!(side(changes, "after"), (new.clone(), new.len()), "{what}");
        for change in changes {
            let is_told = |name: &str| change[name].is_object();
            let word = match (is_told("before"), is_told("after")) {
                (true, false) => "removed",
                (false, true) => "added",
                (true, true) => "changed",
                (false, false) => unreachable!("nothing was told of either side"),
            };
            assert_eq!(change["change"], word, "{what}: {change}");
            if let (true, Some(aspect)) = (word == "changed", change["aspect"].as_str()) {
                // The two are one thing, of which nothing else is another.
                let without = |name: &str| {
                    let mut data = change[name].as_object().expect("it is told").clone();
                    data.remove(aspect).expect("what differs");
                    data
                };
                assert_eq!(without("before"), without("after"), "{what}: {change}");
            }
            kinds.insert(change["kind"].as_str().expect("a kind").to_owned());
            words.insert(word);
        }
    };
    let counts = recorded.check_changes(&mut check);
    assert!(counts.iter().all(|count| *count > 0), "a class has nothing in it: {counts:?}");
    assert_eq!(kinds, ["exec", "fs", "net"].map(str::to_owned).into());
    assert_eq!(words, ["added", "changed", "removed"].into());
}

#[test]
fn one_run_under_other_circumstances_is_no_difference() {
    let dir = Dir::new();
    let mut count = 0;
    shell().check_circumstances(&mut |before, after| {
        let (code, value) = diff(&dir, before, after);
        assert_eq!((code, &value["same"], &value["changes"]), (Some(0), &json!(true), &json!([])));
        count += 1;
    });
    assert!(count > 0, "there was nothing to compare");
}
