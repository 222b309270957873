//! How much of the service one user may take: an account for each, and the answer to whether one more connection is
//! admitted. Pure: the time is an argument, counted from when the service started.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

/// What a minute is for [`Limits::starts_per_minute`].
const MINUTE: Duration = Duration::from_secs(60);

/// The limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Runs at once, of all users.
    pub runs: u32,
    /// Runs at once, of one user.
    pub runs_per_user: u32,
    /// Connections of one user that have not started a run.
    pub waiting_per_user: u32,
    /// Connections of one user within a minute.
    pub starts_per_minute: u32,
    /// Bytes of one user in the spool.
    pub spool_bytes_per_user: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            runs: 256,
            runs_per_user: 64,
            waiting_per_user: 32,
            starts_per_minute: 600,
            spool_bytes_per_user: 10 << 30,
        }
    }
}

/// Why one more is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// All users together have as many runs as there may be.
    Runs(u32),
    /// The user has as many runs as one may have.
    RunsOfUser(u32),
    /// The user has connected too often without starting a run.
    Waiting(u32),
    /// The user started too many within a minute.
    Starts(u32),
    /// The user's records fill what one may fill.
    Spool(u64),
}

impl Over {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Runs(_) => "runs",
            Self::RunsOfUser(_) => "runs-of-user",
            Self::Waiting(_) => "waiting",
            Self::Starts(_) => "starts",
            Self::Spool(_) => "spool",
        }
    }
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Runs(most) => write!(f, "the host has {most} runs at once, which is its limit"),
            Self::RunsOfUser(most) => {
                write!(f, "you have {most} runs at once, which is the limit for a user")
            }
            Self::Waiting(most) => {
                write!(f, "you have {most} connections that started no run, which is the limit for a user")
            }
            Self::Starts(most) => {
                write!(f, "you started {most} runs within a minute, which is the limit for a user")
            }
            Self::Spool(most) => {
                write!(f, "your records take more than {most} bytes, which is the limit for a user")
            }
        }
    }
}

/// Who has how much now.
#[derive(Debug, Default)]
pub struct Accounts {
    users: BTreeMap<u32, Account>,
}

#[derive(Debug, Default)]
struct Account {
    waiting: u32,
    running: u32,
    /// When the last ones were admitted; those older than a minute are dropped when it is looked at.
    starts: VecDeque<Duration>,
}

impl Account {
    fn forget_before(&mut self, now: Duration) {
        while self.starts.front().is_some_and(|start| now.saturating_sub(*start) >= MINUTE) {
            self.starts.pop_front();
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting == 0 && self.running == 0 && self.starts.is_empty()
    }
}

impl Accounts {
    /// Admits one more connection of user `uid`, who has `spooled` bytes in the spool, or says why not.
    pub fn admit(&mut self, uid: u32, now: Duration, spooled: u64, limits: &Limits) -> Result<(), Over> {
        self.users.retain(|_, account| {
            account.forget_before(now);
            !account.is_empty()
        });
        let all = self.taken();
        let account = self.users.entry(uid).or_default();
        // What is the user's own doing first: it is what the user can change.
        if spooled > limits.spool_bytes_per_user {
            return Err(Over::Spool(limits.spool_bytes_per_user));
        }
        if account.waiting + account.running >= limits.runs_per_user {
            return Err(Over::RunsOfUser(limits.runs_per_user));
        }
        if account.waiting >= limits.waiting_per_user {
            return Err(Over::Waiting(limits.waiting_per_user));
        }
        if account.starts.len() >= limits.starts_per_minute as usize {
            return Err(Over::Starts(limits.starts_per_minute));
        }
        if all >= limits.runs {
            return Err(Over::Runs(limits.runs));
        }
        account.waiting += 1;
        account.starts.push_back(now);
        Ok(())
    }

    /// A connection of user `uid` started its run.
    pub fn start(&mut self, uid: u32) {
        if let Some(account) = self.users.get_mut(&uid) {
            account.waiting = account.waiting.saturating_sub(1);
            account.running += 1;
        }
    }

    /// A connection of user `uid` is over, which had started a run or not.
    pub fn end(&mut self, uid: u32, had: Had) {
        if let Some(account) = self.users.get_mut(&uid) {
            match had {
                Had::Waited => account.waiting = account.waiting.saturating_sub(1),
                Had::Run => account.running = account.running.saturating_sub(1),
            }
        }
    }

    /// Connections that have not started a run.
    pub fn waiting(&self) -> u32 {
        self.users.values().map(|account| account.waiting).sum()
    }

    /// Runs.
    pub fn running(&self) -> u32 {
        self.users.values().map(|account| account.running).sum()
    }

    fn taken(&self) -> u32 {
        self.waiting() + self.running()
    }
}

/// How far a connection had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Had {
    /// It had started no run.
    Waited,
    /// It had.
    Run,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        runs: 5,
        runs_per_user: 3,
        waiting_per_user: 2,
        starts_per_minute: 4,
        spool_bytes_per_user: 1000,
    };

    /// One step: at which second, by whom, and what comes of it.
    enum Step {
        Admit(u64, u32, Result<(), Over>),
        Start(u32),
        End(u32, Had),
    }
    use Step::{Admit, End, Start};

    fn check(steps: &[Step]) {
        let mut accounts = Accounts::default();
        for (place, step) in steps.iter().enumerate() {
            match step {
                Admit(second, uid, expect) => {
                    let answer = accounts.admit(*uid, Duration::from_secs(*second), 0, &LIMITS);
                    assert_eq!(answer, *expect, "step {place}");
                }
                Start(uid) => accounts.start(*uid),
                End(uid, had) => accounts.end(*uid, *had),
            }
        }
    }

    #[test]
    fn who_says_nothing_keeps_only_himself_out() {
        check(&[
            Admit(0, 7, Ok(())),
            Admit(0, 7, Ok(())),
            Admit(0, 7, Err(Over::Waiting(2))),
            Admit(0, 8, Ok(())),
            End(7, Had::Waited),
            Admit(1, 7, Ok(())),
        ]);
    }

    #[test]
    fn a_user_has_so_many_runs_and_the_host_so_many() {
        let run = |second, uid| [Admit(second, uid, Ok(())), Start(uid)];
        let mut steps: Vec<Step> = (0..3).flat_map(|_| run(0, 7)).collect();
        steps.push(Admit(0, 7, Err(Over::RunsOfUser(3))));
        steps.extend((0..2).flat_map(|_| run(0, 8)));
        steps.push(Admit(0, 8, Err(Over::Runs(5))));
        steps.push(Admit(0, 9, Err(Over::Runs(5))));
        steps.push(End(7, Had::Run));
        steps.extend(run(0, 9));
        check(&steps);
    }

    #[test]
    fn what_was_started_counts_for_a_minute_and_what_was_refused_does_not() {
        let once = |second| [Admit(second, 7, Ok(())), Start(7), End(7, Had::Run)];
        let mut steps: Vec<Step> = [0, 10, 20, 30].into_iter().flat_map(once).collect();
        steps.push(Admit(40, 7, Err(Over::Starts(4))));
        steps.push(Admit(59, 7, Err(Over::Starts(4))));
        steps.extend(once(60));
        steps.push(Admit(69, 7, Err(Over::Starts(4))));
        steps.extend(once(70));
        check(&steps);
    }

    #[test]
    fn who_has_filled_his_part_of_the_spool_is_told_so_first() {
        let mut accounts = Accounts::default();
        let admit =
            |accounts: &mut Accounts, spooled| accounts.admit(7, Duration::ZERO, spooled, &LIMITS).is_ok();
        assert!(admit(&mut accounts, 1000));
        assert!(!admit(&mut accounts, 1001));
        assert_eq!(accounts.waiting(), 1);
    }

    #[test]
    fn nothing_is_kept_of_who_is_gone() {
        let mut accounts = Accounts::default();
        for uid in 0..100 {
            accounts.admit(uid, Duration::from_secs(u64::from(uid)), 0, &LIMITS).unwrap();
            accounts.end(uid, Had::Waited);
        }
        accounts.admit(100, Duration::from_secs(159), 0, &LIMITS).unwrap();
        assert_eq!(accounts.users.len(), 1);
        assert_eq!((accounts.waiting(), accounts.running()), (1, 0));
    }
}
