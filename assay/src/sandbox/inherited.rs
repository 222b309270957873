//! What our process was started with, read before Rust's runtime changes any of it.
//!
//! Before `main`, the runtime ignores SIGPIPE and opens `/dev/null` where stdin, stdout or stderr are closed. The
//! child must see neither, so a function in `.init_array`, which the C library calls earlier, keeps the original.
//! Nothing here changes the state it reads.
#![expect(
    unsafe_code,
    reason = "signal dispositions have no safe reader, and it must run before Rust's runtime"
)]

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// The state that a process passes on through `execve` and that our own runtime alters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inherited {
    /// Bit N-1 is set when signal N was ignored.
    pub ignored: u64,
    /// Bit N-1 is set when signal N was blocked.
    pub blocked: u64,
    /// Bit N is set when descriptor N (0, 1, 2) was closed.
    pub closed: u8,
}

impl Inherited {
    /// What this process was started with.
    pub fn of_this_process() -> Self {
        Self {
            ignored: IGNORED.load(Ordering::Relaxed),
            blocked: BLOCKED.load(Ordering::Relaxed),
            closed: CLOSED.load(Ordering::Relaxed),
        }
    }

    /// Whether signal `number` was ignored.
    pub fn is_ignored(&self, number: i32) -> bool {
        (1..=64).contains(&number) && self.ignored & (1 << (number - 1)) != 0
    }
}

/// The kernel's `struct sigaction`. The C library's own call hides two signals that it keeps for itself; callers
/// that used `posix_spawn` pass just these two on as ignored. What follows the handler differs by architecture and is
/// nothing but zero for `SIG_IGN` and `SIG_DFL`, so it is only room here.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct KernelSigaction {
    pub(super) handler: libc::sighandler_t,
    rest: [u64; 4],
}

impl KernelSigaction {
    /// An action without a handler of ours: `SIG_IGN` or `SIG_DFL`.
    pub(super) fn of(handler: libc::sighandler_t) -> Self {
        Self { handler, rest: [0; 4] }
    }
}

extern "C" fn read_inherited() {
    let mut ignored = 0u64;
    for signal in 1..=64i32 {
        let mut old = KernelSigaction::default();
        // SAFETY: a null new action only reads; the kernel writes no more than `old` holds.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                std::ptr::null::<KernelSigaction>(),
                &raw mut old,
                size_of::<u64>(),
            )
        };
        if result == 0 && old.handler == libc::SIG_IGN {
            ignored |= 1 << (signal - 1);
        }
    }
    IGNORED.store(ignored, Ordering::Relaxed);

    let mut blocked = 0u64;
    // SAFETY: a null new set only reads; the kernel writes the eight bytes it was told there are.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK,
            std::ptr::null::<u64>(),
            &raw mut blocked,
            size_of::<u64>(),
        );
    }
    BLOCKED.store(blocked, Ordering::Relaxed);

    let mut closed = 0u8;
    for descriptor in 0..3 {
        // SAFETY: F_GETFD reads a flag of a number that may or may not be open; it touches no memory.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            closed |= 1 << descriptor;
        }
    }
    CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY of the section: the C library calls each pointer in `.init_array` once, on the only thread, with the C
// calling convention; extra arguments are ignored by a function that takes none.
#[used]
#[unsafe(link_section = ".init_array")]
static READ_INHERITED: extern "C" fn() = read_inherited;
