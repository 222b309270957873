//! The only numbering of records and of their sections.

/// What a record tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum RecordKind {
    /// A system call returned.
    Call = 1,
    /// A program started.
    Exec = 2,
    /// A task was made.
    Fork = 3,
    /// A task ended.
    Exit = 4,
    /// A task of the run was moved out of the run's group.
    Leave = 5,
    /// A request was handed to an `io_uring`: the call it stands for, not yet made.
    UringSubmit = 6,
    /// A request to an `io_uring` was completed.
    UringComplete = 7,
    /// A packet that names an address: see [`crate::record::PacketFacts`]. Its task is not known.
    Packet = 8,
    /// How the host of the run looks names up; written by userspace only, ahead of all others. Its payload is
    /// `/etc/resolv.conf`, a NUL, and `/etc/hosts`.
    Sources = 9,
    /// A hook of the kernel's security modules was passed: see [`crate::hooks::Hook`]. Its ring is another one.
    Witness = 10,
}

impl RecordKind {
    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Call,
            2 => Self::Exec,
            3 => Self::Fork,
            4 => Self::Exit,
            5 => Self::Leave,
            6 => Self::UringSubmit,
            7 => Self::UringComplete,
            8 => Self::Packet,
            9 => Self::Sources,
            10 => Self::Witness,
            _ => return None,
        })
    }
}

/// What a section of a record holds. A and B are the first and second path of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum SectionTag {
    /// The string the program passed, without its NUL. State: [`ReadState`].
    RequestedA = 1,
    /// Likewise, second path.
    RequestedB = 2,
    /// Names from the file to the root, each with its NUL. State: [`ChainState`]; aux: [`WalkState`].
    ChainA = 3,
    /// Likewise, second path.
    ChainB = 4,
    /// What of the string was not walked: text to append to the chain.
    RestA = 5,
    /// Likewise, second path.
    RestB = 6,
    /// [`crate::record::FileFacts`] of the file the call returned, used or started.
    FileFacts = 7,
    /// The address as passed.
    Sockaddr = 8,
    /// [`crate::record::SockFacts`] of the socket.
    SockFacts = 9,
    /// The new program's argument area: strings, each with its NUL. State: [`ReadState`].
    Argv = 10,
    /// Names of the started image's file (for a script, the last interpreter's), as a chain.
    ImageChain = 11,
    /// The interpreter's name as the script has it.
    InterpName = 12,
    /// A UNIX socket's own address, from the kernel's socket.
    UnixName = 13,
    /// What userspace found by looking a path up shortly after the call; written by userspace only. State: [`late_state`].
    LateA = 14,
    /// Likewise, second path.
    LateB = 15,
    /// [`crate::record::PacketFacts`].
    PacketFacts = 16,
    /// What a packet carries, from its first byte; `PacketFacts` says how many of the section's bytes count.
    Payload = 17,
    /// [`crate::record::Repeat`]: more like it will be counted and not sent.
    Repeat = 18,
    /// [`crate::record::PeerFacts`] of the other end of a UNIX connection.
    PeerFacts = 19,
    /// Names of the program that it runs, as a chain.
    PeerChain = 20,
    /// Links that userspace followed for a path: when it had, by `CLOCK_MONOTONIC`, in eight bytes, and then the links' own
    /// names, each with its NUL; written by userspace only. Aux: 0 for the first path, 1 for the second.
    Followed = 21,
}

impl SectionTag {
    /// The tag with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::RequestedA,
            2 => Self::RequestedB,
            3 => Self::ChainA,
            4 => Self::ChainB,
            5 => Self::RestA,
            6 => Self::RestB,
            7 => Self::FileFacts,
            8 => Self::Sockaddr,
            9 => Self::SockFacts,
            10 => Self::Argv,
            11 => Self::ImageChain,
            12 => Self::InterpName,
            13 => Self::UnixName,
            14 => Self::LateA,
            15 => Self::LateB,
            16 => Self::PacketFacts,
            17 => Self::Payload,
            18 => Self::Repeat,
            19 => Self::PeerFacts,
            20 => Self::PeerChain,
            21 => Self::Followed,
            _ => return None,
        })
    }
}

/// How reading bytes went.
pub mod read_state {
    /// All of it is there.
    pub const WHOLE: u8 = 0;
    /// Longer than the record holds.
    pub const CUT: u8 = 1;
    /// Could not be read.
    pub const UNREADABLE: u8 = 2;
}

/// What a look from userspace is worth.
pub mod late_state {
    /// It was there, or every link on the way to it was.
    pub const FOUND: u8 = 0;
    /// There was no link: it is the text of a call that failed, as it stood.
    pub const TEXT: u8 = 1;
    /// A link that the call met was gone.
    pub const GONE: u8 = 2;
}

/// Where following a file's names to the root ended.
pub mod chain_state {
    /// At the topmost mount of the task's own mount namespace.
    pub const ROOT: u8 = 0;
    /// At the top of a mount that is in no namespace: an internal filesystem, or one that was detached.
    pub const DETACHED: u8 = 1;
    /// At the top of another mount namespace.
    pub const FOREIGN: u8 = 2;
    /// At a file that has no parent: pipe, socket, memfd.
    pub const NAMELESS: u8 = 3;
    /// At a limit.
    pub const CUT: u8 = 4;
    /// At something that could not be read.
    pub const UNREADABLE: u8 = 5;
}

/// Why resolving a string stopped where the chain says.
pub mod walk_state {
    /// The chain is the file itself (taken from a descriptor, or walked to the end).
    pub const DONE: u8 = 0;
    /// Stopped before the last name, which the call itself makes or removes: the rest is that name.
    pub const PARENT: u8 = 1;
    /// Not walked, or of a call that failed as far as there is something: the chain is where the walk stopped, the rest is
    /// the string from there on.
    pub const START: u8 = 2;
    /// A name is not in the kernel's cache of names.
    pub const NOT_CACHED: u8 = 3;
    /// A link's text is not in memory, or it is one of `/proc`'s.
    pub const LINK: u8 = 4;
    /// A limit was reached.
    pub const LIMIT: u8 = 5;
    /// Something could not be read.
    pub const UNREADABLE: u8 = 6;
}
