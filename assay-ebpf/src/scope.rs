//! Whose record a task's acts belong to: the first thing every program asks, for every task of the host.

use assay_common::served::ONLY_RUN;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::bpf_get_current_ancestor_cgroup_id;
use aya_ebpf::maps::HashMap;

use crate::kernel::{off, read, setting};
use crate::maps::{LEAVERS, LEAVING, PROCESSES, RUNS};
use crate::served::{element, give_back, is_live, take_place};
use crate::traffic::add_atomically;

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
    if let Some(run) = by_group() {
        return Some(Membership { run, is_outside: false });
    }
    // SAFETY: a flag that only userspace sets back; a stale zero is possible only before the first departure's own record.
    if unsafe { core::ptr::read_volatile(&raw const LEAVING) } == 0 {
        return None;
    }
    let pid = (bpf_get_current_pid_tgid() >> 32) as u32;
    // SAFETY: the value is a number that is read at once.
    let run = *unsafe { LEAVERS.get(&pid) }?;
    if is_live(run) { Some(Membership { run, is_outside: true }) } else { None }
}

/// The run whose group the current task is in. One question to the kernel and one comparison, for every call of every other
/// task of the host.
#[inline(always)]
fn by_group() -> Option<u32> {
    let level = setting!(level) as i32;
    if setting!(slots) == 0 {
        let only = setting!(group);
        return if only != 0 && group_at(level) == only { Some(ONLY_RUN) } else { None };
    }
    if group_at(level - 1) != setting!(parent) {
        return None;
    }
    // SAFETY: the value is a number that is read at once.
    unsafe { RUNS.get(&group_at(level)) }.copied()
}

/// The group that the current task is in at this depth; 0 for a task above it.
#[inline(always)]
fn group_at(level: i32) -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_current_ancestor_cgroup_id(level) }
}

/// The run of another task, by its group.
#[inline(always)]
pub fn of_task(task: u64) -> Option<u32> {
    of_group(group_of(task))
}

/// The group of a task.
#[inline(always)]
fn group_of(task: u64) -> u64 {
    let css: u64 = read(task + off!(task_cgroups));
    read(css + off!(css_dfl))
}

/// Whether a group is of the hierarchy that the runs' groups are of, and not of one of the first version's.
#[inline(always)]
pub fn is_of_hierarchy(group: u64, task: u64) -> bool {
    read::<u64>(group + off!(cgroup_root)) == read::<u64>(group_of(task) + off!(cgroup_root))
}

/// The run whose group this is, or one above it.
#[inline(always)]
pub fn of_group(group: u64) -> Option<u32> {
    let level = setting!(level);
    if read::<u32>(group + off!(cgroup_level)) < level {
        return None;
    }
    let ancestor: u64 = read(group + off!(cgroup_ancestors) + u64::from(level) * 8);
    let node: u64 = read(ancestor + off!(cgroup_kn));
    let id: u64 = read(node + off!(kn_id));
    // SAFETY: a number that is read at once.
    unsafe { RUNS.get(&id) }.copied()
}

/// Remembers a process that left its run's group.
#[inline(always)]
pub fn remember_leaver(pid: u32, run: u32) {
    keep_process(pid, run, 1);
    // SAFETY: a lost update still leaves it above zero, which is all that is asked of it.
    unsafe { core::ptr::write_volatile(&raw mut LEAVING, 1) };
}

/// Remembers a process as one of a run's: the second net, beside the group.
#[inline(always)]
pub fn remember_process(pid: u32, run: u32) {
    keep_process(pid, run, 0);
}

/// Puts a process among its run's, or among those that left it, where there is room for it. See [`crate::kernel`] for why
/// it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn keep_process(pid: u32, run: u32, has_left: u32) -> u32 {
    let Some(served) = element(run) else { return 0 };
    let is_known = if has_left != 0 { is_entry(&LEAVERS, pid, run) } else { is_entry(&PROCESSES, pid, run) };
    if is_known {
        return 0;
    }
    // SAFETY: an element of a map, which is never moved.
    let (processes, unkept, leavers) =
        unsafe { (&raw mut (*served).processes, &raw mut (*served).unkept, &raw mut (*served).leavers) };
    if has_left != 0 {
        // A departure that is not kept is admitted by its record: whatever happens after it is outside the group.
        if take_place(leavers, setting!(leavers)) && LEAVERS.insert(&pid, &run, 0).is_err() {
            give_back(leavers);
        }
        return 0;
    }
    if take_place(processes, setting!(processes)) {
        if PROCESSES.insert(&pid, &run, 0).is_ok() {
            return 0;
        }
        give_back(processes);
    }
    // SAFETY: as above.
    unsafe { add_atomically(unkept, 1) };
    0
}

#[inline(always)]
fn is_entry(map: &HashMap<u32, u32>, pid: u32, run: u32) -> bool {
    // SAFETY: a number that is read at once.
    unsafe { map.get(&pid) }.is_some_and(|known| *known == run)
}

/// The run a process was born into.
#[inline(always)]
pub fn run_of_process(pid: u32) -> Option<u32> {
    // SAFETY: as above.
    let run = *unsafe { PROCESSES.get(&pid) }?;
    if is_live(run) { Some(run) } else { None }
}

/// Forgets a process that ends.
#[inline(always)]
pub fn forget_process(pid: u32) {
    forget_kept(pid);
}

/// See [`forget_process`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn forget_kept(pid: u32) -> u32 {
    // SAFETY: numbers that are read at once, and elements of a map, which are never moved.
    unsafe {
        if let Some(run) = PROCESSES.get(&pid).copied()
            && PROCESSES.remove(&pid).is_ok()
            && is_live(run)
            && let Some(served) = element(run)
        {
            give_back(&raw mut (*served).processes);
        }
        if let Some(run) = LEAVERS.get(&pid).copied()
            && LEAVERS.remove(&pid).is_ok()
            && is_live(run)
            && let Some(served) = element(run)
        {
            give_back(&raw mut (*served).leavers);
        }
    }
    0
}
