//! The kernel's own BTF: mapped where the kernel lets it be (since 6.16), read otherwise. Reading takes a thousand calls,
//! because such a file gives a page at a time, and copies megabytes of which little is looked at.

use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;

/// Where a kernel shows its own BTF.
pub const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// Its bytes.
#[derive(Debug)]
pub enum BtfFile {
    /// Mapped.
    Mapped(Mapping),
    /// Read.
    Read(Vec<u8>),
}

/// A mapping of memory that nobody writes.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl BtfFile {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        let file = File::open(BTF_PATH)?;
        match Mapping::of(&file) {
            Some(mapping) => Ok(Self::Mapped(mapping)),
            None => fs::read(BTF_PATH).map(Self::Read),
        }
    }
}

impl Deref for BtfFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(mapping) => mapping.bytes(),
            Self::Read(bytes) => bytes,
        }
    }
}

impl Mapping {
    /// Only for a file that never changes.
    #[expect(unsafe_code, reason = "mmap has no safe wrapper")]
    fn of(file: &File) -> Option<Self> {
        let len = usize::try_from(file.metadata().ok()?.len()).ok().filter(|len| *len > 0)?;
        // SAFETY: a new private mapping for reading, at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_POPULATE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(start.cast()).map(|start| Self { start, len })
    }

    #[expect(unsafe_code, reason = "the bytes of a mapping")]
    fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped for reading until `self` is dropped; they are the kernel's own types, which
        // lie in read-only memory for as long as it runs.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    #[expect(unsafe_code, reason = "the mapping is ours")]
    fn drop(&mut self) {
        // SAFETY: the mapping is of this size, and nothing that was borrowed from it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_and_read_are_the_same() {
        // A host that hides it cannot be observed either.
        let (Ok(opened), Ok(read)) = (BtfFile::open(), fs::read(BTF_PATH)) else { return };
        assert!(*opened == read[..]);
    }
}
