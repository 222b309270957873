//! Which means besides Landlock a launch on this machine can use: asked of the kernel, nothing is changed.

use crate::host::{Fact, Host};

/// The means. Facts: a plan made with one of them relies on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Means {
    /// The child gets its own mount namespace, and mounts can be made in it.
    pub mounts: bool,
    /// Programs can be attached to the run's cgroup.
    pub cgroup_programs: bool,
    /// System calls can be filtered in the child.
    pub syscall_filter: bool,
    /// Placeholders may be shown for denied names that do not exist, on the file system with this device number.
    pub placeholders_on: Option<u64>,
}

impl Means {
    /// What this process can use. The run needs a cgroup of its own for the cgroup programs: without one, the
    /// caller must take them out.
    pub fn probe(host: &Host) -> Self {
        let can_administer = host.has_capability("SYS_ADMIN") == Some(true);
        Self {
            mounts: can_administer,
            cgroup_programs: can_administer
                && matches!(host.cgroup2_writable, Fact::Known(true))
                && super::cgroup::is_possible(),
            syscall_filter: super::syscall_filter::is_possible(),
            // They change what the command sees, so they are for whoever asks for all to be held.
            placeholders_on: None,
        }
    }
}
