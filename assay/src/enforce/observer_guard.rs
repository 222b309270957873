//! What keeps a command from slowing down or limiting its observer: a second filter on system calls, about processes.
//!
//! Whoever has the observer's user id may renice it, pin it to one processor, or cap what it may write; no file rule and
//! no Landlock scope is about that. Calls that name one of its tasks end in EPERM, and so do those that speak of all
//! processes of a user or of the process group that the command may share with it. All others pass.

use std::fs;
use std::io;

use libc::sock_filter;

use super::syscall_filter::{self, ALLOW, LOAD, RETURN, statement, when};

/// `SECCOMP_RET_ERRNO` with EPERM.
const REFUSE: u32 = 0x0005_0001;
/// More tasks than these are not named one by one: a jump of such a program goes over 255 instructions at most.
const MOST: usize = 8;

/// The numbers of one calling convention.
struct Calls {
    architecture: u32,
    /// `sched_setparam`, `sched_setscheduler`, `sched_setaffinity`, `sched_setattr`, `prlimit64`: the task is the first
    /// argument.
    of_task: [u32; 5],
    /// `setpriority`, and the number by which it means one task.
    setpriority: u32,
    /// `ioprio_set`, likewise.
    ioprio_set: u32,
}

#[cfg(target_arch = "x86_64")]
const CONVENTIONS: [Calls; 2] = [
    Calls {
        architecture: 0xc000_003e,
        of_task: [142, 144, 203, 314, 302],
        setpriority: 141,
        ioprio_set: 251,
    },
    Calls { architecture: 0x4000_0003, of_task: [154, 156, 241, 351, 340], setpriority: 97, ioprio_set: 289 },
];
#[cfg(target_arch = "aarch64")]
const CONVENTIONS: [Calls; 2] = [
    Calls { architecture: 0xc000_00b7, of_task: [118, 119, 122, 274, 261], setpriority: 140, ioprio_set: 30 },
    Calls { architecture: 0x4000_0028, of_task: [155, 156, 241, 380, 369], setpriority: 97, ioprio_set: 314 },
];

/// The tasks that watch this process: those of its parent, and of its parent's other children.
pub fn watchers() -> Vec<u32> {
    let Some(parent) = rustix::process::getppid() else { return Vec::new() };
    let parent = parent.as_raw_nonzero().get().cast_unsigned();
    let own = std::process::id();
    let tasks_of = |process: u32| -> Vec<u32> {
        let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let mut tasks = tasks_of(parent);
    for task in tasks.clone() {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{task}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        for child in children.filter(|child: &u32| *child != own) {
            tasks.extend(tasks_of(child));
        }
    }
    tasks.sort_unstable();
    tasks.dedup();
    // The first are the observer's own: it is older than its helpers and threads.
    tasks.truncate(MOST);
    tasks
}

/// These and one that came later; it is named in any case.
pub fn with(mut watchers: Vec<u32>, later: u32) -> Vec<u32> {
    watchers.truncate(MOST - 1);
    watchers.push(later);
    watchers
}

/// The program. Pure.
fn program(tasks: &[u32]) -> Vec<sock_filter> {
    let mut code = vec![statement(LOAD, syscall_filter::ARCHITECTURE)];
    for calls in CONVENTIONS {
        code.extend(when(calls.architecture, of_convention(&calls, tasks)));
    }
    code.push(statement(RETURN, ALLOW));
    code
}

fn of_convention(calls: &Calls, tasks: &[u32]) -> Vec<sock_filter> {
    let names_one = |argument: u32| {
        let mut code = vec![statement(LOAD, syscall_filter::argument(argument))];
        for task in tasks {
            code.extend(when(*task, vec![statement(RETURN, REFUSE)]));
        }
        code.push(statement(RETURN, ALLOW));
        code
    };
    // By what the call says it speaks of a task, or else of a group of them.
    let by_kind = |one_task: u32| {
        let mut code = vec![statement(LOAD, syscall_filter::argument(0))];
        code.extend(when(one_task, names_one(1)));
        code.push(statement(RETURN, REFUSE));
        code
    };
    let mut code = vec![statement(LOAD, syscall_filter::NUMBER)];
    for call in calls.of_task {
        code.extend(when(call, names_one(0)));
    }
    code.extend(when(calls.setpriority, by_kind(0)));
    code.extend(when(calls.ioprio_set, by_kind(1)));
    code.push(statement(RETURN, ALLOW));
    code
}

/// Guards these tasks against this thread and everything it starts. `no_new_privs` must be set.
pub fn apply(tasks: &[u32]) -> io::Result<()> {
    if tasks.is_empty() || !syscall_filter::is_possible() {
        return Ok(());
    }
    syscall_filter::install(program(tasks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_speaks_of_the_watchers_is_refused() {
        let tasks: Vec<u32> = (100..100 + MOST as u32).collect();
        let code = program(&tasks);
        let run =
            |architecture, number, arguments| syscall_filter::run(&code, architecture, number, arguments);
        for calls in CONVENTIONS {
            for call in calls.of_task {
                assert_eq!(run(calls.architecture, call, [107, 0, 0]), REFUSE);
                assert_eq!([0, 99, 108].map(|task| run(calls.architecture, call, [task, 0, 0])), [ALLOW; 3]);
            }
            for (call, one) in [(calls.setpriority, 0), (calls.ioprio_set, 1)] {
                assert_eq!(run(calls.architecture, call, [one, 100, 19]), REFUSE);
                assert_eq!(run(calls.architecture, call, [one, 0, 19]), ALLOW);
                assert_eq!(
                    [1, 2].map(|kind| run(calls.architecture, call, [one + kind, 0, 19])),
                    [REFUSE; 2]
                );
            }
            assert_eq!(run(calls.architecture, 0, [100, 100, 100]), ALLOW);
        }
    }
}
