//! Which means besides Landlock a launch on this machine can use: asked of the kernel, nothing is changed.

use crate::host::{Fact, Host, netns};

/// The means. Facts: a plan made with one of them relies on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct Means {
    /// The child gets its own mount namespace, and mounts can be made in it.
    pub mounts: bool,
    /// Programs can be attached to the run's cgroup.
    pub cgroup_programs: bool,
    /// Answers of name servers can be read before they are delivered.
    pub names: bool,
    /// System calls can be filtered in the child.
    pub syscall_filter: bool,
    /// Placeholders may be shown for denied names that do not exist, in the directories that the survey names for them.
    pub placeholders: bool,
}

impl Means {
    /// What this process can use. The run needs a cgroup of its own for the cgroup programs: without one, the
    /// caller must take them out.
    pub fn probe(host: &Host) -> Self {
        let can_administer = host.has_capability("SYS_ADMIN") == Some(true);
        let cgroup_programs = can_administer
            && matches!(host.cgroup2_writable, Fact::Known(true))
            && super::cgroup::is_possible();
        Self {
            mounts: can_administer,
            cgroup_programs,
            names: cgroup_programs && netns::is_told_to_packets(),
            syscall_filter: super::syscall_filter::is_possible(),
            // They change what the command sees, so they are for whoever asks for all to be held.
            placeholders: false,
        }
    }
}
