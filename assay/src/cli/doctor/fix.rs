//! What to type to get what a host lacks: a host and the name of a check in, ways out of it out. Pure; runs nothing.

use crate::host::{BootLoader, Fact, Host, Presence};

/// The capabilities with which an ordinary user has all that root has: to observe (BPF, PERFMON), to see packets and hold
/// addresses (`NET_ADMIN`), to hold files by mounts (`SYS_ADMIN`), and to close what the command may gain (SETPCAP).
pub const CAPABILITIES: &str = "cap_bpf,cap_perfmon,cap_net_admin,cap_sys_admin,cap_setpcap";

/// One way to get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// What it is, or why there is nothing to type.
    pub what: String,
    /// What to type, in order; empty where a command does not help.
    pub commands: Vec<String>,
}

/// The ways to get what the check of this name did not find as it should be.
pub fn ways(host: &Host, check: &str) -> Vec<Way> {
    match check {
        "user" => vec![sudo()],
        "container" => vec![way(
            "start the container so that it sees the host's processes and groups, and may load programs",
            &[
                "docker run --privileged --cgroupns=host --pid=host -v \"$PWD:$PWD\" -w \"$PWD\" IMAGE assay doctor",
            ],
        )],
        "capabilities" | "deny inside an allow" => vec![sudo(), setcap(host)],
        "bpf" => bpf(host),
        "btf" => kernel_with(host, "CONFIG_DEBUG_INFO_BTF"),
        "tracefs" => vec![mount_proc()],
        "cgroup v2" => cgroup(host),
        "lockdown" => match &host.lockdown {
            Fact::Unknown(_) => vec![securityfs()],
            Fact::Known(_) => vec![boot_option(host, "lockdown=integrity")],
        },
        "security modules" => vec![securityfs()],
        "landlock" => landlock(host),
        "observer" => vec![way("see the kernel's own words", &["assay doctor --verbose"])],
        "addresses and UDP" => {
            let mut ways = vec![sudo(), setcap(host)];
            if host.cgroup2_writable != Fact::Known(true) {
                ways.extend(cgroup(host));
            }
            ways
        }
        "socket families" => kernel_with(host, "CONFIG_SECCOMP_FILTER"),
        // A right of Landlock that this kernel's does not know.
        _ => vec![way("only a newer kernel has it", &[])],
    }
}

fn way(what: &str, commands: &[&str]) -> Way {
    Way { what: what.into(), commands: commands.iter().map(|&command| command.into()).collect() }
}

fn sudo() -> Way {
    way("for one run; the command still runs as you", &["sudo assay sandbox -- COMMAND"])
}

fn setcap(host: &Host) -> Way {
    let program = host.program.as_deref().map_or_else(|| "\"$(command -v assay)\"".into(), quoted);
    Way {
        what: "without root, for everybody who may start this file".into(),
        commands: vec![format!("sudo setcap {CAPABILITIES}+ep {program}")],
    }
}

fn bpf(host: &Host) -> Vec<Way> {
    let has = |name| host.has_capability(name) == Some(true);
    if has("SYS_ADMIN") || has("BPF") && has("PERFMON") {
        kernel_with(host, "CONFIG_BPF_SYSCALL")
    } else {
        vec![sudo(), setcap(host)]
    }
}

fn kernel_with(host: &Host, option: &str) -> Vec<Way> {
    let mut ways = vec![Way {
        what: format!("see whether this kernel was built with {option}=y"),
        commands: vec![format!("grep {option} /boot/config-{}", quoted(&host.kernel))],
    }];
    match host.boot_loader {
        Some(BootLoader::UpdateGrub) => ways
            .push(way("Debian's own kernel was", &["sudo apt-get install linux-image-amd64", "sudo reboot"])),
        Some(BootLoader::Grubby) => {
            ways.push(way("Fedora's own kernel was", &["sudo dnf install kernel", "sudo reboot"]));
        }
        None => ways.push(way("boot the kernel of a distribution that has it", &[])),
    }
    ways
}

fn mount_proc() -> Way {
    way("show the kernel's facts", &["sudo mount -t proc proc /proc"])
}

fn securityfs() -> Way {
    way(
        "show what the kernel's security modules are",
        &["sudo mount -t securityfs none /sys/kernel/security"],
    )
}

fn cgroup(host: &Host) -> Vec<Way> {
    let group = match (&host.cgroup2, &host.own_group) {
        (Fact::Unknown(_), _) => return vec![mount_proc()],
        (Fact::Known(None), _) => {
            return vec![
                way(
                    "beside those of version 1",
                    &[
                        "sudo mkdir -p /sys/fs/cgroup/unified",
                        "sudo mount -t cgroup2 none /sys/fs/cgroup/unified",
                    ],
                ),
                boot_option(host, "systemd.unified_cgroup_hierarchy=1"),
            ];
        }
        (Fact::Known(Some(_)), Fact::Known(Some(group))) => group,
        // A mount that shows other groups and not ours.
        (Fact::Known(Some(_)), Fact::Known(None) | Fact::Unknown(_)) => {
            return vec![way(
                "a mount that shows this process's own group",
                &["sudo mkdir -p /run/cgroup2", "sudo mount -t cgroup2 none /run/cgroup2"],
            )];
        }
    };
    let mine = quoted(&format!("{}/assay-of-{}", group.trim_end_matches('/'), host.uid));
    vec![
        sudo(),
        way(
            "a group of your own, from systemd, for one run",
            &["systemd-run --user --scope -p Delegate=yes assay sandbox -- COMMAND"],
        ),
        Way {
            what: "a group of your own, by hand, for this shell and what it starts".into(),
            commands: vec![
                format!("sudo mkdir -p {mine}"),
                format!("sudo chown {} {mine} {mine}/cgroup.procs", host.uid),
                format!("echo $$ | sudo tee {mine}/cgroup.procs"),
            ],
        },
    ]
}

fn landlock(host: &Host) -> Vec<Way> {
    if !matches!(host.landlock.presence, Presence::Absent(_)) {
        return Vec::new();
    }
    let mut ways = kernel_with(host, "CONFIG_SECURITY_LANDLOCK");
    // `lsm=` replaces the whole list, so it is told only where the rest of it is known.
    match &host.lsms {
        Fact::Known(names) => {
            let others =
                names.iter().map(String::as_str).filter(|name| !["capability", "landlock"].contains(name));
            let list: Vec<&str> = std::iter::once("landlock").chain(others).collect();
            ways.push(boot_option(host, &format!("lsm={}", list.join(","))));
        }
        Fact::Unknown(_) => ways.push(securityfs()),
    }
    ways
}

fn boot_option(host: &Host, option: &str) -> Way {
    let what = format!("boot with `{option}`");
    let commands = match host.boot_loader {
        Some(BootLoader::UpdateGrub) => vec![
            format!(
                "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {option}\"' | sudo tee -a /etc/default/grub.d/assay.cfg"
            ),
            "sudo update-grub && sudo reboot".into(),
        ],
        Some(BootLoader::Grubby) => {
            vec![format!("sudo grubby --update-kernel=ALL --args='{option}'"), "sudo reboot".into()]
        }
        // Which one it is was not found out.
        None => Vec::new(),
    };
    Way { what, commands }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
