//! What the sandbox put in the way of a run, and which acts ended there. Pure.

use std::collections::BTreeSet;

use crate::observe::observation::{CallResult, PathRef};

use super::acts::{ActClass, Need, row};
use super::roots::{is_beneath, parent};

const ENOENT: i32 = 2;
const EXDEV: i32 = 18;
const EBUSY: i32 = 16;

/// What the sandbox put in the way: an act that ended there was denied by the policy, whatever errno the child got.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Barriers {
    /// Paths hidden behind a mask or placeholder: every act on them or beneath that failed, and reading the mask itself.
    pub masked: Vec<Vec<u8>>,
    /// Paths under a read-only mount of ours, and directories pinned above a deny: acts that need `write` and failed.
    pub read_only: Vec<Vec<u8>>,
    /// Processes outside the run, of which its `/proc` shows nothing: there, nothing is found.
    pub hidden_processes: BTreeSet<u32>,
    /// Whether the command was given a directory: by it the host's mounts are reached, where none of this stands.
    pub has_given_directories: bool,
    /// Whether a Landlock ruleset is in force, whose refusal of a rename or link is EXDEV.
    pub is_landlocked: bool,
    /// The mount points of the child's tree: EXDEV between two of them is the kernel's own.
    pub mount_points: Vec<Vec<u8>>,
}

impl Barriers {
    /// Whether an act that came out like this ended on one of them. `is_of_run` says which processes are the run's own.
    pub fn refuse(
        &self,
        class: ActClass,
        result: CallResult,
        path: &PathRef,
        to: Option<&PathRef>,
        is_of_run: &dyn Fn(u32) -> bool,
    ) -> bool {
        let names = || std::iter::once(path).chain(to.filter(|_| class != ActClass::Symlink));
        let hits = |held: &Vec<Vec<u8>>| {
            !held.is_empty() && names().any(|name| held.iter().any(|held| is_beneath(&name.bytes, held)))
        };
        let CallResult::Errno(errno) = result else {
            // Of the mask itself there is something to read: nothing. What succeeded otherwise did not meet it, but went
            // by a directory that was given to the command; where there is one, looking may have gone by it too.
            let is_look = matches!(class, ActClass::OpenRead | ActClass::OpenList);
            return is_look && !self.has_given_directories && self.masked.contains(&path.bytes);
        };
        if hits(&self.masked) {
            return true;
        }
        if errno == ENOENT && names().any(|name| self.is_hidden_process(&name.bytes, is_of_run)) {
            return true;
        }
        // Above what is held no directory is empty: removing it fails without us too, only by another errno.
        let is_above = |point: &Vec<u8>| point.len() > path.bytes.len() && is_beneath(point, &path.bytes);
        if errno == EBUSY && class == ActClass::Delete && self.mount_points.iter().any(is_above) {
            return false;
        }
        let is_refusal = matches!(errno, 1 | 13 | 30 | EBUSY | EXDEV);
        if is_refusal && row(class).path.contains(&Need::Write) && hits(&self.read_only) {
            return true;
        }
        errno == EXDEV
            && self.is_landlocked
            && matches!(class, ActClass::Rename | ActClass::Link)
            && to.is_some_and(|to| self.is_on_one_mount(&path.bytes, &to.bytes))
    }

    fn is_hidden_process(&self, path: &[u8], is_of_run: &dyn Fn(u32) -> bool) -> bool {
        let number = path.strip_prefix(b"/proc/").and_then(|rest| rest.split(|&byte| byte == b'/').next());
        let number = number.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        number.is_some_and(|number| self.hidden_processes.contains(&number) && !is_of_run(number))
    }

    /// Whether both names lie on one mount, as far as the mount points are known.
    fn is_on_one_mount(&self, one: &[u8], other: &[u8]) -> bool {
        let mount = |path: &[u8]| {
            let points = self.mount_points.iter();
            points.filter(|point| is_beneath(parent(path), point)).map(Vec::len).max()
        };
        mount(one) == mount(other)
    }
}
