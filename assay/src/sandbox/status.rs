//! The status file: how a run came out, as one JSON object. Pure: the bytes, not the writing.

use serde_json::{Map, Value, json};

use super::artifact::Written;
use super::outcome::{ChildEnd, Decision};
use super::signals;
use crate::evidence::Degradation;
use crate::profile::name::Name;

/// The JSON of a run's end, one line. Who does not know what was not kept says nothing of it.
pub fn render(
    child: Option<ChildEnd>,
    decision: &Decision,
    artifacts: &[(&'static str, Written)],
    degradations: Option<&[Degradation]>,
) -> Vec<u8> {
    let child = match child {
        None => Value::Null,
        Some(ChildEnd::Exited(code)) => json!({ "exit_code": code }),
        Some(ChildEnd::Signalled(number)) => json!({ "signal": signals::name_of(number) }),
        Some(ChildEnd::TimedOut) => json!({ "timeout": true }),
    };
    let artifacts: Map<String, Value> = artifacts
        .iter()
        .map(|(kind, written)| {
            let path = Name::from_bytes(written.path.as_os_str().as_encoded_bytes());
            ((*kind).to_owned(), json!({ "path": path.as_str(), "sha256": written.sha256.hex() }))
        })
        .collect();
    let mut status = json!({
        "child": child,
        "exit_code": decision.exit.code(),
        "verdict": decision.verdict.as_str(),
        "reasons": decision.reasons,
        "artifacts": artifacts,
    });
    if let Some(degradations) = degradations {
        status["degradations"] = degradations.iter().map(told).collect();
    }
    let mut bytes = status.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

fn told(degradation: &Degradation) -> Value {
    let mut value = json!({ "component": degradation.component.as_str(), "reason": degradation.reason });
    if let Some(detail) = &degradation.detail {
        value["detail"] = json!(detail);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::digest::Digest;
    use crate::sandbox::outcome::{Ending, decide};

    #[test]
    fn the_status_tells_the_child_from_us() {
        let ending = Ending {
            child: Some(ChildEnd::Exited(4)),
            unwritten: vec!["write /x\n: no".into()],
            ..Ending::default()
        };
        let written = Written { path: "/tmp/a b\u{1}".into(), sha256: Digest::of(b"") };
        let bytes = render(ending.child, &decide(&ending), &[("profile", written)], Some(&[]));
        let expect = concat!(
            r#"{"artifacts":{"profile":{"path":"/tmp/a b\\x01","#,
            r#""sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}},"#,
            r#""child":{"exit_code":4},"degradations":[],"exit_code":3,"reasons":["write /x\n: no"],"verdict":"incomplete"}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(bytes).unwrap(), expect);
    }

    #[test]
    fn each_end_of_the_child_has_its_form() {
        for (child, expect) in [
            (None, Value::Null),
            (Some(ChildEnd::Signalled(9)), json!({ "signal": "SIGKILL" })),
            (Some(ChildEnd::TimedOut), json!({ "timeout": true })),
        ] {
            let decision = decide(&Ending { child, ..Ending::default() });
            let value: Value = serde_json::from_slice(&render(child, &decision, &[], Some(&[]))).unwrap();
            assert_eq!(value["child"], expect);
        }
    }
}
