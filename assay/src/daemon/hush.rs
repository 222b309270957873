//! Which refusals are worth a line: the first of a user for a reason, and then one a minute that says how many there were,
//! so that nobody fills the log by connecting. Pure.

use core::time::Duration;
use std::collections::BTreeMap;

/// So long nothing more is said of the same user and reason.
const WHILE: Duration = Duration::from_secs(60);
/// So many are told apart; beyond that it is forgotten who was told of.
const MOST: usize = 4096;

/// What was said.
#[derive(Debug, Default)]
pub struct Hush {
    said: BTreeMap<(u32, &'static str), Said>,
}

#[derive(Debug, Clone, Copy)]
struct Said {
    at: Duration,
    since: u64,
}

impl Hush {
    /// Whether to say it now; then with how many that were not said before it.
    pub fn admits(&mut self, uid: u32, word: &'static str, now: Duration) -> Option<u64> {
        if let Some(said) = self.said.get_mut(&(uid, word)) {
            if now.saturating_sub(said.at) < WHILE {
                said.since += 1;
                return None;
            }
            let since = said.since;
            *said = Said { at: now, since: 0 };
            return Some(since);
        }
        if self.said.len() >= MOST {
            self.said.clear();
        }
        self.said.insert((uid, word), Said { at: now, since: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_and_the_rest_once_a_minute_by_number() {
        let mut hush = Hush::default();
        let mut at = |second, uid, word| hush.admits(uid, word, Duration::from_secs(second));
        assert_eq!(at(0, 7, "runs"), Some(0));
        assert_eq!(at(1, 7, "runs"), None);
        assert_eq!(at(59, 7, "runs"), None);
        assert_eq!(at(59, 7, "starts"), Some(0));
        assert_eq!(at(59, 8, "runs"), Some(0));
        assert_eq!(at(60, 7, "runs"), Some(2));
        assert_eq!(at(61, 7, "runs"), None);
        assert_eq!(at(500, 7, "runs"), Some(1));
    }

    #[test]
    fn it_has_a_bound() {
        let mut hush = Hush::default();
        for uid in 0..3 * MOST as u32 {
            assert_eq!(hush.admits(uid, "stranger", Duration::ZERO), Some(0));
            assert!(hush.said.len() <= MOST);
        }
    }
}
