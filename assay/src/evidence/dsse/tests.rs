//! The specification's own vectors, and the example of its text.

use super::*;
use crate::evidence::signature::SigningKey;

const VECTORS: &str = include_str!("../../../../tests/fixtures/dsse/vectors.json");

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn ed25519(public: &str) -> PublicKey {
    let bytes: [u8; 32] = hex(public).try_into().unwrap();
    PublicKey::Ed25519(ed25519_dalek::VerifyingKey::from_bytes(&bytes).unwrap())
}

#[test]
fn the_vectors_of_the_specification_are_accepted_and_rejected_as_it_says() {
    let file: serde_json::Value = serde_json::from_str(VECTORS).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 9);
    for vector in vectors {
        let id = vector["id"].as_str().unwrap();
        let envelope = from_json(vector["envelope"].to_string().as_bytes()).unwrap();
        let strings = |key: &str| -> Vec<String> {
            vector[key].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
        };
        let trusted: Vec<PublicKey> = strings("trustedKeys")
            .iter()
            .map(|name| ed25519(file["keys"][name]["public"].as_str().unwrap()))
            .collect();
        let supported = strings("supportedPayloadTypes");
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        let threshold = usize::try_from(vector["threshold"].as_u64().unwrap()).unwrap();
        let is_accepted = check(&envelope, &trusted, threshold, &supported).is_ok();
        assert_eq!(is_accepted, vector["expect"] == "accept", "{id}");
        if is_accepted {
            let encoded = pre_authentication_encoding(&envelope.payload_type, &envelope.payload);
            assert_eq!(encoded, hex(vector["pae"].as_str().unwrap()), "{id}");
        }
        // What one of its keys signs here is what it signed there.
        if id == "single-signature" {
            let seed: [u8; 32] = hex(file["keys"]["A"]["seed"].as_str().unwrap()).try_into().unwrap();
            let key = SigningKey::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(&seed)));
            let encoded = pre_authentication_encoding(&envelope.payload_type, &envelope.payload);
            assert_eq!(key.sign(&encoded), envelope.signatures[0].bytes);
        }
    }
}

#[test]
fn the_example_of_the_protocol_is_accepted_and_made_again() {
    // "ECDSA over NIST P-256 and SHA-256, with deterministic-rfc6979", r and s side by side; d in decimal is
    // 97358161215184420915383655311931858321456579547487070936769975997791359926199.
    let secret = hex("d73ec437fd6346e3619c5ebfdfff0f6916804955ad32ac9ac492b0ede1f6ffb7");
    let example = br#"{"payload": "aGVsbG8gd29ybGQ=",
        "payloadType": "http://example.com/HelloWorld",
        "signatures": [{"sig": "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="}]}"#;
    let envelope = from_json(example).unwrap();
    let encoded = pre_authentication_encoding(&envelope.payload_type, &envelope.payload);
    assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    let key = SigningKey::P256(Box::new(p256::ecdsa::SigningKey::from_slice(&secret).unwrap()));
    assert!(key.public().verifies(&encoded, &envelope.signatures[0].bytes));
    let ours = p256::ecdsa::Signature::from_der(&key.sign(&encoded)).unwrap();
    assert_eq!(ours.to_bytes().as_slice(), envelope.signatures[0].bytes);
}

#[test]
fn an_envelope_is_read_as_it_was_written() {
    let envelope = Envelope {
        payload_type: IN_TOTO.into(),
        payload: b"{}".to_vec(),
        signatures: vec![Signature { key_id: Some("x".into()), bytes: vec![0, 255, 7] }],
    };
    assert_eq!(from_json(to_json(&envelope).as_bytes()), Ok(envelope));
}

#[test]
fn what_is_no_envelope_is_refused() {
    for (text, expect) in [
        ("{}", "read the envelope: signatures: absent, or not of the right form"),
        ("[]", "read the envelope: the envelope: absent, or not of the right form"),
        (r#"{"payload":1,"signatures":[]}"#, "read the envelope: payload: absent, or not of the right form"),
        (
            r#"{"payload":"*","signatures":[]}"#,
            "read the envelope: payload: absent, or not of the right form",
        ),
        (
            r#"{"payload":"","payload":"e30=","signatures":[]}"#,
            "read the envelope: read JSON at byte 14: the key \"payload\" occurs twice",
        ),
        (r#"{"signatures":[{"keyid":"x"}]}"#, "read the envelope: sig: absent, or not of the right form"),
    ] {
        assert_eq!(from_json(text.as_bytes()).unwrap_err().to_string(), expect);
    }
    let unsigned =
        from_json(br#"{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[]}"#);
    let error = check(&unsigned.unwrap(), &[], 0, &[IN_TOTO]).unwrap_err();
    assert_eq!(error, EnvelopeError::Untrusted { found: 0, threshold: 0 }, "nobody's word is no word");
}
