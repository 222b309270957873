//! Many denials → the few lines that a person needs. Pure.
//!
//! What one rule would allow, or one rule denies, is one line with the number of effects it is about. Nothing is left
//! out of the numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::check::Denial;
use super::rule::{Access, yaml_scalar};

/// Lines beyond this are merged by going up the directories, as far as that says anything.
const WANTED: usize = 12;
/// Lines beyond this are only counted.
const MAX: usize = 20;
/// So few of one kind are told one by one.
const FEW: usize = 2;
/// How many names are given of a group that no single rule should allow.
const EXAMPLES: usize = 3;

/// One denial, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// `denied`, or another word for what came of it.
    pub word: &'static str,
    /// Who did it, when that was seen.
    pub by: Option<String>,
    /// What the policy says.
    pub denial: Denial,
}

/// What makes denials one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// `denied`, or another word for what came of it.
    word: &'static str,
    verb: String,
    why: String,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Names beneath a directory, and the list that would allow them.
    Directory(&'static str, String),
    /// Ports of an address.
    Address(String),
    /// Whatever one rule denies.
    Rule,
    /// It stands alone.
    Alone(String),
}

/// The lines.
pub fn tell(denials: Vec<Told>) -> Vec<String> {
    let mut groups = BTreeMap::<Group, Vec<Told>>::new();
    for told in denials {
        groups.entry(group_of(told.word, &told.denial)).or_default().push(told);
    }
    go_up(&mut groups);
    let mut lines: Vec<(usize, String)> =
        groups.iter().flat_map(|(group, denials)| lines_of(group, denials)).collect();
    lines.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let left: usize = lines.iter().skip(MAX).map(|(count, _)| count).sum();
    let mut lines: Vec<String> = lines.into_iter().take(MAX).map(|(_, line)| line).collect();
    if left > 0 {
        lines.push(format!("and {left} more"));
    }
    lines
}

fn group_of(word: &'static str, denial: &Denial) -> Group {
    let (verb, object) = denial.what.split_once(' ').unwrap_or((&denial.what, ""));
    let is_socket = object.starts_with("unix:");
    let list =
        ["fs.allow", "exec.allow"].into_iter().find(|list| denial.remedy.starts_with(list) && !is_socket);
    let place = match (&denial.rule, list) {
        (Some(_), _) => Place::Rule,
        (None, Some(list)) => match parent(object) {
            Some(directory) => Place::Directory(list, directory.to_owned()),
            None => Place::Alone(object.to_owned()),
        },
        (None, None) => match object.rsplit_once(':') {
            Some((address, _))
                if denial.remedy.starts_with("net.allow: - \"") && !address.contains("unix") =>
            {
                Place::Address(address.to_owned())
            }
            _ => Place::Alone(object.to_owned()),
        },
    };
    Group { word, verb: verb.to_owned(), why: denial.why(), place }
}

/// The directory above, unless that is the root.
fn parent(path: &str) -> Option<&str> {
    path.trim_end_matches('/').rsplit_once('/').map(|(directory, _)| directory).filter(|d| !d.is_empty())
}

/// While there are too many lines, directories that share one above them are taken together: the deepest first, and
/// of those where it saves most.
fn go_up(groups: &mut BTreeMap<Group, Vec<Told>>) {
    let lines = |groups: &BTreeMap<Group, Vec<Told>>| -> usize {
        groups.values().map(|denials| if denials.len() > FEW { 1 } else { denials.len() }).sum()
    };
    while lines(groups) > WANTED {
        let mut sharing = BTreeMap::<Group, Vec<Group>>::new();
        for group in groups.keys() {
            for above in std::iter::successors(directory_above(group), directory_above) {
                sharing.entry(above).or_default().push(group.clone());
            }
        }
        sharing.retain(|_, beneath| beneath.len() > 1);
        let Some(level) = sharing.keys().map(depth).max() else { return };
        let mut together: Vec<_> = sharing.into_iter().filter(|(above, _)| depth(above) == level).collect();
        together.sort_by_key(|(_, beneath)| std::cmp::Reverse(beneath.len()));
        for (above, beneath) in together {
            let denials: Vec<_> = beneath.iter().filter_map(|group| groups.remove(group)).flatten().collect();
            groups.entry(above).or_default().extend(denials);
            if lines(groups) <= WANTED {
                return;
            }
        }
    }
}

/// The group of the directory above.
fn directory_above(group: &Group) -> Option<Group> {
    let Place::Directory(list, directory) = &group.place else { return None };
    let place = Place::Directory(list, parent(directory)?.to_owned());
    Some(Group { place, ..group.clone() })
}

fn depth(group: &Group) -> usize {
    match &group.place {
        Place::Directory(_, directory) => directory.matches('/').count(),
        Place::Address(_) | Place::Rule | Place::Alone(_) => 0,
    }
}

/// The lines of a group, each with the number of denials it stands for.
fn lines_of(group: &Group, denials: &[Told]) -> Vec<(usize, String)> {
    let count = denials.len();
    let Group { word, verb, why, place } = group;
    if count <= FEW || matches!(place, Place::Alone(_)) {
        let line = |told: &Told| {
            let Told { denial, by, .. } = told;
            let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            format!("{word}: {}{by}: {}; {}", denial.what, denial.why(), denial.remedy)
        };
        return denials.iter().map(|denial| (1, line(denial))).collect();
    }
    let by = actors(denials);
    let line = match place {
        Place::Rule => format!("{word}: {verb} {count} names{by}: {why}; {}", denials[0].denial.remedy),
        Place::Address(address) => {
            format!("{word}: {verb} {address} at {count} ports{by}: {why}; net.allow: - \"{address}:*\"")
        }
        Place::Directory(_, directory) if is_wide(directory) => format!(
            "{word}: {verb} {count} names in {directory}{by}: {why}; name what is needed, such as {}",
            examples(denials)
        ),
        Place::Directory(list, directory) => {
            let path = yaml_scalar(directory);
            let rule = if *list == "exec.allow" {
                path
            } else {
                let access = Access::ALL.into_iter().find(|access| access.as_str() == verb);
                format!("{{path: {path}, access: [{}]}}", access.unwrap_or(Access::Write).as_str())
            };
            format!("{word}: {verb} {count} names in {directory}{by}: {why}; {list}: - {rule}")
        }
        Place::Alone(_) => return Vec::new(),
    };
    vec![(count, line)]
}

/// Whether to allow the directory would open what nobody means to open for a few names in it.
fn is_wide(directory: &str) -> bool {
    let is_home_of = directory.strip_prefix("/home/").is_some_and(|name| !name.contains('/'));
    is_home_of
        || matches!(directory, "${HOME}" | "/home" | "/root" | "/etc" | "/var" | "/usr" | "/proc" | "/sys")
        || matches!(directory, "/run" | "/dev" | "/tmp" | "/opt" | "/srv" | "/mnt" | "/media" | "/boot")
}

/// Some of those who did it.
fn actors(denials: &[Told]) -> String {
    let actors: BTreeSet<&str> = denials.iter().filter_map(|told| told.by.as_deref()).collect();
    if actors.is_empty() {
        return String::new();
    }
    let more = if actors.len() > EXAMPLES { " …" } else { "" };
    let named: Vec<&str> = actors.into_iter().take(EXAMPLES).collect();
    format!(" by {}{more}", named.join(", "))
}

fn examples(denials: &[Told]) -> String {
    let names: Vec<&str> = denials
        .iter()
        .take(EXAMPLES)
        .map(|told| told.denial.what.as_str())
        .map(|what| what.split_once(' ').map_or(what, |(_, object)| object))
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::load::{Context, NoFiles, load_bytes};
    use crate::policy::{Policy, Request, Verdict, check::Inet, judge};

    fn policy() -> Policy {
        let text = "api_version: assay/v1\nbase: none\nfs: {allow: [/a], deny: [/a/secret]}\n";
        load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap()
    }

    fn denials(requests: &[Request<'_>]) -> Vec<Told> {
        let policy = policy();
        let denied = |request: &Request<'_>| match judge(&policy, *request) {
            Verdict::Denied(denial) => Told { word: "not authorised", by: None, denial },
            Verdict::Allowed { .. } => panic!("{request:?} is allowed"),
        };
        requests.iter().map(denied).collect()
    }

    #[test]
    fn who_did_it_is_named_and_of_many_some() {
        let mut few = denials(&[Request::File(Access::Write, b"/x/a")]);
        few[0].by = Some("/usr/bin/cp (pid 7)".into());
        assert_eq!(
            tell(few),
            [
                "not authorised: write /x/a by /usr/bin/cp (pid 7): no rule allows it; fs.allow: - {path: /x/a, access: [write]}"
            ]
        );
        let names: Vec<Vec<u8>> = (0..5).map(|number| format!("/x/y/{number}").into_bytes()).collect();
        let requests: Vec<_> = names.iter().map(|name| Request::File(Access::Write, name)).collect();
        let mut many = denials(&requests);
        for (number, told) in many.iter_mut().enumerate() {
            told.by = Some(format!("cp (pid {number})"));
        }
        let lines = tell(many);
        assert!(
            lines[0].contains("write 5 names in /x/y by cp (pid 0), cp (pid 1), cp (pid 2) …: no rule"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_few_are_told_one_by_one() {
        let lines = tell(denials(&[
            Request::File(Access::Write, b"/x/b"),
            Request::File(Access::Read, b"/x/a"),
            Request::File(Access::Write, b"/x/a"),
        ]));
        assert_eq!(
            lines,
            [
                "not authorised: read /x/a: no rule allows it; fs.allow: - {path: /x/a, access: [read]}",
                "not authorised: write /x/b: no rule allows it; fs.allow: - {path: /x/b, access: [write]}",
                "not authorised: write /x/a: no rule allows it; fs.allow: - {path: /x/a, access: [write]}",
            ]
        );
    }

    #[test]
    fn four_hundred_are_the_lines_to_add_and_each_is_counted() {
        let mut paths = Vec::new();
        for directory in 0..100 {
            for name in 0..3 {
                paths.push(format!("/data/set/{directory}/{name}"));
            }
        }
        paths.extend((0..60).map(|name| format!("/a/secret/{name}")));
        paths.extend((0..37).map(|name| format!("/home/u/.cache/{name}/x")));
        paths.extend((0..3).map(|name| format!("/{name}")));
        let mut requests: Vec<_> =
            paths.iter().map(|path| Request::File(Access::Write, path.as_bytes())).collect();
        for port in 1..5 {
            let address = Some(std::net::IpAddr::from([192, 0, 2, 1]));
            requests.push(Request::Inet(Inet { is_local: false, address, host: None, port: Some(port) }));
        }
        assert_eq!(
            tell(denials(&requests)),
            [
                "not authorised: write 300 names in /data/set: no rule allows it; fs.allow: - {path: /data/set, access: [write]}",
                "not authorised: write 60 names: denied by `/a/secret` (p:3:26); a deny always wins: remove or narrow `/a/secret` at p:3:26",
                "not authorised: write 37 names in ${HOME}/.cache: no rule allows it; fs.allow: - {path: '${HOME}/.cache', access: [write]}",
                "not authorised: connect 192.0.2.1 at 4 ports: no rule allows it; net.allow: - \"192.0.2.1:*\"",
                "not authorised: write /0: no rule allows it; fs.allow: - {path: /0, access: [write]}",
                "not authorised: write /1: no rule allows it; fs.allow: - {path: /1, access: [write]}",
                "not authorised: write /2: no rule allows it; fs.allow: - {path: /2, access: [write]}",
            ]
        );
    }

    #[test]
    fn a_directory_is_not_taken_together_with_the_one_above_it_while_others_can_be() {
        let mut paths: Vec<String> = (0..30).map(|name| format!("/data/a/set/{}/{name}", name / 3)).collect();
        paths.push("/data/a/set".into());
        paths.extend((0..60).map(|name| format!("/b/{}/x/{name}", name / 4)));
        let requests: Vec<_> =
            paths.iter().map(|path| Request::File(Access::Write, path.as_bytes())).collect();
        let lines = tell(denials(&requests));
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("not authorised: write 60 names in /b: "), "{lines:?}");
        assert!(lines[1].starts_with("not authorised: write 30 names in /data/a/set: "), "{lines:?}");
        assert!(lines[2].starts_with("not authorised: write /data/a/set: "), "{lines:?}");
    }

    #[test]
    fn a_bind_is_not_told_as_a_connect() {
        use crate::profile::effect::{Effect, EffectResult, NetEffect, NetEffectOp};
        let effect = |op| {
            Effect::net(NetEffect {
                op,
                proto: "unix".into(),
                host: None,
                host_from: None,
                address: Some(crate::profile::name::Name::from_bytes(b"/x/s")),
                port: None,
                result: EffectResult::Denied,
            })
        };
        let what = |op| match crate::policy::judge_effect(&policy(), &effect(op), &[]) {
            Verdict::Denied(denial) => denial.what,
            Verdict::Allowed { .. } => panic!("allowed"),
        };
        assert_eq!(what(NetEffectOp::Bind), "bind unix:/x/s");
        assert_eq!(what(NetEffectOp::Connect), "connect unix:/x/s");
    }

    #[test]
    fn what_is_not_told_is_counted_and_nothing_wide_is_suggested() {
        let paths: Vec<String> = (0..57).map(|name| format!("/{name}")).collect();
        let requests: Vec<_> =
            paths.iter().map(|path| Request::File(Access::Read, path.as_bytes())).collect();
        let lines = tell(denials(&requests));
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (21, "and 37 more"));
        let paths: Vec<String> = (0..9).map(|name| format!("/home/u/{name}")).collect();
        let requests: Vec<_> =
            paths.iter().map(|path| Request::File(Access::Read, path.as_bytes())).collect();
        assert_eq!(
            tell(denials(&requests)),
            [
                "not authorised: read 9 names in ${HOME}: no rule allows it; name what is needed, such as ${HOME}/0, ${HOME}/1, ${HOME}/2"
            ]
        );
    }

    #[test]
    fn a_line_that_would_allow_is_one_that_is_taken() {
        let policy = policy();
        for (access, path) in [
            (Access::List, "/x/d"),
            (Access::Read, "/x/a b"),
            (Access::Write, "/x/[b*"),
            (Access::Execute, "/x/it's"),
        ] {
            let Verdict::Denied(denial) = judge(&policy, Request::File(access, path.as_bytes())) else {
                panic!("{path} is allowed")
            };
            let line = denial.remedy.strip_prefix("fs.allow: ").unwrap();
            let text = format!("api_version: assay/v1\nbase: none\nfs:\n  allow:\n  {line}\n");
            let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles)
                .unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
            assert!(judge(&policy, Request::File(access, path.as_bytes())).is_allowed(), "{text}");
        }
        let remedy = |path: &[u8]| match judge(&policy, Request::File(Access::List, path)) {
            Verdict::Denied(denial) => denial.remedy,
            Verdict::Allowed { .. } => panic!("allowed"),
        };
        assert_eq!(
            remedy(b"/"),
            "fs.allow: - {path: /, access: [list]} would open the whole host, not only `/`: name what is needed beneath it"
        );
        assert!(remedy(b"/home/u").ends_with("would open the whole home: name what is needed beneath it"));
    }
}
