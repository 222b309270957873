//! Begins a record, adds sections, sends it: the only writer of the ring, and it counts every failure.

use assay_common::kind::{RecordKind, SectionTag, read_state};
use assay_common::limits::{COMM_LEN, RECORD_LEN, RECORD_SLACK, STRING_LEN};
use assay_common::loss::COUNTERS;
use assay_common::record::{Header, Section, flags};
use assay_common::served::slot_of;
use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{
    bpf_get_current_comm, bpf_get_smp_processor_id, bpf_ktime_get_ns, bpf_probe_read_kernel,
    bpf_probe_read_kernel_str, bpf_probe_read_user, bpf_probe_read_user_str, bpf_ringbuf_output,
};
use aya_ebpf::maps::PerCpuArray;

use crate::kernel::at_most;
use crate::maps::{LOST, SCRATCH, SEEN, Scratch};
use crate::scope::Membership;
use crate::served::ring;

const MASK: usize = RECORD_LEN - 1;

/// This processor's record under construction.
#[inline(always)]
pub fn scratch() -> Option<&'static mut Scratch> {
    // SAFETY: raw tracepoints run with preemption off and not nested in each other, so this processor's element has no
    // other user until this program, and those it tail-calls, end.
    unsafe { SCRATCH.get_ptr_mut(bpf_get_smp_processor_id()).map(|s| &mut *s) }
}

impl Scratch {
    /// Begins a record by the current task.
    #[inline(always)]
    pub fn begin(&mut self, kind: RecordKind, op: u16, counter: u32, member: Membership) -> &mut Header {
        let id = bpf_get_current_pid_tgid();
        self.at = size_of::<Header>() as u32;
        self.counter = counter;
        self.next_job = 0;
        self.jobs[0].is_wanted = 0;
        self.jobs[1].is_wanted = 0;
        let header = self.header();
        header.size = 0;
        header.kind = kind as u16;
        header.op = op;
        header.run = member.run;
        header.pid = (id >> 32) as u32;
        header.tid = id as u32;
        header.ppid = 0;
        header.ret = 0;
        header.args = [0; 6];
        header.flags = if member.is_outside { flags::OUTSIDE } else { 0 };
        header.nr = 0;
        // SAFETY: `comm` has `COMM_LEN` bytes; the clock has no preconditions.
        unsafe {
            header.t_ns = bpf_ktime_get_ns();
            bpf_get_current_comm(header.comm.as_mut_ptr().cast(), COMM_LEN as u32);
        }
        header
    }

    /// The header of the record under construction.
    #[inline(always)]
    pub fn header(&mut self) -> &mut Header {
        // SAFETY: the record is longer than a header and aligned as the map's value is, to 8; any bytes are a header.
        unsafe { &mut *self.record.as_mut_ptr().cast::<Header>() }
    }

    /// Where the bytes of the next section go, or `None` when `max` more might not fit.
    #[inline(always)]
    fn room(&mut self, max: usize) -> Option<*mut u8> {
        let at = self.at as usize;
        if at > RECORD_LEN - size_of::<Section>() - max {
            self.header().flags |= flags::OVERFLOW;
            return None;
        }
        // SAFETY: masked to `RECORD_LEN`, behind which `RECORD_SLACK` bytes follow; `max` is at most that.
        Some(unsafe { self.record.as_mut_ptr().add((at + size_of::<Section>()) & MASK) })
    }

    /// Ends a section whose `len` bytes are in place.
    #[inline(always)]
    pub fn end_section(&mut self, tag: u16, state: u8, aux: u8, len: u32) {
        let at = self.at as usize & MASK & !7;
        // SAFETY: masked and aligned; see `room`.
        unsafe {
            let section = self.record.as_mut_ptr().add(at).cast::<Section>();
            (*section).tag = tag;
            (*section).state = state;
            (*section).aux = aux;
            (*section).len = len;
        }
        self.at = (at as u32) + ((size_of::<Section>() as u32 + len + 7) & !7);
    }

    /// Adds a NUL-terminated user string. Its length without the NUL, or `None` when it could not be read.
    #[inline(always)]
    pub fn put_user_string(&mut self, tag: SectionTag, address: u64) -> Option<u32> {
        let to = self.room(STRING_LEN)?;
        // SAFETY: `room` promised `STRING_LEN` bytes.
        let len = unsafe { bpf_probe_read_user_str(to.cast(), STRING_LEN as u32, address as *const _) };
        self.end_string(tag, len)
    }

    /// Adds a NUL-terminated kernel string.
    #[inline(always)]
    pub fn put_kernel_string(&mut self, tag: SectionTag, address: u64) -> Option<u32> {
        let to = self.room(STRING_LEN)?;
        // SAFETY: `room` promised `STRING_LEN` bytes.
        let len = unsafe { bpf_probe_read_kernel_str(to.cast(), STRING_LEN as u32, address as *const _) };
        self.end_string(tag, len)
    }

    #[inline(always)]
    fn end_string(&mut self, tag: SectionTag, len: i64) -> Option<u32> {
        if len < 0 {
            self.end_section(tag as u16, read_state::UNREADABLE, 0, 0);
            return None;
        }
        let len = string_length(len);
        self.end_section(tag as u16, read_state::WHOLE, 0, len);
        Some(len)
    }

    /// Adds `len` bytes of user memory, at most `MAX` of them (a power of two).
    #[inline(always)]
    pub fn put_user_bytes<const MAX: usize>(&mut self, tag: SectionTag, address: u64, len: u64) {
        let Some(to) = self.room(MAX) else { return };
        let state = if len > MAX as u64 { read_state::CUT } else { read_state::WHOLE };
        let len = at_most::<MAX>(len);
        // SAFETY: `len` is at most `MAX`, which `room` promised.
        if unsafe { bpf_probe_read_user(to.cast(), len, address as *const _) } == 0 {
            self.end_section(tag as u16, state, 0, len);
        } else {
            self.end_section(tag as u16, read_state::UNREADABLE, 0, 0);
        }
    }

    /// Adds `len` bytes of kernel memory, at most `MAX` of them.
    #[inline(always)]
    pub fn put_kernel_bytes<const MAX: usize>(&mut self, tag: SectionTag, address: u64, len: u64) {
        let Some(to) = self.room(MAX) else { return };
        let state = if len > MAX as u64 { read_state::CUT } else { read_state::WHOLE };
        let len = at_most::<MAX>(len);
        // SAFETY: `len` is at most `MAX`, which `room` promised.
        if unsafe { bpf_probe_read_kernel(to.cast(), len, address as *const _) } == 0 {
            self.end_section(tag as u16, state, 0, len);
        } else {
            self.end_section(tag as u16, read_state::UNREADABLE, 0, 0);
        }
    }

    /// Adds a value of a fixed size. Whether there was room.
    #[inline(always)]
    pub fn put_value<T: Copy>(&mut self, tag: SectionTag, value: T) -> bool {
        let Some(to) = self.room(size_of::<T>()) else { return false };
        // SAFETY: `room` promised the bytes; sections are aligned to 8, which is enough for all `T` used.
        unsafe { to.cast::<T>().write_unaligned(value) };
        self.end_section(tag as u16, read_state::WHOLE, 0, size_of::<T>() as u32);
        true
    }

    /// Room for a chain at the current place: offset of its first byte in `record`.
    #[inline(always)]
    pub fn chain_at(&mut self) -> Option<u32> {
        self.room(RECORD_SLACK).map(|_| self.at + size_of::<Section>() as u32)
    }
}

/// Tells that some of what the call of the record under construction acted on is not known.
#[inline(always)]
pub fn tell_unread() {
    send_unread();
}

/// See [`tell_unread`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_unread() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    scratch.at = size_of::<Header>() as u32;
    scratch.header().flags |= flags::UNREAD;
    submit();
    let Some(scratch) = self::scratch() else { return 0 };
    scratch.header().flags &= !flags::UNREAD;
    0
}

/// Sends this processor's record under construction, or counts it as lost. Whether it was sent.
#[inline(always)]
pub fn submit() -> bool {
    // The compiler, which knows that it is 0 or 1, must leave the test to the verifier.
    core::hint::black_box(send_record()) != 0
}

/// See [`submit`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_record() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let len = scratch.at as usize;
    if len > RECORD_LEN {
        count(&LOST, scratch.header().run, scratch.counter);
        return 0;
    }
    scratch.header().size = len as u32;
    let run = scratch.header().run;
    let sent = match ring(run) {
        // SAFETY: the record is longer than `len`. The reader looks by itself every few milliseconds.
        Some(ring) => unsafe {
            let record = scratch.record.as_mut_ptr().cast();
            bpf_ringbuf_output(ring, record, len as u64, u64::from(BPF_RB_NO_WAKEUP)) == 0
        },
        None => false,
    };
    count(if sent { &SEEN } else { &LOST }, run, scratch.counter);
    u32::from(sent)
}

/// Adds one to a run's counter of this processor.
#[inline(always)]
pub fn count(counters: &PerCpuArray<u64>, run: u32, counter: u32) {
    count_at(counters, slot_of(run) * COUNTERS + counter);
}

/// The same, by its place.
#[inline(always)]
pub fn count_at(counters: &PerCpuArray<u64>, index: u32) {
    if let Some(counter) = counters.get_ptr_mut(index) {
        // SAFETY: this processor's own element. Tasks' programs run with preemption off, and have other counters than those
        // of packets, which come in one after the other on each processor.
        unsafe { *counter += 1 };
    }
}

/// The length of a string without its NUL, from what the helper that read it returned. Before Linux 6.13 that is 0 for an
/// empty string of the program's, and one more than the length for every other.
#[inline(always)]
pub fn string_length(returned: i64) -> u32 {
    let len = if returned > 0 { returned as u32 - 1 } else { 0 };
    core::hint::black_box(len) & (STRING_LEN as u32 - 1)
}
