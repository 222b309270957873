//! A SHA-256 digest, parsed and printed one way: `sha256:` and 64 lower-case hex digits. Pure.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Takes the raw digest of a hasher that was fed elsewhere.
    pub fn from_raw(raw: [u8; 32]) -> Self {
        Self(raw)
    }

    /// The 32 bytes.
    pub fn as_raw(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hex digits, without the prefix.
    pub fn hex(&self) -> String {
        self.text().as_str()[PREFIX.len()..].to_owned()
    }

    /// As it is printed, without a place in memory of its own.
    pub fn text(&self) -> DigestText {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; PREFIX.len() + 64];
        let (prefix, hex) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX.as_bytes());
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        DigestText(text)
    }
}

const PREFIX: &str = "sha256:";

/// A digest as it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestText([u8; PREFIX.len() + 64]);

impl DigestText {
    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the prefix and hex digits are ASCII")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text was not `sha256:` and 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parse a digest: expected `sha256:` and 64 lower-case hex digits")]
pub struct DigestError;

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix(PREFIX).ok_or(DigestError)?.as_bytes();
        if hex.len() != 64 {
            return Err(DigestError);
        }
        let mut raw = [0u8; 32];
        for (byte, pair) in raw.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(raw))
    }
}

fn nibble(digit: u8) -> Result<u8, DigestError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(DigestError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_what_it_prints() {
        let digest = Digest::of(b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(text.to_uppercase().parse::<Digest>(), Err(DigestError));
        assert_eq!(text[..70].parse::<Digest>(), Err(DigestError));
    }
}
