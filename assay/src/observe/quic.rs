//! Whom a client of QUIC says it wants to speak to: the first message of TLS in its first packets (RFC 9000, RFC 9001). Pure.
//!
//! Such packets are encrypted with keys that anybody can make from what stands in them, so that they are readable by all
//! on the way, and only a packet that is whole is taken for one. A message may lie in pieces, in any order, in several
//! packets; it is read once all of it is there. What is not read gives nothing.

use std::collections::HashMap;
use std::net::SocketAddr;

use aes_gcm::aead::{Aead as _, Payload};
use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::BlockCipherEncrypt as _;
use aes_gcm::{Aes128Gcm, KeyInit as _};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::greeting::{Bytes, name_of_hello};

/// What differs between versions.
struct Version {
    number: usize,
    /// The packet's type in its first byte.
    initial: u8,
    salt: [u8; 20],
    key: &'static str,
    iv: &'static str,
    header: &'static str,
}

/// RFC 9001, 5.2, and RFC 9369, 3.3.
const VERSIONS: [Version; 2] = [
    Version {
        number: 1,
        initial: 0x00,
        salt: [
            0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
            0xcc, 0xbb, 0x7f, 0x0a,
        ],
        key: "quic key",
        iv: "quic iv",
        header: "quic hp",
    },
    Version {
        number: 0x6b33_43cf,
        initial: 0x10,
        salt: [
            0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
            0xf9, 0xbd, 0x2e, 0xd9,
        ],
        key: "quicv2 key",
        iv: "quicv2 iv",
        header: "quicv2 hp",
    },
];

/// The longest id of a connection.
const MAX_ID: usize = 20;
/// Packets of one datagram that are looked at.
const MAX_PACKETS: usize = 4;
/// The longest message that is put together; those of browsers have less than 2 KiB.
const MAX_HELLO: usize = 16 << 10;
/// Pieces that one message may lie in; browsers cut theirs into some ten.
const MAX_PIECES: usize = 256;
/// Connections whose message is not whole.
const MAX_WAITING: usize = 1024;

/// Messages that are not whole yet, by socket, the other end, and the connection's id.
#[derive(Debug, Clone, Default)]
pub struct Hellos {
    waiting: HashMap<(u64, SocketAddr, Vec<u8>), Vec<Piece>>,
}

/// Some bytes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    at: usize,
    bytes: Vec<u8>,
}

impl Hellos {
    /// Takes a datagram that a socket sent to the other end; the name that it completes.
    pub fn read(&mut self, socket: u64, remote: SocketAddr, datagram: &[u8]) -> Option<String> {
        let mut rest = datagram;
        let mut name = None;
        for _ in 0..MAX_PACKETS {
            let Some(initial) = open(&mut rest) else { break };
            let found = self.take(socket, remote, initial.id, initial.pieces);
            name = name.or(found);
        }
        name
    }

    /// The same of what a packet of this connection holds once it is decrypted.
    pub fn read_frames(
        &mut self,
        socket: u64,
        remote: SocketAddr,
        id: &[u8],
        frames: &[u8],
    ) -> Option<String> {
        self.take(socket, remote, id.to_vec(), pieces(frames)?)
    }

    fn take(&mut self, socket: u64, remote: SocketAddr, id: Vec<u8>, found: Vec<Piece>) -> Option<String> {
        if found.is_empty() {
            return None;
        }
        let key = (socket, remote, id);
        if self.waiting.len() >= MAX_WAITING && !self.waiting.contains_key(&key) {
            // Who comes later is not to be nameless for those that never said all.
            self.waiting.clear();
        }
        let pieces = self.waiting.entry(key.clone()).or_default();
        for piece in found {
            // It may have been sent before.
            if !pieces.contains(&piece) {
                pieces.push(piece);
            }
        }
        let hello = whole(pieces);
        let held: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        if hello.is_some() || pieces.len() > MAX_PIECES || held > MAX_HELLO {
            self.waiting.remove(&key);
        }
        name_of_hello(&hello?)
    }
}

/// The message, once none of it is missing. Of bytes that are there twice the first count.
fn whole(pieces: &[Piece]) -> Option<Vec<u8>> {
    let mut message: Vec<u8> = Vec::new();
    loop {
        if let Some([_, a, b, c]) = message.first_chunk() {
            let len = 4 + u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if message.len() >= len {
                message.truncate(len);
                return Some(message);
            }
        }
        let here = message.len();
        let next = pieces.iter().find(|piece| piece.at <= here && here < piece.at + piece.bytes.len())?;
        message.extend_from_slice(&next.bytes[here - next.at..]);
    }
}

/// A client's first packet, decrypted.
struct Initial {
    /// The connection's id, which its keys are made from.
    id: Vec<u8>,
    /// What it has of the message.
    pieces: Vec<Piece>,
}

/// Opens the first packet of `rest`, and leaves what is behind it.
fn open(rest: &mut &[u8]) -> Option<Initial> {
    let packet = *rest;
    let mut header = Bytes(packet);
    let first = header.number::<1>()? as u8;
    let number = header.number::<4>()?;
    let version = VERSIONS.iter().find(|version| version.number == number)?;
    if first & 0xf0 != (0xc0 | version.initial) {
        return None;
    }
    let id = header.list::<1>()?.0;
    let own = header.list::<1>()?.0;
    if id.len() > MAX_ID || own.len() > MAX_ID {
        return None;
    }
    let token = varint(&mut header)?;
    header.take(token)?;
    let len = varint(&mut header)?;
    let number_at = packet.len() - header.0.len();
    let body = header.take(len)?;
    *rest = header.0;

    let secret = client_secret(version, id);
    // The number of the packet, of one to four bytes, is hidden by what stands four bytes behind its first.
    let sample: [u8; 16] = body.get(4..20)?.try_into().ok()?;
    let mut mask = sample.into();
    Aes128::new(&expand::<16>(&secret, version.header).into()).encrypt_block(&mut mask);
    let first = first ^ mask[0] & 0x0f;
    let number_len = usize::from(first & 3) + 1;
    let mut associated = packet[..number_at + number_len].to_vec();
    associated[0] = first;
    let mut nonce: [u8; 12] = expand(&secret, version.iv);
    for at in 0..number_len {
        let byte = associated[number_at + at] ^ mask[1 + at];
        associated[number_at + at] = byte;
        nonce[12 - number_len + at] ^= byte;
    }
    let key = Aes128Gcm::new(&expand::<16>(&secret, version.key).into());
    let sealed = Payload { msg: &body[number_len..], aad: &associated };
    let plain = key.decrypt(&nonce.into(), sealed).ok()?;
    Some(Initial { id: id.to_vec(), pieces: pieces(&plain)? })
}

/// What a packet's frames have of the message. `None` where there is one that does not belong there: then nobody knows what
/// the server makes of it.
fn pieces(plain: &[u8]) -> Option<Vec<Piece>> {
    const PADDING: usize = 0;
    const PING: usize = 1;
    const ACK: usize = 2;
    const ACK_ECN: usize = 3;
    const CRYPTO: usize = 6;
    let mut frames = Bytes(plain);
    let mut found = Vec::new();
    while !frames.0.is_empty() {
        match varint(&mut frames)? {
            PADDING | PING => {}
            kind @ (ACK | ACK_ECN) => {
                // The largest number, the delay, and the first range, and behind them pairs.
                varint(&mut frames)?;
                varint(&mut frames)?;
                let ranges = varint(&mut frames)?;
                let numbers = ranges.checked_mul(2)?.checked_add(if kind == ACK_ECN { 4 } else { 1 })?;
                for _ in 0..numbers {
                    varint(&mut frames)?;
                }
            }
            CRYPTO => {
                let at = varint(&mut frames)?;
                let len = varint(&mut frames)?;
                let bytes = frames.take(len)?.to_vec();
                if at.checked_add(len)? > MAX_HELLO {
                    return None;
                }
                found.push(Piece { at, bytes });
            }
            _ => return None,
        }
    }
    Some(found)
}

/// A number of one to eight bytes, whose first two bits say how many.
fn varint(bytes: &mut Bytes<'_>) -> Option<usize> {
    let first = *bytes.0.first()?;
    let len = 1 << (first >> 6);
    let taken = bytes.take(len)?;
    let number =
        taken[1..].iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number).ok()
}

/// What a client's keys are made of: `HKDF-Extract` with the version's salt, then `client in`.
fn client_secret(version: &Version, id: &[u8]) -> [u8; 32] {
    expand(&hmac(&version.salt, &[id]), "client in")
}

/// `HKDF-Expand-Label` without context (RFC 8446, 7.1), for no more than one block.
fn expand<const N: usize>(secret: &[u8; 32], label: &str) -> [u8; N] {
    const { assert!(N <= 32, "one block has 32 bytes") };
    let label = ["tls13 ", label].concat();
    let block = hmac(secret, &[&[0, N as u8, label.len() as u8], label.as_bytes(), &[0, 1]]);
    *block.first_chunk().expect("it has as many")
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests;
