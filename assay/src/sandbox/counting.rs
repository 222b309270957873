//! What of a run the kernel half only counts, by what was asked for.

use super::recorder::Arming;
use super::request::Mode;
use crate::observe::kernel::{Counting, Failures};

/// What need not be sent each time it happens. Who asked for every act gets every act, and where something is hidden, what
/// fails there is an effect.
pub fn counting(arming: &Arming) -> Counting {
    let wants_each = ["trace", "records"].iter().any(|name| arming.targets.of(name).is_some());
    let failures = match arming.request.mode {
        _ if arming.hides => Failures::Resolved,
        Mode::DryRun if !wants_each => Failures::Counted,
        Mode::DryRun | Mode::Default | Mode::Enforce => Failures::AsText,
    };
    Counting { repeats: !wants_each, failures }
}
