//! Counts what the run's sockets send and receive, by the end that they speak to.
//!
//! Bytes are those behind TCP's or UDP's header, so what is sent again is counted again. TCP is counted by what the socket
//! was connected to, whatever the packet's address became on its way; UDP by the packet, for one socket speaks to many.

use core::arch::asm;
use core::ffi::c_void;

use assay_common::served::slot_of;
use assay_common::traffic::{OTHER, SERVED, TCP, TrafficEnd, TrafficTally};
use aya_ebpf::bindings::bpf_sock;
use aya_ebpf::helpers::generated::{bpf_map_lookup_elem, bpf_map_update_elem, bpf_tcp_sock};
use aya_ebpf::programs::SkBuffContext;

use crate::maps::BEYOND;
use crate::packet::{AF_INET, Head, OUT, Way, remote};
use crate::served;

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 0x10;
/// `BPF_TCP_SYN_SENT`: the socket began a connection that was not answered yet.
const SYN_SENT: u32 = 2;

/// What a packet adds besides its bytes: see [`Packet::flags`].
const IS_OUT: u8 = 1;
const IS_BEGUN: u8 = 2;
const IS_MADE: u8 = 4;

/// A packet to count.
#[derive(Clone, Copy)]
struct Packet {
    /// The other end's address.
    address: [u32; 4],
    /// The other end's port.
    port: u16,
    /// The run's own port; 0 where it does not matter.
    own_port: u16,
    protocol: u8,
    flags: u8,
    bytes: u32,
}

/// Counts a packet.
#[inline(always)]
pub fn count(ctx: &SkBuffContext, head: Head, way: Way, run: u32) -> Option<()> {
    let is_out = way == OUT;
    let Packet { address: [a, b, c, d], port, own_port, protocol, flags, bytes } =
        if head.protocol == TCP { stream(ctx, head, is_out)? } else { datagram(ctx, head, way)? };
    let pair = |first: u32, second: u32| u64::from(first) | u64::from(second) << 32;
    let ports = u64::from(port) | u64::from(own_port) << 16;
    let rest = ports | u64::from(protocol) << 32 | u64::from(flags) << 40 | u64::from(slot_of(run)) << 48;
    count_packet(pair(a, b), pair(c, d), rest, bytes);
    Some(())
}

#[inline(always)]
fn datagram(ctx: &SkBuffContext, head: Head, way: Way) -> Option<Packet> {
    let is_out = way == OUT;
    Some(Packet {
        address: remote(ctx, head, way)?,
        port: if is_out { head.target } else { head.source },
        own_port: 0,
        protocol: head.protocol,
        flags: if is_out { IS_OUT } else { 0 },
        bytes: head.bytes,
    })
}

#[inline(always)]
fn stream(ctx: &SkBuffContext, head: Head, is_out: bool) -> Option<Packet> {
    let bytes = head.bytes;
    let kind = head.kind & (SYN | ACK | RST);
    let may_begin = is_out && kind == SYN;
    let may_make = !is_out && kind == SYN | ACK;
    // Most packets of the other way only acknowledge.
    if bytes == 0 && !may_begin && !may_make {
        return None;
    }
    // SAFETY: the context is the program's own.
    let socket = unsafe { (*ctx.skb.skb).__bindgen_anon_2.sk };
    if socket.is_null() {
        return None;
    }
    let mut flags = if is_out { IS_OUT } else { 0 };
    if may_begin && is_first_sending(socket) {
        flags |= IS_BEGUN;
    }
    // SAFETY: not null, and the verifier knows which fields may be read. Each is read by itself and whatever the family,
    // for the verifier takes no sums of a socket and a number, which the compiler would make of two ways to read.
    unsafe {
        if may_make && (&raw const (*socket).state).read_volatile() == SYN_SENT {
            flags |= IS_MADE;
        }
        let four = [0, 0, 0xffff_0000_u32.to_le(), (&raw const (*socket).dst_ip4).read_volatile()];
        let six = [
            (&raw const (*socket).dst_ip6[0]).read_volatile(),
            (&raw const (*socket).dst_ip6[1]).read_volatile(),
            (&raw const (*socket).dst_ip6[2]).read_volatile(),
            (&raw const (*socket).dst_ip6[3]).read_volatile(),
        ];
        let is_four = (&raw const (*socket).family).read_volatile() == u32::from(AF_INET);
        Some(Packet {
            address: if is_four { four } else { six },
            port: u16::from_be((&raw const (*socket).dst_port).read_volatile()),
            own_port: (&raw const (*socket).src_port).read_volatile() as u16,
            protocol: TCP,
            flags,
            bytes,
        })
    }
}

/// Whether the packet under way is the first that the socket sends: a beginning that is sent again is not another one.
#[inline(always)]
fn is_first_sending(socket: *mut bpf_sock) -> bool {
    // SAFETY: the verifier knows what the helper answers.
    unsafe {
        let tcp = bpf_tcp_sock(socket);
        !tcp.is_null() && (*tcp).segs_out == 1
    }
}

/// Adds a packet to its end. The words are those of a [`Packet`]; see [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_packet(first: u64, second: u64, rest: u64, bytes: u32) -> u32 {
    let mut address = [0u8; 16];
    address[..8].copy_from_slice(&first.to_ne_bytes());
    address[8..].copy_from_slice(&second.to_ne_bytes());
    let (port, own_port) = (rest as u16, (rest >> 16) as u16);
    let (protocol, flags, slot) = ((rest >> 32) as u8, (rest >> 40) as u8, (rest >> 48) as u8 as u32);
    let Some(ends) = served::traffic(slot) else {
        add_beyond(slot, flags | IS_BEGUN, bytes);
        return 0;
    };
    let mut end = TrafficEnd { address, port, protocol, side: OTHER };
    if add(ends, &end, flags, bytes) {
        return 0;
    }
    if protocol == TCP && flags & IS_BEGUN == 0 {
        // Nobody here began it: it was accepted, or there was no room for its end.
        if BEYOND.get(slot).is_some_and(|beyond| beyond.begun != 0) {
            add_beyond(slot, flags, bytes);
            return 0;
        }
        end = TrafficEnd { address: [0; 16], port: own_port, protocol, side: SERVED };
        if add(ends, &end, flags, bytes) {
            return 0;
        }
    }
    const NOEXIST: u64 = 1;
    let none = TrafficTally { bytes_out: 0, bytes_in: 0, begun: 0, made: 0 };
    // Where another processor was quicker, it is there.
    // SAFETY: keys and values of this map are these.
    unsafe { bpf_map_update_elem(ends, (&raw const end).cast(), (&raw const none).cast(), NOEXIST) };
    if !add(ends, &end, flags, bytes) {
        add_beyond(slot, flags | IS_BEGUN, bytes);
    }
    0
}

/// Adds to an end that is counted already.
#[inline(always)]
fn add(ends: *mut c_void, end: &TrafficEnd, flags: u8, bytes: u32) -> bool {
    // SAFETY: as above.
    let tally = unsafe { bpf_map_lookup_elem(ends, (&raw const *end).cast()) }.cast::<TrafficTally>();
    if tally.is_null() {
        return false;
    }
    add_to(tally, flags, bytes);
    true
}

/// Adds to what no end has room for.
#[inline(always)]
fn add_beyond(slot: u32, flags: u8, bytes: u32) {
    if let Some(tally) = BEYOND.get_ptr_mut(slot) {
        add_to(tally, flags, bytes);
    }
}

#[inline(always)]
fn add_to(tally: *mut TrafficTally, flags: u8, bytes: u32) {
    // SAFETY: an element of a map, which is never moved.
    unsafe {
        let way = if flags & IS_OUT != 0 { &raw mut (*tally).bytes_out } else { &raw mut (*tally).bytes_in };
        if bytes != 0 {
            add_atomically(way, u64::from(bytes));
        }
        if flags & IS_BEGUN != 0 {
            add_atomically(&raw mut (*tally).begun, 1);
        }
        if flags & IS_MADE != 0 {
            add_atomically(&raw mut (*tally).made, 1);
        }
    }
}

/// Packets of one end pass on several processors, and one that goes out is interrupted by others. The library's atomics
/// want a compare and exchange, which this target does not have.
#[inline(always)]
pub unsafe fn add_atomically(to: *mut u64, by: u64) {
    // SAFETY: the caller has the number, which lies on eight bytes; the instruction does nothing else.
    unsafe { asm!("lock *(u64 *)({to} + 0) += {by}", to = in(reg) to, by = in(reg) by, options(nostack)) }
}
