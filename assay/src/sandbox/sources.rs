//! How this host looks names up, as the record that goes ahead of all others. Reads only.

use std::net::IpAddr;

use assay_common::kind::{RecordKind, SectionTag, read_state};
use assay_common::limits::RECORD_LEN;
use assay_common::record::{Header, Section};
use zerocopy::IntoBytes as _;

use crate::observe::names;

/// The longest of the two files that is taken; a longer one is taken up to its last whole line.
const MAX_LEN: usize = RECORD_LEN / 2 - size_of::<Header>();

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The record.
pub fn record() -> Vec<u8> {
    of(&read(RESOLV_CONF), &read("/etc/hosts"))
}

/// The name servers that this host asks.
pub fn nameservers() -> Vec<IpAddr> {
    names::nameservers(&read(RESOLV_CONF))
}

/// What is not there or may not be read says nothing.
fn read(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

fn of(resolv_conf: &[u8], hosts: &[u8]) -> Vec<u8> {
    let payload = [lines(resolv_conf), b"\0", lines(hosts)].concat();
    let size = size_of::<Header>() + size_of::<Section>() + payload.len();
    let header = Header::of_no_task(RecordKind::Sources, size as u32, 0, 0);
    let section = Section {
        tag: SectionTag::Payload as u16,
        state: read_state::WHOLE,
        aux: 0,
        len: payload.len() as u32,
    };
    [header.as_bytes(), section.as_bytes(), &payload].concat()
}

/// As many whole lines as are taken, up to a NUL, which no line has.
fn lines(text: &[u8]) -> &[u8] {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    match text.get(..MAX_LEN) {
        None => text,
        Some(start) => &start[..start.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::decode::decode;
    use crate::observe::event::EventKind;

    #[test]
    fn what_is_written_is_read_back() {
        let long = b"10.0.0.1 a\n".repeat(10_000);
        for (resolv_conf, hosts, want) in [
            (&b"nameserver 10.0.0.53\n"[..], &b"10.0.0.1 a"[..], &b"10.0.0.1 a"[..]),
            (b"", b"x\0y", b"x"),
            (b"", &long, &long[..MAX_LEN / 11 * 11]),
        ] {
            let event = decode(&of(resolv_conf, hosts)).unwrap();
            let EventKind::Sources { resolv_conf: read, hosts } = event.kind else { panic!("{event:?}") };
            assert_eq!((&read[..], &hosts[..]), (resolv_conf, want));
        }
    }
}
