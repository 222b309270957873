//! What becomes of processes that outlive the command.

use std::time::Duration;

use tokio::time::Instant;

use super::child::{GRACE, Signals};
use super::members::Members;

/// How long `wait` waits.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a process that was killed may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Descendants {
    /// Wait 5 s, then SIGTERM, then after 2 s `cmembers.kill`.
    Wait,
    /// `cmembers.kill` at once.
    Kill,
    /// Let them run on, outside the run's members.
    Leave,
}

/// What became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// There were none.
    None,
    /// They ended by themselves.
    Waited,
    /// SIGTERM ended the last of them.
    Terminated,
    /// They were killed.
    Killed,
    /// They run on.
    Left,
}

impl Fate {
    /// The word in every format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Waited => "waited",
            Self::Terminated => "terminated",
            Self::Killed => "killed",
            Self::Left => "left",
        }
    }
}

/// Does what was asked with what is left of the run after the command's end.
pub async fn settle(members: &Members, asked: Descendants, signals: &Signals) -> Fate {
    if is_empty_soon(members).await {
        return Fate::None;
    }
    match asked {
        Descendants::Leave => {
            if members.release() {
                return Fate::Left;
            }
        }
        Descendants::Kill => {}
        Descendants::Wait => {
            if is_empty_within(members, PATIENCE, signals).await {
                return Fate::Waited;
            }
            members.signal(libc::SIGTERM);
            // One that is stopped must run to end.
            members.signal(libc::SIGCONT);
            if is_empty_within(members, GRACE, signals).await {
                return Fate::Terminated;
            }
        }
    }
    members.kill();
    is_empty_within(members, KILL_PATIENCE, signals).await;
    Fate::Killed
}

/// The kernel may count the command itself for an instant after it told us of its end.
async fn is_empty_soon(members: &Members) -> bool {
    for _ in 0..20 {
        if !members.is_populated() {
            return true;
        }
        if !members.list().is_empty() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}

/// Whether nobody is left before `patience` is over, or before somebody who wants us to end says so.
async fn is_empty_within(members: &Members, patience: Duration, signals: &Signals) -> bool {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(1);
    while members.is_populated() {
        members.reap();
        let now = Instant::now();
        if now >= deadline {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(pause.min(deadline - now)) => pause = (pause * 2).min(Duration::from_millis(20)),
            received = signals.receive() => {
                let wants_end = |number| matches!(number, libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT);
                if received.is_ok_and(|all| all.iter().any(|received| wants_end(received.number))) {
                    return !members.is_populated();
                }
            }
        }
    }
    true
}
