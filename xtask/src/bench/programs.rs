//! The measured programs, as instructions.
//!
//! Pure. In: where a program hangs and what it does there. Out: code for the verifier. What a program does is what an
//! observer built on that hook has to do at least: ask whose task it is, and have number and arguments of the call at
//! hand when the result is known.

use super::raw_calls::EXTRA;

/// Where a program hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Raw tracepoint `sys_enter`.
    RawEnter,
    /// Raw tracepoint `sys_exit`.
    RawExit,
    /// `sys_exit` with types.
    TypedExit,
    /// `syscalls/sys_enter_X`, for a call with so many arguments.
    CallEnter(u8),
    /// `syscalls/sys_exit_X`.
    CallExit,
}

/// What it does there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    Empty,
    /// Asks whether the task is of the run.
    Guard,
    /// For a task of the run and a call of this number: takes the arguments.
    Fetch(i32),
    /// The same, with one read of all registers.
    FetchAtOnce(i32),
    /// The same as [`Self::Fetch`], and keeps them for the exit.
    Save(i32),
    /// Goes on with a program of this table.
    GoOn(i32),
    /// For a task of the run: takes what was kept at entry.
    Restore,
    /// Counts the calls of this number by the run.
    Count(i32),
    /// Counts the calls of this number by the run, and those whose first argument is not 0.
    CountWithArgument(i32),
    /// Counts the calls of this number by the run, the strings that could be read, and the arguments that are as given.
    Witness(i32),
}

/// Counters of [`Body::Count`] and [`Body::Witness`].
pub mod counter {
    pub const SEEN: u32 = 0;
    pub const STRING: u32 = 1;
    pub const NO_STRING: u32 = 2;
    pub const ARGUMENTS: u32 = 3;
    pub const ALL: u32 = 4;
}

/// The maps by number, and the depth of the run's group.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    /// Group → run.
    pub runs: i32,
    /// Thread → number and arguments.
    pub saved: i32,
    /// The counters.
    pub counts: i32,
    /// Depth of the run's group.
    pub level: u32,
}

/// Bytes of a number and six arguments.
pub const SAVED_LEN: usize = 56;

/// Offsets in x86-64 `struct pt_regs` of the six arguments, and of the number.
const ARGUMENTS: [i16; 6] = [112, 104, 96, 56, 72, 64];
const NUMBER: i16 = 120;

/// Helpers of the kernel.
mod helper {
    pub const MAP_LOOKUP_ELEM: i32 = 1;
    pub const MAP_UPDATE_ELEM: i32 = 2;
    pub const MAP_DELETE_ELEM: i32 = 3;
    pub const TAIL_CALL: i32 = 12;
    pub const GET_CURRENT_PID_TGID: i32 = 14;
    pub const PROBE_READ_KERNEL: i32 = 113;
    pub const PROBE_READ_USER_STR: i32 = 114;
    pub const GET_CURRENT_ANCESTOR_CGROUP_ID: i32 = 123;
}

/// Places on the stack, below its top in r10.
const KEY: i16 = -8;
const CALL: i16 = -64;
const THREAD: i16 = -72;
const REGISTERS: i16 = -80;
/// From r10, the lowest of the arguments, to the number.
const REGISTERS_LEN: i32 = 72;
const STRING: i16 = -136;
const STRING_LEN: i32 = 64;

/// Where on the stack argument `index` lies.
const fn argument(index: i16) -> i16 {
    CALL + 8 + 8 * index
}

/// The program.
pub fn assemble(hook: Hook, body: Body, with: Surroundings) -> Vec<u64> {
    let mut code = Assembler::default();
    match body {
        Body::Empty => {}
        Body::Guard => code.guard(with),
        Body::Fetch(nr) => {
            code.guard(with);
            code.fetch(hook, nr);
        }
        Body::FetchAtOnce(nr) => {
            code.guard(with);
            code.load(7, 6, 0);
            code.address(1, REGISTERS);
            code.set(2, REGISTERS_LEN);
            code.copy(3, 7);
            code.add(3, i32::from(ARGUMENTS[3]));
            code.call(helper::PROBE_READ_KERNEL);
            code.load(1, 10, REGISTERS + NUMBER - ARGUMENTS[3]);
            code.out_unless_equal(1, nr);
        }
        Body::Save(nr) => {
            code.guard(with);
            code.fetch(hook, nr);
            code.call(helper::GET_CURRENT_PID_TGID);
            code.store(THREAD, 0);
            code.map(1, with.saved);
            code.address(2, THREAD);
            code.address(3, CALL);
            code.set(4, 0);
            code.call(helper::MAP_UPDATE_ELEM);
        }
        Body::GoOn(table) => {
            code.map(2, table);
            code.set(3, 0);
            code.call(helper::TAIL_CALL);
        }
        Body::Restore => {
            code.guard(with);
            code.call(helper::GET_CURRENT_PID_TGID);
            code.store(THREAD, 0);
            code.map(1, with.saved);
            code.address(2, THREAD);
            code.call(helper::MAP_LOOKUP_ELEM);
            code.out_if_equal(0, 0);
            for index in 0..7 {
                code.load(1, 0, 8 * index);
                code.store(CALL + 8 * index, 1);
            }
            code.map(1, with.saved);
            code.address(2, THREAD);
            code.call(helper::MAP_DELETE_ELEM);
        }
        Body::Count(nr) => {
            code.guard(with);
            if hook != Hook::CallExit {
                code.fetch(hook, nr);
            }
            code.count(counter::SEEN, with);
        }
        Body::CountWithArgument(nr) => {
            code.guard(with);
            code.fetch(hook, nr);
            code.count(counter::SEEN, with);
            code.load(1, 10, argument(0));
            code.out_if_equal(1, 0);
            code.count(counter::ARGUMENTS, with);
        }
        Body::Witness(nr) => {
            code.guard(with);
            code.fetch(hook, nr);
            code.witness(with);
        }
    }
    code.finish()
}

/// Instructions, and the jumps among them to the end.
#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    to_end: Vec<usize>,
}

impl Assembler {
    fn push(&mut self, op: u8, dst: u8, src: u8, off: i16, imm: i32) {
        let word = u64::from(op)
            | u64::from(dst) << 8
            | u64::from(src) << 12
            | u64::from(off as u16) << 16
            | u64::from(imm as u32) << 32;
        self.code.push(word);
    }

    fn copy(&mut self, dst: u8, src: u8) {
        self.push(0xbf, dst, src, 0, 0);
    }

    fn set(&mut self, dst: u8, value: i32) {
        self.push(0xb7, dst, 0, 0, value);
    }

    fn add(&mut self, dst: u8, value: i32) {
        self.push(0x07, dst, 0, 0, value);
    }

    /// Eight bytes at `src + off`.
    fn load(&mut self, dst: u8, src: u8, off: i16) {
        self.push(0x79, dst, src, off, 0);
    }

    /// Four bytes at `src + off`.
    fn load_word(&mut self, dst: u8, src: u8, off: i16) {
        self.push(0x61, dst, src, off, 0);
    }

    /// A register to the stack.
    fn store(&mut self, place: i16, src: u8) {
        self.push(0x7b, 10, src, place, 0);
    }

    /// The address of a place on the stack.
    fn address(&mut self, dst: u8, place: i16) {
        self.copy(dst, 10);
        self.add(dst, i32::from(place));
    }

    fn map(&mut self, dst: u8, number: i32) {
        self.push(0x18, dst, 1, 0, number);
        self.push(0, 0, 0, 0, 0);
    }

    fn call(&mut self, helper: i32) {
        self.push(0x85, 0, 0, 0, helper);
    }

    fn out_if_equal(&mut self, reg: u8, value: i32) {
        self.to_end.push(self.code.len());
        self.push(0x15, reg, 0, 0, value);
    }

    fn out_unless_equal(&mut self, reg: u8, value: i32) {
        self.to_end.push(self.code.len());
        self.push(0x55, reg, 0, 0, value);
    }

    /// A jump whose target comes later; see [`Self::land`].
    fn jump(&mut self, op: u8, reg: u8, value: i32) -> usize {
        self.push(op, reg, 0, 0, value);
        self.code.len() - 1
    }

    fn land(&mut self, jump: usize) {
        let distance = (self.code.len() - jump - 1) as u64;
        self.code[jump] |= distance << 16;
    }

    /// Goes on only with a task of the run. Keeps the context in r6.
    fn guard(&mut self, with: Surroundings) {
        self.copy(6, 1);
        self.set(1, with.level as i32);
        self.call(helper::GET_CURRENT_ANCESTOR_CGROUP_ID);
        self.out_if_equal(0, 0);
        self.store(KEY, 0);
        self.map(1, with.runs);
        self.address(2, KEY);
        self.call(helper::MAP_LOOKUP_ELEM);
        self.out_if_equal(0, 0);
    }

    /// Puts number and arguments on the stack; goes on only with this number.
    fn fetch(&mut self, hook: Hook, nr: i32) {
        match hook {
            Hook::RawEnter => {
                self.load(1, 6, 8);
                self.out_unless_equal(1, nr);
                self.store(CALL, 1);
                self.load(7, 6, 0);
                self.probe_arguments();
            }
            Hook::RawExit => {
                self.load(7, 6, 0);
                self.probe(CALL, NUMBER);
                self.load(1, 10, CALL);
                self.out_unless_equal(1, nr);
                self.probe_arguments();
            }
            Hook::TypedExit => {
                self.load(7, 6, 0);
                self.load(1, 7, NUMBER);
                self.out_unless_equal(1, nr);
                self.store(CALL, 1);
                for (index, offset) in ARGUMENTS.into_iter().enumerate() {
                    self.load(1, 7, offset);
                    self.store(argument(index as i16), 1);
                }
            }
            Hook::CallEnter(count) => {
                self.load_word(1, 6, 8);
                self.out_unless_equal(1, nr);
                self.store(CALL, 1);
                for index in 0..6 {
                    if index < i16::from(count) {
                        self.load(1, 6, 16 + 8 * index);
                    } else {
                        self.set(1, 0);
                    }
                    self.store(argument(index), 1);
                }
            }
            Hook::CallExit => unreachable!("the record of a call's end holds no arguments"),
        }
    }

    /// Reads eight bytes at r7 + `offset`.
    fn probe(&mut self, place: i16, offset: i16) {
        self.address(1, place);
        self.set(2, 8);
        self.copy(3, 7);
        self.add(3, i32::from(offset));
        self.call(helper::PROBE_READ_KERNEL);
    }

    fn probe_arguments(&mut self) {
        for (index, offset) in ARGUMENTS.into_iter().enumerate() {
            self.probe(argument(index as i16), offset);
        }
    }

    fn count(&mut self, counter: u32, with: Surroundings) {
        self.set(1, counter as i32);
        self.store(KEY, 1);
        self.map(1, with.counts);
        self.address(2, KEY);
        self.call(helper::MAP_LOOKUP_ELEM);
        let missing = self.jump(0x15, 0, 0);
        self.set(1, 1);
        self.push(0xdb, 0, 1, 0, 0);
        self.land(missing);
    }

    /// Reads the string of argument 1, compares the others with what the measured process passes.
    fn witness(&mut self, with: Surroundings) {
        const JUMP_IF_NEGATIVE: u8 = 0xc5;
        const JUMP_UNLESS_EQUAL: u8 = 0x55;
        const JUMP: u8 = 0x05;
        self.count(counter::SEEN, with);
        self.address(1, STRING);
        self.set(2, STRING_LEN);
        self.load(3, 10, argument(1));
        self.call(helper::PROBE_READ_USER_STR);
        let unreadable = self.jump(JUMP_IF_NEGATIVE, 0, 0);
        self.count(counter::STRING, with);
        let done = self.jump(JUMP, 0, 0);
        self.land(unreadable);
        self.count(counter::NO_STRING, with);
        self.land(done);
        let given = [libc::AT_FDCWD, libc::O_CLOEXEC, EXTRA[0], EXTRA[1], EXTRA[2]];
        for (index, value) in [0, 2, 3, 4, 5].into_iter().zip(given) {
            self.load(1, 10, argument(index));
            self.to_end.push(self.code.len());
            self.push(JUMP_UNLESS_EQUAL, 1, 0, 0, value);
        }
        self.count(counter::ARGUMENTS, with);
    }

    fn finish(mut self) -> Vec<u64> {
        for jump in std::mem::take(&mut self.to_end) {
            self.land(jump);
        }
        self.set(0, 0);
        self.push(0x95, 0, 0, 0, 0);
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH: Surroundings = Surroundings { runs: 3, saved: 4, counts: 5, level: 1 };

    #[test]
    fn an_empty_program_is_two_instructions() {
        assert_eq!(assemble(Hook::RawExit, Body::Empty, WITH), [0xb7, 0x95]);
    }

    #[test]
    fn who_is_not_of_the_run_leaves_by_the_end() {
        let code = assemble(Hook::RawExit, Body::Guard, WITH);
        let end = code.len() - 2;
        let targets: Vec<usize> = code
            .iter()
            .enumerate()
            .filter(|(_, word)| **word & 0xff == 0x15)
            .map(|(at, word)| at + 1 + (word >> 16 & 0xffff) as usize)
            .collect();
        assert_eq!(targets, [end, end]);
    }
}
