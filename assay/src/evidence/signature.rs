//! Keys in the PEM forms of openssl and cosign, and what they sign: ed25519 and ECDSA P-256 with SHA-256. Pure.

use ed25519_dalek::Signer as _;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePublicKey as _};

use crate::canon::digest::Digest;

/// A key that signs.
pub enum SigningKey {
    /// Ed25519.
    Ed25519(Box<ed25519_dalek::SigningKey>),
    /// ECDSA over P-256 with SHA-256, deterministic as in RFC 6979.
    P256(Box<p256::ecdsa::SigningKey>),
}

/// A key that checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    /// Ed25519.
    Ed25519(ed25519_dalek::VerifyingKey),
    /// ECDSA over P-256 with SHA-256.
    P256(p256::ecdsa::VerifyingKey),
}

/// Why a key could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no PEM block of a key in it.
    #[error("read the key: no {0} in PEM is in the file")]
    Missing(&'static str),
    /// It needs a pass phrase.
    #[error("read the key: it is encrypted (`{0}`)")]
    Encrypted(String),
    /// Another kind of key, or a damaged one.
    #[error("read the key: `{0}` is neither an ed25519 nor an ECDSA P-256 key")]
    Kind(String),
}

impl SigningKey {
    /// Reads the first private key in a PEM text: PKCS #8, or SEC 1 for P-256.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let (label, block) = block(pem, "PRIVATE KEY").ok_or(KeyError::Missing("private key"))?;
        if label.starts_with("ENCRYPTED") || block.contains("Proc-Type: 4,ENCRYPTED") {
            return Err(KeyError::Encrypted(label));
        }
        if let Ok(key) = ed25519_dalek::SigningKey::from_pkcs8_pem(block) {
            return Ok(Self::Ed25519(Box::new(key)));
        }
        let secret = p256::SecretKey::from_pkcs8_pem(block).ok();
        let secret = secret.or_else(|| p256::SecretKey::from_sec1_pem(block).ok());
        match secret {
            Some(secret) => Ok(Self::P256(Box::new(secret.into()))),
            None => Err(KeyError::Kind(label)),
        }
    }

    /// The signature of these bytes: 64 bytes for ed25519, DER for ECDSA, as openssl and cosign write them.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Ed25519(key) => key.sign(bytes).to_vec(),
            Self::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign(bytes);
                signature.to_der().as_bytes().to_vec()
            }
        }
    }

    /// The key that checks.
    pub fn public(&self) -> PublicKey {
        match self {
            Self::Ed25519(key) => PublicKey::Ed25519(key.verifying_key()),
            Self::P256(key) => PublicKey::P256(*key.verifying_key()),
        }
    }
}

impl PublicKey {
    /// Reads the first public key in a PEM text (`PUBLIC KEY`).
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let (label, block) = block(pem, "PUBLIC KEY").ok_or(KeyError::Missing("public key"))?;
        if let Ok(key) = ed25519_dalek::VerifyingKey::from_public_key_pem(block) {
            return Ok(Self::Ed25519(key));
        }
        match p256::ecdsa::VerifyingKey::from_public_key_pem(block) {
            Ok(key) => Ok(Self::P256(key)),
            Err(_) => Err(KeyError::Kind(label)),
        }
    }

    /// Whether `signature` is this key's for these bytes. ECDSA is taken in DER and as 64 bytes of r and s.
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        use p256::ecdsa::signature::Verifier as _;
        match self {
            Self::Ed25519(key) => ed25519_dalek::Signature::from_slice(signature)
                // Strict: no key and no point of small order, so that one signature fits one message.
                .is_ok_and(|signature| key.verify_strict(bytes, &signature).is_ok()),
            Self::P256(key) => {
                let parsed = p256::ecdsa::Signature::from_der(signature)
                    .or_else(|_| p256::ecdsa::Signature::from_slice(signature));
                parsed.is_ok_and(|signature| key.verify(bytes, &signature).is_ok())
            }
        }
    }

    /// A name for the key: the digest of its DER form.
    pub fn key_id(&self) -> String {
        let der = match self {
            Self::Ed25519(key) => key.to_public_key_der(),
            Self::P256(key) => key.to_public_key_der(),
        };
        der.map(|der| Digest::of(der.as_bytes()).to_string()).expect("a key that was read can be written")
    }
}

/// The first PEM block whose label ends so, with its label. openssl puts others (`EC PARAMETERS`) before it.
fn block<'a>(pem: &'a str, suffix: &str) -> Option<(String, &'a str)> {
    let mut from = 0;
    while let Some(at) = pem[from..].find("-----BEGIN ") {
        let start = from + at;
        let label_at = start + "-----BEGIN ".len();
        let label = &pem[label_at..label_at + pem[label_at..].find("-----")?];
        let end_line = format!("-----END {label}-----");
        let end = start + pem[start..].find(&end_line)? + end_line.len();
        if label.ends_with(suffix) {
            return Some((label.chars().take(60).collect(), &pem[start..end]));
        }
        from = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_usable_key_is_told_apart() {
        let error = |pem: &str| SigningKey::from_pem(pem).err().unwrap().to_string();
        assert_eq!(error(""), "read the key: no private key in PEM is in the file");
        assert_eq!(error("-----BEGIN "), "read the key: no private key in PEM is in the file");
        let pem = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
        assert_eq!(
            error(&pem("ENCRYPTED SIGSTORE PRIVATE KEY")),
            "read the key: it is encrypted (`ENCRYPTED SIGSTORE PRIVATE KEY`)"
        );
        assert_eq!(
            error(&pem("RSA PRIVATE KEY")),
            "read the key: `RSA PRIVATE KEY` is neither an ed25519 nor an ECDSA P-256 key"
        );
        assert_eq!(PublicKey::from_pem(&pem("PRIVATE KEY")), Err(KeyError::Missing("public key")));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, label: String) {
            let _ = SigningKey::from_pem(&text);
            let _ = PublicKey::from_pem(&format!("-----BEGIN {label}PUBLIC KEY-----{text}-----END {label}PUBLIC KEY-----"));
        }
    }
}
