//! What the command inherits open, as far as the record must know of it: files it may write to, and what reaches further
//! than any call of its own will show.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::net::{self, SocketAddrUnix};
use rustix::process::{self, PidfdFlags, PidfdGetfdFlags};

use crate::observe::kernel::programs::InheritedFile;
use crate::observe::loss::Kind;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inheritance {
    /// Regular files open for writing; sorted, each once.
    pub files: Vec<InheritedFile>,
    /// Sockets.
    pub sockets: Vec<InheritedFile>,
    /// What cannot be followed: the kinds it concerns, a stable word, and which it is.
    pub unseen: Vec<(&'static [Kind], &'static str, String)>,
}

impl Inheritance {
    /// Looks at our own descriptors, which the command will get.
    pub fn look() -> Self {
        let mut found = Self::default();
        for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
            let Some(number) = number else { continue };
            let flags = flags_of(number);
            if flags & libc::O_CLOEXEC != 0 {
                continue;
            }
            let link = std::fs::read_link(entry.path()).unwrap_or_default();
            found.look_at(number, flags, &link);
        }
        for list in [&mut found.files, &mut found.sockets] {
            list.sort();
            list.dedup();
        }
        found
    }

    fn look_at(&mut self, number: RawFd, flags: i32, link: &Path) {
        let text = link.to_string_lossy();
        let path = format!("/proc/self/fd/{number}");
        if text == "anon_inode:[io_uring]" {
            // A thread of whoever made it may be the one that acts.
            self.unseen.push((&Kind::ALL, "inherited-ring", format!("descriptor {number}")));
        } else if text.starts_with("socket:") {
            if let Ok(meta) = std::fs::metadata(&path) {
                self.sockets.push(InheritedFile { dev: meta.dev(), ino: meta.ino() });
            }
            if let Some(end) = reaches(number) {
                let detail = format!("descriptor {number}, connected to {end}");
                self.unseen.push((&[Kind::Net], "inherited-socket", detail));
            }
        } else if matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
            && let Ok(meta) = std::fs::metadata(path)
            && meta.is_file()
        {
            self.files.push(InheritedFile { dev: meta.dev(), ino: meta.ino() });
        }
    }
}

fn flags_of(number: RawFd) -> i32 {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(libc::O_CLOEXEC)
}

/// What a socket is connected to, where that has a name. A service's own output, which goes to a named socket as
/// often as not, is its caller's affair.
fn reaches(number: RawFd) -> Option<String> {
    let ourselves = process::pidfd_open(process::getpid(), PidfdFlags::empty()).ok()?;
    let socket = process::pidfd_getfd(ourselves, number, PidfdGetfdFlags::empty()).ok()?;
    let peer = net::getpeername(socket).ok()??;
    if let Ok(address) = SocketAddr::try_from(peer.clone()) {
        return Some(address.to_string());
    }
    let address = SocketAddrUnix::try_from(peer).ok().filter(|_| number > 2)?;
    let name = address.path_bytes().or_else(|| address.abstract_name())?;
    Some(String::from_utf8_lossy(name).into_owned())
}
