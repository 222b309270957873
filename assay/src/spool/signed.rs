//! A line of the chain <-> the host's signature for it: a DSSE envelope. Pure; each line vouches for all before it, and so
//! does its signature.

use super::chain::Head;
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::dsse::{self, Envelope, Signature};
use crate::evidence::signature::{PublicKey, SigningKey};

/// How the payload is to be read.
pub const PAYLOAD_TYPE: &str = "application/vnd.assay.spool-head+json";

/// The version of the payload.
pub const SCHEMA: &str = "assay.spool-head/v1";

/// No signature's line is longer.
pub const MOST_BYTES: usize = 64 << 10;

/// The envelope that says that this line is in the chain.
pub fn sign(head: Head, key: &SigningKey) -> String {
    let payload = Object::from([
        ("schema", SCHEMA.into()),
        ("seq", Value::count(head.seq)),
        ("sha256", head.sha256.to_string().into()),
    ]);
    let payload = write::to_string(&payload.into()).into_bytes();
    let signed = dsse::pre_authentication_encoding(PAYLOAD_TYPE, &payload);
    let signature = Signature { key_id: Some(key.public().key_id()), bytes: key.sign(&signed) };
    dsse::to_json(&Envelope { payload_type: PAYLOAD_TYPE.to_owned(), payload, signatures: vec![signature] })
}

/// The line that an envelope vouches for, where one of these keys signed it.
pub fn vouched_for(envelope: &[u8], trusted: &[PublicKey]) -> Option<Head> {
    if envelope.len() > MOST_BYTES {
        return None;
    }
    let envelope = dsse::from_json(envelope).ok()?;
    let payload = dsse::check(&envelope, trusted, 1, &[PAYLOAD_TYPE]).ok()?;
    let value = read::parse(payload).ok()?;
    let payload = value.as_object()?;
    if payload.str("schema") != Some(SCHEMA) {
        return None;
    }
    Some(Head { seq: payload.get("seq")?.as_count()?, sha256: payload.str("sha256")?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::digest::Digest;

    /// Made for this test.
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n-----END PRIVATE KEY-----\n";

    #[test]
    fn what_was_signed_is_vouched_for_and_nothing_else() {
        let key = SigningKey::from_pem(KEY).unwrap();
        let trusted = [key.public()];
        let head = Head { seq: 7, sha256: Digest::of(b"line") };
        let envelope = sign(head, &key);
        assert_eq!(vouched_for(envelope.as_bytes(), &trusted), Some(head));
        assert_eq!(vouched_for(envelope.as_bytes(), &[]), None);
        for at in 0..envelope.len() {
            let mut changed = envelope.clone().into_bytes();
            changed[at] ^= 1;
            // The hint which key it was is not signed, and not believed.
            let other = vouched_for(&changed, &trusted);
            assert!(other.is_none_or(|other| other == head), "{}", changed.escape_ascii());
        }
        let statement = dsse::to_json(&Envelope {
            payload_type: dsse::IN_TOTO.to_owned(),
            payload: b"{}".to_vec(),
            signatures: vec![],
        });
        assert_eq!(vouched_for(statement.as_bytes(), &trusted), None);
    }
}
