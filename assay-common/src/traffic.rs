//! How much went over the network: what the kernel half counts packets by, and what it counts of them.

/// One end that packets go to and come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct TrafficEnd {
    /// The other end's address, an IPv4 address as it is mapped into IPv6; zero where the run serves.
    pub address: [u8; 16],
    /// The other end's port; where the run serves, its own.
    pub port: u16,
    /// [`TCP`] or [`UDP`].
    pub protocol: u8,
    /// [`OTHER`] or [`SERVED`].
    pub side: u8,
}

/// `IPPROTO_TCP`
pub const TCP: u8 = 6;
/// `IPPROTO_UDP`
pub const UDP: u8 = 17;

/// The run speaks to this end of its own accord.
pub const OTHER: u8 = 0;
/// Somebody connected to this port of the run.
pub const SERVED: u8 = 1;

/// What was counted of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct TrafficTally {
    /// Bytes behind TCP's or UDP's header that the run sent.
    pub bytes_out: u64,
    /// The same, received.
    pub bytes_in: u64,
    /// Connections of TCP that the run began.
    pub begun: u64,
    /// Of these, those that were answered.
    pub made: u64,
}

const _: () = assert!(size_of::<TrafficEnd>() == 20);
const _: () = assert!(size_of::<TrafficTally>() == 32);
