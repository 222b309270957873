//! The policies that come with the program, as text in the language of every other policy. Pure.

/// How problems and rules of the base are named.
pub const BASE_NAME: &str = "base:system";
/// What `base: system` adds.
pub const BASE: &str = include_str!("base-system.yaml");
/// How the built-in policy is named.
pub const MINIMAL_NAME: &str = "builtin:minimal";
/// The built-in minimal policy.
pub const MINIMAL: &str = include_str!("minimal.yaml");

/// The paths that the built-in minimal policy denies, in the form of a name of the identity (`${WORKDIR}/.git/hooks`),
/// and whether it denies only writing.
pub fn denied_paths() -> Vec<(String, bool)> {
    let Ok(value) = crate::canon::yaml::read(MINIMAL) else { return Vec::new() };
    let fs = value.as_object().and_then(|root| root.get("fs")).and_then(|fs| fs.as_object());
    let denies = fs.and_then(|fs| fs.get("deny")).and_then(|deny| deny.as_array()).unwrap_or_default();
    let entry = |rule: &crate::canon::value::Value| {
        let object = rule.as_object();
        let path = rule.as_str().or_else(|| object.and_then(|object| object.str("path")))?;
        let path = match path.strip_prefix("~/") {
            Some(rest) => format!("${{HOME}}/{rest}"),
            None if path.starts_with(['/', '$']) => path.to_owned(),
            None => format!("${{WORKDIR}}/{path}"),
        };
        // Whatever names an access in it names `write`.
        Some((path, object.is_some()))
    };
    denies.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_denied_paths_are_spelt_as_names() {
        let paths = denied_paths();
        assert!(paths.contains(&("${WORKDIR}/.git/hooks".into(), true)));
        assert!(paths.contains(&("${HOME}/.ssh".into(), false)));
        assert!(paths.contains(&("/etc/shadow".into(), false)));
        assert!(paths.contains(&("/etc/ssh/ssh_host_*".into(), false)));
        assert!(paths.contains(&("${RUNTIME_DIR}/bus".into(), false)));
        assert!(paths.contains(&("/tmp/ssh-*/agent.*".into(), false)));
        assert!(paths.len() > 80, "{}", paths.len());
    }

    #[test]
    fn the_agents_of_others_stay_closed_where_their_directory_is_open() {
        use crate::policy::check::{Request, Verdict, judge};
        use crate::policy::load::{Context, NoFiles, load_bytes};

        let text = "api_version: assay/v1\nextends: [builtin:minimal]\nfs: {allow: [{path: /tmp, access: [read, write]}]}\n";
        let policy = load_bytes(b"p.yaml", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
        let verdict = |path: &str| judge(&policy, Request::UnixPath(path.as_bytes()));
        let Verdict::Denied(denial) = verdict("/tmp/ssh-XyZ012345678/agent.4711") else { panic!("allowed") };
        assert_eq!(denial.rule.map(|(rule, _)| rule), Some("/tmp/ssh-*/agent.*".to_owned()));
        assert!(verdict("/tmp/ssh-XyZ012345678/other").is_allowed());
        assert!(verdict("/tmp/x/agent.4711").is_allowed());
    }
}
