//! What the kernel half counted of packets: by the other end where the run spoke first, by the own port where it served.
//! Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use assay_common::traffic::{SERVED, TCP, TrafficEnd, TrafficTally, UDP};

/// The traffic of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traffic {
    /// By protocol, address and port of the other end.
    pub others: BTreeMap<(&'static str, IpAddr, u16), TrafficTally>,
    /// By the port that the run served.
    pub served: BTreeMap<u16, TrafficTally>,
    /// Of ends that there was no room to count by; nothing in it where there was.
    pub beyond: TrafficTally,
}

impl Traffic {
    /// From the elements of the map, and what had no room there. What is of no known protocol is left out.
    pub fn of(ends: impl IntoIterator<Item = (TrafficEnd, TrafficTally)>, beyond: TrafficTally) -> Self {
        let mut traffic = Self { beyond, ..Self::default() };
        for (end, tally) in ends {
            let proto = match end.protocol {
                TCP => "tcp",
                UDP => "udp",
                _ => continue,
            };
            if end.side == SERVED {
                traffic.served.insert(end.port, tally);
            } else {
                let address = IpAddr::V6(Ipv6Addr::from(end.address)).to_canonical();
                traffic.others.insert((proto, address, end.port), tally);
            }
        }
        traffic
    }

    /// Whether every end was counted by itself.
    pub fn is_whole(&self) -> bool {
        self.beyond == TrafficTally::default()
    }
}

#[cfg(test)]
mod tests {
    use assay_common::traffic::OTHER;

    use super::*;

    #[test]
    fn ends_are_told_by_their_protocol_and_plain_address() {
        let tally = |bytes_out| TrafficTally { bytes_out, ..TrafficTally::default() };
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        let end = |address, port, protocol, side| TrafficEnd { address, port, protocol, side };
        let traffic = Traffic::of(
            [
                (end(mapped, 443, TCP, OTHER), tally(1)),
                (end(mapped, 53, UDP, OTHER), tally(2)),
                (end([0; 16], 80, TCP, SERVED), tally(3)),
                (end(mapped, 1, 132, OTHER), tally(4)),
            ],
            TrafficTally::default(),
        );
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(
            traffic.others,
            BTreeMap::from([(("tcp", address, 443), tally(1)), (("udp", address, 53), tally(2))])
        );
        assert_eq!(traffic.served, BTreeMap::from([(80, tally(3))]));
        assert!(traffic.is_whole());
    }
}
