//! Answers of the host's name servers, read before they are delivered: which addresses belong to names that a policy
//! speaks of.
//!
//! Decides nothing about connections. It notes for an address to which class of names it was given, and until when;
//! `enforce` attaches the programs that ask. An answer that cannot be noted is not delivered, because who gets it would
//! be refused without a reason, or let pass where it is denied. Nor is one that cannot be read whole, where a name that it
//! may be about is denied.

use assay_common::limits::{ANSWER_RECORDS, HOST_LEN};
use assay_common::names::{CLASS_DENIES, SERVER_DENIES};
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::{bpf_ktime_get_ns, bpf_loop, bpf_skb_load_bytes};
use aya_ebpf::macros::cgroup_skb;
use aya_ebpf::maps::lpm_trie::Key;
use aya_ebpf::programs::SkBuffContext;
use core::ffi::c_void;

use crate::kernel::setting;
use crate::maps::{ADDRESSES, CLASSES, Given, QUESTION, Question, SERVERS, STREAMS};
use crate::packet::{self, DOMAIN};

/// Seconds that an address stays allowed after its answer has run out.
const GRACE: u64 = 60;
/// The longest time that an answer is taken to hold, whatever it says.
const LONGEST: u32 = 86_400;
/// Labels and pointers of one record's owner that are stepped over.
const LABELS: usize = 32;

const A: u16 = 1;
const AAAA: u16 = 28;
const CLASS_IN: u16 = 1;

/// TCP's flag of a beginning.
const SYN: u8 = 2;

/// What the loops are given.
#[repr(C)]
struct Reading {
    skb: *mut __sk_buff,
    question: *mut Question,
}

/// A packet comes in: it passes, unless it is an answer that could not be noted.
#[cgroup_skb(ingress)]
pub fn answer_in(ctx: SkBuffContext) -> i32 {
    i32::from(read(&ctx) != Some(false))
}

/// Whether all of an answer was noted; `None` when it is none, or of no name that a policy speaks of.
#[inline(always)]
fn read(ctx: &SkBuffContext) -> Option<bool> {
    let head = packet::head(ctx)?;
    if head.source != DOMAIN {
        return None;
    }
    let facts = packet::facts(ctx, head, packet::IN)?;
    let (server, sequence) = (packet::mapped(&facts), facts.sequence);
    // SAFETY: a value that nobody writes once the run has begun.
    let denies = *unsafe { SERVERS.get(&server) }? == SERVER_DENIES;
    if !packet::is_home(ctx, setting!(netns)) {
        return None;
    }
    if head.protocol != packet::TCP {
        return if head.bytes == 0 { None } else { note_answer(ctx, head.payload, denies) };
    }
    let cookie = packet::cookie(ctx);
    if head.kind & SYN != 0 {
        let first = sequence.wrapping_add(1);
        // Without it the answers of this connection allow nothing, and what may be denied is not delivered.
        let _ = STREAMS.insert(&cookie, &first, 0);
        return None;
    }
    if head.bytes == 0 {
        return None;
    }
    let at = head.payload;
    let unread = if denies { Some(false) } else { None };
    // SAFETY: a number that is read at once.
    let Some(begin) = unsafe { STREAMS.get(&cookie) }.copied() else { return unread };
    // What begins within a message may look like one, and be of the run's own making. Of a message that was read as far as
    // its first segment goes, the rest passes.
    if sequence != begin {
        let behind = begin.wrapping_sub(sequence);
        return if behind < 1 << 31 && head.bytes <= behind { None } else { unread };
    }
    let Some(len) = packet::big_endian(ctx, at) else { return unread };
    let noted = note_answer(ctx, at + 2, denies);
    let behind = 2 + u32::from(len);
    let mut all = behind;
    // Answers to two questions often come together.
    let mut noted_too = None;
    let second = at + behind as usize;
    if let Some(len) = packet::big_endian(ctx, second) {
        noted_too = note_answer(ctx, second + 2, denies);
        all += 2 + u32::from(len);
    }
    if noted == Some(false) || noted_too == Some(false) || denies && head.bytes > all {
        // It will be sent again, and is read again then.
        return Some(false);
    }
    let next = begin.wrapping_add(all);
    let _ = STREAMS.insert(&cookie, &next, 0);
    Some(true)
}

/// Notes what the message that begins here says. `denies`: whether one that cannot be read may be of a denied name.
#[inline(always)]
fn note_answer(ctx: &SkBuffContext, at: usize, denies: bool) -> Option<bool> {
    if !is_answer(ctx, at, denies) {
        return None;
    }
    let question = question()?;
    question.base = at as u32;
    let Some(is_plain) = read_name(ctx, question) else {
        return if denies { Some(false) } else { None };
    };
    if !is_plain {
        return None;
    }
    let found = class_of(question)?;
    let denies = found & CLASS_DENIES != 0;
    if question.is_odd != 0 {
        // No rule allows such a name.
        return if denies { Some(false) } else { None };
    }
    question.class = found & !CLASS_DENIES;
    question.has_failed = 0;
    question.is_short = 0;
    let mut reading = Reading { skb: ctx.skb.skb, question };
    let records = u32::from(packet::big_endian(ctx, question.base as usize + 6)?);
    let is_long = records > ANSWER_RECORDS;
    // SAFETY: the callback is given this struct and nothing else; the loop ends before this frame does.
    unsafe {
        let records = if is_long { ANSWER_RECORDS } else { records };
        bpf_loop(records, record as *mut c_void, (&raw mut reading).cast(), 0)
    };
    Some(question.has_failed == 0 && !(denies && (is_long || question.is_short != 0)))
}

/// The place to read a name in.
#[inline(always)]
fn question() -> Option<&'static mut Question> {
    // SAFETY: packets come in one after the other on each processor.
    QUESTION.get_ptr_mut(0).map(|question| unsafe { &mut *question })
}

/// A response, to a plain query, without an error, to one question. Where names are denied also one whose head is not all
/// here, as far as can be seen.
#[inline(always)]
fn is_answer(ctx: &SkBuffContext, at: usize, denies: bool) -> bool {
    let (Some(flags), Some(questions)) = (packet::big_endian(ctx, at + 2), packet::big_endian(ctx, at + 4))
    else {
        return denies;
    };
    flags & 0xf80f == 0x8000 && questions == 1
}

/// Reads the name that was asked for, and where its question ends. `None` when it is not all here; false when a policy
/// cannot speak of it: the root, or a name of another class than the Internet's.
#[inline(always)]
fn read_name(ctx: &SkBuffContext, question: &mut Question) -> Option<bool> {
    let at = question.base as usize + 12;
    let left = ctx.len().checked_sub(at as u32)?;
    let len = core::hint::black_box(if left > HOST_LEN as u32 { HOST_LEN as u32 } else { left });
    if len == 0 || len > HOST_LEN as u32 {
        return None;
    }
    // SAFETY: the buffer has `HOST_LEN` bytes, and `len` is at most that.
    if unsafe { bpf_skb_load_bytes(ctx.as_ptr(), at as u32, question.wire.as_mut_ptr().cast(), len) } != 0 {
        return None;
    }
    question.left = 0;
    question.len = 0;
    question.end = 0;
    question.is_odd = 0;
    let mut reading = Reading { skb: ctx.skb.skb, question };
    // SAFETY: as in `note_answer`.
    unsafe { bpf_loop(len, letter as *mut c_void, (&raw mut reading).cast(), 0) };
    if question.end == 0 {
        return None;
    }
    question.at = question.base + 12 + question.end + 4;
    let class = packet::big_endian(ctx, question.at as usize - 2)?;
    Some(question.len != 0 && question.len < HOST_LEN as u32 && class == CLASS_IN)
}

/// The class of the name that was read.
#[inline(always)]
fn class_of(question: &mut Question) -> Option<u32> {
    // The name lies backwards, with its last letter first and a NUL behind its first.
    let first = core::hint::black_box(HOST_LEN - question.len as usize) & (2 * HOST_LEN - 1);
    let bits = (question.len + 1) * 8;
    // SAFETY: `first` is below twice `HOST_LEN`, behind which the buffer has room for a whole key.
    let key = unsafe {
        let key = question.reversed.as_mut_ptr().add(first);
        key.cast::<u32>().write_unaligned(bits);
        &*key.cast::<Key<[u8; HOST_LEN]>>()
    };
    CLASSES.get(key).copied()
}

/// One byte of the name: the length of a label, or a letter of one.
unsafe extern "C" fn letter(index: u32, reading: *mut Reading) -> i64 {
    // SAFETY: `class_of` passes its own.
    let question = unsafe { &mut *(*reading).question };
    let byte = question.wire[index as usize & (HOST_LEN - 1)];
    if question.left == 0 {
        if byte == 0 {
            question.end = index + 1;
            return 1;
        }
        if byte > 63 {
            return 1;
        }
        question.left = u32::from(byte);
        if index > 0 {
            put(question, b'.');
        }
        return 0;
    }
    question.left -= 1;
    let lower = if byte.is_ascii_uppercase() { byte | 0x20 } else { byte };
    // Only such letters stand in a policy; a dot within a label must not be taken for one between two.
    if lower.is_ascii_lowercase() || lower.is_ascii_digit() || lower == b'-' || lower == b'_' {
        put(question, lower);
    } else {
        question.is_odd = 1;
        put(question, b'?');
    }
    0
}

/// Puts a letter in front of those before it.
#[inline(always)]
fn put(question: &mut Question, letter: u8) {
    let at = (4 + HOST_LEN - 1).wrapping_sub(question.len as usize) & (2 * HOST_LEN - 1);
    question.reversed[at] = letter;
    question.len += 1;
}

/// One record of the answer. Ends the loop where it cannot be read.
unsafe extern "C" fn record(_index: u32, reading: *mut Reading) -> i64 {
    // SAFETY: `read` passes its own.
    let (question, ctx) = unsafe { (&mut *(*reading).question, SkBuffContext::new((*reading).skb)) };
    let is_read = read_record(&ctx, question).is_some();
    question.is_short |= u32::from(!is_read);
    i64::from(!is_read || question.has_failed != 0)
}

/// `None` where it is not all here.
#[inline(always)]
fn read_record(ctx: &SkBuffContext, question: &mut Question) -> Option<()> {
    let at = after_name(ctx, question.at)?;
    let fixed = ctx.load::<[u8; 10]>(at as usize).ok()?;
    let kind = u16::from_be_bytes([fixed[0], fixed[1]]);
    let class = u16::from_be_bytes([fixed[2], fixed[3]]);
    let ttl = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    let len = u32::from(u16::from_be_bytes([fixed[8], fixed[9]]));
    let data = at + 10;
    question.at = data + len;
    if class != CLASS_IN {
        return Some(());
    }
    let mut address = [0u8; 16];
    if kind == A && len == 4 {
        let four = ctx.load::<[u8; 4]>(data as usize).ok()?;
        address[10] = 0xff;
        address[11] = 0xff;
        address[12..].copy_from_slice(&four);
    } else if kind == AAAA && len == 16 {
        address = ctx.load::<[u8; 16]>(data as usize).ok()?;
    } else {
        return Some(());
    }
    if is_reachable(&address) && !note(question.class, address, ttl) {
        question.has_failed = 1;
    }
    Some(())
}

/// Where the owner of a record ends.
#[inline(always)]
fn after_name(ctx: &SkBuffContext, at: u32) -> Option<u32> {
    let mut at = at;
    for _ in 0..LABELS {
        let byte: u8 = ctx.load(at as usize).ok()?;
        if byte == 0 {
            return Some(at + 1);
        }
        if byte >= 0xc0 {
            return Some(at + 2);
        }
        at += u32::from(byte) + 1;
    }
    None
}

/// Whether a name may stand for the address at all: not for this host, the link, or many. A name that does is rebound.
#[inline(always)]
fn is_reachable(address: &[u8; 16]) -> bool {
    let is_v4 = address[..10] == [0; 10] && address[10] == 0xff && address[11] == 0xff;
    if is_v4 {
        let (a, b) = (address[12], address[13]);
        return !(a == 0 || a == 127 || a >= 224 || (a == 169 && b == 254));
    }
    let is_near = address[..12] == [0; 12];
    let is_link = address[0] == 0xfe && address[1] & 0xc0 == 0x80;
    !(is_near || is_link || address[0] == 0xff)
}

/// Notes that a name of the class has the address. False when there is no room.
#[inline(always)]
fn note(class: u32, address: [u8; 16], ttl: u32) -> bool {
    let ttl = if ttl > LONGEST { LONGEST } else { ttl };
    // SAFETY: the clock has no preconditions.
    let until = unsafe { bpf_ktime_get_ns() } + (u64::from(ttl) + GRACE) * 1_000_000_000;
    let key = Given { class, address };
    // SAFETY: a number that is read at once.
    if unsafe { ADDRESSES.get(&key) }.is_some_and(|known| *known >= until) {
        return true;
    }
    ADDRESSES.insert(&key, &until, 0).is_ok()
}
