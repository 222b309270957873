//! The numbers by which the kernel knows its tracepoints.
//!
//! In: a name. Out: the number tracefs gives for it, or the number of its type in BTF.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// tracefs, attached nowhere: nobody else sees the mount, and it goes with this descriptor.
pub struct Tracefs(OwnedFd);

impl Tracefs {
    /// Makes the mount.
    pub fn new() -> Result<Self> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).context("open a tracefs")?;
        fsconfig_create(&context).context("make a tracefs")?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
            .context("mount a tracefs nowhere")?;
        Ok(Self(mount))
    }

    /// The number of `syscalls/NAME`; `None` where this kernel has no such tracepoint.
    pub fn syscall(&self, name: &str) -> Result<Option<u64>> {
        let path = format!("events/syscalls/{name}/id");
        let file = match openat(&self.0, &path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => file,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("open {path} of tracefs")),
        };
        let mut text = String::new();
        File::from(file).read_to_string(&mut text)?;
        Ok(Some(text.trim().parse().with_context(|| format!("read {path} of tracefs"))?))
    }
}

/// The number of the typedef by which a program names the tracepoint it is typed for.
pub fn btf_typedef(name: &str) -> Result<u32> {
    let bytes = fs::read("/sys/kernel/btf/vmlinux").context("read the kernel's BTF")?;
    typedef_in(&bytes, name).with_context(|| format!("find `{name}` in the kernel's BTF"))
}

fn typedef_in(bytes: &[u8], name: &str) -> Result<u32> {
    const TYPEDEF: u32 = 8;
    let word = |at: usize| {
        let four = bytes.get(at..at + 4).context("it ends too early")?;
        Ok::<_, anyhow::Error>(u32::from_ne_bytes(four.try_into().expect("four bytes")))
    };
    let header = word(4)? as usize;
    let (mut at, types_len) = (header + word(8)? as usize, word(12)? as usize);
    let (end, strings) = (at + types_len, header + word(16)? as usize);
    let mut id = 0;
    while at < end {
        id += 1;
        let (name_at, info) = (strings + word(at)? as usize, word(at + 4)?);
        let (kind, len) = ((info >> 24) & 0x1f, (info & 0xffff) as usize);
        let is_name = bytes.get(name_at..).is_some_and(|rest| {
            rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        });
        if kind == TYPEDEF && is_name {
            return Ok(id);
        }
        at += 12
            + match kind {
                1 | 14 | 17 => 4,
                3 => 12,
                4 | 5 | 15 | 19 => 12 * len,
                6 | 13 => 8 * len,
                2 | 7..=12 | 16 | 18 => 0,
                _ => bail!("it holds a kind of type that is newer than this program"),
            };
    }
    bail!("it is not there")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A BTF of one integer and one typedef named `t`.
    fn sample() -> Vec<u8> {
        let words: [u32; 6 + 4 + 3] = [0x0001_eb9f, 24, 0, 28, 28, 5, 1, 1 << 24, 4, 32, 3, 8 << 24, 1];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(b"\0i\0t\0");
        bytes
    }

    #[test]
    fn a_typedef_is_found_by_its_whole_name() {
        assert_eq!(typedef_in(&sample(), "t").unwrap(), 2);
        assert!(typedef_in(&sample(), "i").is_err(), "an integer is no typedef");
        assert!(typedef_in(&sample(), "tt").is_err());
        assert!(typedef_in(&sample()[..50], "t").is_err());
    }
}
