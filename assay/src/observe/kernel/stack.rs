//! The stack that the programs take, by the rule of the oldest kernel they load on, so that a change it refuses is told
//! without booting it.
//!
//! Linux 6.1 lets all frames of a chain of calls take 512 bytes together, whether or not one function is verified by itself;
//! the newer kernel of the host counts otherwise. From the instructions alone: nothing is loaded.

use std::collections::{BTreeMap, BTreeSet};

/// `MAX_BPF_STACK`, of a whole chain.
const LIMIT: usize = 512;
/// Each frame is rounded up to it, and takes it even when it is empty.
const GRAIN: usize = 32;
/// `MAX_CALL_FRAMES`.
const FRAMES: usize = 8;
/// What the callers of a function that makes a tail call may take, and not more.
const BEFORE_TAIL_CALL: usize = 256;

const CALL: u8 = 0x85;
const PSEUDO_CALL: u8 = 1;
const TAIL_CALL: i32 = 12;
const WIDE_LOAD: u8 = 0x18;
const PSEUDO_FUNCTION: u8 = 4;
const MOVE: u8 = 0xbf;
const ADD_NUMBER: u8 = 0x07;
const FRAME: u8 = 10;

/// An instruction, taken apart.
#[derive(Debug, Clone, Copy)]
struct Instruction {
    code: u8,
    dst: u8,
    src: u8,
    off: i16,
    imm: i32,
}

impl Instruction {
    fn read(word: u64) -> Self {
        let [code, registers, low, high, imm @ ..] = word.to_le_bytes();
        Self {
            code,
            dst: registers & 15,
            src: registers >> 4,
            off: i16::from_le_bytes([low, high]),
            imm: i32::from_le_bytes(imm),
        }
    }
}

/// One function of a program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frame {
    /// How far below its frame pointer it goes.
    depth: usize,
    calls: BTreeSet<usize>,
    makes_tail_call: bool,
}

/// The function an instruction enters or names.
fn callee(at: usize, one: &Instruction) -> Option<usize> {
    let is_call = one.code == CALL && one.src == PSEUDO_CALL;
    let is_name = one.code == WIDE_LOAD && one.src == PSEUDO_FUNCTION;
    let target = i64::try_from(at).ok()? + 1 + i64::from(one.imm);
    (is_call || is_name).then(|| usize::try_from(target).ok()).flatten()
}

/// The functions of a program, by where they begin.
fn frames(program: &[Instruction]) -> BTreeMap<usize, Frame> {
    let entries = program.iter().enumerate().filter_map(|(at, one)| callee(at, one));
    let mut frames: BTreeMap<usize, Frame> = entries.map(|entry| (entry, Frame::default())).collect();
    frames.insert(0, Frame::default());
    let begins: Vec<usize> = frames.keys().copied().collect();
    for (index, begin) in begins.iter().enumerate() {
        let end = begins.get(index + 1).copied().unwrap_or(program.len());
        let frame = frames.get_mut(begin).expect("it was put there");
        // How far below the frame a register points, where that is known.
        let mut below = BTreeMap::from([(FRAME, 0_i64)]);
        for (at, one) in program.iter().enumerate().take(end).skip(*begin) {
            frame.calls.extend(callee(at, one));
            frame.makes_tail_call |= one.code == CALL && one.src == 0 && one.imm == TAIL_CALL;
            let reached = match one.code & 7 {
                // Loads are by the source, stores by the destination.
                1 => below.get(&one.src).map(|base| base + i64::from(one.off)),
                2 | 3 => below.get(&one.dst).map(|base| base + i64::from(one.off)),
                _ => None,
            };
            let computed = match one.code {
                MOVE => below.get(&one.src).copied(),
                ADD_NUMBER => below.get(&one.dst).map(|base| base + i64::from(one.imm)),
                _ => None,
            };
            let writes_register = !matches!(one.code & 7, 2 | 3 | 5 | 6);
            if writes_register && one.dst != FRAME {
                below.remove(&one.dst);
                below.extend(computed.map(|base| (one.dst, base)));
            }
            for offset in [reached, computed].into_iter().flatten() {
                frame.depth = frame.depth.max(usize::try_from(-offset).unwrap_or(0));
            }
        }
    }
    frames
}

/// What is wrong with the chains of calls from here on, and the most they take with all before.
fn measure(
    frames: &BTreeMap<usize, Frame>,
    at: usize,
    before: usize,
    count: usize,
    wrong: &mut BTreeSet<String>,
) -> usize {
    let Some(frame) = frames.get(&at) else { return before };
    let taken = before + frame.depth.max(1).next_multiple_of(GRAIN);
    if count > FRAMES {
        wrong.insert(format!("{count} frames"));
        return taken;
    }
    if taken > LIMIT {
        wrong.insert(format!("{taken} bytes in {count} frames"));
    }
    if at != 0 && frame.makes_tail_call && before >= BEFORE_TAIL_CALL {
        wrong.insert(format!("a tail call above {before} bytes"));
    }
    let callees = frame.calls.iter().map(|callee| measure(frames, *callee, taken, count + 1, wrong));
    callees.max().unwrap_or(taken).max(taken)
}

/// The bytes that a program takes at most, and what an older kernel says against it.
fn stack_of(words: &[u64]) -> (usize, BTreeSet<String>) {
    let program: Vec<Instruction> = words.iter().map(|word| Instruction::read(*word)).collect();
    let mut wrong = BTreeSet::new();
    let most = measure(&frames(&program), 0, 0, 1, &mut wrong);
    (most, wrong)
}

mod tests {
    use super::*;
    use crate::observe::kernel::object::linked;
    use crate::observe::kernel::programs::object;

    #[test]
    fn no_program_takes_more_stack_than_linux_6_1_has() {
        let (mut told, mut wrong) = (Vec::new(), Vec::new());
        for (name, instructions) in linked(object()).expect("the object that is built in") {
            let (most, complaints) = stack_of(&instructions);
            told.push(format!("{name} {most}"));
            wrong.extend(complaints.iter().map(|complaint| format!("{name}: {complaint}")));
        }
        assert!(wrong.is_empty(), "Linux 6.1 refuses\n{}\nof\n{}", wrong.join("\n"), told.join("\n"));
    }

    fn instruction(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> u64 {
        let [low, high] = off.to_le_bytes();
        let [one, two, three, four] = imm.to_le_bytes();
        u64::from_le_bytes([code, src << 4 | dst, low, high, one, two, three, four])
    }

    /// A store at this offset from the frame, and what follows.
    fn function(offset: i16, rest: &[u64]) -> Vec<u64> {
        let mut all = vec![instruction(0x7b, FRAME, 1, offset, 0)];
        all.extend(rest);
        all.push(instruction(0x95, 0, 0, 0, 0));
        all
    }

    #[test]
    fn a_frame_is_as_deep_as_it_is_written_or_pointed_to() {
        let point = [instruction(MOVE, 2, FRAME, 0, 0), instruction(ADD_NUMBER, 2, 0, 0, -104)];
        assert_eq!(stack_of(&function(-40, &[])).0, 64);
        assert_eq!(stack_of(&function(-40, &point)).0, 128);
        // A number that is no address of the stack.
        assert_eq!(stack_of(&function(-8, &[instruction(ADD_NUMBER, 3, 0, 0, -400)])).0, 32);
    }

    #[test]
    fn a_chain_is_the_sum_of_its_frames_and_a_callback_is_part_of_it() {
        let chain = |code, kind, inner: i16| {
            let mut all = function(-300, &[instruction(code, 0, kind, 0, 1)]);
            all.extend(function(inner, &[]));
            stack_of(&all)
        };
        assert_eq!(chain(CALL, PSEUDO_CALL, -192), (512, BTreeSet::new()));
        let too_much = BTreeSet::from(["544 bytes in 2 frames".to_owned()]);
        assert_eq!(chain(CALL, PSEUDO_CALL, -193), (544, too_much.clone()));
        assert_eq!(chain(WIDE_LOAD, PSEUDO_FUNCTION, -193), (544, too_much));
    }

    #[test]
    fn a_tail_call_leaves_little_to_its_callers() {
        let with = |outer| {
            let mut all = function(outer, &[instruction(CALL, 0, PSEUDO_CALL, 0, 1)]);
            all.extend(function(-8, &[instruction(CALL, 0, 0, 0, TAIL_CALL)]));
            stack_of(&all).1
        };
        assert_eq!(with(-224), BTreeSet::new());
        assert_eq!(with(-225), BTreeSet::from(["a tail call above 256 bytes".to_owned()]));
    }
}
