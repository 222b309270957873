//! The answer of a name server, from its bytes: which name was asked for, and which addresses it has. Pure.
//!
//! The bytes may be anybody's. What is not a whole, plain answer to one question gives nothing.

use std::collections::BTreeSet;
use std::net::IpAddr;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::name::ToName;
use domain::base::{Message, ParsedName, ParsedRecord};
use domain::rdata::{A, Aaaa, Cname};

/// Links of a chain of other names that are followed; resolvers follow fewer.
const MAX_LINKS: usize = 16;
/// Records of one answer that are looked at.
const MAX_RECORDS: usize = 4096;

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The name that was asked for.
    pub host: String,
    /// Its addresses, through other names where it is only another name for them.
    pub addresses: BTreeSet<IpAddr>,
}

/// Why bytes give no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// They are no message of the DNS.
    Malformed,
    /// They are a message, but not one that gives a name addresses.
    Other,
}

/// Reads an answer.
pub fn read_answer(bytes: &[u8]) -> Result<Answer, NoAnswer> {
    let message = Message::from_slice(bytes).map_err(|_| NoAnswer::Malformed)?;
    let header = message.header();
    if !header.qr() || header.opcode() != Opcode::QUERY || header.rcode() != Rcode::NOERROR {
        return Err(NoAnswer::Other);
    }
    let question = message.sole_question().map_err(|_| NoAnswer::Malformed)?;
    if question.qclass() != Class::IN {
        return Err(NoAnswer::Other);
    }
    let mut records = Vec::new();
    for record in message.answer().map_err(|_| NoAnswer::Malformed)?.take(MAX_RECORDS) {
        let record = record.map_err(|_| NoAnswer::Malformed)?;
        if record.class() == Class::IN {
            records.push(record);
        }
    }
    let mut name = *question.qname();
    let mut addresses = BTreeSet::new();
    for _ in 0..MAX_LINKS {
        addresses
            .extend(records.iter().filter(|record| record.owner().name_eq(&name)).filter_map(address_of));
        let next = records.iter().filter(|record| record.owner().name_eq(&name)).find_map(alias_of);
        match next {
            Some(next) if addresses.is_empty() => name = next,
            Some(_) | None => break,
        }
    }
    if addresses.is_empty() {
        return Err(NoAnswer::Other);
    }
    Ok(Answer { host: host_text(question.qname()), addresses })
}

type Record<'a> = ParsedRecord<'a, [u8]>;

fn address_of(record: &Record<'_>) -> Option<IpAddr> {
    match record.rtype() {
        Rtype::A => Some(IpAddr::from(record.to_record::<A>().ok()??.data().addr())),
        Rtype::AAAA => Some(IpAddr::from(record.to_record::<Aaaa>().ok()??.data().addr()).to_canonical()),
        _ => None,
    }
}

fn alias_of<'a>(record: &Record<'a>) -> Option<ParsedName<&'a [u8]>> {
    if record.rtype() != Rtype::CNAME {
        return None;
    }
    Some(*record.to_record::<Cname<ParsedName<&'a [u8]>>>().ok()??.data().cname())
}

/// A name as text: lower case, without a dot at its end. Bytes that no host's name has are written `\xNN`, so that a
/// dot inside a label is not taken for one between labels.
fn host_text(name: &impl ToName) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for label in name.iter_labels().filter(|label| !label.is_root()) {
        if !text.is_empty() {
            text.push('.');
        }
        for &byte in label.as_slice() {
            match byte.to_ascii_lowercase() {
                byte @ (b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_') => text.push(char::from(byte)),
                // Writing to a String cannot fail.
                byte => drop(write!(text, "\\x{byte:02x}")),
            }
        }
    }
    if text.is_empty() { ".".into() } else { text }
}

#[cfg(test)]
mod tests;
