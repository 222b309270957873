//! The DSSE envelope: payload and signatures <-> JSON, and the bytes that are signed. Pure; keys are
//! [`super::signature`]'s.

use base64ct::{Base64, Encoding as _};

use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::signature::PublicKey;

/// The payload type of an in-toto statement.
pub const IN_TOTO: &str = "application/vnd.in-toto+json";

/// What is signed, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// How the payload is to be read.
    pub payload_type: String,
    /// The bytes that were signed for.
    pub payload: Vec<u8>,
    /// The signatures, in order.
    pub signatures: Vec<Signature>,
}

/// One signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// A hint, never believed.
    pub key_id: Option<String>,
    /// The signature's bytes.
    pub bytes: Vec<u8>,
}

/// Why an envelope was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is not strict JSON.
    #[error("read the envelope: {0}")]
    Json(#[from] read::ReadError),
    /// It lacks something, or something in it has the wrong form.
    #[error("read the envelope: {0}: absent, or not of the right form")]
    Form(&'static str),
    /// Too few of the trusted keys signed it.
    #[error("check the envelope: {found} of {threshold} trusted keys signed it")]
    Untrusted {
        /// How many did.
        found: usize,
        /// How many should have.
        threshold: usize,
    },
    /// Nothing here reads this type.
    #[error("check the envelope: payload type `{}` is not supported", .0.escape_debug())]
    PayloadType(String),
}

/// The bytes a signature covers: both lengths and both texts, so that none can pass for another.
pub fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

/// The JSON of an envelope, canonical.
pub fn to_json(envelope: &Envelope) -> String {
    let signatures: Vec<Value> = envelope
        .signatures
        .iter()
        .map(|signature| {
            let mut object = Object::from([("sig", Base64::encode_string(&signature.bytes).into())]);
            object.set_some("keyid", signature.key_id.as_deref());
            object.into()
        })
        .collect();
    let object = Object::from([
        ("payload", Base64::encode_string(&envelope.payload).into()),
        ("payloadType", envelope.payload_type.as_str().into()),
        ("signatures", signatures.into()),
    ]);
    write::to_string(&object.into())
}

/// Reads an envelope. Nothing in it is believed yet.
pub fn from_json(bytes: &[u8]) -> Result<Envelope, EnvelopeError> {
    let value = read::parse(bytes.trim_ascii())?;
    let object = value.as_object().ok_or(EnvelopeError::Form("the envelope"))?;
    // Empty fields may be left out.
    let text = |key| match object.get(key) {
        None => Ok(""),
        Some(value) => value.as_str().ok_or(EnvelopeError::Form(key)),
    };
    let list = object.get("signatures").and_then(Value::as_array).ok_or(EnvelopeError::Form("signatures"))?;
    let signatures = list
        .iter()
        .map(|signature| {
            let signature = signature.as_object().ok_or(EnvelopeError::Form("signatures"))?;
            let sig = signature.str("sig").ok_or(EnvelopeError::Form("sig"))?;
            Ok(Signature {
                key_id: signature.str("keyid").map(str::to_owned),
                bytes: decode(sig).ok_or(EnvelopeError::Form("sig"))?,
            })
        })
        .collect::<Result<_, EnvelopeError>>()?;
    Ok(Envelope {
        payload_type: text("payloadType")?.to_owned(),
        payload: decode(text("payload")?).ok_or(EnvelopeError::Form("payload"))?,
        signatures,
    })
}

/// Both alphabets, as the specification demands; padding may be left out.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut standard: String = text
        .chars()
        .map(|c| match c {
            '-' => '+',
            '_' => '/',
            c => c,
        })
        .collect();
    while !standard.len().is_multiple_of(4) {
        standard.push('=');
    }
    Base64::decode_vec(&standard).ok()
}

/// Accepts an envelope that at least `threshold` different keys of `trusted` have signed, and whose payload type is
/// among `supported`.
pub fn check<'a>(
    envelope: &'a Envelope,
    trusted: &[PublicKey],
    threshold: usize,
    supported: &[&str],
) -> Result<&'a [u8], EnvelopeError> {
    let signed = pre_authentication_encoding(&envelope.payload_type, &envelope.payload);
    let found = trusted
        .iter()
        .enumerate()
        // One key twice is one key.
        .filter(|(at, key)| trusted[..*at].iter().all(|other| other.key_id() != key.key_id()))
        .filter(|(_, key)| {
            envelope.signatures.iter().any(|signature| key.verifies(&signed, &signature.bytes))
        })
        .count();
    if threshold == 0 || found < threshold {
        return Err(EnvelopeError::Untrusted { found, threshold });
    }
    if !supported.contains(&envelope.payload_type.as_str()) {
        return Err(EnvelopeError::PayloadType(envelope.payload_type.clone()));
    }
    Ok(&envelope.payload)
}

#[cfg(test)]
mod tests;
