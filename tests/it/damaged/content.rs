//! What can be done to the texts inside: each value, each attribute, their order, and what the manifest says of them.

use serde_json::{Value, json};

use super::{
    Codes, EVENTS, MANIFEST, OF_EVENTS, OF_MANIFEST, Put, digest, lines, of_line, pack, replaced, sealed,
};

/// Bad spellings of a value, and their codes.
const TOKENS: &[(&[u8], &[&str])] = &[
    (b"1.5", &["json-float"]),
    (b"1.0", &["json-float"]),
    (b"1e2", &["json-float"]),
    (b"1E+2", &["json-float"]),
    (b"-0", &["json-float"]),
    (b"-0.0", &["json-float"]),
    (b"0e0", &["json-float"]),
    (b"9007199254740992", &["json-integer"]),
    (b"-9007199254740992", &["json-integer"]),
    (b"18446744073709551616", &["json-integer"]),
    (b"340282366920938463463374607431768211456000000000000000000000000000000000000000", &["json-integer"]),
    (b"01", &["json-syntax"]),
    (b"-01", &["json-syntax"]),
    (b"+1", &["json-syntax"]),
    (b"1.", &["json-syntax", "json-float"]),
    (b".5", &["json-syntax"]),
    (b"0x10", &["json-syntax"]),
    (b"1_000", &["json-syntax"]),
    (b"NaN", &["json-syntax"]),
    (b"-Infinity", &["json-syntax"]),
    (b"nul", &["json-syntax"]),
    (b"True", &["json-syntax"]),
    (b"undefined", &["json-syntax"]),
    (b"'x'", &["json-syntax"]),
    (b"\"x", &["json-syntax", "event", "manifest"]),
    (b"\"\\x41\"", &["json-syntax"]),
    (b"\"\\u12\"", &["json-syntax"]),
    (b"\"\t\"", &["json-syntax"]),
    (b"\"\0\"", &["json-syntax"]),
    (b"[1,]", &["json-syntax"]),
    (b"[,1]", &["json-syntax"]),
    (b"{\"a\":1,}", &["json-syntax"]),
    (b"{a:1}", &["json-syntax"]),
    (b"{\"a\"}", &["json-syntax"]),
    (b"/**/1", &["json-syntax"]),
    (b"", &["json-syntax"]),
    (b"\"\\ud800\"", &["json-surrogate"]),
    (b"\"\\udc00\"", &["json-surrogate"]),
    (b"\"\\ud800\\ud800\"", &["json-surrogate"]),
    (b"\"\\ud800x\"", &["json-surrogate"]),
    (b"\"\\udc00\\ud800\"", &["json-surrogate"]),
    (b"{\"\\ud83d\":1}", &["json-surrogate"]),
    (b"{\"a\":1,\"a\":1}", &["json-duplicate-key"]),
    (b"{\"a\":1,\"\\u0061\":2}", &["json-duplicate-key"]),
    (b"[{\"a\":{\"b\":[{\"c\":1,\"d\":2,\"c\":3}]}}]", &["json-duplicate-key"]),
    (b"{\"\":1,\"\":1}", &["json-duplicate-key"]),
    (b"\"\xff\"", &["json-encoding"]),
    (b"\"\xc0\xaf\"", &["json-encoding"]),
    (b"\"\xe0\x80\xaf\"", &["json-encoding"]),
    (b"\"\xf0\x80\x80\xaf\"", &["json-encoding"]),
    (b"\"\xed\xa0\x80\"", &["json-encoding"]),
    (b"\"\xf4\x90\x80\x80\"", &["json-encoding"]),
    (b"\"\xc3\"", &["json-encoding"]),
    (b"\"\x80\"", &["json-encoding"]),
    (b"\xef\xbb\xbf1", &["json-syntax"]),
];

/// Where the values of an object begin and end, at any depth of objects.
fn values(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut places, mut is_in_string, mut at) = (Vec::new(), false, 0);
    while at < text.len() {
        match text[at] {
            b'\\' if is_in_string => at += 1,
            b'"' => is_in_string = !is_in_string,
            b':' if !is_in_string => {
                let (mut depth, mut inside, mut end) = (0, false, at + 1);
                while end < text.len() {
                    match text[end] {
                        b'\\' if inside => end += 1,
                        b'"' => inside = !inside,
                        b'{' | b'[' if !inside => depth += 1,
                        b'}' | b']' if !inside && depth > 0 => depth -= 1,
                        b',' | b'}' | b']' if !inside && depth == 0 => break,
                        _ => {}
                    }
                    end += 1;
                }
                places.push(at + 1..end);
            }
            _ => {}
        }
        at += 1;
    }
    places
}

/// Each bad spelling in the place of each value of each event and of the manifest.
pub fn tokens(put: &mut Put<'_>) {
    let splice = |text: &[u8], place: &std::ops::Range<usize>, token: &[u8]| {
        [&text[..place.start], token, &text[place.end..]].concat()
    };
    for (token, codes) in TOKENS {
        for (at, line) in lines().iter().enumerate() {
            for place in values(line) {
                let what = format!("{} at byte {} of event {at}", token.escape_ascii(), place.start);
                put(what, of_line(at, splice(line, &place, token)), codes);
            }
        }
        for place in values(MANIFEST) {
            let what = format!("{} at byte {} of the manifest", token.escape_ascii(), place.start);
            put(what, pack(&splice(MANIFEST, &place, token), EVENTS), codes);
        }
    }
}

type Edit = fn(&[u8]) -> Vec<u8>;

/// The texts as a whole.
pub fn texts(put: &mut Put<'_>) {
    let edits: [(&str, Edit, Codes); 13] = [
        ("a byte order mark before", |text| [b"\xef\xbb\xbf", text].concat(), &["json-bom"]),
        (
            "UTF-16",
            |text| text.iter().flat_map(|byte| [*byte, 0]).collect(),
            &["json-encoding", "json-syntax"],
        ),
        ("a space before", |text| [b" ", text].concat(), &["not-canonical"]),
        ("a space behind", |text| [text, b" "].concat(), &["not-canonical"]),
        ("a carriage return behind", |text| [text, b"\r"].concat(), &["not-canonical"]),
        ("a space inside", |text| replaced(text, ":", ": "), &["not-canonical"]),
        ("another spelling", |text| replaced(text, "ours", "\\u006furs"), &["not-canonical"]),
        (
            "a slash escaped",
            |text| replaced(text, "ours", "\\/"),
            &["not-canonical", "producer", "content-hash"],
        ),
        ("a value behind", |text| [text, b"1"].concat(), &["json-syntax"]),
        ("itself behind", |text| text.repeat(2), &["json-syntax"]),
        ("a bracket less", |text| text[..text.len() - 1].to_vec(), &["json-syntax"]),
        ("in a list", |text| [b"[", text, b"]"].concat(), &["event", "manifest"]),
        ("nothing", |_| Vec::new(), &["json-syntax"]),
    ];
    for (what, edit, codes) in edits {
        for (at, line) in lines().iter().enumerate() {
            put(format!("event {at}: {what}"), of_line(at, edit(line)), codes);
        }
        put(format!("manifest: {what}"), pack(&edit(MANIFEST), EVENTS), codes);
    }
    put(
        "a line feed behind the manifest".into(),
        pack(&[MANIFEST, b"\n"].concat(), EVENTS),
        &["not-canonical"],
    );
    put("no last line feed".into(), pack(MANIFEST, &EVENTS[..EVENTS.len() - 1]), &["line-end"]);
    put(
        "carriage returns".into(),
        pack(MANIFEST, &String::from_utf8_lossy(EVENTS).replace('\n', "\r\n").into_bytes()),
        &["not-canonical"],
    );
    put("an empty line".into(), pack(MANIFEST, &[EVENTS, b"\n"].concat()), &["json-syntax"]);
    put("an empty line first".into(), pack(MANIFEST, &[b"\n", EVENTS].concat()), &["json-syntax"]);
}

fn canonical(value: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).unwrap()
}

/// Members of an event doubled, taken out, renamed, and given another value of every type.
pub fn attributes(put: &mut Put<'_>) {
    let odd = [
        json!(null),
        json!(true),
        json!(false),
        json!(7),
        json!(-1),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!("sandbox_ffffffffffffffff"),
        json!("sha256:00"),
        json!(digest(b"")),
        json!("1969-12-31T23:59:59Z"),
    ];
    for (at, line) in lines().iter().enumerate() {
        let event: Value = serde_json::from_slice(line).unwrap();
        for (key, value) in event.as_object().unwrap() {
            let text = String::from_utf8(line.clone()).unwrap();
            let member = format!("\"{key}\":{value}");
            assert!(text.contains(&member), "{member}");
            let doubled = text.replacen(&member, &format!("{member},{member}"), 1).into_bytes();
            put(format!("{key} twice in event {at}"), of_line(at, doubled), &["json-duplicate-key"]);
            let is_covered = ["data", "subject"].contains(&key.as_str());
            let mut without = event.clone();
            without.as_object_mut().unwrap().remove(key);
            let codes: &[&str] = if is_covered { &["event", "content-hash"] } else { &["event"] };
            put(format!("no {key} in event {at}"), of_line(at, canonical(&without)), codes);
            for other in &odd {
                // What no hash covers may say something else of the same form.
                let is_free = match key.as_str() {
                    "assaypii" | "assaysecrets" => other.is_boolean(),
                    "assaygit" => other.is_string(),
                    "source" => other.as_str().is_some_and(|text| !text.is_empty()),
                    _ => false,
                };
                if value == other || is_free {
                    continue;
                }
                let mut changed = event.clone();
                changed[key] = other.clone();
                put(format!("{key} of event {at} is {other}"), of_line(at, canonical(&changed)), OF_EVENTS);
            }
        }
        let mut more = event.clone();
        if more.get("subject").is_none() {
            more["subject"] = json!("x");
            put(format!("a subject in event {at}"), of_line(at, canonical(&more)), &["content-hash"]);
        }
    }
}

pub fn order(put: &mut Put<'_>) {
    let lines = lines();
    for at in 0..lines.len() {
        let mut doubled = lines.clone();
        doubled.insert(at, lines[at].clone());
        put(format!("event {at} twice"), sealed(&doubled), &["sequence"]);
        for other in 0..at {
            let mut swapped = lines.clone();
            swapped.swap(at, other);
            put(format!("events {at} and {other} swapped"), sealed(&swapped), &["sequence"]);
        }
        if at + 1 < lines.len() {
            let mut fewer = lines.clone();
            fewer.remove(at);
            put(format!("event {at} taken out"), sealed(&fewer), &["sequence"]);
        }
        let line = String::from_utf8(lines[at].clone()).unwrap();
        let foreign = line.replace("sandbox_0123456789abcdef", "sandbox_fedcba9876543210");
        put(format!("event {at} of another run"), of_line(at, foreign.into_bytes()), &["run-id"]);
        let whose = line.replacen("\"sandbox_0123456789abcdef:", "\"sandbox_fedcba9876543210:", 1);
        put(format!("event {at} with a foreign id"), of_line(at, whose.into_bytes()), &["event-id"]);
        for id in ["", ":", "00", " 0", "0 ", "-0", "+0", "0x0", "99"] {
            let id = line.replacen(&format!("abcdef:{at}\""), &format!("abcdef:{id}{at}x\""), 1);
            put(format!("an odd id of event {at}"), of_line(at, id.into_bytes()), &["event-id"]);
        }
        for seq in [at + 1, at + 100, 9_007_199_254_740_991] {
            let text = line.replacen(&format!("\"assayseq\":{at}"), &format!("\"assayseq\":{seq}"), 1);
            put(format!("event {at} has number {seq}"), of_line(at, text.into_bytes()), &["sequence"]);
        }
    }
    for kept in 0..lines.len() {
        let bytes: Vec<u8> =
            lines[..kept].iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect();
        put(format!("only {kept} events"), pack(MANIFEST, &bytes), &["event-count"]);
    }
}

pub fn manifests(put: &mut Put<'_>) {
    let manifest: Value = serde_json::from_slice(MANIFEST).unwrap();
    let odd = [
        json!(null),
        json!(true),
        json!(0),
        json!(2),
        json!(-1),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!(digest(b"")),
    ];
    let mut places: Vec<Vec<String>> = Vec::new();
    walk(&manifest, &mut Vec::new(), &mut places);
    for place in places {
        let pointer = format!("/{}", place.join("/"));
        let (last, parents) = place.split_last().unwrap();
        let parent = if parents.is_empty() { String::new() } else { format!("/{}", parents.join("/")) };
        let mut without = manifest.clone();
        without.pointer_mut(&parent).unwrap().as_object_mut().unwrap().remove(last);
        put(format!("no {pointer} in the manifest"), pack(&canonical(&without), EVENTS), OF_MANIFEST);
        for other in &odd {
            let mut changed = manifest.clone();
            let value = changed.pointer_mut(&pointer).unwrap();
            if value == other {
                continue;
            }
            *value = other.clone();
            put(
                format!("{pointer} of the manifest is {other}"),
                pack(&canonical(&changed), EVENTS),
                OF_MANIFEST,
            );
        }
    }
    let mut more = manifest.clone();
    more["files"]["other"] = json!({"bytes": 0, "path": "other", "sha256": digest(b"")});
    put("a third file in the manifest".into(), pack(&canonical(&more), EVENTS), OF_MANIFEST);
    // Any digit of any digest.
    let text = String::from_utf8(MANIFEST.to_vec()).unwrap();
    for (start, _) in text.match_indices("sha256:") {
        for at in (start + 7..start + 71).step_by(7) {
            let mut bad = MANIFEST.to_vec();
            bad[at] = if bad[at] == b'0' { b'1' } else { b'0' };
            put(
                format!("byte {at} of the manifest"),
                pack(&bad, EVENTS),
                &["bundle-id", "file-hash", "run-root"],
            );
            bad[at] = MANIFEST[at].to_ascii_uppercase();
            if bad[at] != MANIFEST[at] {
                put(format!("byte {at} of the manifest in upper case"), pack(&bad, EVENTS), &["manifest"]);
            }
        }
    }
}

fn walk(value: &Value, place: &mut Vec<String>, places: &mut Vec<Vec<String>>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        place.push(key.clone());
        places.push(place.clone());
        walk(value, place, places);
        place.pop();
    }
}
