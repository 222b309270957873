//! A denied name that is a symbolic link → what is mounted on the link itself. Pure.
//!
//! A deny on a link is a deny on what it leads to, and on the link's own name: who may put something else there is
//! not held by the deny. What is shown in its place is under the grants of that place, so a file is shown there with
//! no access that the policy does not give it where it lies.

use super::mounts::{Means, Shown};
use super::survey::Kind;
use crate::policy::check::{Request, judge};
use crate::policy::rule::{Access, AccessSet, Policy};

/// What holds a link that leads to `target` (nowhere, if `None`) against `denied`. `None` when nothing can.
pub fn show(policy: &Policy, target: Option<&(Vec<u8>, Kind)>, denied: AccessSet) -> Option<(Means, Shown)> {
    let allows = |request| judge(policy, request).is_allowed();
    match target {
        _ if denied.has(Access::Read) => Some((Means::MaskFile, Shown::Nothing)),
        None => Some((Means::MaskFile, Shown::Nothing)),
        Some((to, Kind::File)) if allows(Request::File(Access::Read, to)) => {
            let may_write = !denied.has(Access::Write) && allows(Request::File(Access::Write, to));
            let may_run = !denied.has(Access::Execute) && allows(Request::Exec(to));
            let means = match (may_write, may_run) {
                (_, true) => Means::ReadOnly,
                (false, false) => Means::ReadOnlyNoExecution,
                (true, false) => Means::NoExecution,
            };
            Some((means, Shown::File(to.clone())))
        }
        // A directory cannot be mounted on a link.
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::load::{Context, NoFiles, load_bytes};

    #[test]
    fn a_file_is_shown_with_no_access_that_it_has_not_where_it_lies() {
        let text = "api_version: assay/v1\nbase: none\nfs:\n  allow: [{path: /r, access: [read]}, {path: /rw, access: [read, write]}, /rx]\n";
        let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
        let show =
            |to: &str, kind, denied| super::show(&policy, Some(&(to.into(), kind)), AccessSet::of(denied));
        let file = |to: &str| Shown::File(to.into());
        assert_eq!(show("/r/f", Kind::File, Access::Write), Some((Means::ReadOnlyNoExecution, file("/r/f"))));
        assert_eq!(show("/rx/f", Kind::File, Access::Write), Some((Means::ReadOnly, file("/rx/f"))));
        assert_eq!(show("/rw/f", Kind::File, Access::Execute), Some((Means::NoExecution, file("/rw/f"))));
        assert_eq!(
            show("/r/f", Kind::File, Access::Execute),
            Some((Means::ReadOnlyNoExecution, file("/r/f")))
        );
        // Not even shown: it may not be read where it lies.
        assert_eq!(show("/secret", Kind::File, Access::Write), None);
        assert_eq!(show("/rw/d", Kind::Directory, Access::Write), None);
        assert_eq!(show("/secret", Kind::File, Access::Read), Some((Means::MaskFile, Shown::Nothing)));
        assert_eq!(
            super::show(&policy, None, AccessSet::of(Access::Write)),
            Some((Means::MaskFile, Shown::Nothing))
        );
    }
}
