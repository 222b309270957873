//! Signals: names, our own mask, a descriptor to read them from, and the child's original state put back.
//!
//! Decides nothing about what a signal means; that is `child.rs`.
#![expect(unsafe_code, reason = "neither std nor rustix has masks, dispositions or signalfd")]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::inherited::{Inherited, KernelSigaction};

/// Signals that report a fault of the thread that runs; blocking them would hide our own crash.
const FAULTS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];

const NAMES: [(i32, &str); 31] = [
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGSTKFLT, "SIGSTKFLT"),
    (libc::SIGCHLD, "SIGCHLD"),
    (libc::SIGCONT, "SIGCONT"),
    (libc::SIGSTOP, "SIGSTOP"),
    (libc::SIGTSTP, "SIGTSTP"),
    (libc::SIGTTIN, "SIGTTIN"),
    (libc::SIGTTOU, "SIGTTOU"),
    (libc::SIGURG, "SIGURG"),
    (libc::SIGXCPU, "SIGXCPU"),
    (libc::SIGXFSZ, "SIGXFSZ"),
    (libc::SIGVTALRM, "SIGVTALRM"),
    (libc::SIGPROF, "SIGPROF"),
    (libc::SIGWINCH, "SIGWINCH"),
    (libc::SIGIO, "SIGIO"),
    (libc::SIGPWR, "SIGPWR"),
    (libc::SIGSYS, "SIGSYS"),
];

/// The name of signal `number`, as in `SIGKILL` or `SIGRTMIN+3`.
pub fn name_of(number: i32) -> String {
    match NAMES.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => (*name).to_owned(),
        // The kernel's first real-time signal is 32; the C library keeps two and calls 34 SIGRTMIN.
        None if number == 34 => "SIGRTMIN".to_owned(),
        None if number > 34 => format!("SIGRTMIN+{}", number - 34),
        None => format!("SIG{number}"),
    }
}

/// A signal that reached us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub number: i32,
    /// True when a process sent it; false when the kernel did, as a terminal's Ctrl-C is.
    pub was_sent: bool,
    /// The process that sent it, 0 when that is not known here.
    pub sender: u32,
}

/// Every signal that we may block, read from a descriptor instead.
#[derive(Debug)]
pub struct SignalQueue {
    fd: OwnedFd,
}

impl SignalQueue {
    /// Blocks every signal that can be, for this thread and those it starts, and queues them here.
    pub fn take_over() -> io::Result<Self> {
        let mask = FAULTS.iter().fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)));
        set_mask(mask)?;
        // Ours may have been started with SIGCHLD ignored; then no child could be waited for.
        set_disposition(libc::SIGCHLD, libc::SIG_DFL)?;
        // SAFETY: -1 asks for a new descriptor; the kernel reads the eight bytes it was told there are.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_signalfd4,
                -1,
                &raw const mask,
                size_of::<u64>(),
                libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor and nothing else knows its number.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }

    /// Registers it with the current runtime.
    pub fn watch(self) -> io::Result<AsyncFd<Self>> {
        // SAFETY: the descriptor that `as_raw_fd` gives is owned by the value and stays the same while it lives.
        Ok(unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) }?)
    }

    /// The next signal, or `None` when none is waiting.
    pub fn next(&self) -> io::Result<Option<Received>> {
        // SAFETY: an all-zero `signalfd_siginfo` is a valid value of that plain C struct.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let length = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is valid for writing `length` bytes.
        let count = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), length) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        }
        // SI_USER, SI_QUEUE, SI_TKILL and the like are zero or below; the kernel's own codes are above.
        Ok(Some(Received {
            number: info.ssi_signo as i32,
            was_sent: info.ssi_code <= 0,
            sender: if info.ssi_code <= 0 { info.ssi_pid } else { 0 },
        }))
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl std::os::fd::AsRawFd for SignalQueue {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// Gives this process the dispositions and the mask that `inherited` tells, ready for `execve`.
pub fn restore(inherited: &Inherited) -> io::Result<()> {
    for signal in (1..=64).filter(|signal| !matches!(*signal, libc::SIGKILL | libc::SIGSTOP)) {
        let disposition = if inherited.is_ignored(signal) { libc::SIG_IGN } else { libc::SIG_DFL };
        set_disposition(signal, disposition)?;
    }
    set_mask(inherited.blocked)
}

/// Ignores what a terminal or a supervisor sends, for a process that must outlive them.
pub fn ignore_all() -> io::Result<()> {
    let faults_and_fixed = |signal: &i32| {
        !FAULTS.contains(signal)
            && !matches!(*signal, libc::SIGKILL | libc::SIGSTOP | libc::SIGCHLD | 32 | 33)
    };
    (1..=64).filter(faults_and_fixed).try_for_each(|signal| set_disposition(signal, libc::SIG_IGN))
}

/// Sends signal `number` to process `pid`. A process that is gone is not an error.
pub fn send(pid: u32, number: i32) -> io::Result<()> {
    // SAFETY: `kill` takes two numbers and touches no memory.
    if unsafe { libc::kill(pid as i32, number) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
}

/// The raw call, for the same reason as [`KernelSigaction`].
fn set_disposition(signal: i32, disposition: libc::sighandler_t) -> io::Result<()> {
    let action = KernelSigaction::of(disposition);
    // SAFETY: the kernel reads no more than `action` holds, which has no handler, only SIG_DFL or SIG_IGN; a null
    // old action writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &raw const action,
            std::ptr::null_mut::<KernelSigaction>(),
            size_of::<u64>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The raw call: the C library's own refuses to block the two signals it keeps, which the caller may have blocked.
fn set_mask(mask: u64) -> io::Result<()> {
    // SAFETY: the kernel reads the eight bytes it was told there are; a null old set writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            std::ptr::null_mut::<u64>(),
            size_of::<u64>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_a_name() {
        assert_eq!(name_of(libc::SIGKILL), "SIGKILL");
        assert_eq!(name_of(34), "SIGRTMIN");
        assert_eq!(name_of(64), "SIGRTMIN+30");
        let mut names: Vec<String> = (1..=64).map(name_of).collect();
        names.dedup();
        assert_eq!(names.len(), 64);
    }
}
