//! Whose record a task's acts belong to: the first thing every program asks, for every task of the host.

use assay_common::offsets::ONLY_RUN;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::bpf_get_current_ancestor_cgroup_id;

use crate::kernel::{off, read, setting};
use crate::maps::{LEAVER_COUNT, LEAVERS, PROCESSES, RUNS};

/// A task's membership.
#[derive(Clone, Copy)]
pub struct Membership {
    /// The run's number.
    pub run: u32,
    /// Whether the task has left the run's group.
    pub is_outside: bool,
}

/// The run of the current task, by its group or one above it; or by the list of those that left.
#[inline(always)]
pub fn current() -> Option<Membership> {
    let level = setting!(level) as i32;
    // SAFETY: the helper has no preconditions; it answers 0 for a task above that level.
    let group = unsafe { bpf_get_current_ancestor_cgroup_id(level) };
    let only = setting!(group);
    if only != 0 {
        // One comparison for every call of every other task of the host.
        if group == only {
            return Some(Membership { run: ONLY_RUN, is_outside: false });
        }
    } else if group != 0 {
        // SAFETY: the value is a number that is read at once; entries are removed only after the run has ended.
        if let Some(run) = unsafe { RUNS.get(&group) } {
            return Some(Membership { run: *run, is_outside: false });
        }
    }
    // SAFETY: a counter that only grows; a stale zero is possible only before the first departure's own record.
    if unsafe { core::ptr::read_volatile(&raw const LEAVER_COUNT) } == 0 {
        return None;
    }
    let pid = (bpf_get_current_pid_tgid() >> 32) as u32;
    // SAFETY: as above.
    unsafe { LEAVERS.get(&pid) }.map(|run| Membership { run: *run, is_outside: true })
}

/// The run of another task, by its group.
#[inline(always)]
pub fn of_task(task: u64) -> Option<u32> {
    let css: u64 = read(task + off!(task_cgroups));
    let group: u64 = read(css + off!(css_dfl));
    let level = setting!(level);
    if read::<u32>(group + off!(cgroup_level)) < level {
        return None;
    }
    let ancestor: u64 = read(group + off!(cgroup_ancestors) + u64::from(level) * 8);
    let node: u64 = read(ancestor + off!(cgroup_kn));
    let id: u64 = read(node + off!(kn_id));
    // SAFETY: as in `current`.
    unsafe { RUNS.get(&id) }.copied()
}

/// Remembers a process that left its run's group.
#[inline(always)]
pub fn remember_leaver(pid: u32, run: u32) {
    // A full map is admitted by the `Leave` record itself: whatever happens after it is outside the group.
    let _ = LEAVERS.insert(&pid, &run, 0);
    // SAFETY: a lost update still leaves the counter above zero, which is all that is asked of it.
    unsafe { core::ptr::write_volatile(&raw mut LEAVER_COUNT, 1) };
}

/// Remembers a process as one of a run's: the second net, beside the group.
#[inline(always)]
pub fn remember_process(pid: u32, run: u32) {
    // A full map means that a departure of this process would go unnoticed; userspace sees how many there are.
    let _ = PROCESSES.insert(&pid, &run, 0);
}

/// The run a process was born into.
#[inline(always)]
pub fn run_of_process(pid: u32) -> Option<u32> {
    // SAFETY: as in `current`.
    unsafe { PROCESSES.get(&pid) }.copied()
}

/// Forgets a process that ends.
#[inline(always)]
pub fn forget_process(pid: u32) {
    // Not being there is as good as being removed.
    let _ = PROCESSES.remove(&pid);
    let _ = LEAVERS.remove(&pid);
}
