//! Whether programs at the hooks of the kernel's security modules can be loaded here: what the second witness needs.

use super::Fact;
use super::bpf_syscall::may_load_hooks;
use super::probe::probe_lsms;

/// Why they cannot be; nothing where nothing is known against them. Two look-ups, so that a kernel that refuses them costs a
/// run no more than these.
pub fn obstacle() -> Option<String> {
    obstacle_of(&probe_lsms(), || may_load_hooks().err().map(|error| error.to_string()))
}

/// Where the list of modules cannot be read, a run finds out by its own start, which passes a hook.
fn obstacle_of(lsms: &Fact<Vec<String>>, trial: impl FnOnce() -> Option<String>) -> Option<String> {
    if lsms.known().is_some_and(|names| !names.iter().any(|name| name == "bpf")) {
        return Some("bpf is not among the active security modules".into());
    }
    trial().map(|refusal| format!("the kernel refuses such programs: {refusal}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_whose_hooks_would_not_be_called_is_not_tried() {
        let without = Fact::Known(vec!["landlock".to_owned()]);
        let reason = obstacle_of(&without, || unreachable!("it is known already"));
        assert_eq!(reason.as_deref(), Some("bpf is not among the active security modules"));
    }

    #[test]
    fn where_nothing_is_known_against_them_the_kernel_is_asked() {
        let with = Fact::Known(vec!["landlock".to_owned(), "bpf".to_owned()]);
        let unknown = Fact::Unknown("securityfs is not mounted".to_owned());
        for lsms in [&with, &unknown] {
            assert_eq!(obstacle_of(lsms, || None), None);
            let refused = obstacle_of(lsms, || Some("no".into()));
            assert_eq!(refused.as_deref(), Some("the kernel refuses such programs: no"));
        }
    }
}
