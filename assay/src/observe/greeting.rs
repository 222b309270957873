//! Whom a client says it wants to speak to: the server name of TLS's first message, the `Host` of a request of HTTP. Pure.
//!
//! Nobody vouches for it, and the bytes may be anybody's. What is not plain (a name twice, a request to a proxy, an address)
//! gives nothing.

use super::observation::NameSource;

/// TLS's record of a handshake.
const HANDSHAKE: u8 = 22;
/// The handshake's first message.
const CLIENT_HELLO: u8 = 1;
/// The extension that has the server's name.
const SERVER_NAME: u16 = 0;
/// A name of a host, the one kind there is.
const HOST_NAME: u8 = 0;
/// Headers of a request that are looked through.
const MAX_HEADERS: usize = 128;
/// The longest name there can be.
const MAX_NAME: usize = 253;

/// The name in the first bytes of a connection, and which of the two said it.
pub fn read_greeting(bytes: &[u8]) -> Option<(String, NameSource)> {
    if bytes.first() == Some(&HANDSHAKE) {
        Some((server_name(bytes)?, NameSource::Tls))
    } else {
        Some((host_of_request(bytes)?, NameSource::Http))
    }
}

/// The server name of a `ClientHello` (RFC 8446, 4.1.2; RFC 6066, 3). Of a message that is cut, what is there is read.
fn server_name(bytes: &[u8]) -> Option<String> {
    name_of_hello(&handshake(bytes))
}

/// The same of the message itself.
pub fn name_of_hello(message: &[u8]) -> Option<String> {
    let mut hello = Bytes(message);
    if hello.number::<1>()? != usize::from(CLIENT_HELLO) {
        return None;
    }
    let mut hello = hello.rest_of::<3>()?;
    // Version and random.
    hello.take(2 + 32)?;
    hello.list::<1>()?; // Session.
    hello.list::<2>()?; // Ciphers.
    hello.list::<1>()?; // Compression.
    let mut extensions = hello.rest_of::<2>()?;
    let mut found = None;
    while let (Some(kind), Some(mut extension)) = (extensions.number::<2>(), extensions.list::<2>()) {
        if kind != usize::from(SERVER_NAME) {
            continue;
        }
        let mut names = extension.list::<2>()?;
        let is_host = names.number::<1>()? == usize::from(HOST_NAME);
        let name = names.list::<2>()?;
        if found.is_some() || !is_host || !names.0.is_empty() || !extension.0.is_empty() {
            return None;
        }
        found = Some(name.0);
    }
    host(found?)
}

/// The message in one or more records, without their headers.
fn handshake(bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    let mut records = Bytes(bytes);
    while records.number::<1>() == Some(usize::from(HANDSHAKE)) && records.take(2).is_some() {
        let Some(part) = records.rest_of::<2>() else { break };
        records.0 = records.0.get(part.0.len()..).unwrap_or_default();
        message.extend_from_slice(part.0);
    }
    message
}

/// The `Host` of a request of HTTP/1 that is made to the server itself.
fn host_of_request(bytes: &[u8]) -> Option<String> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if !request.parse(bytes).ok()?.is_complete() {
        return None;
    }
    // A proxy is asked for a whole address, or to connect to one: then the name is that of the server behind it.
    if !request.path?.starts_with('/') && request.path? != "*" {
        return None;
    }
    let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let value = hosts.next()?.value.trim_ascii();
    if hosts.next().is_some() {
        return None;
    }
    let name = match value.iter().position(|&byte| byte == b':') {
        Some(colon) if value[colon + 1..].iter().all(u8::is_ascii_digit) => &value[..colon],
        Some(_) => return None,
        None => value,
    };
    host(name)
}

/// A name of a host as it is written everywhere: lower case, without a dot at its end. An address is none.
fn host(name: &[u8]) -> Option<String> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_host = !name.is_empty() && name.len() <= MAX_NAME && name.iter().all(is_plain);
    let is_number = name.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let text = String::from_utf8(name.to_ascii_lowercase()).ok()?;
    (is_host && !is_number && text.split('.').all(|label| !label.is_empty())).then_some(text)
}

/// Bytes that are taken from the front.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// So many.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes.
    pub fn number<const N: usize>(&mut self) -> Option<usize> {
        Some(self.take(N)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// A list with its length in so many bytes in front of it.
    pub fn list<const N: usize>(&mut self) -> Option<Self> {
        let len = self.number::<N>()?;
        Some(Self(self.take(len)?))
    }

    /// The same, or as much of it as there is. It is not taken.
    fn rest_of<const N: usize>(&mut self) -> Option<Self> {
        let len = self.number::<N>()?;
        Some(Self(self.0.get(..len).unwrap_or(self.0)))
    }
}

#[cfg(test)]
mod tests;
