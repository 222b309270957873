//! The kernel's own copies of the addresses that calls go to.
//!
//! A call copies its address out of the program's memory when it begins, and another thread may change that memory until it
//! returns. Programs on the run's group are shown the copy when a connection begins, and for each datagram that is sent to
//! an address; they let everything pass. What they saw is kept for the return of the call.
//!
//! They may be interrupted by other tasks, so the record under construction is not theirs.

use assay_common::kind::SectionTag;
use assay_common::limits::{AIMED_LEN, SOCKADDR_LEN};
use assay_common::record::flags;
use aya_ebpf::bindings::{BPF_ANY, bpf_sock_addr};
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::bpf_get_socket_cookie;
use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;

use crate::emit::scratch;
use crate::kernel::{current_task, off, read, setting};
use crate::maps::{AIMED, Aim, End, Scratch};

/// `AF_INET`.
pub const AF_INET: u16 = 2;
/// `AF_INET6`.
pub const AF_INET6: u16 = 10;
const TCP: u16 = 6;
const UDP: u16 = 17;
const LAST: u32 = AIMED_LEN as u32 - 1;

static NOWHERE: Aim =
    Aim { cookie: 0, count: 0, padding: 0, ends: [End { address: [0; 4], port: 0, family: 0 }; AIMED_LEN] };

/// A connection begins.
#[cgroup_sock_addr(connect4)]
pub fn aim_connect4(ctx: SockAddrContext) -> i32 {
    aim4(ctx.sock_addr)
}

/// The same by IPv6.
#[cgroup_sock_addr(connect6)]
pub fn aim_connect6(ctx: SockAddrContext) -> i32 {
    aim6(ctx.sock_addr)
}

/// A datagram is sent to an address.
#[cgroup_sock_addr(sendmsg4)]
pub fn aim_send4(ctx: SockAddrContext) -> i32 {
    aim4(ctx.sock_addr)
}

/// The same by IPv6.
#[cgroup_sock_addr(sendmsg6)]
pub fn aim_send6(ctx: SockAddrContext) -> i32 {
    aim6(ctx.sock_addr)
}

#[inline(always)]
fn aim4(ctx: *mut bpf_sock_addr) -> i32 {
    // SAFETY: the context is the program's own.
    let (address, port) = unsafe { ((*ctx).user_ip4, (*ctx).user_port) };
    keep(ctx, End { address: [address, 0, 0, 0], port: port as u16, family: AF_INET });
    1
}

#[inline(always)]
fn aim6(ctx: *mut bpf_sock_addr) -> i32 {
    // SAFETY: as above.
    let (address, port) = unsafe {
        let at = |index: usize| core::ptr::read_volatile(&raw const (*ctx).user_ip6[index]);
        ([at(0), at(1), at(2), at(3)], (*ctx).user_port)
    };
    keep(ctx, End { address, port: port as u16, family: AF_INET6 });
    1
}

#[inline(always)]
fn keep(ctx: *mut bpf_sock_addr, end: End) {
    let tid: u32 = read(current_task() + off!(task_pid));
    // SAFETY: the context is the program's own.
    let cookie = unsafe { bpf_get_socket_cookie(ctx.cast()) };
    let Some(aim) = entry(tid) else { return };
    // SAFETY: the task's own, and it is here.
    let aim = unsafe { &mut *aim };
    if aim.cookie != cookie {
        aim.cookie = cookie;
        aim.count = 0;
    }
    // The last is the one that is told; of more than there is room for, the count says so.
    let at = if aim.count < LAST { aim.count } else { LAST };
    aim.ends[core::hint::black_box(at) as usize & (AIMED_LEN - 1)] = end;
    aim.count += 1;
}

/// What is kept of a task's call, made where there is nothing yet.
#[inline(always)]
fn entry(tid: u32) -> Option<*mut Aim> {
    if let Some(aim) = AIMED.get_ptr_mut(&tid) {
        return Some(aim);
    }
    // Where there is no room, the return of the call says that it was not seen.
    let _ = AIMED.insert(&tid, &NOWHERE, u64::from(BPF_ANY));
    AIMED.get_ptr_mut(&tid)
}

/// Whether the kernel took an address for the call of the current task.
#[inline(always)]
pub fn has_end() -> bool {
    AIMED.get_ptr(&(bpf_get_current_pid_tgid() as u32)).is_some()
}

/// How many addresses the kernel took for this socket in the call of the current task.
#[inline(always)]
pub fn count(sk: u64) -> u32 {
    // SAFETY: the task's own, and it is here.
    let aim = unsafe { AIMED.get(&(bpf_get_current_pid_tgid() as u32)) };
    aim.filter(|aim| aim.cookie == read::<u64>(sk + off!(sk_cookie))).map_or(0, |aim| aim.count)
}

/// Instead of an index: the last.
pub const LAST_ONE: u32 = u32::MAX;

/// Adds the address that the kernel took for this socket: that with this index, or the last. Whether there is one.
#[inline(always)]
pub fn put_end(sk: u64, index: u32) -> bool {
    // The compiler, which knows that it is 0 or 1, must leave the test to the verifier.
    core::hint::black_box(add_end(sk, index)) != 0
}

/// See [`put_end`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_end(sk: u64, index: u32) -> u32 {
    // SAFETY: the task's own, and it is here.
    let Some(aim) = (unsafe { AIMED.get(&(bpf_get_current_pid_tgid() as u32)) }) else { return 0 };
    if aim.count == 0 || aim.cookie != read::<u64>(sk + off!(sk_cookie)) {
        return 0;
    }
    let last = if aim.count - 1 < LAST { aim.count - 1 } else { LAST };
    let at = core::hint::black_box(if index == LAST_ONE { last } else { index }) as usize & (AIMED_LEN - 1);
    let End { address: [a, b, c, d], port, family } = aim.ends[at];
    let pair = |first: u32, second: u32| u64::from(first) | u64::from(second) << 32;
    add_address(pair(a, b), pair(c, d), u32::from(port), u32::from(family))
}

/// Adds the address that this socket is connected to, as the kernel has it. Whether it is.
#[inline(always)]
pub fn put_connected(sk: u64, family: u16) -> bool {
    let port: u16 = read(sk + off!(sk_dport));
    if port == 0 {
        return false;
    }
    let (first, second) = if family == AF_INET {
        (u64::from(read::<u32>(sk + off!(sk_daddr))), 0)
    } else {
        (read(sk + off!(sk_daddr6)), read(sk + off!(sk_daddr6) + 8))
    };
    add_address(first, second, u32::from(port), u32::from(family));
    true
}

/// Adds an end as the program would have written it. A function of its own: see [`crate::kernel`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_address(first: u64, second: u64, port: u32, family: u32) -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let is_four = family == u32::from(AF_INET);
    let to = scratch.name.as_mut_ptr();
    // SAFETY: a name has 256 bytes, an address at most 28.
    unsafe {
        let word = |at: usize, value: u64| to.add(at).cast::<u64>().write_unaligned(value);
        for at in [0, 8, 16, 24] {
            word(at, 0);
        }
        to.cast::<u16>().write_unaligned(family as u16);
        to.add(2).cast::<u16>().write_unaligned(port as u16);
        if is_four {
            to.add(4).cast::<u32>().write_unaligned(first as u32);
        } else {
            word(8, first);
            word(16, second);
        }
    }
    scratch.put_kernel_bytes::<SOCKADDR_LEN>(SectionTag::Sockaddr, to as u64, if is_four { 16 } else { 28 });
    1
}

/// Forgets what was kept of the call of the current task.
#[inline(always)]
pub fn forget() {
    // Not being there is as good as being removed.
    let _ = AIMED.remove(&(bpf_get_current_pid_tgid() as u32));
}

/// Says of a call that did what it was asked for that the kernel's copy of its address was not seen.
#[inline(always)]
pub fn admit(scratch: &mut Scratch, sk: u64) {
    let header = scratch.header();
    let protocol: u16 = read(sk + off!(sk_protocol));
    // What has left the group is admitted as such; other protocols are not shown to such programs.
    if setting!(hears_addresses) != 0
        && header.ret >= 0
        && header.flags & flags::OUTSIDE == 0
        && (protocol == TCP || protocol == UDP)
    {
        header.flags |= flags::UNCONFIRMED;
    }
}
