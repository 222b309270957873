use std::process::Command;

use super::super::tests::root_host;
use super::super::{State, diagnose};
use super::*;
use crate::host::{BpfTrial, Landlock};

/// Hosts that each lack something, with a name.
fn hosts() -> Vec<(&'static str, Host)> {
    let unknown = |what: &str| what.to_owned();
    vec![
        ("an ordinary user", ordinary()),
        ("no bpf", Host { bpf: Fact::Known(BpfTrial::Refused("making a map: no".into())), ..root_host() }),
        ("no btf", Host { btf: Fact::Known(false), ..root_host() }),
        (
            "no proc",
            Host {
                tracefs: Fact::Unknown(unknown("a")),
                cgroup2: Fact::Unknown(unknown("a")),
                ..root_host()
            },
        ),
        ("no cgroup v2", Host { cgroup2: Fact::Known(None), ..root_host() }),
        (
            "a group that is not shown",
            Host { own_group: Fact::Known(None), cgroup2_writable: Fact::Known(false), ..root_host() },
        ),
        ("locked down", Host { lockdown: Fact::Known("confidentiality".into()), ..root_host() }),
        ("no securityfs", root_host()),
        (
            "no landlock",
            Host {
                landlock: Landlock::of_abi(0),
                lsms: Fact::Known(vec!["lockdown".into(), "capability".into(), "bpf".into()]),
                ..root_host()
            },
        ),
        ("a container", Host { container_hints: vec!["/.dockerenv is there".into()], ..root_host() }),
    ]
}

fn ordinary() -> Host {
    Host {
        uid: 1000,
        capabilities: Fact::Known(Vec::new()),
        cgroup2_writable: Fact::Known(false),
        bpf: Fact::Known(BpfTrial::Refused("making a map: Operation not permitted".into())),
        ..root_host()
    }
}

/// What is to be typed for a check, all ways one after the other.
fn typed(host: &Host, check: &str) -> Vec<String> {
    ways(host, check).into_iter().flat_map(|way| way.commands).collect()
}

#[test]
fn whatever_is_missing_has_a_way_and_every_command_is_one_for_a_shell() {
    let boots = [None, Some(BootLoader::UpdateGrub), Some(BootLoader::Grubby)];
    let mut names = std::collections::BTreeSet::new();
    for ((name, host), boot_loader) in
        hosts().into_iter().flat_map(|host| boots.map(|boot| (host.clone(), boot)))
    {
        let host = Host { boot_loader, ..host };
        for line in diagnose(&host).iter().filter(|line| line.state != State::Good) {
            names.insert(line.name.clone());
            let ways = ways(&host, &line.name);
            assert!(!ways.is_empty(), "{name}: {line:?}");
            for way in &ways {
                assert!(!way.what.is_empty() && !way.what.ends_with('.'), "{name}: {way:?}");
                for command in &way.commands {
                    let parsed = Command::new("sh").args(["-nc", command]).output().expect("a shell");
                    assert!(parsed.status.success() && !command.contains('\n'), "{name}: {command}");
                }
            }
        }
    }
    for check in [
        "user",
        "container",
        "capabilities",
        "bpf",
        "btf",
        "tracefs",
        "cgroup v2",
        "lockdown",
        "security modules",
        "landlock",
    ] {
        assert!(names.contains(check), "no host lacks {check}");
    }
}

#[test]
fn what_is_typed_fits_the_host() {
    let host = ordinary();
    assert_eq!(
        typed(&host, "capabilities"),
        ["sudo assay sandbox -- COMMAND".to_owned(), format!("sudo setcap {CAPABILITIES}+ep /usr/bin/assay")]
    );
    let odd = Host { program: Some("/opt/it's mine/assay".into()), ..ordinary() };
    assert!(typed(&odd, "capabilities")[1].ends_with(r"+ep '/opt/it'\''s mine/assay'"));
    let by_hand = "sudo chown 1000 /sys/fs/cgroup/unified/a.scope/assay-of-1000 /sys/fs/cgroup/unified/a.scope/assay-of-1000/cgroup.procs";
    assert!(typed(&host, "cgroup v2").contains(&by_hand.to_owned()));

    let without = Host {
        landlock: Landlock::of_abi(0),
        lsms: Fact::Known(vec!["lockdown".into(), "capability".into(), "bpf".into()]),
        boot_loader: Some(BootLoader::Grubby),
        ..root_host()
    };
    let option = "sudo grubby --update-kernel=ALL --args='lsm=landlock,lockdown,bpf'".to_owned();
    assert!(typed(&without, "landlock").contains(&option));
    // Without the list of what is on now, `lsm=` would turn the rest off.
    let untold = Host { lsms: Fact::Unknown("securityfs is not mounted".into()), ..without };
    assert!(!typed(&untold, "landlock").iter().any(|command| command.contains("lsm=")));
    assert!(typed(&root_host(), "landlock truncate").is_empty());
}
