//! The hooks of the kernel's security modules at which the second witness stands: the only numbering of them.

/// What a hook is passed for. The number is the `op` of a witness record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Hook {
    /// A file is about to be opened, but not to be started as a program.
    Open = 1,
    /// A name is about to be removed.
    Unlink = 2,
    /// A directory is about to be removed.
    Rmdir = 3,
    /// A directory is about to be made.
    Mkdir = 4,
    /// A file is about to be made, by open, mknod or bind.
    Mknod = 5,
    /// A name is about to be changed.
    Rename = 6,
    /// A second name is about to be made.
    Link = 7,
    /// A symbolic link is about to be made.
    Symlink = 8,
    /// A file is about to be cut or lengthened, by a call of its own or when it is opened.
    Truncate = 9,
    /// Permissions are about to be changed.
    Chmod = 10,
    /// Owners are about to be changed.
    Chown = 11,
    /// A program, a script or its interpreter is about to be started.
    Exec = 12,
    /// A socket is about to be connected.
    Connect = 13,
    /// A socket is about to be bound.
    Bind = 14,
    /// A socket is about to listen.
    Listen = 15,
    /// A message with an address is about to be sent.
    Send = 16,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Open,
        Self::Unlink,
        Self::Rmdir,
        Self::Mkdir,
        Self::Mknod,
        Self::Rename,
        Self::Link,
        Self::Symlink,
        Self::Truncate,
        Self::Chmod,
        Self::Chown,
        Self::Exec,
        Self::Connect,
        Self::Bind,
        Self::Listen,
        Self::Send,
    ];

    /// The hook with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| *hook as u16 == number)
    }

    /// The word for it, as the trace's `op` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Unlink => "unlink",
            Self::Rmdir => "rmdir",
            Self::Mkdir => "mkdir",
            Self::Mknod => "mknod",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Symlink => "symlink",
            Self::Truncate => "truncate",
            Self::Chmod => "chmod",
            Self::Chown => "chown",
            Self::Exec => "exec",
            Self::Connect => "connect",
            Self::Bind => "bind",
            Self::Listen => "listen",
            Self::Send => "send",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_found_by_its_number() {
        for hook in Hook::ALL {
            assert_eq!(Hook::from_number(hook as u16), Some(hook));
        }
        assert_eq!((Hook::from_number(0), Hook::from_number(17)), (None, None));
    }
}
