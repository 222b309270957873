//! One request to an `io_uring`, by nothing but system calls and shared memory.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use super::memory::{Arg, Shared, compat, native};

const SETUP_SQPOLL: u32 = 2;
const SETUP_SUBMIT_ALL: u32 = 1 << 7;
const ENTER_GETEVENTS: u64 = 1;
const ENTER_SQ_WAKEUP: u64 = 2;
const SKIP_SUCCESS: u8 = 1 << 6;
const IO_LINK: u8 = 1 << 2;
const NOP: u8 = 0;
const OFF_CQ: u64 = 0x0800_0000;
const OFF_SQES: u64 = 0x1000_0000;

/// A request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// `IORING_OP_*`.
    pub opcode: u8,
    /// `fd`.
    pub fd: Arg,
    /// `addr`.
    pub addr: Arg,
    /// `off`, `addr2`.
    pub off: Arg,
    /// `len`.
    pub len: Arg,
    /// `addr3`.
    pub addr3: Arg,
    /// The flags of the operation.
    pub flags: u32,
    /// A kernel thread submits it.
    pub is_polled: bool,
    /// It is told not to report success.
    pub is_silent: bool,
    /// The ring is made by the 32-bit entry, and what lies in memory is laid out as for it.
    pub is_compat: bool,
    /// The slot for a direct descriptor plus one, or what else lies there.
    pub file_index: u32,
    /// `ioprio`, or the second address's length.
    pub ioprio: u16,
}

/// `struct io_uring_params`.
#[derive(Default)]
#[repr(C)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    sq_off: [u32; 10],
    cq_off: [u32; 10],
}

/// A ring in memory.
struct Ring {
    fd: i64,
    sq: usize,
    cq: usize,
    sqes: usize,
    params: Params,
    is_polled: bool,
}

/// Makes a ring, hands it the request, waits for its end. What came of it; 0 for a silent success.
pub fn ask(request: &Request, shared: &mut Shared, slots: &[i64; 256]) -> i64 {
    let none = shared.arguments(&[], slots, 8);
    debug_assert_eq!(none, [0; 6]);
    let sqe = sqe(request, shared, slots);
    let mut ring = match Ring::new(request.is_polled, request.is_compat) {
        Ok(ring) => ring,
        Err(error) => return error,
    };
    let mut nop = [0u8; 64];
    nop[0] = NOP;
    nop[32] = 2;
    ring.submit(&[sqe, nop]);
    let mut result = 0;
    loop {
        match ring.take() {
            Some((1, res)) if request.is_silent => {
                result = res;
                break;
            }
            Some((1, res)) => result = res,
            Some(_) => break,
            None => ring.enter(0),
        }
    }
    native(libc::SYS_close, &[ring.fd as u64, 0, 0, 0, 0, 0]);
    result
}

fn sqe(request: &Request, shared: &mut Shared, slots: &[i64; 256]) -> [u8; 64] {
    let width = if request.is_compat { 4 } else { 8 };
    let mut value = |arg: &Arg| shared.argument(arg, slots, width);
    let (fd, addr, off, len) =
        (value(&request.fd), value(&request.addr), value(&request.off), value(&request.len));
    let addr3 = value(&request.addr3);
    let mut sqe = [0u8; 64];
    sqe[0] = request.opcode;
    // What follows waits for it, and does not come when a silent one failed.
    sqe[1] = IO_LINK | if request.is_silent { SKIP_SUCCESS } else { 0 };
    sqe[2..4].copy_from_slice(&request.ioprio.to_le_bytes());
    sqe[4..8].copy_from_slice(&(fd as u32).to_le_bytes());
    sqe[8..16].copy_from_slice(&off.to_le_bytes());
    sqe[16..24].copy_from_slice(&addr.to_le_bytes());
    sqe[24..28].copy_from_slice(&(len as u32).to_le_bytes());
    sqe[28..32].copy_from_slice(&request.flags.to_le_bytes());
    sqe[32] = 1;
    sqe[48..56].copy_from_slice(&addr3.to_le_bytes());
    sqe[44..48].copy_from_slice(&request.file_index.to_le_bytes());
    sqe
}

impl Ring {
    fn new(is_polled: bool, is_compat: bool) -> Result<Self, i64> {
        let flags = SETUP_SUBMIT_ALL | if is_polled { SETUP_SQPOLL } else { 0 };
        // Where the 32-bit entry can reach it.
        let (protection, place) = (
            (libc::PROT_READ | libc::PROT_WRITE) as u64,
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT) as u64,
        );
        let at = native(libc::SYS_mmap, &[0, 4096, protection, place, u64::MAX, 0]);
        if at < 0 {
            return Err(at);
        }
        let params = at as *mut Params;
        // SAFETY: just mapped, and nobody else's.
        unsafe { params.write(Params { flags, sq_thread_idle: 50, ..Params::default() }) };
        let args = [8, at as u64, 0, 0, 0, 0];
        let fd = if is_compat {
            compat(libc::SYS_io_uring_setup, &args)
        } else {
            native(libc::SYS_io_uring_setup, &args)
        };
        if fd < 0 {
            return Err(fd);
        }
        let map = |len: u64, offset: u64| {
            let flags = (libc::MAP_SHARED | libc::MAP_POPULATE) as u64;
            native(libc::SYS_mmap, &[0, len, protection, flags, fd as u64, offset])
        };
        let (sq, cq, sqes) = (map(4096, 0), map(4096, OFF_CQ), map(8 * 64, OFF_SQES));
        if sq < 0 || cq < 0 || sqes < 0 {
            return Err(sq.min(cq).min(sqes));
        }
        // SAFETY: the kernel has filled it in.
        let params = unsafe { params.read() };
        Ok(Self { fd, sq: sq as usize, cq: cq as usize, sqes: sqes as usize, params, is_polled })
    }

    #[expect(clippy::unused_self, reason = "the word lives as long as the ring")]
    fn word(&self, base: usize, offset: u32) -> &AtomicU32 {
        // SAFETY: the kernel says where in the mapping its word lies; the mapping stays until the process ends.
        unsafe { &*((base + offset as usize) as *const AtomicU32) }
    }

    fn submit(&mut self, requests: &[[u8; 64]]) {
        for (index, request) in requests.iter().enumerate() {
            // SAFETY: the ring has eight entries.
            unsafe {
                std::ptr::copy_nonoverlapping(request.as_ptr(), (self.sqes + index * 64) as *mut u8, 64);
                *((self.sq + self.params.sq_off[6] as usize + index * 4) as *mut u32) = index as u32;
            }
        }
        self.word(self.sq, self.params.sq_off[1]).store(requests.len() as u32, Ordering::Release);
        self.enter(requests.len() as u64);
    }

    fn enter(&mut self, submitted: u64) {
        let flags = ENTER_GETEVENTS | if self.is_polled { ENTER_SQ_WAKEUP } else { 0 };
        native(libc::SYS_io_uring_enter, &[self.fd as u64, submitted, 1, flags, 0, 0]);
    }

    /// A completion: whose, and what came of it.
    fn take(&mut self) -> Option<(u64, i64)> {
        let (head, tail) =
            (self.word(self.cq, self.params.cq_off[0]), self.word(self.cq, self.params.cq_off[1]));
        let at = head.load(Ordering::Acquire);
        if at == tail.load(Ordering::Acquire) {
            return None;
        }
        let mask = self.word(self.cq, self.params.cq_off[2]).load(Ordering::Relaxed);
        let cqe = self.cq + self.params.cq_off[5] as usize + (at & mask) as usize * 16;
        // SAFETY: the kernel has filled this entry.
        let (user_data, res) = unsafe { (*(cqe as *const u64), *((cqe + 8) as *const i32)) };
        head.store(at + 1, Ordering::Release);
        Some((user_data, i64::from(res)))
    }
}
