//! Flags → which runs are asked for.

use super::now;
use crate::evidence::timestamp::Timestamp;
use crate::sandbox::duration;
use crate::spool::query::{Query, Whose};

/// Which runs.
#[derive(Debug, Clone, clap::Args)]
pub struct Filters {
    /// Only of this user, by name or number.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only since a day, a moment in UTC, or `7d` ago.
    ///
    /// `2026-12-01`, `2026-12-01T08:00:00Z`, or how long ago: `2h`, `7d`. It is when the entry was written that counts.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only before then.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Only with this in the command line.
    #[arg(long, value_name = "TEXT")]
    command: Option<String>,
    /// Only with an effect on this path or beneath it.
    ///
    /// As the record writes it: `${HOME}/.ssh`, `${WORKDIR}/src`, `/etc`. Programs are found by their paths as well.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only with a connection to this name or address.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only with this verdict, such as `denied` or `lost`.
    ///
    /// `ok`, `denied`, `unauthorised`, `incomplete`, `refused` or `failed`; `lost` are runs whose writer died.
    #[arg(long, value_name = "WORD", hide_possible_values = true, value_parser = ["ok", "denied", "unauthorised", "incomplete", "refused", "failed", "lost"])]
    verdict: Option<String>,
    /// Only with a degradation of this reason or component.
    #[arg(long, value_name = "WORD")]
    degradation: Option<String>,
    /// Only with this run id.
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
}

impl Filters {
    /// What is asked for.
    pub fn query(&self) -> Query {
        let whose = |user: &String| match user.parse() {
            Ok(uid) => Whose::Id(uid),
            Err(_) => Whose::Name(user.clone()),
        };
        Query {
            user: self.user.as_ref().map(whose),
            since: self.since,
            until: self.until,
            command: self.command.clone(),
            verdict: self.verdict.clone(),
            degradation: self.degradation.clone(),
            run_id: self.run_id.clone(),
            path: self.path.clone(),
            host: self.host.clone(),
        }
    }
}

/// A moment, or how long ago it was.
fn moment(text: &str) -> Result<Timestamp, String> {
    moment_by(text, now()).ok_or_else(|| {
        "expected a day (2026-12-01), a moment in UTC (2026-12-01T08:00:00Z), or how long ago (2h, 7d)"
            .to_owned()
    })
}

fn moment_by(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Some(moment) = Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z"))) {
        return Some(moment);
    }
    // A number alone could be meant for seconds since 1970.
    if text.parse::<f64>().is_ok() {
        return None;
    }
    let ago = i64::try_from(duration::parse(text).ok()?.as_secs()).unwrap_or(i64::MAX);
    Some(Timestamp::new(now.seconds().saturating_sub(ago)).unwrap_or(Timestamp::new(0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_in_three_ways() {
        let now = Timestamp::new(1_767_323_045).unwrap();
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(moment_by(text, now).map(|moment| moment.to_string()).as_deref(), expect, "{text}");
        };
        check("2026-12-01", Some("2026-12-01T00:00:00Z"));
        check("2026-12-01T08:00:01Z", Some("2026-12-01T08:00:01Z"));
        check("1h", Some("2026-01-02T02:04:05Z"));
        check("1d12h", Some("2025-12-31T15:04:05Z"));
        check("100000d", Some("1970-01-01T00:00:00Z"));
        for text in ["", "7", "-1h", "yesterday", "2026-13-01", "1767323045", "inf", "NaN"] {
            check(text, None);
        }
    }
}
