//! Runs that one load serves at once: each has a number, and a slot by which its state is found.

/// How many bits of a run's number are its slot. The others are counted up each time the slot is used, so that no number
/// comes twice before sixteen million runs have had it.
const SLOT_BITS: u32 = 8;

/// The most runs that one load serves at once.
pub const MOST_SLOTS: u32 = 1 << SLOT_BITS;

/// The number of a run that has an observer of its own; its slot is the first.
pub const ONLY_RUN: u32 = 1 << SLOT_BITS;

/// The slot of a run.
#[inline]
pub const fn slot_of(run: u32) -> u32 {
    run & (MOST_SLOTS - 1)
}

/// The number of the run that has the slot after `last`, which is 0 when there was none. No run has 0.
#[inline]
pub const fn number_after(last: u32, slot: u32) -> u32 {
    let turn = (last >> SLOT_BITS).wrapping_add(1) & (u32::MAX >> SLOT_BITS);
    let turn = if turn == 0 { 1 } else { turn };
    turn << SLOT_BITS | slot_of(slot)
}

/// What belongs to one run, by its slot. The first fields are written by userspace before the run is armed, the others by
/// the kernel half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct Served {
    /// The run that has the slot, or had it last.
    pub run: u32,
    /// Whether it has it still.
    pub is_live: u32,
    /// [`crate::offsets::Settings::watch_writes`] of it.
    pub watch_writes: u32,
    /// [`crate::offsets::Settings::counts_repeats`] of it.
    pub counts_repeats: u32,
    /// [`crate::offsets::Settings::failures`] of it.
    pub failures: u32,
    /// Whether a program was started in its group: the command's, whose acts alone are counted. A run's first program is
    /// its command.
    pub has_started: u32,
    /// [`crate::offsets::Settings::netns`] of it.
    pub netns: u64,
    /// Its processes that are watched for leaving its group.
    pub processes: u64,
    /// Those that there was no room to watch.
    pub unkept: u64,
    /// Its processes that left its group and live.
    pub leavers: u64,
}

const _: () = assert!(size_of::<Served>() == 56);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_used_again_has_another_number_and_never_none() {
        for slot in [0, 1, 255] {
            let (mut last, mut seen) = (0, [0; 3]);
            for number in &mut seen {
                last = number_after(last, slot);
                *number = last;
                assert_eq!(slot_of(last), slot);
            }
            assert!(seen[0] != seen[1] && seen[1] != seen[2] && !seen.contains(&0), "{seen:?}");
            let last_of_all = number_after(u32::MAX - 255 + slot, slot);
            assert_eq!(last_of_all, number_after(0, slot), "it begins anew");
        }
        assert_eq!(ONLY_RUN, number_after(0, 0));
    }
}
