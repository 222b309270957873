//! Attestations, both ways with openssl: it checks what we sign, we check what it signs.

use std::path::PathBuf;
use std::process::Command;

use assay::evidence::dsse::{self, Envelope, Signature};

use crate::sample::{Dir, assay, harmless, of};

/// openssl, or the reason why not: without it nothing here is tested, and the test must say so by failing.
fn openssl(dir: &Dir, args: &[&str]) -> Vec<u8> {
    let output =
        Command::new("openssl").args(args).current_dir(dir.path()).output().expect("openssl is installed");
    assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn keys(dir: &Dir, name: &str, kind: &[&str]) {
    let private = format!("{name}.key");
    openssl(dir, &[&["genpkey"], kind, &["-out", &private]].concat());
    openssl(dir, &["pkey", "-in", &private, "-pubout", "-out", &format!("{name}.pub")]);
}

const ED25519: &[&str] = &["-algorithm", "ed25519"];
const P256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];

fn verify_with(dir: &Dir, attestation: &str, key: &str) -> (Option<i32>, String) {
    let ran = assay(dir, &["evidence", "verify", "b", "--attestation", attestation, "--key", key], b"");
    (ran.code, ran.stdout + &ran.stderr)
}

/// Checks with openssl that `signature` is that of `signed`.
fn openssl_verifies(dir: &Dir, name: &str, signed: &[u8], signature: &[u8]) {
    dir.put("signed", signed);
    dir.put("signature", signature);
    let public = format!("{name}.pub");
    if name == "ed" {
        openssl(
            dir,
            &[
                "pkeyutl",
                "-verify",
                "-pubin",
                "-inkey",
                &public,
                "-rawin",
                "-in",
                "signed",
                "-sigfile",
                "signature",
            ],
        );
    } else {
        openssl(dir, &["dgst", "-sha256", "-verify", &public, "-signature", "signature", "signed"]);
    }
}

/// Lets openssl sign.
fn openssl_signs(dir: &Dir, name: &str, bytes: &[u8]) -> Vec<u8> {
    dir.put("to-sign", bytes);
    let private = format!("{name}.key");
    if name == "ed" {
        openssl(
            dir,
            &["pkeyutl", "-sign", "-inkey", &private, "-rawin", "-in", "to-sign", "-out", "signature"],
        );
    } else {
        openssl(dir, &["dgst", "-sha256", "-sign", &private, "-out", "signature", "to-sign"]);
    }
    std::fs::read(dir.path().join("signature")).unwrap()
}

#[test]
fn openssl_checks_what_we_sign_and_we_check_what_it_signs() {
    let dir = Dir::new();
    dir.put("b", of(harmless()));
    keys(&dir, "ed", ED25519);
    keys(&dir, "ec", P256);
    for name in ["ed", "ec"] {
        let ran = assay(&dir, &["evidence", "attest", "b", "--key", &format!("{name}.key")], b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        dir.put("a.json", &ran.stdout);
        let (code, text) = verify_with(&dir, "a.json", &format!("{name}.pub"));
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("attested by: sha256:"), "{text}");

        let envelope = dsse::from_json(ran.stdout.as_bytes()).unwrap();
        let signed = dsse::pre_authentication_encoding(&envelope.payload_type, &envelope.payload);
        openssl_verifies(&dir, name, &signed, &envelope.signatures[0].bytes);

        let unsigned = assay(&dir, &["evidence", "attest", "b", "--unsigned"], b"");
        let payload = unsigned.stdout.trim_end().as_bytes().to_vec();
        assert_eq!(payload, envelope.payload);
        let signed = dsse::pre_authentication_encoding(dsse::IN_TOTO, &payload);
        let signature = Signature { key_id: None, bytes: openssl_signs(&dir, name, &signed) };
        let theirs = Envelope { payload_type: dsse::IN_TOTO.into(), payload, signatures: vec![signature] };
        dir.put("theirs.json", dsse::to_json(&theirs));
        assert_eq!(verify_with(&dir, "theirs.json", &format!("{name}.pub")).0, Some(0));
    }
    // The other key did not sign it.
    let (code, text) = verify_with(&dir, "a.json", "ed.pub");
    assert_eq!(code, Some(2));
    assert!(text.contains("integrity/attestation"), "{text}");
}

#[test]
fn an_older_form_of_key_is_read_and_others_are_refused_with_the_reason() {
    let dir = Dir::new();
    dir.put("b", of(harmless()));
    let attest = |key: &str| assay(&dir, &["evidence", "attest", "b", "--key", key], b"");
    openssl(&dir, &["ecparam", "-name", "prime256v1", "-genkey", "-out", "sec1.key"]);
    assert_eq!(attest("sec1.key").code, Some(0), "with a block of parameters before it");
    openssl(
        &dir,
        &["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384", "-out", "p384.key"],
    );
    openssl(&dir, &["genpkey", "-algorithm", "RSA", "-out", "rsa.key"]);
    for key in ["p384.key", "rsa.key"] {
        let ran = attest(key);
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains("neither an ed25519 nor an ECDSA P-256 key"), "{ran:?}");
    }
    openssl(&dir, &["genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x", "-out", "locked.key"]);
    let ran = attest("locked.key");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("encrypted") && ran.stderr.contains("hint: "), "{ran:?}");
    assert_eq!(attest("missing.key").code, Some(2));
}

#[test]
fn an_attestation_vouches_for_one_bundle_only() {
    let dir = Dir::new();
    dir.put("b", of(harmless()));
    keys(&dir, "ed", ED25519);
    let target: PathBuf = dir.path().join("a.json");
    let ran = assay(&dir, &["evidence", "attest", "-", "--key", "ed.key", "-o", "a.json"], &of(harmless()));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(verify_with(&dir, "a.json", "ed.pub").0, Some(0));
    let statement: serde_json::Value =
        serde_json::from_slice(&dsse::from_json(&std::fs::read(&target).unwrap()).unwrap().payload).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://in-toto.io/attestation/runtime-trace/v0.1");
    assert_eq!(statement["predicate"]["assay"]["coverage"]["fs"], "complete");
    assert_eq!(statement["predicate"]["assay"]["verdict"], "ok");
    assert_eq!(statement["predicate"]["assay"]["lost"], 0);
    assert_eq!(statement["predicate"]["monitorLog"]["process"][0]["processBinary"], "/usr/bin/make");
    assert_eq!(statement["predicate"]["monitorLog"]["network"][0]["ip"], "127.0.0.1");
    // One byte of the archive that changes nothing of its members is another archive.
    let mut other = of(harmless());
    other[4] = 1;
    dir.put("b", other);
    let (code, text) = verify_with(&dir, "a.json", "ed.pub");
    assert_eq!(code, Some(2));
    assert!(text.contains("digest"), "{text}");
    // A bundle that is not good is never attested.
    assert_eq!(assay(&dir, &["evidence", "attest", "-", "--key", "ed.key"], b"nothing").code, Some(2));
    let mut envelope = std::fs::read_to_string(&target).unwrap();
    envelope = envelope.replace("\"payload\":\"e", "\"payload\":\"f");
    dir.put("a.json", envelope);
    dir.put("b", of(harmless()));
    assert_eq!(verify_with(&dir, "a.json", "ed.pub").0, Some(2));
}

/// Of several signatures one by a trusted key is enough, wherever it stands and whatever the others are; a key id is a
/// hint and proves nothing.
#[test]
fn one_good_signature_among_others_is_enough() {
    let dir = Dir::new();
    dir.put("b", of(harmless()));
    keys(&dir, "ed", ED25519);
    keys(&dir, "ec", P256);
    keys(&dir, "stranger", ED25519);
    let signed_by = |name: &str| {
        let ran = assay(&dir, &["evidence", "attest", "b", "--key", &format!("{name}.key")], b"");
        dsse::from_json(ran.stdout.as_bytes()).unwrap()
    };
    let (ed, ec, stranger) = (signed_by("ed"), signed_by("ec"), signed_by("stranger"));
    let [first, second, third] = [&ed, &ec, &stranger].map(|envelope| envelope.signatures[0].clone());
    let damaged = Signature { bytes: vec![0; first.bytes.len()], ..first.clone() };
    let unnamed = Signature { key_id: None, ..first.clone() };
    let misnamed = Signature { key_id: second.key_id.clone(), ..first.clone() };
    let pretended = Signature { key_id: first.key_id.clone(), ..third.clone() };
    let check = |signatures: &[&Signature], keys: &[&str], expect: Option<&str>| {
        let signatures = signatures.iter().map(|signature| (*signature).clone()).collect();
        let envelope = Envelope { signatures, ..ed.clone() };
        dir.put("a.json", dsse::to_json(&envelope));
        let mut args = vec!["evidence", "verify", "b", "--attestation", "a.json"];
        let keys: Vec<String> = keys.iter().map(|key| format!("{key}.pub")).collect();
        for key in &keys {
            args.extend(["--key", key]);
        }
        let ran = assay(&dir, &args, b"");
        let by = expect.map(|name| match name {
            "ed" => first.key_id.clone().unwrap(),
            _ => second.key_id.clone().unwrap(),
        });
        if let Some(by) = by {
            assert_eq!(ran.code, Some(0), "{ran:?}");
            assert!(ran.stdout.contains(&format!("attested by: {by}\n")), "{ran:?}");
        } else {
            assert_eq!(ran.code, Some(2), "{ran:?}");
            assert!(ran.stdout.contains("integrity/attestation"), "{ran:?}");
        }
    };
    check(&[&first, &third], &["ed"], Some("ed"));
    check(&[&third, &damaged, &first], &["ed"], Some("ed"));
    check(&[&damaged, &second], &["ed", "ec"], Some("ec"));
    check(&[&unnamed], &["ed"], Some("ed"));
    check(&[&misnamed], &["ed"], Some("ed"));
    check(&[&pretended], &["ed"], None);
    check(&[&damaged], &["ed"], None);
    check(&[&third], &["ed", "ec"], None);
    check(&[], &["ed"], None);
    // Each of them signed the same statement.
    assert_eq!((&ed.payload, &ed.payload), (&ec.payload, &stranger.payload));
}
