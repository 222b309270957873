//! Calls on sockets: what kind of socket, which address, and for UNIX paths where they lead.

use assay_common::calls::{NONE, Op};
use assay_common::kind::SectionTag;
use assay_common::limits::{AIMED_LEN, COMM_LEN, MMSG_LEN, SOCKADDR_LEN, WALK_START};
use assay_common::names::tail;
use assay_common::offsets::MISSING;
use assay_common::record::{Header, PeerFacts, SockFacts, flags};
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::aimed::{AF_INET, AF_INET6};
use crate::chain::put_chain;
use crate::emit::{scratch, submit, tell_unread};
use crate::kernel::{Context, at_most, each, file_of, off, place_of, read, read_user};
use crate::maps::{Scratch, TAILS, mode};
use crate::start::{AT_FDCWD, Which, mode_for, set_job};

const AF_UNIX: u16 = 1;
const S_IFMT: u16 = 0o170_000;
const S_IFSOCK: u16 = 0o140_000;

/// A call with an address, a message that holds one, or none.
#[raw_tracepoint]
pub fn call_socket(ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let (args, call) = (scratch.header().args, scratch.call);
    let is_compat = scratch.header().flags & flags::COMPAT != 0;
    let (address, len) = if call.path_a == NONE {
        (0, 0)
    } else if call.path_b == NONE {
        let Some(found) = message_address(args[1], is_compat) else {
            if scratch.header().ret >= 0 {
                tell_unread();
            }
            return 0;
        };
        found
    } else if call.path_a == 4 {
        (args[4], args[5])
    } else {
        (args[1], args[2])
    };
    // Another thread may have taken it away meanwhile.
    if call.op == Op::Send as u16
        && (address == 0 || len == 0)
        && !crate::taken::has_socket_path()
        && !crate::aimed::has_end()
    {
        return 0;
    }
    finish(&ctx, args[0] as i32, address, len);
    0
}

/// `sendmmsg`: one record for each message that was sent and has an address.
#[raw_tracepoint]
pub fn call_mmsg(_ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let ret = scratch.header().ret;
    // A failure is the first message's. The kernel sends no more than `MMSG_LEN` in one call.
    let sent = if ret <= 0 { 1 } else { at_most::<{ MMSG_LEN as usize }>(ret as u64) };
    // All of them to addresses, or all to where it is connected: or it is not known which to which. One more may have
    // failed.
    let aimed = crate::aimed::count(sk_of(file_of(scratch.header().args[0] as i32)));
    scratch.aimed = u32::from(aimed == sent || aimed == sent + 1 && ret > 0);
    if aimed as usize > AIMED_LEN {
        scratch.aimed = 0;
    }
    if aimed != 0 && scratch.aimed == 0 {
        tell_unread();
    }
    each(scratch, sent, message);
    crate::aimed::forget();
    0
}

/// Tells one message.
unsafe extern "C" fn message(index: u32, context: *mut Context) -> i64 {
    // SAFETY: `each` passes its own context.
    let scratch = unsafe { &mut *(*context).scratch };
    let args = scratch.header().args;
    let is_compat = scratch.header().flags & flags::COMPAT != 0;
    let size: u64 = if is_compat { 32 } else { 64 };
    let Some((address, len)) = message_address(args[1] + u64::from(index) * size, is_compat) else {
        if scratch.header().ret > 0 {
            tell_unread();
        }
        return 1;
    };
    if scratch.aimed != 0 || address != 0 && len != 0 {
        scratch.at = size_of::<Header>() as u32;
        put_socket(args[0] as i32);
        let is_told = scratch.aimed != 0 && crate::aimed::put_end(sk_of(file_of(args[0] as i32)), index);
        if !is_told {
            scratch.put_user_bytes::<SOCKADDR_LEN>(SectionTag::Sockaddr, address, len & 0xffff_ffff);
        }
        submit();
    }
    0
}

/// `msg_name` and `msg_namelen` of a `struct msghdr`.
#[inline(always)]
fn message_address(message: u64, is_compat: bool) -> Option<(u64, u64)> {
    if is_compat {
        let [address, len] = read_user::<[u32; 2]>(message)?;
        Some((u64::from(address), u64::from(len)))
    } else {
        Some((read_user::<u64>(message)?, u64::from(read_user::<u32>(message + 8)?)))
    }
}

/// Adds socket and address, resolves a UNIX path, sends.
#[inline(always)]
fn finish(ctx: &RawTracePointContext, fd: i32, address: u64, len: u64) {
    let family = put_socket(fd);
    let Some(scratch) = scratch() else { return };
    if (family == AF_INET || family == AF_INET6) && put_inet_end(scratch, fd, family, address) {
        submit();
        return;
    }
    // The kernel takes an int.
    let len = len & 0xffff_ffff;
    let is_bind = scratch.call.op == Op::Bind as u16;
    // A send that was taken for one to an address is none after all.
    if address == 0 && scratch.call.op == Op::Send as u16 && family != AF_UNIX {
        return;
    }
    let taken = if family == AF_UNIX { crate::taken::take_socket_path(scratch) } else { 0 };
    if taken != 0 {
        put_taken_path(scratch, taken);
        walk_to_socket(ctx, scratch, is_bind);
    } else if address != 0 {
        scratch.put_user_bytes::<SOCKADDR_LEN>(SectionTag::Sockaddr, address, len);
        if family == AF_UNIX
            && len > 2
            && len <= SOCKADDR_LEN as u64
            && put_unix_path(scratch, address, len as u32)
        {
            crate::taken::admit(scratch);
            walk_to_socket(ctx, scratch, is_bind);
        }
    }
    submit();
}

/// Adds the other end of a call on such a socket as the kernel has it. False where it has none: then what the program wrote
/// is all that is known.
#[inline(always)]
fn put_inet_end(scratch: &mut Scratch, fd: i32, family: u16, address: u64) -> bool {
    const SOCK_STREAM: u16 = 1;
    let (op, sk) = (scratch.call.op, sk_of(file_of(fd)));
    let is_connect = op == Op::Connect as u16;
    if !is_connect && op != Op::Send as u16 {
        return false;
    }
    let is_put = crate::aimed::put_end(sk, crate::aimed::LAST_ONE);
    crate::aimed::forget();
    // A second connect finds a connection under way, and a stream that is connected goes where it goes.
    let is_told =
        is_put || (is_connect || kind_of(fd) == SOCK_STREAM) && crate::aimed::put_connected(sk, family);
    // What takes a connection away has an address of no family.
    let named = read_user::<u16>(address).unwrap_or(family);
    if !is_told && (named == AF_INET || named == AF_INET6) {
        crate::aimed::admit(scratch, sk);
    }
    is_told
}

/// A socket's type.
#[inline(always)]
fn kind_of(fd: i32) -> u16 {
    let socket: u64 = read(file_of(fd) + off!(file_private));
    read(socket + off!(socket_type))
}

/// The kernel's own of a socket's file.
#[inline(always)]
pub fn sk_of(file: u64) -> u64 {
    let socket: u64 = read(file + off!(file_private));
    read(socket + off!(socket_sk))
}

/// Resolves the path in the walk room, then sends.
#[inline(always)]
fn walk_to_socket(ctx: &RawTracePointContext, scratch: &mut Scratch, is_bind: bool) {
    let wanted = mode_for_socket(scratch.header().ret, if is_bind { mode::NAME } else { mode::FOLLOW });
    set_job(scratch, Which::A, AT_FDCWD, wanted);
    // SAFETY: nothing here needs dropping; see `sys_exit`.
    unsafe { TAILS.tail_call(ctx, tail::WALK) };
}

/// Adds the address that the path in the walk room is, as the kernel took it.
#[inline(always)]
fn put_taken_path(scratch: &mut Scratch, len: u64) {
    // In front of the path there is room for links, and nothing yet.
    // SAFETY: within the walk room; `walk` is aligned to 8, and so is `WALK_START`.
    unsafe { scratch.walk[0].as_mut_ptr().add(WALK_START - 2).cast::<u16>().write_unaligned(AF_UNIX) };
    let from = scratch.walk[0].as_ptr() as u64 + WALK_START as u64 - 2;
    scratch.put_kernel_bytes::<SOCKADDR_LEN>(SectionTag::Sockaddr, from, len + 1);
}

/// A refused connection found its socket.
#[inline(always)]
fn mode_for_socket(ret: i64, wanted: u32) -> u32 {
    const ENOENT: i64 = -2;
    const ENOTDIR: i64 = -20;
    if ret == ENOENT || ret == ENOTDIR { mode_for(ret, wanted) } else { wanted }
}

/// Puts a UNIX address's path into the walk room. False for an abstract one.
#[inline(always)]
pub fn put_unix_path(scratch: &mut Scratch, address: u64, len: u32) -> bool {
    let len = at_most::<SOCKADDR_LEN>(u64::from(len - 2));
    // SAFETY: the walk room is longer than `WALK_START` and twice the 128 bytes that `at_most` leaves.
    unsafe {
        let to = scratch.walk[0].as_mut_ptr().add(WALK_START);
        if bpf_probe_read_user(to.cast(), len, (address + 2) as *const _) != 0 {
            return false;
        }
        *to.add(len as usize) = 0;
        *to != 0
    }
}

/// Adds what the kernel knows of the socket behind a descriptor, and its own name if it is a UNIX socket. Its family.
#[inline(always)]
fn put_socket(fd: i32) -> u16 {
    put_socket_file(file_of(fd))
}

/// The same for a socket's `struct file`.
#[inline(always)]
pub fn put_socket_file(file: u64) -> u16 {
    add_socket(file) as u16
}

/// See [`put_socket_file`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_socket(file: u64) -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    if !is_socket(file) {
        return 0;
    }
    let (sk, family) = put_facts_of(scratch, file);
    let op = scratch.header().op;
    if family == AF_UNIX && op == Op::Connect as u16 {
        put_unix_name(scratch, read(sk + off!(unix_peer)));
        if scratch.header().ret >= 0 {
            put_peer(scratch, sk);
        }
    } else if family == AF_UNIX && op != Op::Send as u16 {
        put_unix_name(scratch, sk);
        // The name it was bound with may be relative to a directory left long ago; the file it made is known.
        let place = sk + off!(unix_path);
        let dentry: u64 = if op == Op::Listen as u16 { read(place + off!(path_dentry)) } else { 0 };
        if dentry != 0 {
            put_chain(SectionTag::ChainA, 0, dentry, read(place + off!(path_mnt)));
        }
    }
    u32::from(family)
}

/// Adds what the kernel knows of a socket: the kernel's own, and its family.
#[inline(always)]
fn put_facts_of(scratch: &mut Scratch, file: u64) -> (u64, u16) {
    let socket: u64 = read(file + off!(file_private));
    let sk: u64 = read(socket + off!(socket_sk));
    let family: u16 = read(sk + off!(sk_family));
    let mut facts = SockFacts {
        family,
        kind: read(socket + off!(socket_type)),
        protocol: read(sk + off!(sk_protocol)),
        local_port: read(sk + off!(sk_num)),
        local4: read(sk + off!(sk_rcv_saddr)),
        local6: [0; 16],
        is_port_chosen: u32::from(is_port_chosen(sk)),
    };
    if family == 10 {
        facts.local6 = read(sk + off!(sk_rcv_saddr6));
    }
    scratch.put_value(SectionTag::SockFacts, facts);
    (sk, family)
}

/// Whether a file is a socket.
#[inline(always)]
pub fn is_socket(file: u64) -> bool {
    let inode: u64 = read(file + off!(file_inode));
    file != 0 && read::<u16>(inode + off!(inode_mode)) & S_IFMT == S_IFSOCK
}

/// Adds what is known of a socket that came in a message, and who is at its other end.
#[inline(always)]
pub fn put_received_socket(scratch: &mut Scratch, file: u64) {
    let (sk, family) = put_facts_of(scratch, file);
    if family == AF_UNIX {
        put_unix_name(scratch, read(sk + off!(unix_peer)));
        let pid: u64 = read(sk + off!(sk_peer_pid));
        let number: u32 = if pid == 0 { 0 } else { read(pid + off!(pid_numbers) + off!(upid_nr)) };
        scratch.header().args[5] = u64::from(number);
    }
}

/// Adds who is at the other end of a connection that was made: it may be gone before userspace could look, so that its
/// program is read here.
#[inline(always)]
fn put_peer(scratch: &mut Scratch, sk: u64) {
    /// `PIDTYPE_TGID`: the list of a process's first thread, in `struct pid` and in `struct task_struct`.
    const PROCESS: u64 = 1;
    let mut facts = PeerFacts { pid: 0, uid: 0, is_alive: 0, padding: 0, comm: [0; COMM_LEN] };
    let mut image = 0;
    let pid: u64 = read(sk + off!(sk_peer_pid));
    if pid != 0 {
        facts.pid = read(pid + off!(pid_numbers) + off!(upid_nr));
        let cred: u64 = read(sk + off!(sk_peer_cred));
        facts.uid = read(cred + off!(cred_uid));
        let link: u64 = read(pid + off!(pid_tasks) + PROCESS * 8);
        if link != 0 {
            let task = link - off!(task_pid_links) - PROCESS * 16;
            facts.is_alive = 1;
            facts.comm = read(task + off!(task_comm));
            let mm: u64 = read(task + off!(task_mm));
            image = if mm == 0 { 0 } else { read(mm + off!(mm_exe_file)) };
        }
    }
    scratch.put_value(SectionTag::PeerFacts, facts);
    if image != 0 {
        let (dentry, mnt) = place_of(image);
        put_chain(SectionTag::PeerChain, 0, dentry, mnt);
    }
}

/// Adds the name that a UNIX socket was bound with, if it was.
#[inline(always)]
fn put_unix_name(scratch: &mut Scratch, sk: u64) {
    let name: u64 = if sk == 0 { 0 } else { read(sk + off!(unix_addr)) };
    let len: u32 = if name == 0 { 0 } else { read(name + off!(unix_len)) };
    if len > 2 {
        scratch.put_kernel_bytes::<SOCKADDR_LEN>(
            SectionTag::UnixName,
            name + off!(unix_name),
            u64::from(len),
        );
    }
}

/// Whether a socket's port is the kernel's choice: `SOCK_BINDPORT_LOCK` is set when the program named one.
#[inline(always)]
fn is_port_chosen(sk: u64) -> bool {
    const SOCK_BINDPORT_LOCK: u32 = 8;
    let bit = off!(userlocks_bit);
    if bit == u64::from(MISSING) || read::<u16>(sk + off!(sk_num)) == 0 {
        return false;
    }
    let byte: u8 = read(sk + bit / 8);
    (u32::from(byte) >> (bit % 8)) & SOCK_BINDPORT_LOCK == 0
}
