//! Arguments in memory, the two entries to the kernel, and what an actor's processes share.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// An argument of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Arg {
    /// A number.
    Num(i64),
    /// What an earlier step returned.
    Kept(u8),
    /// The address of these bytes.
    At(Vec<Part>),
    /// The address of a place on the desk, where what the kernel writes stays.
    Desk(u16),
}

/// A part of what an argument points to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Part {
    /// Bytes.
    Bytes(Vec<u8>),
    /// The address of more, as wide as the entry has it.
    To(Vec<Part>),
    /// A number as wide as an address.
    Word(u64),
    /// The address of a place on the desk.
    Desk(u16),
}

impl From<i64> for Arg {
    fn from(number: i64) -> Self {
        Self::Num(number)
    }
}

impl From<i32> for Arg {
    fn from(number: i32) -> Self {
        Self::Num(number.into())
    }
}

impl From<u32> for Arg {
    fn from(value: u32) -> Self {
        i64::from(value).into()
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<&[u8]> for Arg {
    fn from(text: &[u8]) -> Self {
        Self::At(vec![Part::Bytes(terminated(text))])
    }
}

impl From<&String> for Arg {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&Vec<u8>> for Arg {
    fn from(text: &Vec<u8>) -> Self {
        text.as_slice().into()
    }
}

/// The bytes and a NUL.
pub fn terminated(text: &[u8]) -> Vec<u8> {
    [text, b"\0"].concat()
}

/// Steps that can be told of.
const STEPS: usize = 8192;
/// Room for arguments.
const ROOM: usize = 1 << 20;
/// Room for what the kernel writes, before the other.
const DESK: usize = 1 << 16;

/// What every process of the actor sees.
struct Common {
    returns: [AtomicI64; STEPS],
    opens: AtomicU64,
    spawns: AtomicU64,
}

/// Memory of the actor: shared between its processes, and room for arguments that the 32-bit entry can reach.
pub struct Shared {
    common: &'static Common,
    room: usize,
    used: usize,
}

impl Shared {
    pub fn new() -> Option<Self> {
        let map = |len: usize, flags: i32| {
            // SAFETY: a new anonymous mapping.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    flags | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            (at != libc::MAP_FAILED).then_some(at)
        };
        let common = map(size_of::<Common>(), libc::MAP_SHARED)?;
        let room = map(ROOM, libc::MAP_PRIVATE | libc::MAP_32BIT)? as usize;
        // SAFETY: mapped for as long as the process lives, aligned to a page; zeroes are such a value.
        Some(Self { common: unsafe { &*common.cast::<Common>() }, room, used: DESK })
    }

    pub fn set_return(&self, index: usize, value: i64) {
        self.common.returns[index].store(value, Ordering::SeqCst);
    }

    pub fn returns(&self) -> Vec<i64> {
        self.common.returns.iter().map(|value| value.load(Ordering::SeqCst)).collect()
    }

    pub fn opens(&self) -> u64 {
        self.common.opens.load(Ordering::SeqCst)
    }

    pub fn spawns(&self) -> u64 {
        self.common.spawns.load(Ordering::SeqCst)
    }

    pub fn add_opens(&self, count: u64) {
        self.common.opens.fetch_add(count, Ordering::SeqCst);
    }

    pub fn add_spawn(&self) {
        self.common.spawns.fetch_add(1, Ordering::SeqCst);
    }

    /// Puts the arguments of one call into memory, with addresses of `width` bytes.
    pub fn arguments(&mut self, args: &[Arg], slots: &[i64; 256], width: usize) -> [u64; 6] {
        self.used = DESK;
        let mut all = [0; 6];
        for (to, arg) in all.iter_mut().zip(args) {
            *to = self.argument(arg, slots, width);
        }
        all
    }

    /// One argument; earlier ones stay.
    pub fn argument(&mut self, arg: &Arg, slots: &[i64; 256], width: usize) -> u64 {
        match arg {
            Arg::Num(number) => *number as u64,
            Arg::Kept(slot) => slots[usize::from(*slot)] as u64,
            Arg::At(parts) => self.place(parts, width) as u64,
            Arg::Desk(at) => (self.room + usize::from(*at)) as u64,
        }
    }

    /// Puts bytes on the desk.
    pub fn put(&mut self, at: u16, bytes: &[u8]) {
        assert!(usize::from(at) + bytes.len() <= DESK, "the desk is too small");
        // SAFETY: within the desk, which is ours.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                (self.room + usize::from(at)) as *mut u8,
                bytes.len(),
            );
        }
    }

    /// The `int` at a place on the desk.
    pub fn take(&self, at: u16) -> i64 {
        // SAFETY: within the room, which is ours; behind the desk lies more of it.
        i64::from(unsafe { ((self.room + usize::from(at)) as *const i32).read_unaligned() })
    }

    /// The `long` at a place on the desk.
    pub fn take_long(&self, at: u16) -> i64 {
        // SAFETY: as for `take`.
        unsafe { ((self.room + usize::from(at)) as *const i64).read_unaligned() }
    }

    fn place(&mut self, parts: &[Part], width: usize) -> usize {
        let mut bytes = Vec::new();
        for part in parts {
            match part {
                Part::Bytes(some) => bytes.extend_from_slice(some),
                Part::To(more) => {
                    let address = self.place(more, width) as u64;
                    bytes.extend_from_slice(&address.to_le_bytes()[..width]);
                }
                Part::Desk(at) => {
                    let address = (self.room + usize::from(*at)) as u64;
                    bytes.extend_from_slice(&address.to_le_bytes()[..width]);
                }
                Part::Word(number) => bytes.extend_from_slice(&number.to_le_bytes()[..width]),
            }
        }
        let at = self.room + self.used;
        self.used = (self.used + bytes.len() + 15) & !15;
        assert!(self.used <= ROOM, "the script's arguments are too long");
        // SAFETY: within the room, which is ours.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
        at
    }
}

/// The 64-bit entry: what the kernel returned, a failure as its negative number.
pub fn native(nr: i64, args: &[u64; 6]) -> i64 {
    let returned: i64;
    // SAFETY: the script says what is called; its memory is that of `Shared`.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") nr => returned,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
        );
    }
    returned
}

/// The 32-bit entry, likewise.
pub fn compat(nr: i64, args: &[u64; 6]) -> i64 {
    let mut words = [0u32; 7];
    words[0] = nr as u32;
    for (word, arg) in words[1..].iter_mut().zip(args) {
        *word = *arg as u32;
    }
    let returned: u64;
    // SAFETY: as above; `rbx` and `rbp`, which the compiler keeps for itself, are put back.
    unsafe {
        std::arch::asm!(
            "push rbx",
            "push rbp",
            "mov eax, [r12]",
            "mov ebx, [r12 + 4]",
            "mov ecx, [r12 + 8]",
            "mov edx, [r12 + 12]",
            "mov esi, [r12 + 16]",
            "mov edi, [r12 + 20]",
            "mov ebp, [r12 + 24]",
            "int 0x80",
            "pop rbp",
            "pop rbx",
            in("r12") words.as_ptr(),
            out("rax") returned, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    i64::from(returned as u32 as i32)
}

/// Maps a descriptor and writes to the mapping.
pub fn write_through_mapping(fd: i64, is_shared: bool) -> i64 {
    let flags = if is_shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let args = [0, 4096, (libc::PROT_READ | libc::PROT_WRITE) as u64, flags as u64, fd as u64, 0];
    let at = native(libc::SYS_mmap, &args);
    if at > 0 {
        // SAFETY: just mapped, and the file is at least one byte long.
        unsafe { *(at as *mut u8) = b'm' };
    }
    at
}
