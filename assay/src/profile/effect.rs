//! An effect: what an observation comes to once who, when and how often are taken away. Pure.
//!
//! The order of the derives is the order of the file: effects sort by operation, then name, then result.
//! Effects are not `Serialize`: their file forms live in `evidence::wire`.

use std::borrow::Cow;

use super::name::Name;

/// One effect of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// On the file tree.
    Fs(FsEffect),
    /// A program or interpreter started.
    Exec(ExecEffect),
    /// On the network or a socket: in a box, because of most there are many and of these few.
    Net(Box<NetEffect>),
}

impl Effect {
    /// One on the network.
    pub fn net(effect: NetEffect) -> Self {
        Self::Net(Box::new(effect))
    }

    /// The same effect with every name in it passed through `change`.
    #[must_use]
    pub fn map_names(&self, change: &mut dyn FnMut(&str) -> String) -> Self {
        let mut name = |name: &Name| Name::from_canonical(change(name.as_str()));
        match self {
            Self::Fs(FsEffect { op, path, to, result }) => {
                Self::Fs(FsEffect { op: *op, path: name(path), to: to.as_ref().map(name), result: *result })
            }
            Self::Exec(ExecEffect { path, result }) => {
                Self::Exec(ExecEffect { path: name(path), result: *result })
            }
            Self::Net(net) => {
                Self::net(NetEffect { address: net.address.as_ref().map(name), ..(**net).clone() })
            }
        }
    }

    /// Shows every name in it.
    pub fn for_names(&self, show: &mut dyn FnMut(&str)) {
        let names = match self {
            Self::Fs(FsEffect { path, to, .. }) => [Some(path), to.as_ref()],
            Self::Exec(ExecEffect { path, .. }) => [Some(path), None],
            Self::Net(net) => [net.address.as_ref(), None],
        };
        names.into_iter().flatten().for_each(|name| show(name.as_str()));
    }

    /// Whether it happened.
    pub fn result(&self) -> EffectResult {
        match self {
            Self::Fs(effect) => effect.result,
            Self::Exec(effect) => effect.result,
            Self::Net(effect) => effect.result,
        }
    }
}

/// Whether the kernel, or anybody, refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectResult {
    /// It happened.
    Ok,
    /// EACCES, EPERM or EROFS, or stopped by one of our own means.
    Denied,
}

impl EffectResult {
    /// The word in every format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
        }
    }
}

/// Operations on the file tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsOp {
    /// A file opened for reading.
    Read,
    /// A directory opened for reading.
    List,
    /// An existing file opened for writing, or truncated.
    Write,
    /// A name made: open that made the file, mkdir (path ends in `/`), mknod, bind to a path.
    Create,
    /// unlink, rmdir.
    Delete,
    /// rename; `to` is the new name.
    Rename,
    /// A hard link; `to` is the new name.
    Link,
    /// A symbolic link; `to` is its text.
    Symlink,
    /// chmod, chown, utimens, xattr.
    Attr,
    /// mount, umount, `pivot_root`, `move_mount`.
    Mount,
}

impl FsOp {
    /// The word in every format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Symlink => "symlink",
            Self::Attr => "attr",
            Self::Mount => "mount",
        }
    }

    /// Every operation, in order.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::List,
        Self::Write,
        Self::Create,
        Self::Delete,
        Self::Rename,
        Self::Link,
        Self::Symlink,
        Self::Attr,
        Self::Mount,
    ];
}

/// An effect on the file tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FsEffect {
    /// Which.
    pub op: FsOp,
    /// The name it concerned.
    pub path: Name,
    /// The second name, where the operation has one.
    pub to: Option<Name>,
    /// Whether it happened.
    pub result: EffectResult,
}

/// A program start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecEffect {
    /// The program, script or interpreter.
    pub path: Name,
    /// Whether it started.
    pub result: EffectResult,
}

/// Operations on sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetEffectOp {
    /// connect.
    Connect,
    /// bind to a port.
    Bind,
    /// listen.
    Listen,
    /// An unconnected send to an address.
    Send,
    /// netlink and other families: the act is known by `proto` only.
    Use,
}

impl NetEffectOp {
    /// Every operation that has a word of its own.
    pub const NAMED: [Self; 4] = [Self::Connect, Self::Bind, Self::Listen, Self::Send];

    /// The word in every format. `Use` is told as `connect`, which is what the contract's list offers for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect | Self::Use => "connect",
            Self::Bind => "bind",
            Self::Listen => "listen",
            Self::Send => "send",
        }
    }
}

/// Protocols whose acts have an address that is told, or one that could not be read. Making a socket of one of them is no
/// effect yet.
pub fn has_address(proto: &str) -> bool {
    matches!(proto, "tcp" | "udp" | "unix")
}

/// Protocols over IP whose sockets no rule grants: rules speak of TCP and UDP. (A program that finds MPTCP refused uses
/// TCP, so its addresses are judged and learnt as those.)
pub fn is_never_granted(proto: &str) -> bool {
    matches!(proto, "icmp" | "raw" | "sctp" | "udplite" | "dccp")
}

/// A host as it stands before a port: an IPv6 address in brackets.
pub fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') { format!("[{host}]").into() } else { host.into() }
}

/// An effect on a socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetEffect {
    /// Which.
    pub op: NetEffectOp,
    /// `tcp`, `udp`, `unix`, `netlink` …
    pub proto: String,
    /// The name the run's own resolver gave for the address, when known.
    pub host: Option<String>,
    /// How `host` is known; absent exactly when `host` is.
    pub host_from: Option<HostFrom>,
    /// An IP address without port, a socket's path, `@name` if abstract; absent for `proto` only.
    pub address: Option<Name>,
    /// The port, or absent when there is none or it was folded as ephemeral.
    pub port: Option<Port>,
    /// Whether it was let through.
    pub result: EffectResult,
}

/// Where the name of a host is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostFrom {
    /// An answer to the run's own DNS question.
    Dns,
    /// The server name of a TLS greeting.
    Sni,
    /// The `Host` of an HTTP request.
    Http,
    /// `/etc/hosts`.
    Hosts,
}

impl HostFrom {
    /// Every source, in order.
    pub const ALL: [Self; 4] = [Self::Dns, Self::Sni, Self::Http, Self::Hosts];

    /// The word in every format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Sni => "sni",
            Self::Http => "http",
            Self::Hosts => "hosts",
        }
    }
}

/// A port as the identity has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// This port.
    Number(u16),
    /// One the run itself bound as ephemeral (bind to port 0, or the kernel's choice).
    Ephemeral,
}
