//! How the service comes to its end, as a value over time: which step it is at, and what a signal or the clock makes of it.
//! Pure.

use core::time::Duration;

/// How long a worker may take to end its run and to write what there is of the record.
pub const TO_WRITE: Duration = Duration::from_secs(60);
/// How long it may take until what was killed is gone.
pub const TO_DIE: Duration = Duration::from_secs(10);

/// The steps, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It serves.
    Serving,
    /// Nobody is admitted any more; the runs go on.
    Draining,
    /// The workers were told to end their runs and to write their records.
    Ending,
    /// The runs' groups and then the workers were killed.
    Killing,
    /// It ends, whatever is left.
    Over,
}

/// Which step it is at, and until when at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopping {
    step: Step,
    until: Option<Duration>,
    drain: Duration,
}

impl Stopping {
    /// It serves, and will wait for the runs for `drain` when it is told to stop.
    pub fn serving(drain: Duration) -> Self {
        Self { step: Step::Serving, until: None, drain }
    }

    /// The step.
    pub fn step(&self) -> Step {
        self.step
    }

    /// When the next step is due, counted like every `now`.
    pub fn due(&self) -> Option<Duration> {
        self.until
    }

    /// A signal says to stop, or to hurry.
    #[must_use]
    pub fn hurried(self, now: Duration) -> Self {
        let (step, until) = match self.step {
            Step::Serving => (Step::Draining, Some(now + self.drain)),
            Step::Draining => (Step::Ending, Some(now + TO_WRITE)),
            Step::Ending => (Step::Killing, Some(now + TO_DIE)),
            Step::Killing | Step::Over => (Step::Over, None),
        };
        Self { step, until, ..self }
    }

    /// It is `now`, and so many workers are left.
    #[must_use]
    pub fn advanced(self, now: Duration, workers: usize) -> Self {
        if self.step > Step::Serving && workers == 0 {
            return Self { step: Step::Over, until: None, ..self };
        }
        match self.until {
            Some(until) if now >= until => self.hurried(now),
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn without_runs_the_first_signal_is_the_end() {
        let serving = Stopping::serving(at(30));
        assert_eq!(serving.advanced(at(1), 0).step(), Step::Serving);
        assert_eq!(serving.hurried(at(1)).advanced(at(1), 0).step(), Step::Over);
    }

    #[test]
    fn runs_are_waited_for_then_ended_then_killed_and_then_left() {
        let mut stopping = Stopping::serving(at(30)).hurried(at(100));
        for (second, step, due) in [
            (129, Step::Draining, Some(130)),
            (130, Step::Ending, Some(190)),
            (189, Step::Ending, Some(190)),
            (190, Step::Killing, Some(200)),
            (200, Step::Over, None),
        ] {
            stopping = stopping.advanced(at(second), 1);
            assert_eq!((stopping.step(), stopping.due()), (step, due.map(at)), "second {second}");
        }
    }

    #[test]
    fn each_further_signal_is_a_step() {
        let mut stopping = Stopping::serving(at(30));
        for step in [Step::Draining, Step::Ending, Step::Killing, Step::Over, Step::Over] {
            stopping = stopping.hurried(at(5));
            assert_eq!(stopping.step(), step);
        }
    }

    #[test]
    fn who_is_not_to_wait_does_not_wait() {
        let stopping = Stopping::serving(at(0)).hurried(at(5)).advanced(at(5), 1);
        assert_eq!(stopping.step(), Step::Ending);
    }
}
