//! What this machine offers. Facts only: what follows from them is decided elsewhere. Pure.
//!
//! A fact that could not be established is [`Fact::Unknown`] with the reason; that is not the same as "no".

use std::collections::BTreeMap;

pub mod bpf_elements;
pub mod bpf_syscall;
pub mod hook_programs;
pub mod landlock_abi;
pub mod mountinfo;
pub mod netns;
pub mod probe;
pub mod random;

/// A thing that was looked up, or the reason it could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact<T> {
    /// It was established.
    Known(T),
    /// Could not tell, because of this.
    Unknown(String),
}

impl<T> Fact<T> {
    /// The value, when it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

impl Fact<bool> {
    /// Whether it is known to be so.
    pub fn is_yes(&self) -> bool {
        self.known() == Some(&true)
    }
}

/// The facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Release of the running kernel, as in `6.18.0`.
    pub kernel: String,
    /// Its architecture.
    pub arch: String,
    /// Effective user id of this process.
    pub uid: u32,
    /// Capabilities in effect in this process, without `CAP_`; numbers for ones we have no name for.
    pub capabilities: Fact<Vec<String>>,
    /// Whether the kernel publishes its own types (`/sys/kernel/btf/vmlinux`).
    pub btf: Fact<bool>,
    /// Where tracefs is mounted; `None` when it is not.
    pub tracefs: Fact<Option<String>>,
    /// Where cgroup v2 is mounted; `None` when it is not.
    pub cgroup2: Fact<Option<String>>,
    /// The directory of this process's own group of version 2; `None` when no mount shows it.
    pub own_group: Fact<Option<String>>,
    /// Whether this process could make a group beneath its own, and move its children there.
    pub cgroup2_writable: Fact<bool>,
    /// What changes the options that this kernel is booted with; `None` when it is none that we know.
    pub boot_loader: Option<BootLoader>,
    /// Where the file lies that this process was started from; `None` when that could not be read.
    pub program: Option<String>,
    /// Security modules that are active, in order.
    pub lsms: Fact<Vec<String>>,
    /// What Landlock offers.
    pub landlock: Landlock,
    /// Whether bpf(2) answered for the harmless trial of making a map and of loading a tracing program.
    pub bpf: Fact<BpfTrial>,
    /// `kernel.unprivileged_bpf_disabled`: 0, 1 or 2.
    pub unprivileged_bpf_disabled: Fact<u32>,
    /// Kernel lockdown: `none`, `integrity` or `confidentiality`.
    pub lockdown: Fact<String>,
    /// `RLIMIT_MEMLOCK`: soft and hard, `None` for unlimited.
    pub memlock: (Option<u64>, Option<u64>),
    /// Signs that this is a container, in the order they were looked for.
    pub container_hints: Vec<String>,
    /// Whether this process is in the initial namespace, by namespace name (`user`, `pid`, `mnt`, `net`, `cgroup`).
    pub initial_namespaces: BTreeMap<String, Fact<bool>>,
    /// Whether an ordinary user may make user namespaces.
    pub user_namespaces: Fact<bool>,
}

impl Host {
    /// Whether this capability is in effect; `None` when the capabilities could not be read.
    pub fn has_capability(&self, name: &str) -> Option<bool> {
        Some(self.capabilities.known()?.iter().any(|known| known == name))
    }
}

/// A program that changes the options a kernel is booted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootLoader {
    /// Debian's and its kin: files in `/etc/default/grub.d`, and `update-grub`.
    UpdateGrub,
    /// Fedora's and its kin.
    Grubby,
}

/// What a trial of bpf(2) gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BpfTrial {
    /// A map was made and a tracing program loaded.
    Usable,
    /// Refused: which command, and the errno's text.
    Refused(String),
}

/// What Landlock offers, right by right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landlock {
    /// Whether it answers at all.
    pub presence: Presence,
    /// Each right we know, and whether this kernel can restrict it.
    pub rights: BTreeMap<Right, bool>,
}

/// Whether Landlock answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// It does, with this ABI version as far as the rights tell.
    Available(u32),
    /// The kernel has none (`ENOSYS`), or it is not enabled (`EOPNOTSUPP`: not in `lsm=`).
    Absent(String),
}

impl Landlock {
    /// What a kernel with this ABI version offers; 0 is a kernel without Landlock.
    pub fn of_abi(abi: u32) -> Self {
        let presence =
            if abi == 0 { Presence::Absent("no Landlock".into()) } else { Presence::Available(abi) };
        Self { presence, rights: Right::ALL.into_iter().map(|right| (right, right.since() <= abi)).collect() }
    }

    /// Whether this kernel can restrict it.
    pub fn has(&self, right: Right) -> bool {
        self.rights.get(&right) == Some(&true)
    }

    /// Whether Landlock answers at all.
    pub fn is_present(&self) -> bool {
        matches!(self.presence, Presence::Available(_))
    }
}

macro_rules! rights {
    ($($(#[$doc:meta])* $name:ident $word:literal $abi:literal,)*) => {
        /// One right that Landlock can restrict. The order is the kernel's: file rights, network rights, scopes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Right { $($(#[$doc])* $name,)* }

        impl Right {
            /// Every right, in order.
            pub const ALL: [Self; [$($abi),*].len()] = [$(Self::$name),*];

            /// The word in every output.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The ABI version that brought it. For documentation and for tests of older kernels; what this kernel
            /// has is asked, not computed.
            pub fn since(self) -> u32 {
                match self { $(Self::$name => $abi,)* }
            }
        }
    };
}

rights! {
    /// Start a program.
    Execute "execute" 1,
    /// Open a file for writing.
    WriteFile "write_file" 1,
    /// Open a file for reading.
    ReadFile "read_file" 1,
    /// List a directory.
    ReadDir "read_dir" 1,
    /// Remove a directory.
    RemoveDir "remove_dir" 1,
    /// Remove a file.
    RemoveFile "remove_file" 1,
    /// Make a character device.
    MakeChar "make_char" 1,
    /// Make a directory.
    MakeDir "make_dir" 1,
    /// Make a regular file.
    MakeReg "make_reg" 1,
    /// Make a UNIX socket.
    MakeSock "make_sock" 1,
    /// Make a FIFO.
    MakeFifo "make_fifo" 1,
    /// Make a block device.
    MakeBlock "make_block" 1,
    /// Make a symbolic link.
    MakeSym "make_sym" 1,
    /// Link or rename between directories. (Without it, the kernel refuses that to every restricted process.)
    Refer "refer" 2,
    /// Truncate a file.
    Truncate "truncate" 3,
    /// Send ioctls to a device.
    IoctlDev "ioctl_dev" 5,
    /// Connect to a UNIX socket by path.
    ResolveUnix "resolve_unix" 9,
    /// Bind a TCP port.
    BindTcp "bind_tcp" 4,
    /// Connect to a TCP port.
    ConnectTcp "connect_tcp" 4,
    /// Bind a UDP port.
    BindUdp "bind_udp" 10,
    /// Connect or send to a UDP port.
    ConnectSendUdp "connect_send_udp" 10,
    /// Keep abstract UNIX sockets of outside unreachable.
    ScopeAbstractUnix "scope_abstract_unix" 6,
    /// Keep processes of outside from being signalled.
    ScopeSignal "scope_signal" 6,
}

impl Right {
    /// Whether it is about files.
    pub fn is_fs(self) -> bool {
        self <= Self::ResolveUnix
    }

    /// Whether it is a scope.
    pub fn is_scope(self) -> bool {
        matches!(self, Self::ScopeAbstractUnix | Self::ScopeSignal)
    }

    /// Whether it makes sense on something that is not a directory.
    pub fn is_for_files(self) -> bool {
        matches!(
            self,
            Self::Execute
                | Self::WriteFile
                | Self::ReadFile
                | Self::Truncate
                | Self::IoctlDev
                | Self::ResolveUnix
        )
    }
}
