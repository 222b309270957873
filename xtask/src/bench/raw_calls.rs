//! The calls of the measured process that no library makes: by the 32-bit entry, with a string that is not paged in,
//! with a value in every argument.
//!
//! In: a path. Out: whether the kernel opened it. What it opened is closed again.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr;

/// A value for the last three arguments of `openat`, which ignores them: what a hook should find in its registers.
pub const EXTRA: [i32; 3] = [0o640, 0x5a5a_5a5a, 0x3c3c_3c3c];

/// A page below 4 GiB, private to us.
struct LowPage(*mut u8);

/// Bytes of a page.
const PAGE: usize = 4096;

impl LowPage {
    fn new() -> io::Result<Self> {
        // SAFETY: a new private mapping wherever the kernel likes; nothing else refers to it.
        #[expect(unsafe_code, reason = "a mapping below 4 GiB for the 32-bit entry")]
        let page = unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(page.cast())) }
    }
}

impl Drop for LowPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, this long, and used no more.
        #[expect(unsafe_code, reason = "the other half of `new`")]
        unsafe {
            libc::munmap(self.0.cast(), PAGE);
        }
    }
}

/// Opens `path` for reading by `int 0x80`, the 32-bit entry, where `open` is number 5.
pub fn open_by_32_bit_entry(path: &CStr) -> io::Result<()> {
    let text = path.to_bytes_with_nul();
    if text.len() > PAGE {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    let page = LowPage::new()?;
    let mut result = 5i64;
    // SAFETY: the text fits the page. The entry takes its number and arguments from the low halves of eax, ebx, ecx
    // and edx, writes eax and r8 to r11 at most, and reads the string; rbx, which the compiler keeps for itself, is
    // put back.
    #[expect(unsafe_code, reason = "the 32-bit entry has no wrapper")]
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), page.0, text.len());
        std::arch::asm!(
            "xchg rbx, {path}",
            "int 0x80",
            "xchg rbx, {path}",
            path = inout(reg) page.0 => _,
            inout("rax") result,
            in("rcx") i64::from(libc::O_RDONLY),
            in("rdx") 0i64,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    close(i64::from(result as i32))
}

/// Opens, with a value in every argument, a path whose text lies in a page of `text` that this process has not
/// touched yet: the kernel itself is the first to read it.
pub fn open_with_untouched_string(text: &File) -> io::Result<()> {
    // SAFETY: a new private mapping of an open file; it is unmapped below and nothing else refers to it. The six
    // arguments are what openat takes and three that it ignores; the string ends with a zero, which the file holds.
    #[expect(unsafe_code, reason = "a mapping that is not touched, and a call with six arguments")]
    unsafe {
        let page = libc::mmap(ptr::null_mut(), PAGE, libc::PROT_READ, libc::MAP_PRIVATE, text.as_raw_fd(), 0);
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let result = libc::syscall(
            libc::SYS_openat,
            i64::from(libc::AT_FDCWD),
            page,
            i64::from(libc::O_CLOEXEC),
            i64::from(EXTRA[0]),
            i64::from(EXTRA[1]),
            i64::from(EXTRA[2]),
        );
        let error = io::Error::last_os_error();
        libc::munmap(page, PAGE);
        if result < 0 { Err(error) } else { close(result) }
    }
}

/// Closes what a call returned, or tells its error.
fn close(result: i64) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result as i32));
    }
    // SAFETY: the call just made this descriptor and nothing else knows it.
    #[expect(unsafe_code, reason = "a descriptor fresh from the kernel")]
    drop(unsafe { OwnedFd::from_raw_fd(result as i32) });
    Ok(())
}
