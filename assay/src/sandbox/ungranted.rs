//! Which refused acts Landlock refused though the policy allows them: what was not there when the run began could not be
//! granted. Pure.

use std::collections::BTreeMap;

use crate::enforce::grant::Ruleset;
use crate::enforce::split::{is_at_or_beneath, is_beneath};
use crate::host::Right;
use crate::policy::check::path_of_name;
use crate::profile::effect::{Effect, FsOp};
use crate::profile::identity::Fold;
use crate::profile::name::{Name, unescape};

/// What to do about it.
pub const REMEDY: &str =
    "it was not there when the run began, and could not be granted; allow the directory it is in";

/// The paths that the names of a run stand for.
#[derive(Debug, Default)]
pub struct Paths {
    folded: BTreeMap<Name, Vec<Vec<u8>>>,
    roots: Vec<(String, Vec<u8>)>,
}

impl Paths {
    /// Those of a record with these folds and roots.
    pub fn of(folds: &[Fold], roots: &[(String, Vec<u8>)]) -> Self {
        let mut folded = BTreeMap::<_, Vec<_>>::new();
        for fold in folds {
            folded.entry(fold.to.clone()).or_default().extend(unescape(&fold.from));
        }
        Self { folded, roots: roots.to_vec() }
    }

    fn behind(&self, name: &Name) -> Vec<Vec<u8>> {
        self.folded.get(name).cloned().unwrap_or_else(|| vec![path_of_name(name, &self.roots)])
    }
}

/// Where a right must be granted for an act on a name.
#[derive(Debug, Clone, Copy)]
enum Where {
    /// At the name or above it.
    There,
    /// Above it: names are their directory's.
    Above,
}

/// Whether no grant of the ruleset covers this effect, so that Landlock refuses it whatever else would.
///
/// A name that stands for several paths counts when none of them is covered.
pub fn is_ungranted(ruleset: &Ruleset, effect: &Effect, paths: &Paths) -> bool {
    let misses = |name: &Name, right: Right, place: Where| {
        ruleset.handled.contains(&right)
            && paths
                .behind(name)
                .iter()
                .all(|path| path.starts_with(b"/") && !grants(ruleset, path, right, place))
    };
    match effect {
        Effect::Exec(exec) => misses(&exec.path, Right::Execute, Where::There),
        Effect::Net(_) => false,
        Effect::Fs(fs) => {
            let at_to = |right| fs.to.as_ref().is_some_and(|to| misses(to, right, Where::Above));
            match fs.op {
                FsOp::Read => misses(&fs.path, Right::ReadFile, Where::There),
                FsOp::List => misses(&fs.path, Right::ReadDir, Where::There),
                FsOp::Write => misses(&fs.path, Right::WriteFile, Where::There),
                // Who may make one kind of name may make every kind.
                FsOp::Create | FsOp::Symlink => misses(&fs.path, Right::MakeReg, Where::Above),
                FsOp::Delete => misses(&fs.path, Right::RemoveFile, Where::Above),
                FsOp::Rename => misses(&fs.path, Right::RemoveFile, Where::Above) || at_to(Right::MakeReg),
                FsOp::Link => at_to(Right::MakeReg),
                FsOp::Attr | FsOp::Mount => false,
            }
        }
    }
}

fn grants(ruleset: &Ruleset, path: &[u8], right: Right, place: Where) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    ruleset.paths.iter().filter(|(_, rights)| rights.contains(&right)).any(|(granted, _)| match place {
        Where::There => is_at_or_beneath(path, granted),
        Where::Above => is_beneath(path, granted),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::effect::{EffectResult, FsEffect};

    fn ruleset() -> Ruleset {
        let mut ruleset = Ruleset::default();
        ruleset.handled.extend([Right::ReadFile, Right::WriteFile, Right::MakeReg, Right::RemoveFile]);
        ruleset.grant(b"/w", [Right::ReadFile].into());
        ruleset.grant(b"/w/a.log", [Right::ReadFile, Right::WriteFile].into());
        ruleset.grant(b"/proc/7/maps", [Right::ReadFile].into());
        ruleset.grant(b"/tmp", [Right::ReadFile, Right::WriteFile, Right::MakeReg, Right::RemoveFile].into());
        ruleset
    }

    fn check(op: FsOp, path: &str, to: Option<&str>, expect: bool) {
        let paths = Paths {
            folded: [
                (Name::from_canonical("/proc/${PID}/maps"), vec![b"/proc/8/maps".to_vec()]),
                (
                    Name::from_canonical("/proc/${OTHER_PID}/maps"),
                    vec![b"/proc/7/maps".to_vec(), b"/proc/9/maps".to_vec()],
                ),
            ]
            .into(),
            roots: vec![("WORKDIR".into(), b"/w".to_vec())],
        };
        let name = |text: &str| Name::from_canonical(text);
        let effect =
            Effect::Fs(FsEffect { op, path: name(path), to: to.map(name), result: EffectResult::Denied });
        assert_eq!(is_ungranted(&ruleset(), &effect, &paths), expect, "{op:?} {path} {to:?}");
    }

    #[test]
    fn what_no_grant_covers_is_ours() {
        check(FsOp::Write, "${WORKDIR}/a.log", None, false);
        check(FsOp::Write, "${WORKDIR}/b.log", None, true);
        check(FsOp::Create, "${WORKDIR}/b.log", None, true);
        check(FsOp::Delete, "${WORKDIR}/a.log", None, true);
        check(FsOp::Create, "/tmp/b/", None, false);
        check(FsOp::Rename, "/tmp/a", Some("/tmp/b"), false);
        check(FsOp::Rename, "/tmp/a", Some("${WORKDIR}/b"), true);
        check(FsOp::Link, "${WORKDIR}/a.log", Some("/tmp/b"), false);
        check(FsOp::Read, "${WORKDIR}/c", None, false);
    }

    #[test]
    fn a_name_that_stands_for_several_is_ours_when_none_was_granted() {
        check(FsOp::Read, "/proc/${PID}/maps", None, true);
        check(FsOp::Read, "/proc/${OTHER_PID}/maps", None, false);
    }

    #[test]
    fn what_is_not_handled_or_has_no_path_is_not_ours() {
        check(FsOp::List, "/etc", None, false);
        check(FsOp::Attr, "/etc/x", None, false);
        check(FsOp::Read, "pipe:", None, false);
    }
}
