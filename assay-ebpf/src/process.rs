//! Programs and tasks: start, birth, end, and leaving the group.

use assay_common::kind::{RecordKind, SectionTag};
use assay_common::limits::ARGV_LEN;
use assay_common::loss;
use assay_common::names::tail;
use assay_common::record::flags;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::chain::{put_chain, put_facts};
use crate::emit::{scratch, submit};
use crate::kernel::{current_task, off, place_of, read};
use crate::maps::{TAILS, mode};
use crate::scope;
use crate::start::{AT_FDCWD, Text, Which, prepare};

/// `sched_process_exec(task, old_pid, bprm)`: the new image is in place, its arguments have just been written.
#[raw_tracepoint]
pub fn process_exec(ctx: RawTracePointContext) -> i32 {
    let Some(member) = scope::current() else { return 0 };
    let Some(scratch) = scratch() else { return 0 };
    let old_tid: i32 = ctx.arg(1);
    let bprm: u64 = ctx.arg(2);
    let task = current_task();
    let parent: u64 = read(task + off!(task_real_parent));
    let header = scratch.begin(RecordKind::Exec, 0, loss::EXEC, member);
    header.ret = i64::from(old_tid);
    header.ppid = read(parent + off!(task_tgid));
    scope::remember_process(header.pid, member.run);
    crate::served::begin(member.run);
    let file: u64 = read(bprm + off!(bprm_file));
    let (dentry, mnt) = place_of(file);
    put_chain(SectionTag::ImageChain, 0, dentry, mnt);
    put_facts(file);
    let mm: u64 = read(task + off!(task_mm));
    let start: u64 = read(mm + off!(mm_arg_start));
    let end: u64 = read(mm + off!(mm_arg_end));
    scratch.put_user_bytes::<ARGV_LEN>(SectionTag::Argv, start, end.wrapping_sub(start));
    let filename: u64 = read(bprm + off!(bprm_filename));
    let interp: u64 = read(bprm + off!(bprm_interp));
    // A binary's name is resolved by its own file. A script's file is closed already: its name is walked.
    let wanted = if interp == filename { mode::START } else { mode::FOLLOW };
    if interp != filename {
        scratch.header().flags |= flags::SCRIPT;
        scratch.put_kernel_string(SectionTag::InterpName, interp);
    }
    prepare(Which::A, Text::Kernel(filename), AT_FDCWD, wanted);
    // SAFETY: nothing here needs dropping; see `sys_exit`.
    unsafe { TAILS.tail_call(&ctx, tail::WALK) };
    0
}

/// `sched_process_fork(parent, child)`, in the parent.
#[raw_tracepoint]
pub fn process_fork(ctx: RawTracePointContext) -> i32 {
    let Some(member) = scope::current() else { return 0 };
    let Some(scratch) = scratch() else { return 0 };
    let child: u64 = ctx.arg(1);
    let (tid, pid): (u32, u32) = (read(child + off!(task_pid)), read(child + off!(task_tgid)));
    let header = scratch.begin(RecordKind::Fork, 0, loss::FORK, member);
    header.ret = i64::from(tid);
    header.args[0] = u64::from(pid);
    scope::remember_process(pid, member.run);
    // Born into another group (CLONE_INTO_CGROUP), or of a parent that has left.
    if member.is_outside || scope::of_task(child) != Some(member.run) {
        header.flags |= flags::OUTSIDE;
        scope::remember_leaver(pid, member.run);
    }
    submit();
    0
}

/// `sched_process_exit(task)`, in the task.
#[raw_tracepoint]
pub fn process_exit(_ctx: RawTracePointContext) -> i32 {
    let Some(member) = scope::current() else { return 0 };
    let Some(scratch) = scratch() else { return 0 };
    let task = current_task();
    let status: i32 = read(task + off!(task_exit_code));
    let header = scratch.begin(RecordKind::Exit, 0, loss::EXIT, member);
    header.ret = i64::from(status);
    submit();
    // A process lives as long as its last thread, whichever that is. The kernel counts down before it comes here, so that two
    // that end at once may both find nothing left: to forget it twice is as good as once.
    let signal: u64 = read(task + off!(task_signal));
    if read::<i32>(signal + off!(signal_live)) == 0 {
        scope::forget_process((bpf_get_current_pid_tgid() >> 32) as u32);
    }
    0
}

/// `cgroup_attach_task(group, path, task, threadgroup)`, in whoever moved it, after the move: a task that was one of a run's
/// and is not any more. The task is its process's first, which may have ended: that one stays in its group, and only the
/// group it was moved to says where the others are.
#[raw_tracepoint]
pub fn cgroup_attach(ctx: RawTracePointContext) -> i32 {
    let (group, task): (u64, u64) = (ctx.arg(0), ctx.arg(2));
    let (tid, pid): (u32, u32) = (read(task + off!(task_pid)), read(task + off!(task_tgid)));
    let Some(run) = scope::run_of_process(pid) else { return 0 };
    if !scope::is_of_hierarchy(group, task) || scope::of_group(group) == Some(run) {
        return 0;
    }
    scope::remember_leaver(pid, run);
    let Some(scratch) = scratch() else { return 0 };
    let member = scope::Membership { run, is_outside: true };
    let header = scratch.begin(RecordKind::Leave, 0, loss::LEAVE, member);
    header.ret = i64::from(tid);
    header.args[0] = u64::from(pid);
    submit();
    0
}
