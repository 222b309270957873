//! Packets of the run's sockets that name an address: answers of name servers, and the greeting in which a client says whom
//! it wants to speak to.
//!
//! Copies bytes and decides nothing: a packet always passes. These programs run in interrupts, where the record under
//! construction may be another program's, so theirs is filled where it lies in the ring.

use assay_common::kind::{RecordKind, SectionTag, read_state};
use assay_common::limits::{PACKET_LARGE, PACKET_SMALL};
use assay_common::loss;
use assay_common::record::{Header, PacketFacts, Section, packet};
use assay_common::served::ONLY_RUN;
pub use assay_common::traffic::TCP;
use assay_common::traffic::UDP;
use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use aya_ebpf::helpers::generated::{
    bpf_get_netns_cookie, bpf_get_socket_cookie, bpf_ktime_get_ns, bpf_ringbuf_discard, bpf_ringbuf_reserve,
    bpf_ringbuf_submit, bpf_skb_ancestor_cgroup_id, bpf_skb_load_bytes, bpf_tcp_sock,
};
use aya_ebpf::macros::cgroup_skb;
use aya_ebpf::programs::SkBuffContext;

use crate::emit::count;
use crate::kernel::setting;
use crate::maps::{LOST, RUNS, SEEN};
use crate::served::{of_run, ring};
use crate::traffic;

/// `AF_INET`
pub const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// IPv6's header of options. The kernel puts one into what is longer than 64 KiB before it is cut into packets.
const HOP_BY_HOP: u8 = 0;
/// TLS's type of a record that greets.
const HANDSHAKE: u8 = 0x16;
/// RFC 9000, and RFC 9369.
const QUIC_1: u32 = 1;
/// See [`QUIC_1`].
const QUIC_2: u32 = 0x6b33_43cf;
/// Clients fill datagrams with packets of this kind up to so many bytes (RFC 9000, 14.1).
const INITIAL_LEAST: u32 = 1200;
/// Where name servers answer from.
pub const DOMAIN: u16 = 53;

/// A packet's record as it lies in the ring.
#[repr(C)]
struct PacketRecord<const N: usize> {
    header: Header,
    facts_section: Section,
    facts: PacketFacts,
    payload_section: Section,
    payload: [u8; N],
}

/// A packet comes in.
#[cgroup_skb(ingress)]
pub fn packet_in(ctx: SkBuffContext) -> i32 {
    if let Some(head) = head(&ctx)
        && let Some(run) = run_of(&ctx)
    {
        traffic::count(&ctx, head, IN, run);
        if head.source == DOMAIN && head.bytes != 0 {
            answer(&ctx, head, run);
        }
    }
    1
}

/// Tells what a name server sent.
#[inline(always)]
fn answer(ctx: &SkBuffContext, head: Head, run: u32) -> Option<()> {
    let mut facts = facts(ctx, head, IN)?;
    facts.cookie = cookie(ctx);
    if !is_home(ctx, of_run!(run, netns)) {
        facts.flags = 0;
    }
    tell(ctx, facts, head.payload, run, loss::PACKET_IN)
}

/// A packet goes out.
#[cgroup_skb(egress)]
pub fn packet_out(ctx: SkBuffContext) -> i32 {
    if let Some(head) = head(&ctx)
        && let Some(run) = run_of(&ctx)
    {
        traffic::count(&ctx, head, OUT, run);
        // Most packets that carry nothing only acknowledge.
        if head.bytes != 0 && may_greet(&ctx, head) {
            greeting(&ctx, head, run);
        }
    }
    1
}

/// Whether it may name whom it is for: the first of a connection of TCP that carries anything, where that begins like TLS
/// or HTTP, and of QUIC a client's first ones.
#[inline(always)]
fn may_greet(ctx: &SkBuffContext, head: Head) -> bool {
    if head.protocol == TCP {
        let Some(first) = is_first(ctx).then(|| ctx.load::<u8>(head.payload).ok()).flatten() else {
            return false;
        };
        // A handshake of TLS, or the method of a request of HTTP.
        return first == HANDSHAKE || first.is_ascii_uppercase();
    }
    if head.bytes < INITIAL_LEAST {
        return false;
    }
    let Ok([first, a, b, c, d]) = ctx.load::<[u8; 5]>(head.payload) else { return false };
    let version = u32::from_be_bytes([a, b, c, d]);
    let initial = if version == QUIC_2 { 0xd0 } else { 0xc0 };
    (version == QUIC_1 || version == QUIC_2) && first & 0xf0 == initial
}

/// Tells it.
#[inline(always)]
fn greeting(ctx: &SkBuffContext, head: Head, run: u32) -> Option<()> {
    let mut facts = facts(ctx, head, OUT)?;
    facts.cookie = cookie(ctx);
    let home = of_run!(run, netns);
    facts.flags = if is_home(ctx, home) { packet::HOME | packet::OUT } else { packet::OUT };
    tell(ctx, facts, head.payload, run, loss::PACKET_OUT)
}

/// Whether no packet of this TCP connection carried anything before. One that is sent again is another.
#[inline(always)]
fn is_first(ctx: &SkBuffContext) -> bool {
    // SAFETY: the context is the program's own, and the verifier knows what the helper answers.
    unsafe {
        let skb = ctx.skb.skb;
        let socket = (*skb).__bindgen_anon_2.sk;
        if socket.is_null() {
            return false;
        }
        let tcp = bpf_tcp_sock(socket);
        if tcp.is_null() {
            return false;
        }
        let (sent, here) = ((*tcp).data_segs_out, (*skb).gso_segs);
        // What the card or the loopback is to cut counts as what it will be.
        sent != 0 && (sent == 1 || sent == here)
    }
}

/// What a packet of TCP or UDP begins with. Other extension headers than that of options are not looked behind: no name
/// server answers with one.
#[derive(Clone, Copy)]
pub struct Head {
    /// IPv4 or IPv6.
    pub family: u16,
    /// TCP or UDP.
    pub protocol: u8,
    /// TCP's flags.
    pub kind: u8,
    /// The port it comes from.
    pub source: u16,
    /// The port it goes to.
    pub target: u16,
    /// Where TCP's or UDP's header begins.
    pub transport: usize,
    /// Where its own bytes begin.
    pub payload: usize,
    /// How many they are.
    pub bytes: u32,
}

/// Where the other end's address stands, IPv4 and IPv6.
pub type Way = (usize, usize);
/// Of what comes in.
pub const IN: Way = (12, 8);
/// Of what goes out.
pub const OUT: Way = (16, 24);

/// See [`Head`]. Most packets are asked for nothing else, so that it is read where it lies. What does not lie in one piece,
/// is shorter than the longer of the two, or has options is asked for instead.
#[inline(always)]
pub fn head(ctx: &SkBuffContext) -> Option<Head> {
    // SAFETY: the context is the program's own; the two are the bounds that the verifier knows for the packet.
    let (start, end) = unsafe { ((*ctx.skb.skb).data as usize, (*ctx.skb.skb).data_end as usize) };
    if start + 40 <= end {
        let first = byte(start);
        if first == 0x45 {
            return transport(ctx, AF_INET, byte(start + 9), start + 20, 20);
        }
        if first >> 4 == 6 && byte(start + 6) != HOP_BY_HOP && start + 60 <= end {
            return transport(ctx, AF_INET6, byte(start + 6), start + 40, 40);
        }
    }
    // A function of its own would need the context, which one before Linux 6.8 cannot be given.
    asked_head(ctx)
}

/// A byte of the packet, whose bounds were looked at before.
#[inline(always)]
fn byte(at: usize) -> u8 {
    // SAFETY: the verifier refuses the program where it does not lie within the bounds.
    unsafe { *(at as *const u8) }
}

/// The same, two of them: a number.
#[inline(always)]
fn short(at: usize) -> u16 {
    u16::from_be_bytes([byte(at), byte(at + 1)])
}

/// What the header of TCP or UDP says that lies `at`, so many bytes behind the packet's beginning; 20 of it are there.
#[inline(always)]
fn transport(ctx: &SkBuffContext, family: u16, protocol: u8, at: usize, behind: usize) -> Option<Head> {
    let (kind, length) = match protocol {
        TCP => (byte(at + 13), usize::from(byte(at + 12) >> 4) * 4),
        UDP => (0, 8),
        _ => return None,
    };
    let payload = behind + length;
    let bytes = ctx.len().checked_sub(payload as u32)?;
    Some(Head {
        family,
        protocol,
        kind,
        source: short(at),
        target: short(at + 2),
        transport: behind,
        payload,
        bytes,
    })
}

/// The same by two reads, whatever is asked of it: each is a call.
#[inline(always)]
fn asked_head(ctx: &SkBuffContext) -> Option<Head> {
    let first: [u8; 10] = ctx.load(0).ok()?;
    let (family, protocol, transport) = if first[0] >> 4 == 4 {
        (AF_INET, first[9], usize::from(first[0] & 0xf) * 4)
    } else if first[6] == HOP_BY_HOP {
        let [protocol, words]: [u8; 2] = ctx.load(40).ok()?;
        (AF_INET6, protocol, 48 + usize::from(words) * 8)
    } else {
        (AF_INET6, first[6], 40)
    };
    if protocol == TCP {
        let [a, b, c, d, _, _, _, _, _, _, _, _, words, kind]: [u8; 14] = ctx.load(transport).ok()?;
        let payload = transport + usize::from(words >> 4) * 4;
        let bytes = ctx.len().checked_sub(payload as u32)?;
        let (source, target) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        return Some(Head { family, protocol, kind, source, target, transport, payload, bytes });
    }
    if protocol != UDP {
        return None;
    }
    let [a, b, c, d]: [u8; 4] = ctx.load(transport).ok()?;
    let payload = transport + 8;
    let bytes = ctx.len().checked_sub(payload as u32)?;
    let (source, target) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Some(Head { family, protocol, kind: 0, source, target, transport, payload, bytes })
}

/// What is told of a packet.
#[inline(always)]
pub fn facts(ctx: &SkBuffContext, head: Head, way: Way) -> Option<PacketFacts> {
    let (v4, v6) = way;
    let is_out = way == OUT;
    let mut facts = PacketFacts {
        remote: [0; 16],
        cookie: 0,
        family: head.family,
        remote_port: if is_out { head.target } else { head.source },
        local_port: if is_out { head.source } else { head.target },
        protocol: head.protocol,
        flags: packet::HOME,
        sequence: sequence(ctx, head)?,
        carried: head.bytes,
        kept: 0,
        padding: 0,
    };
    if head.family == AF_INET {
        let remote: [u8; 4] = ctx.load(v4).ok()?;
        facts.remote[..4].copy_from_slice(&remote);
    } else {
        facts.remote = ctx.load(v6).ok()?;
    }
    Some(facts)
}

/// TCP's number of a packet's first byte; 0 of UDP.
#[inline(always)]
pub fn sequence(ctx: &SkBuffContext, head: Head) -> Option<u32> {
    if head.protocol == TCP { ctx.load(head.transport + 4).ok().map(u32::from_be) } else { Some(0) }
}

/// The other end's address in words as they lie; an IPv4 address as it is mapped into IPv6.
#[inline(always)]
pub fn remote(ctx: &SkBuffContext, head: Head, (v4, v6): Way) -> Option<[u32; 4]> {
    if head.family == AF_INET6 {
        return ctx.load(v6).ok();
    }
    Some([0, 0, 0xffff_0000_u32.to_le(), ctx.load(v4).ok()?])
}

/// A number of two bytes.
#[inline(always)]
pub fn big_endian(ctx: &SkBuffContext, at: usize) -> Option<u16> {
    ctx.load::<u16>(at).ok().map(u16::from_be)
}

/// The other end's address; an IPv4 address as it is mapped into IPv6.
#[inline(always)]
pub fn mapped(facts: &PacketFacts) -> [u8; 16] {
    if facts.family == AF_INET6 {
        return facts.remote;
    }
    let [a, b, c, d, ..] = facts.remote;
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// The run that the packet's socket belongs to.
#[inline(always)]
fn run_of(ctx: &SkBuffContext) -> Option<u32> {
    // The programs are on its group.
    if setting!(slots) == 0 {
        return Some(ONLY_RUN);
    }
    let level = setting!(level) as i32;
    // SAFETY: the context is the program's own; the helper answers 0 where there is no such group.
    let group = unsafe { bpf_skb_ancestor_cgroup_id(ctx.skb.skb, level) };
    // SAFETY: a number that is read at once.
    unsafe { RUNS.get(&group) }.copied()
}

/// The socket, by a number that no other one ever has.
#[inline(always)]
pub fn cookie(ctx: &SkBuffContext) -> u64 {
    // SAFETY: the context is the program's own.
    unsafe { bpf_get_socket_cookie(ctx.skb.skb.cast()) }
}

/// Whether the packet belongs to the network namespace `home`, that the run began in; not where this kernel cannot tell.
#[inline(always)]
pub fn is_home(ctx: &SkBuffContext, home: u64) -> bool {
    // The verifier does not look behind a setting that says no, so the helper need not be there.
    if setting!(can_ask_netns) == 0 {
        return false;
    }
    // SAFETY: as for `cookie`.
    let netns = unsafe { bpf_get_netns_cookie(ctx.skb.skb.cast()) };
    netns == home
}

/// Sends the record, or counts it as lost.
#[inline(always)]
fn tell(ctx: &SkBuffContext, facts: PacketFacts, at: usize, run: u32, counter: u32) -> Option<()> {
    let is_sent = if facts.carried as usize <= PACKET_SMALL {
        send::<PACKET_SMALL>(ctx, facts, at, run)
    } else {
        send::<PACKET_LARGE>(ctx, facts, at, run)
    };
    count(if is_sent { &SEEN } else { &LOST }, run, counter);
    Some(())
}

#[inline(always)]
fn send<const N: usize>(ctx: &SkBuffContext, mut facts: PacketFacts, at: usize, run: u32) -> bool {
    let Some(ring) = ring(run) else { return false };
    // SAFETY: a ring; what is reserved is sent or given back below.
    let record = unsafe { bpf_ringbuf_reserve(ring, size_of::<PacketRecord<N>>() as u64, 0) }
        .cast::<PacketRecord<N>>();
    if record.is_null() {
        return false;
    }
    const { assert!(N.is_power_of_two(), "a length is bounded by a mask") };
    // At least 1, at most `N`. A verifier before 6.3 learns nothing of a comparison with 0, and takes the mask for it.
    let wanted = if facts.carried as usize > N { N as u32 } else { facts.carried };
    let len = (core::hint::black_box(wanted.wrapping_sub(1)) & (N as u32 - 1)) + 1;
    facts.kept = len;
    let section = |tag, state, len| Section { tag: tag as u16, state, aux: 0, len };
    let is_cut = facts.carried as usize > N;
    let state = if is_cut { read_state::CUT } else { read_state::WHOLE };
    // SAFETY: the entry has room for the whole struct; the clock has no preconditions; `len` is at most `N`.
    let has_failed = unsafe {
        let size = size_of::<PacketRecord<N>>() as u32;
        (&raw mut (*record).header).write(Header::of_no_task(
            RecordKind::Packet,
            size,
            bpf_ktime_get_ns(),
            run,
        ));
        (&raw mut (*record).facts_section).write(section(
            SectionTag::PacketFacts,
            read_state::WHOLE,
            size_of::<PacketFacts>() as u32,
        ));
        (&raw mut (*record).facts).write(facts);
        (&raw mut (*record).payload_section).write(section(SectionTag::Payload, state, N as u32));
        bpf_skb_load_bytes(ctx.skb.skb.cast(), at as u32, (&raw mut (*record).payload).cast(), len) != 0
    };
    // SAFETY: it was reserved above, and is not touched any more.
    unsafe {
        if has_failed {
            bpf_ringbuf_discard(record.cast(), u64::from(BPF_RB_NO_WAKEUP));
        } else {
            bpf_ringbuf_submit(record.cast(), u64::from(BPF_RB_NO_WAKEUP));
        }
    }
    !has_failed
}
