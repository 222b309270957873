//! Prints what this host offers and what follows from it: a fact a line, and what gives the rest.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use crate::cli::output::Output;
use crate::enforce::Means;
use crate::exit::Exit;
use crate::host::probe::probe;
use crate::host::{BpfTrial, Fact, Host, Presence, Right};
use crate::observe::kernel::{Counting, Observer, ObserverConfig};

mod fix;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a person.
    Text,
    /// For a program.
    Json,
}

/// Flags of `assay doctor`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Args {
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Only what is not as it should be, with what to type to get it; nothing is run.
    #[arg(long)]
    fix_hints: bool,
}

/// One line: what was looked at, whether it is as it should be, what was found, and what gives the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    name: String,
    state: State,
    fact: String,
    remedy: Option<String>,
}

/// How a fact stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As it should be, or merely told.
    Good,
    /// Something can be done without it, less well.
    Less,
    /// Observing needs it and it is not there.
    Missing,
    /// Could not tell.
    Unknown,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Good, Self::Less, Self::Missing, Self::Unknown];

    /// The word in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Less => "limited",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// Runs it. 0: this host can observe; 2: it cannot, and the lines say why and what to do.
pub fn run(args: Args, out: &Output) -> Exit {
    let host = probe();
    let mut lines = diagnose(&host);
    if matches!(host.bpf, Fact::Known(BpfTrial::Usable)) {
        lines.extend(in_the_way(&lines).map_or_else(|| observer(out), |line| vec![line]));
    }
    lines.extend(enforcement(Means::probe(&host)));
    let can_observe = !lines.iter().any(|line| line.state == State::Missing);
    let text = match args.format {
        Format::Text if args.fix_hints => hints(&host, &lines, can_observe),
        Format::Text => text(&lines, can_observe),
        Format::Json => json(&host, &lines, can_observe),
    };
    if let Err(error) = out.result(text.as_bytes()) {
        out.error(&format!("write the result: {error}"));
        return Exit::Refused;
    }
    if can_observe { Exit::Success } else { Exit::Refused }
}

fn text(lines: &[Line], can_observe: bool) -> String {
    let mut text = String::new();
    let rights: Vec<&str> = lines.iter().filter_map(right_that_is_there).collect();
    for line in lines.iter().filter(|line| right_that_is_there(line).is_none()) {
        writeln!(text, "{:<8} {}: {}", line.state.as_str(), line.name, line.fact)
            .expect("writing to a String cannot fail");
        if line.name == LANDLOCK && !rights.is_empty() {
            writeln!(text, "         restricts {}", rights.join(", "))
                .expect("writing to a String cannot fail");
        }
        if let Some(remedy) = &line.remedy {
            writeln!(text, "         to change it: {remedy}").expect("writing to a String cannot fail");
        }
    }
    text += end(can_observe);
    text
}

/// A right of Landlock that is as it should be: for a person, one line tells all of these.
fn right_that_is_there(line: &Line) -> Option<&str> {
    line.name.strip_prefix(LANDLOCK)?.strip_prefix(' ').filter(|_| line.state == State::Good)
}

fn end(can_observe: bool) -> &'static str {
    if can_observe { "this host can observe\n" } else { "this host cannot observe\n" }
}

/// What is not as it should be, and what to type; what is said of several at once is said once.
fn hints(host: &Host, lines: &[Line], can_observe: bool) -> String {
    let mut text = String::new();
    let mut told: Vec<fix::Way> = Vec::new();
    // Writing to a String cannot fail, here and below.
    for line in lines.iter().filter(|line| line.state != State::Good) {
        let _ = writeln!(text, "{} ({}): {}", line.name, line.state.as_str(), line.fact);
        for way in fix::ways(host, &line.name) {
            let is_told = told.contains(&way) && !way.commands.is_empty();
            let _ = writeln!(text, "  {}{}", way.what, if is_told { ": as above" } else { "" });
            if !is_told {
                way.commands.iter().for_each(|command| {
                    let _ = writeln!(text, "    {command}");
                });
                told.push(way);
            }
        }
    }
    text + end(can_observe)
}

fn json(host: &Host, lines: &[Line], can_observe: bool) -> String {
    let lines: Vec<_> = lines
        .iter()
        .map(|line| {
            let ways = if line.state == State::Good { Vec::new() } else { fix::ways(host, &line.name) };
            let ways: Vec<_> =
                ways.iter().map(|way| json!({ "what": way.what, "commands": way.commands })).collect();
            json!({
                "name": line.name, "state": line.state.as_str(), "fact": line.fact, "remedy": line.remedy,
                "fix": ways,
            })
        })
        .collect();
    let rights: serde_json::Map<_, _> =
        host.landlock.rights.iter().map(|(right, has)| (right.as_str().to_owned(), json!(has))).collect();
    let abi = match &host.landlock.presence {
        Presence::Available(abi) => json!(abi),
        Presence::Absent(_) => json!(null),
    };
    let value = json!({
        "can_observe": can_observe, "kernel": host.kernel, "arch": host.arch, "checks": lines,
        "landlock": { "abi": abi, "rights": rights },
    });
    format!("{value:#}\n")
}

/// What follows from the facts. Pure.
fn diagnose(host: &Host) -> Vec<Line> {
    let mut lines = vec![told("kernel", format!("Linux {} on {}", host.kernel, host.arch)), user(host)];
    lines.push(container(host));
    lines.push(capabilities(host));
    lines.push(bpf(host));
    lines.push(btf(host));
    lines.push(tracefs(host));
    lines.push(cgroup(host));
    lines.push(memlock(host));
    lines.push(lockdown(host));
    lines.push(lsms(host));
    lines.extend(landlock(host));
    lines
}

/// What the observer's programs need and is known to be missing: trying them would say so once more, with a worse remedy.
fn in_the_way(lines: &[Line]) -> Option<Line> {
    // Programs load without a group.
    let is_in_the_way = |line: &&Line| line.state == State::Missing && line.name != CGROUP;
    let first = lines.iter().find(is_in_the_way)?;
    Some(unknown("observer", &format!("`{}` stands in the way", first.name), "mend that first"))
}

/// Whether the observer itself loads, and with it the second witness: tried, for a group that does not exist.
fn observer(out: &Output) -> Vec<Line> {
    let config = ObserverConfig {
        group_id: 0,
        level: 0,
        group: PathBuf::new(),
        names: None,
        inherited: Vec::new(),
        sockets: Vec::new(),
        counting: Counting::default(),
        second_witness: true,
    };
    match Observer::start(&config) {
        Ok(observer) if observer.missing_fields().is_empty() => {
            vec![told("observer", "every program loads".into()), second_witness(observer.no_witness())]
        }
        Ok(observer) => vec![
            line(
                "observer",
                State::Less,
                format!("loads; this kernel lacks fields: {}", observer.missing_fields().join(", ")),
                "a newer kernel; what cannot be seen is told in every artifact",
            ),
            second_witness(observer.no_witness()),
        ],
        Err(error) => {
            let text = error.to_string();
            out.detail(&text);
            let first = text.lines().next().unwrap_or_default();
            vec![line("observer", State::Missing, first, "see the kernel's own words with --verbose")]
        }
    }
}

/// Whether what the observer tells is held against what the kernel's security modules are asked.
fn second_witness(obstacle: Option<&str>) -> Line {
    let name = "second witness";
    match obstacle {
        None => told(name, "every program loads; `--second-witness` checks a run against it".into()),
        // Nothing that is promised depends on it.
        Some(why) => told(name, format!("none: {why}")),
    }
}

/// By which means besides Landlock a policy can be held here.
fn enforcement(means: Means) -> Vec<Line> {
    let one = |name: &str, has: bool, yes: &str, no: &str, remedy: &str| {
        if has { told(name, yes.into()) } else { line(name, State::Less, no, remedy) }
    };
    vec![
        one(
            "deny inside an allow",
            means.mounts,
            "can be held, by mounts of the command's own",
            "cannot be held",
            "run as root",
        ),
        one(
            "addresses and UDP",
            means.cgroup_programs,
            "can be held, by programs on the run's cgroup",
            "cannot be held",
            "run as root, with a writable cgroup v2",
        ),
        one(
            "socket families",
            means.syscall_filter,
            "can be held, by a system call filter",
            "cannot be held",
            "a kernel with CONFIG_SECCOMP_FILTER",
        ),
    ]
}

fn told(name: &str, fact: String) -> Line {
    Line { name: name.into(), state: State::Good, fact, remedy: None }
}

fn line(name: &str, state: State, fact: impl Into<String>, remedy: &str) -> Line {
    Line { name: name.into(), state, fact: fact.into(), remedy: Some(remedy.into()) }
}

fn unknown(name: &str, reason: &str, remedy: &str) -> Line {
    line(name, State::Unknown, format!("could not tell: {reason}"), remedy)
}

/// Whether it is known that the capabilities are there without which nothing is observed. `SYS_ADMIN` stands for both.
fn lacks(host: &Host, name: &str) -> bool {
    host.has_capability(name) != Some(true) && host.has_capability("SYS_ADMIN") != Some(true)
}

fn user(host: &Host) -> Line {
    match host.uid {
        0 => told("user", "root".into()),
        uid if !lacks(host, "BPF") && !lacks(host, "PERFMON") => {
            told("user", format!("not root (uid {uid}), with the capabilities that observing needs"))
        }
        uid => line(
            "user",
            State::Less,
            format!("not root (uid {uid})"),
            "run under sudo (the command still runs as you)",
        ),
    }
}

fn container(host: &Host) -> Line {
    let is_foreign = |name: &str| host.initial_namespaces.get(name).and_then(Fact::known) == Some(&false);
    let foreign: Vec<_> = ["user", "pid", "cgroup"].into_iter().filter(|name| is_foreign(name)).collect();
    let mut signs = host.container_hints.clone();
    if !foreign.is_empty() {
        signs.push(format!("not in the initial namespace of: {}", foreign.join(", ")));
    }
    if signs.is_empty() {
        told("container", "no sign of one".into())
    } else {
        line(
            "container",
            State::Less,
            format!("this looks like one: {}", signs.join("; ")),
            "run assay on the host; inside, it needs --privileged, --cgroupns=host and --pid=host",
        )
    }
}

fn capabilities(host: &Host) -> Line {
    let name = "capabilities";
    let remedy = "run as root, or give the binary the capabilities that `--fix-hints` names";
    if let Fact::Unknown(reason) = &host.capabilities {
        return unknown(name, reason, remedy);
    }
    let not_in_effect = |names: &[&str]| {
        let missing: Vec<_> = names.iter().copied().filter(|name| lacks(host, name)).collect();
        (!missing.is_empty()).then(|| format!("not in effect: CAP_{}", missing.join(", CAP_")))
    };
    if let Some(missing) = not_in_effect(&["BPF", "PERFMON"]) {
        line(name, State::Missing, missing, remedy)
    } else if let Some(missing) = not_in_effect(&["NET_ADMIN"]) {
        let what = format!("{missing}: names and bytes of connections are not seen");
        line(name, State::Less, what, remedy)
    } else if host.has_capability("SETPCAP") == Some(true) {
        told(name, "those that observing needs are in effect".into())
    } else {
        let what =
            "not in effect: CAP_SETPCAP: what is dropped can be gained again by set-id programs in a dry run";
        line(name, State::Less, what, remedy)
    }
}

fn bpf(host: &Host) -> Line {
    let name = "bpf";
    match &host.bpf {
        Fact::Known(BpfTrial::Usable) => told(name, "a map was made and a tracing program loaded".into()),
        Fact::Known(BpfTrial::Refused(why)) => {
            let unprivileged = match host.unprivileged_bpf_disabled {
                Fact::Known(0) => "",
                Fact::Known(_) => " (closed to ordinary users: kernel.unprivileged_bpf_disabled)",
                Fact::Unknown(_) => " (kernel.unprivileged_bpf_disabled could not be read)",
            };
            let remedy =
                "run as root outside a container; a kernel needs CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS";
            line(name, State::Missing, format!("refused: {why}{unprivileged}"), remedy)
        }
        Fact::Unknown(reason) => unknown(name, reason, "run as root"),
    }
}

fn btf(host: &Host) -> Line {
    let name = "btf";
    let remedy = "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y";
    match &host.btf {
        Fact::Known(true) => told(name, "/sys/kernel/btf/vmlinux is there".into()),
        Fact::Known(false) => line(name, State::Missing, "/sys/kernel/btf/vmlinux is not there", remedy),
        Fact::Unknown(reason) => unknown(name, reason, "run as root"),
    }
}

fn tracefs(host: &Host) -> Line {
    match &host.tracefs {
        Fact::Known(Some(path)) => told("tracefs", format!("mounted at {path}")),
        // Raw tracepoints do without it.
        Fact::Known(None) => told("tracefs", "not mounted, and not needed".into()),
        Fact::Unknown(reason) => unknown("tracefs", reason, "mount /proc"),
    }
}

const CGROUP: &str = "cgroup v2";
const LANDLOCK: &str = "landlock";

fn cgroup(host: &Host) -> Line {
    let name = CGROUP;
    let path = match &host.cgroup2 {
        Fact::Known(Some(path)) => path,
        Fact::Known(None) => {
            let remedy = "mount it: mount -t cgroup2 none /sys/fs/cgroup/unified";
            return line(name, State::Missing, "not mounted anywhere", remedy);
        }
        Fact::Unknown(reason) => return unknown(name, reason, "mount /proc"),
    };
    match &host.cgroup2_writable {
        Fact::Known(true) => told(name, format!("mounted at {path}, writable")),
        Fact::Known(false) => line(
            name,
            State::Missing,
            match &host.own_group {
                Fact::Known(Some(group)) => {
                    format!("mounted at {path}; our group {group} is not writable for this process")
                }
                _ => format!("mounted at {path}, which does not show our group"),
            },
            "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes assay …",
        ),
        Fact::Unknown(reason) => unknown(name, reason, "run as root"),
    }
}

fn memlock(host: &Host) -> Line {
    let show =
        |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
    let (soft, hard) = host.memlock;
    // Since 5.11 BPF memory is charged to the cgroup, not to this limit.
    told("memlock", format!("soft {}, hard {}; kernels since 5.11 do not ask", show(soft), show(hard)))
}

fn lockdown(host: &Host) -> Line {
    let name = "lockdown";
    match &host.lockdown {
        Fact::Known(mode) if mode == "confidentiality" => line(
            name,
            State::Missing,
            "confidentiality: programs may not read kernel memory",
            "boot with lockdown=integrity, or without lockdown=",
        ),
        Fact::Known(mode) => told(name, mode.clone()),
        Fact::Unknown(reason) => unknown(name, reason, "mount -t securityfs none /sys/kernel/security"),
    }
}

fn lsms(host: &Host) -> Line {
    match &host.lsms {
        Fact::Known(names) => told("security modules", names.join(", ")),
        Fact::Unknown(reason) => {
            unknown("security modules", reason, "mount -t securityfs none /sys/kernel/security")
        }
    }
}

fn landlock(host: &Host) -> Vec<Line> {
    let name = LANDLOCK;
    let abi = match &host.landlock.presence {
        Presence::Available(abi) => abi,
        Presence::Absent(why) => {
            let remedy = "boot with landlock in lsm=, on a kernel since 5.13 with CONFIG_SECURITY_LANDLOCK=y";
            return vec![line(name, State::Less, why.clone(), remedy)];
        }
    };
    let mut lines = vec![told(name, format!("ABI {abi}"))];
    for right in Right::ALL {
        let name = format!("landlock {}", right.as_str());
        if host.landlock.has(right) {
            lines.push(told(&name, "can be restricted".into()));
        } else {
            let remedy = format!("a kernel with Landlock ABI {}", right.since());
            lines.push(line(&name, State::Less, "cannot be restricted by this kernel", &remedy));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::host::Landlock;

    pub(super) fn root_host() -> Host {
        Host {
            kernel: "6.18.0".into(),
            arch: "x86_64".into(),
            uid: 0,
            capabilities: Fact::Known(vec![
                "SYS_ADMIN".into(),
                "BPF".into(),
                "PERFMON".into(),
                "SETPCAP".into(),
            ]),
            btf: Fact::Known(true),
            tracefs: Fact::Known(None),
            cgroup2: Fact::Known(Some("/sys/fs/cgroup/unified".into())),
            own_group: Fact::Known(Some("/sys/fs/cgroup/unified/a.scope".into())),
            cgroup2_writable: Fact::Known(true),
            boot_loader: None,
            program: Some("/usr/bin/assay".into()),
            lsms: Fact::Unknown("securityfs is not mounted".into()),
            landlock: Landlock::of_abi(7),
            bpf: Fact::Known(BpfTrial::Usable),
            unprivileged_bpf_disabled: Fact::Known(2),
            lockdown: Fact::Unknown("securityfs is not mounted".into()),
            memlock: (Some(8 << 20), Some(8 << 20)),
            container_hints: Vec::new(),
            initial_namespaces: BTreeMap::new(),
            user_namespaces: Fact::Known(true),
        }
    }

    /// The lines that are not `ok`, as `state name: fact`.
    fn check(host: &Host, want: &[&str]) {
        let lines = diagnose(host);
        let found: Vec<_> = lines
            .iter()
            .filter(|line| line.state != State::Good && !line.name.starts_with("landlock "))
            .map(|line| format!("{} {}: {}", line.state.as_str(), line.name, line.fact))
            .collect();
        assert_eq!(found, want);
        assert!(lines.iter().all(|line| line.state == State::Good || line.remedy.is_some()));
    }

    const NO_SECURITYFS: [&str; 2] = [
        "unknown lockdown: could not tell: securityfs is not mounted",
        "unknown security modules: could not tell: securityfs is not mounted",
    ];

    #[test]
    fn what_could_not_be_told_does_not_keep_a_host_from_observing() {
        check(&root_host(), &NO_SECURITYFS);
        assert!(!diagnose(&root_host()).iter().any(|line| line.state == State::Missing));
    }

    #[test]
    fn an_ordinary_user_is_told_each_thing_in_one_line() {
        let host = Host {
            uid: 1000,
            capabilities: Fact::Known(Vec::new()),
            cgroup2_writable: Fact::Known(false),
            bpf: Fact::Known(BpfTrial::Refused("making a map: Operation not permitted (os error 1)".into())),
            ..root_host()
        };
        let [lockdown, lsms] = NO_SECURITYFS;
        check(
            &host,
            &[
                "limited user: not root (uid 1000)",
                "missing capabilities: not in effect: CAP_BPF, CAP_PERFMON",
                "missing bpf: refused: making a map: Operation not permitted (os error 1) (closed to ordinary users: kernel.unprivileged_bpf_disabled)",
                "missing cgroup v2: mounted at /sys/fs/cgroup/unified; our group /sys/fs/cgroup/unified/a.scope is not writable for this process",
                lockdown,
                lsms,
            ],
        );
    }

    #[test]
    fn a_user_with_some_capabilities_is_told_what_the_others_are_for() {
        let with = |names: &[&str]| Host {
            uid: 1000,
            capabilities: Fact::Known(names.iter().map(|&name| name.into()).collect()),
            ..root_host()
        };
        let [lockdown, lsms] = NO_SECURITYFS;
        let less =
            "limited capabilities: not in effect: CAP_NET_ADMIN: names and bytes of connections are not seen";
        check(&with(&["BPF", "PERFMON"]), &[less, lockdown, lsms]);
        let less = "limited capabilities: not in effect: CAP_SETPCAP: what is dropped can be gained again by set-id programs in a dry run";
        check(&with(&["BPF", "PERFMON", "NET_ADMIN"]), &[less, lockdown, lsms]);
        check(&with(&["BPF", "PERFMON", "NET_ADMIN", "SETPCAP"]), &NO_SECURITYFS);
        let known = with(&["BPF"]);
        assert_eq!(capabilities(&known).fact, "not in effect: CAP_PERFMON");
    }

    #[test]
    fn a_container_without_btf_and_landlock_is_told_so() {
        let host = Host {
            btf: Fact::Known(false),
            cgroup2: Fact::Known(None),
            landlock: Landlock::of_abi(0),
            container_hints: vec!["/.dockerenv is there".into()],
            initial_namespaces: [("pid".to_owned(), Fact::Known(false))].into(),
            lockdown: Fact::Known("confidentiality".into()),
            lsms: Fact::Known(vec!["capability".into()]),
            ..root_host()
        };
        check(
            &host,
            &[
                "limited container: this looks like one: /.dockerenv is there; not in the initial namespace of: pid",
                "missing btf: /sys/kernel/btf/vmlinux is not there",
                "missing cgroup v2: not mounted anywhere",
                "missing lockdown: confidentiality: programs may not read kernel memory",
                "limited landlock: no Landlock",
            ],
        );
    }

    #[test]
    fn what_to_type_is_told_once_beneath_what_it_gives() {
        let host = Host {
            uid: 1000,
            capabilities: Fact::Known(Vec::new()),
            own_group: Fact::Known(None),
            cgroup2: Fact::Known(None),
            cgroup2_writable: Fact::Known(false),
            lockdown: Fact::Known("none".into()),
            lsms: Fact::Known(vec!["landlock".into()]),
            landlock: Landlock::of_abi(10),
            ..root_host()
        };
        let text = hints(&host, &diagnose(&host), false);
        let setcap = format!("    sudo setcap {}+ep /usr/bin/assay", fix::CAPABILITIES);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "user (limited): not root (uid 1000)",
                "  for one run; the command still runs as you",
                "    sudo assay sandbox -- COMMAND",
                "capabilities (missing): not in effect: CAP_BPF, CAP_PERFMON",
                "  for one run; the command still runs as you: as above",
                "  without root, for everybody who may start this file",
                &setcap,
                "cgroup v2 (missing): not mounted anywhere",
                "  beside those of version 1",
                "    sudo mkdir -p /sys/fs/cgroup/unified",
                "    sudo mount -t cgroup2 none /sys/fs/cgroup/unified",
                "  boot with `systemd.unified_cgroup_hierarchy=1`",
                "this host cannot observe",
            ]
        );
    }

    #[test]
    fn what_stands_in_the_observers_way_is_told_once() {
        let way = |host: &Host| in_the_way(&diagnose(host)).map(|line| line.fact);
        assert_eq!(way(&root_host()), None);
        assert_eq!(way(&Host { cgroup2: Fact::Known(None), ..root_host() }), None);
        let without = Host { btf: Fact::Known(false), ..root_host() };
        assert_eq!(way(&without).as_deref(), Some("could not tell: `btf` stands in the way"));
    }

    #[test]
    fn each_right_of_landlock_has_its_line() {
        let lines = diagnose(&root_host());
        let text = text(&lines, true);
        assert!(
            text.contains("ok       landlock: ABI 7\n         restricts execute, write_file, "),
            "{text}"
        );
        assert!(text.contains("limited  landlock bind_udp: cannot be restricted"), "{text}");
        assert_eq!(text.matches("landlock ").count(), 3, "{text}");
        let rights: Vec<_> = lines.iter().filter(|line| line.name.starts_with("landlock ")).collect();
        assert_eq!(rights.len(), Right::ALL.len());
        let less: Vec<_> =
            rights.iter().filter(|line| line.state == State::Less).map(|line| line.name.as_str()).collect();
        assert_eq!(less, ["landlock resolve_unix", "landlock bind_udp", "landlock connect_send_udp"]);
    }
}
