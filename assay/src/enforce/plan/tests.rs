use std::collections::BTreeMap;

use super::*;
use crate::policy::load::{Context, NoFiles, load_bytes};

/// A file tree without a disk: directories and files by path. Only what the rules name is looked up.
fn survey_of(policy: &Policy, there: &[(&str, Kind)]) -> Survey {
    let look = |rules: &[PathRule]| {
        rules
            .iter()
            .map(|rule| {
                let mut found = Found::default();
                for pattern in &rule.patterns {
                    let matches: Vec<_> = there
                        .iter()
                        .filter(|(name, _)| pattern.matches(name.as_bytes()))
                        .map(|(name, kind)| (name.as_bytes().to_vec(), *kind))
                        .collect();
                    match pattern.as_literal() {
                        Some(path) if matches.is_empty() => drop(found.missing.insert(path)),
                        Some(_) => {}
                        None => found.is_open = true,
                    }
                    found.there.extend(matches);
                }
                found
            })
            .collect::<Vec<_>>()
    };
    let mut listings = BTreeMap::<_, Vec<_>>::new();
    for (name, kind) in there {
        let (directory, _) = name.rsplit_once('/').unwrap();
        let directory = if directory.is_empty() { "/" } else { directory };
        listings.entry(directory.as_bytes().to_vec()).or_default().push((name.as_bytes().to_vec(), *kind));
    }
    Survey {
        unsearched: BTreeSet::new(),
        fs_allow: look(&policy.fs_allow),
        fs_deny: look(&policy.fs_deny),
        exec_allow: look(policy.exec_allow.as_deref().unwrap_or_default()),
        exec_deny: look(&policy.exec_deny),
        loaders: vec![b"/lib/ld.so".to_vec()],
        hosts: BTreeMap::new(),
        hosts_file: BTreeMap::new(),
        above_missing: BTreeMap::new(),
        sockets: there
            .iter()
            .filter(|(name, _)| name.contains(".sock"))
            .map(|(name, _)| name.as_bytes().to_vec())
            .collect(),
        listings,
    }
}

const D: Kind = Kind::Directory;
const F: Kind = Kind::File;

fn plan_of(yaml: &str, there: &[(&str, Kind)], abi: u32, means: Means) -> Plan {
    let text = format!("api_version: assay/v1\nbase: none\n{yaml}");
    let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).expect("a valid policy");
    plan(&policy, &Landlock::of_abi(abi), &survey_of(&policy, there), means)
}

const ALL_MEANS: Means =
    Means { mounts: true, cgroup_programs: true, names: true, syscall_filter: true, placeholders: false };

/// Degradations in the form `component reason detail`.
fn reasons(plan: &Plan) -> Vec<String> {
    plan.degradations
        .iter()
        .map(|d| format!("{} {} {}", d.component.as_str(), d.reason, d.detail.as_deref().unwrap_or("-")))
        .filter(|reason| !reason.starts_with("net "))
        .collect()
}

fn net_reasons(plan: &Plan) -> Vec<String> {
    let net = plan.degradations.iter().filter(|d| d.component == Component::Net);
    net.map(|d| format!("{} {}", d.reason, d.detail.as_deref().unwrap_or("-"))).collect()
}

fn rights(plan: &Plan, path: &str) -> Vec<&'static str> {
    plan.ruleset.paths.get(path.as_bytes()).into_iter().flatten().map(|right| right.as_str()).collect()
}

#[test]
fn an_allow_becomes_rights_beneath_a_path() {
    let plan = plan_of(
        "fs: {allow: [/usr, {path: /dev/null, access: [read, write]}]}",
        &[("/usr", D), ("/dev/null", F)],
        7,
        ALL_MEANS,
    );
    assert_eq!(rights(&plan, "/usr"), ["execute", "read_file", "read_dir"]);
    assert_eq!(
        rights(&plan, "/dev/null"),
        ["write_file", "read_file", "truncate", "ioctl_dev", "resolve_unix"]
    );
    assert_eq!(rights(&plan, "/lib/ld.so"), ["execute", "read_file"]);
    assert_eq!(reasons(&plan), [""; 0]);
}

#[test]
fn a_deny_above_or_at_an_allow_takes_it_away() {
    let yaml =
        "fs: {allow: [{path: /a/b, access: [read, write]}, /c], deny: [{path: /a, access: [write]}, /c]}";
    let plan = plan_of(yaml, &[("/a", D), ("/a/b", D), ("/c", D)], 7, Means::default());
    assert_eq!(rights(&plan, "/a/b"), ["read_file", "read_dir"]);
    assert_eq!(rights(&plan, "/c"), [""; 0]);
    assert_eq!(reasons(&plan), [""; 0]);
}

#[test]
fn a_deny_inside_an_allow_is_held_by_a_mount_or_told() {
    let yaml =
        "fs: {allow: [{path: /w, access: [read, write]}], deny: [{path: .git/hooks, access: [write]}]}";
    let there = [("/w", D), ("/w/.git/hooks", D)];
    assert_eq!(
        reasons(&plan_of(yaml, &there, 7, Means::default())),
        ["fs deny-inside-allow ${WORKDIR}/.git/hooks"]
    );
    let held = plan_of(yaml, &there, 7, ALL_MEANS);
    assert_eq!(reasons(&held), [""; 0]);
    assert_eq!(held.holds.len(), 1);
    assert_eq!(held.holds[0].means, MountMeans::ReadOnly);
    assert_eq!(held.holds[0].pins, [b"/w/.git".to_vec()]);
    assert_eq!(held.rules.last().unwrap().held, Held::By("mount"));
}

#[test]
fn a_denied_name_that_does_not_exist_is_told_only_where_it_could_be_made() {
    let yaml = "fs: {allow: [{path: /w, access: [write]}, /usr], deny: [/w/new, /usr/new, /elsewhere/new]}";
    let plan = plan_of(yaml, &[("/w", D), ("/usr", D)], 7, Means::default());
    assert_eq!(reasons(&plan), ["fs deny-not-yet-existing ${WORKDIR}/new"]);
}

#[test]
fn patterns_are_expanded_and_later_names_are_told() {
    let yaml = "fs: {allow: [{path: /w, access: [read, write]}], deny: ['**/.env']}";
    let plan = plan_of(yaml, &[("/w", D), ("/w/a/.env", F)], 7, Means::default());
    assert_eq!(
        reasons(&plan),
        ["fs deny-inside-allow ${WORKDIR}/a/.env", "fs deny-pattern-not-yet-existing **/.env"]
    );
    let yaml = "fs: {allow: [{path: /x/*.log, access: [write]}]}";
    let plan = plan_of(yaml, &[("/x", D), ("/x/a.log", F)], 7, ALL_MEANS);
    assert_eq!(rights(&plan, "/x/a.log"), ["write_file", "truncate", "ioctl_dev", "resolve_unix"]);
    assert_eq!(reasons(&plan), ["fs allow-pattern-frozen /x/*.log"]);
}

#[test]
fn a_denied_program_in_a_read_only_tree_is_split_out() {
    let yaml = "fs: {allow: [/usr]}\nexec: {deny: [/usr/bin/sudo]}";
    let there = [
        ("/usr", D),
        ("/usr/lib", D),
        ("/usr/bin", D),
        ("/usr/bin/sudo", F),
        ("/usr/bin/git", F),
        ("/usr/share", D),
    ];
    let plan = plan_of(yaml, &there, 7, Means::default());
    assert_eq!(reasons(&plan), [""; 0]);
    assert_eq!(rights(&plan, "/usr"), ["read_file", "read_dir"]);
    assert_eq!(rights(&plan, "/usr/bin"), [""; 0]);
    assert_eq!(rights(&plan, "/usr/bin/sudo"), [""; 0]);
    assert_eq!(rights(&plan, "/usr/bin/git"), ["execute", "read_file"]);
    assert_eq!(rights(&plan, "/usr/lib"), ["execute", "read_file"]);
    let writable = yaml.replace("[/usr]", "[{path: /usr, access: [write, execute]}]");
    let plan = plan_of(&writable, &there, 7, Means::default());
    assert_eq!(reasons(&plan), ["exec deny-inside-allow /usr/bin/sudo"]);
}

#[test]
fn with_exec_allow_only_what_it_lists_and_the_loader_may_run() {
    let yaml = "fs: {allow: [/usr]}\nexec: {allow: [/usr/bin/git]}";
    let plan = plan_of(yaml, &[("/usr", D), ("/usr/bin/git", F)], 7, Means::default());
    assert_eq!(rights(&plan, "/usr"), ["read_file", "read_dir"]);
    assert_eq!(rights(&plan, "/usr/bin/git"), ["execute", "read_file"]);
    assert_eq!(rights(&plan, "/lib/ld.so"), ["execute", "read_file"]);
}

#[test]
fn an_older_kernel_is_told_right_by_right() {
    let yaml = "fs: {allow: [{path: /w, access: [read, write]}]}\nnet: {allow: ['*:443']}";
    let at = |abi: u32| plan_of(yaml, &[("/w", D)], abi, Means { syscall_filter: true, ..Means::default() });
    assert_eq!(reasons(&at(0)), ["fs landlock-absent -", "exec landlock-absent -"]);
    assert!(at(0).ruleset.handled.is_empty());
    assert_eq!(reasons(&at(1)), ["fs landlock-refer rename", "fs landlock-truncate truncate"]);
    assert_eq!(reasons(&at(2)), ["fs landlock-truncate truncate"]);
    for abi in 3..=7 {
        assert_eq!(reasons(&at(abi)), [""; 0], "ABI {abi}");
    }
    let tcp = |abi: u32| net_reasons(&at(abi)).contains(&"tcp-not-held tcp".to_owned());
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(tcp), [true, true, true, true, false, false, false, false]);
    let scope = |abi: u32| net_reasons(&at(abi)).contains(&"abstract-unix-not-held abstract unix".to_owned());
    assert_eq!([5, 6, 7].map(scope), [true, false, false]);
    for abi in 0..=7 {
        let plan = at(abi);
        assert!(plan.ruleset.handled.iter().all(|right| right.since() <= abi), "ABI {abi}");
        assert!(net_reasons(&plan).contains(&"udp-not-held udp".to_owned()), "ABI {abi}");
    }
}

#[test]
fn addresses_need_cgroup_programs_and_ports_do_not() {
    let yaml = "net: {allow: ['10.0.0.0/8:5432', '127.0.0.1:80-82']}";
    let plan = plan_of(yaml, &[], 7, Means { syscall_filter: true, ..Means::default() });
    assert_eq!(plan.ruleset.ports.iter().copied().collect::<Vec<_>>(), [80, 81, 82, 5432]);
    assert!(net_reasons(&plan).contains(&"address-not-held 10.0.0.0/8:5432".to_owned()));
    let plan = plan_of(yaml, &[], 7, ALL_MEANS);
    assert_eq!(net_reasons(&plan), [""; 0]);
    assert_eq!(plan.net.unwrap().allow.len(), 2);
}

#[test]
fn an_allowed_name_that_does_not_exist_is_told_unless_a_wider_rule_covers_it() {
    let yaml = "fs: {allow: [{path: /w, access: [read, write]}, {path: /w/new, access: [write]}, {path: /v/new, access: [write]}]}";
    let plan = plan_of(yaml, &[("/w", D), ("/v", D)], 7, ALL_MEANS);
    assert_eq!(reasons(&plan), ["fs allow-not-existing /v/new"]);
}

#[test]
fn sockets_that_no_rule_allows_are_masked() {
    let there = [("/w", D), ("/w/own.sock", F), ("/run/a.sock", F), ("/run/b.sock", F), ("/w/no.sock", F)];
    let yaml = "fs: {allow: [{path: /w, access: [read, write]}]}\nnet: {allow: ['unix:/run/b.sock'], deny: ['unix:/w/no.sock']}";
    let plan = plan_of(yaml, &there, 7, ALL_MEANS);
    let masked: Vec<_> =
        plan.holds.iter().map(|hold| String::from_utf8_lossy(&hold.path).into_owned()).collect();
    assert_eq!(masked, ["/run/a.sock", "/w/no.sock"]);
    assert_eq!(net_reasons(&plan), [""; 0]);
    let plan = plan_of(yaml, &there, 7, Means { mounts: false, ..ALL_MEANS });
    assert_eq!(net_reasons(&plan), ["unix-not-held unix"]);
    assert!(plan.holds.is_empty());
    let plan = plan_of(yaml, &there, 9, ALL_MEANS);
    assert!(plan.holds.iter().all(|hold| hold.path == b"/w/no.sock"), "the kernel itself holds the others");
}

#[test]
fn a_denied_read_inside_an_allowed_listing_is_a_conflict() {
    let yaml = "fs: {allow: [{path: /a, access: [list]}], deny: [/a/b]}";
    let there = [("/a", D), ("/a/b", D)];
    assert_eq!(reasons(&plan_of(yaml, &there, 7, Means::default())), ["fs deny-inside-allow /a/b"]);
    assert_eq!(plan_of(yaml, &there, 7, ALL_MEANS).holds.len(), 1);
}

#[test]
fn without_cgroup_programs_no_network_is_still_no_network() {
    let filter_only = Means { syscall_filter: true, mounts: true, ..Means::default() };
    let plan = plan_of("fs: {allow: [/usr]}", &[("/usr", D)], 7, filter_only);
    assert_eq!((net_reasons(&plan), plan.filter), (Vec::new(), Filter::NoInternet));
    let plan = plan_of("net: {allow: ['127.0.0.1:1']}", &[], 7, filter_only);
    assert_eq!(net_reasons(&plan), ["address-not-held 127.0.0.1:1", "udp-not-held udp"]);
    assert_eq!(plan.filter, Filter::Families);
    assert_eq!(plan_of("fs: {}", &[], 7, ALL_MEANS).filter, Filter::Families);
}

#[test]
fn what_may_be_written_but_not_read_is_hidden_and_told() {
    let yaml = "fs: {allow: [{path: /w, access: [read, write]}, /r], deny: [{path: /w/f, access: [read]}, {path: /r/f, access: [read]}]}";
    let plan = plan_of(yaml, &[("/w", D), ("/w/f", F), ("/r", D), ("/r/f", F)], 7, ALL_MEANS);
    assert_eq!(reasons(&plan), ["fs allow-hidden ${WORKDIR}/f"]);
    assert!(plan.holds.iter().all(|hold| hold.means == MountMeans::MaskFile));
}

#[test]
fn of_the_base_a_run_sees_its_own_processes_only() {
    let proc = |yaml: &str, means| {
        let text = format!("api_version: assay/v1\n{yaml}");
        let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
        let plan = plan(&policy, &Landlock::of_abi(7), &survey_of(&policy, &[("/proc", D)]), means);
        (plan.is_proc_own, reasons(&plan).iter().any(|reason| reason.contains(PROCESSES_VISIBLE)))
    };
    assert_eq!(proc("", ALL_MEANS), (true, false));
    assert_eq!(proc("", Means::default()), (false, true));
    assert_eq!(proc("base: none", ALL_MEANS), (false, false));
    assert_eq!(proc("fs: {allow: [{path: /proc/sys, access: [read, write]}]}", ALL_MEANS), (true, false));
    for asked in ["/proc", "/", "/proc/*/stat", "/proc/1/status", "/**/stat"] {
        let yaml = format!("fs: {{allow: [{{path: '{asked}', access: [read]}}]}}");
        assert_eq!(proc(&yaml, ALL_MEANS), (false, false), "{asked}");
    }
}
