//! `fork` without `exec`, for the one process that has to be a copy of this one.
#![expect(
    unsafe_code,
    reason = "no safe wrapper can know that this process has one thread and no locks held"
)]

use std::io;
use std::time::Duration;

use rustix::process::Pid;

/// How often it is looked whether the other threads are gone, and how long after each look.
const LOOKS: u32 = 2000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Splits this process in two. `None` in the copy, which ends by [`end`] and by nothing else.
///
/// Refused where this process has a second thread: the copy would not have it, and what that thread held locked would
/// stay locked for good.
pub fn fork() -> io::Result<Option<Pid>> {
    let threads = || std::fs::read_dir("/proc/self/task").map(Iterator::count);
    if !is_alone(threads, || std::thread::sleep(BETWEEN_LOOKS))? {
        return Err(io::Error::other("this process has more than one thread"));
    }
    // SAFETY: there is no other thread, so no lock of this process is held by anybody but the caller, and both sides may
    // go on with all that the caller could do.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(Pid::from_raw(number)),
    }
}

/// Whether there is one thread only, at last: one that was waited for is still counted until the kernel has taken it apart,
/// which on a busy machine it may get round to later.
fn is_alone(mut threads: impl FnMut() -> io::Result<usize>, mut rest: impl FnMut()) -> io::Result<bool> {
    for _ in 0..LOOKS {
        if threads()? == 1 {
            return Ok(true);
        }
        rest();
    }
    Ok(false)
}

/// What a copy of this process answers. Whatever it does to itself is gone with it.
pub fn ask_a_copy(question: impl FnOnce() -> bool) -> io::Result<bool> {
    Ok(ask_a_copy_for(|| u8::from(!question()))? == 0)
}

/// The same for a number. A copy that ended by something else has answered 1.
pub fn ask_a_copy_for(question: impl FnOnce() -> u8) -> io::Result<u8> {
    let Some(pid) = fork()? else {
        let _end = EndsWhenDropped;
        let answer = question();
        // SAFETY: as in `end`.
        unsafe { libc::_exit(i32::from(answer)) }
    };
    let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())?;
    let code = status.and_then(|(_, status)| status.exit_status());
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// A panic must not lead a copy into what its original does: while this lives, it ends the copy.
#[derive(Debug)]
pub struct EndsWhenDropped;

impl Drop for EndsWhenDropped {
    fn drop(&mut self) {
        // SAFETY: as in `end`.
        unsafe { libc::_exit(1) }
    }
}

/// Ends the copy with this code: nothing is dropped, as in [`end`].
pub fn end_with(code: u8) -> ! {
    // SAFETY: as in `end`.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Ends the copy: nothing is dropped, for what it has belongs to the process it was copied from.
pub fn end() -> ! {
    // SAFETY: it runs nothing of this process and does not return.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_going_is_waited_for_and_one_that_stays_is_not_for_ever() {
        let mut counts = [3, 2, 2, 1].into_iter();
        let mut rests = 0;
        assert!(is_alone(|| Ok(counts.next().unwrap()), || rests += 1).unwrap());
        assert_eq!(rests, 3);
        assert!(!is_alone(|| Ok(2), || ()).unwrap());
        assert!(is_alone(|| Err(io::ErrorKind::NotFound.into()), || ()).is_err());
    }
}
