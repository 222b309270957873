//! The capabilities that would let a child undo the observer or the sandbox, and how a process gives them up.

use std::io;

use rustix::thread::CapabilitySet;

/// Dropped in every mode, bounding set included, with the names that `--keep-caps` takes.
pub const DROPPED: [(&str, CapabilitySet); 20] = [
    ("AUDIT_CONTROL", CapabilitySet::AUDIT_CONTROL),
    ("AUDIT_WRITE", CapabilitySet::AUDIT_WRITE),
    ("BPF", CapabilitySet::BPF),
    ("CHECKPOINT_RESTORE", CapabilitySet::CHECKPOINT_RESTORE),
    ("DAC_READ_SEARCH", CapabilitySet::DAC_READ_SEARCH),
    ("LINUX_IMMUTABLE", CapabilitySet::LINUX_IMMUTABLE),
    ("MAC_ADMIN", CapabilitySet::MAC_ADMIN),
    ("MAC_OVERRIDE", CapabilitySet::MAC_OVERRIDE),
    ("MKNOD", CapabilitySet::MKNOD),
    ("NET_ADMIN", CapabilitySet::NET_ADMIN),
    ("NET_RAW", CapabilitySet::NET_RAW),
    ("PERFMON", CapabilitySet::PERFMON),
    ("SETPCAP", CapabilitySet::SETPCAP),
    ("SYSLOG", CapabilitySet::SYSLOG),
    ("SYS_ADMIN", CapabilitySet::SYS_ADMIN),
    ("SYS_BOOT", CapabilitySet::SYS_BOOT),
    ("SYS_CHROOT", CapabilitySet::SYS_CHROOT),
    ("SYS_MODULE", CapabilitySet::SYS_MODULE),
    ("SYS_PTRACE", CapabilitySet::SYS_PTRACE),
    ("SYS_RAWIO", CapabilitySet::SYS_RAWIO),
];

/// A name that is no capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no capability")]
pub struct CapabilityError(String);

/// Reads a name with or without `CAP_`, in either case.
pub fn parse(name: &str) -> Result<CapabilitySet, CapabilityError> {
    let upper = name.trim().to_ascii_uppercase();
    CapabilitySet::from_name(upper.strip_prefix("CAP_").unwrap_or(&upper))
        .ok_or_else(|| CapabilityError(name.to_owned()))
}

/// What is dropped when `kept` is asked to stay.
pub fn to_drop(kept: CapabilitySet) -> CapabilitySet {
    DROPPED.iter().fold(CapabilitySet::empty(), |all, (_, one)| all | *one) - kept
}

/// The names, with `CAP_`, of what `kept` keeps from being dropped.
pub fn kept_names(kept: CapabilitySet) -> Vec<String> {
    DROPPED.iter().filter(|(_, one)| kept.contains(*one)).map(|(name, _)| format!("CAP_{name}")).collect()
}

/// Whether this thread may do what `capability` guards.
pub fn has(capability: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

/// Takes `dropped` out of the bounding set. False when we lack the right to, or when a kernel that knows one of
/// them keeps it: then a privileged program can bring it back unless `no_new_privs` is set.
pub fn drop_bounding(dropped: CapabilitySet) -> bool {
    let mut is_gone = true;
    for one in dropped.iter() {
        // An error is EINVAL: this kernel does not know it.
        if rustix::thread::capability_is_in_bounding_set(one) == Ok(true) {
            is_gone &= rustix::thread::remove_capability_from_bounding_set(one).is_ok();
        }
    }
    is_gone
}

/// Takes `dropped` out of the ambient, inheritable, permitted and effective sets.
pub fn drop_held(dropped: CapabilitySet) -> io::Result<()> {
    let mut sets = rustix::thread::capabilities(None)?;
    // Taking it out of the inheritable set takes it out of the ambient one.
    sets.inheritable -= dropped;
    sets.permitted -= dropped;
    sets.effective -= dropped;
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_and_without_their_prefix() {
        assert_eq!(parse("CAP_NET_RAW"), Ok(CapabilitySet::NET_RAW));
        assert_eq!(parse("net_raw"), Ok(CapabilitySet::NET_RAW));
        assert_eq!(parse("cap_chown"), Ok(CapabilitySet::CHOWN));
        for wrong in ["", "CAP_", "NET-RAW", "CAP_CAP_CHOWN", "NOPE"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_kept_is_not_dropped_and_is_named() {
        let kept = CapabilitySet::NET_RAW | CapabilitySet::CHOWN;
        assert!(!to_drop(kept).contains(CapabilitySet::NET_RAW));
        assert!(to_drop(kept).contains(CapabilitySet::SYS_ADMIN));
        assert!(!to_drop(CapabilitySet::empty()).contains(CapabilitySet::CHOWN));
        // CHOWN is never dropped, so keeping it is nothing to tell.
        assert_eq!(kept_names(kept), ["CAP_NET_RAW"]);
    }
}
