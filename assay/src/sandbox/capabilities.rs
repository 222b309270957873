//! The capabilities that would let a child undo the observer or the sandbox, and how a process gives them up.

use std::io;

use rustix::thread::CapabilitySet;

use super::caller::Caller;
use super::request::{Mode, RunAs, SandboxRequest};
use super::withheld::Taken;

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

/// Whether this process may observe by itself.
pub fn can_observe() -> bool {
    let needed = CapabilitySet::BPF | CapabilitySet::PERFMON;
    has(CapabilitySet::SYS_ADMIN) || has(needed)
}

/// What a launch of `request` takes away that the command, and programs it starts, would have without us.
pub fn taken(request: &SandboxRequest, caller: &Caller) -> Taken {
    if caller.client().is_some() && request.mode == Mode::DryRun {
        // The command is a client's child, of whose rights nothing is taken.
        return Taken { from_command: CapabilitySet::empty(), from_gaining: CapabilitySet::empty() };
    }
    let dropped = to_drop(request.kept_capabilities);
    let uid = match &request.user {
        RunAs::Ourselves => rustix::process::geteuid().as_raw(),
        RunAs::User(user) => user.uid,
    };
    let permitted = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted);
    let is_bounding = |one: &CapabilitySet| rustix::thread::capability_is_in_bounding_set(*one) == Ok(true);
    Taken {
        // Another user's programs begin without any.
        from_command: if uid == 0 { dropped & permitted } else { CapabilitySet::empty() },
        from_gaining: dropped.iter().filter(is_bounding).collect(),
    }
}

/// The capabilities that a program has from its first instruction because its file says so.
pub fn of_program(path: &[u8]) -> CapabilitySet {
    let mut value = [0u8; 64];
    rustix::fs::getxattr(path, c"security.capability", &mut value[..])
        .ok()
        .and_then(|length| file_capabilities(value.get(..length)?))
        .unwrap_or_else(CapabilitySet::empty)
}

/// Reads `struct vfs_cap_data` of `include/uapi/linux/capability.h`; empty unless they are effective at once.
fn file_capabilities(value: &[u8]) -> Option<CapabilitySet> {
    let word = |index: usize| value.get(index * 4..index * 4 + 4)?.try_into().ok().map(u32::from_le_bytes);
    let magic = word(0)?;
    let high = match magic >> 24 {
        1 => 0,
        // The inheritable sets stand between them.
        2 | 3 => word(3)?,
        _ => return None,
    };
    let permitted = CapabilitySet::from_bits_retain(u64::from(word(1)?) | u64::from(high) << 32);
    Some(if magic & 1 == 1 { permitted } else { CapabilitySet::empty() })
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
    fn what_a_file_grants_is_read_as_the_kernel_reads_it() {
        let value = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let net_raw = 1 << 13;
        let effective = value(&[0x0200_0001, net_raw, 0, 1 << 7, 0]);
        let both = CapabilitySet::NET_RAW | CapabilitySet::from_bits_retain(1 << 39);
        assert_eq!(file_capabilities(&effective), Some(both));
        assert_eq!(
            file_capabilities(&value(&[0x0300_0001, net_raw, 0, 0, 0, 1000])),
            Some(CapabilitySet::NET_RAW)
        );
        assert_eq!(file_capabilities(&value(&[0x0100_0001, net_raw, 0])), Some(CapabilitySet::NET_RAW));
        // A program that asks for them later starts without them.
        let later = value(&[0x0200_0000, net_raw, 0, 0, 0]);
        assert_eq!(file_capabilities(&later), Some(CapabilitySet::empty()));
        for wrong in [value(&[]), value(&[0x0900_0001, 1, 0, 0, 0]), effective[..14].to_vec()] {
            assert_eq!(file_capabilities(&wrong), None);
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
