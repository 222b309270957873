//! Flags → a service, what it says, and what it does with a connection.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::failure::Refusal;
use crate::cli::output::Output;
use crate::daemon::activation::Passed;
use crate::daemon::entrance::EntranceError;
use crate::daemon::journal::{self, Journal};
use crate::daemon::limits::Limits;
use crate::daemon::log::{Entry, Level, Log};
use crate::daemon::notify;
use crate::daemon::plan::{Plan, ServeError};
use crate::daemon::scrape::Place;
use crate::daemon::serve;
use crate::daemon::worker::Served;
use crate::exit::Exit;
use crate::host::mountinfo::OwnGroup;
use crate::sandbox::duration;
use crate::sandbox::user::UserError;
use crate::served::duty;
use crate::served::loaded::Loaded;

/// Flags of `assay daemon`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen, unless a service manager passes a socket.
    #[arg(long, value_name = "PATH", default_value = "/run/assay/assay.sock")]
    socket: PathBuf,
    /// Where the records of all runs are kept.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/assay")]
    spool: PathBuf,
    /// Whose members may connect, beside root.
    #[arg(long, value_name = "NAME|GID", default_value = "assay")]
    group: String,
    /// So many runs at once.
    #[arg(long, value_name = "N", default_value_t = Limits::default().runs, hide_short_help = true)]
    max_runs: u32,
    /// So many runs of one user at once.
    #[arg(long, value_name = "N", default_value_t = Limits::default().runs_per_user, hide_short_help = true)]
    max_runs_per_user: u32,
    /// So many runs of one user within a minute.
    #[arg(long, value_name = "N", default_value_t = Limits::default().starts_per_minute, hide_short_help = true)]
    max_starts_per_minute: u32,
    /// So many bytes of one user in the spool.
    #[arg(long, value_name = "N", default_value_t = Limits::default().spool_bytes_per_user, hide_short_help = true)]
    max_spool_bytes_per_user: u64,
    /// So long runs are waited for when it is told to stop.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30s", hide_short_help = true)]
    drain: Duration,
    /// Where metrics are to be had.
    #[arg(long, value_name = "PATH|127.0.0.1:PORT")]
    metrics: Option<Place>,
}

/// Runs it.
pub fn run(args: Args, out: &Output) -> Exit {
    let text = |name| std::env::var(name).ok();
    let plan = Plan {
        socket: args.socket,
        spool: args.spool,
        group: args.group,
        limits: Limits {
            runs: args.max_runs,
            runs_per_user: args.max_runs_per_user,
            starts_per_minute: args.max_starts_per_minute,
            spool_bytes_per_user: args.max_spool_bytes_per_user,
            ..Limits::default()
        },
        drain: args.drain,
        metrics: args.metrics,
        passed: Passed { pid: text("LISTEN_PID"), count: text("LISTEN_FDS") },
        notify: std::env::var_os("NOTIFY_SOCKET"),
        alive_every: notify::alive_every(
            text("WATCHDOG_USEC").as_deref(),
            text("WATCHDOG_PID").as_deref(),
            std::process::id(),
        ),
    };
    let journal =
        Journal::behind(std::io::stderr(), text("JOURNAL_STREAM").as_deref(), Path::new(journal::SOCKET));
    let slots = plan.limits.runs;
    let load = |runs: &OwnGroup| {
        let shared = Loaded::load(runs, slots)?;
        let (work, clear, times) = (Loaded::work, Loaded::clear, Loaded::times);
        Ok(Served { shared, slots, work, clear, refuse: duty::refuse, times })
    };
    match serve::run(plan, load, &Lines { out, journal }) {
        Ok(()) => Exit::Success,
        Err(error) => tell(&error, out),
    }
}

fn tell(error: &ServeError, out: &Output) -> Exit {
    let refusal = Refusal::new(format!("failed to {error}"));
    match error {
        ServeError::NotRoot => refusal.with_hint("run it as root, or by its systemd unit").tell(out),
        ServeError::Group(UserError::UnknownGroup(name)) => {
            refusal.with_hint(format!("`groupadd --system {name}` makes it")).tell(out)
        }
        ServeError::Entrance(EntranceError::Running { .. }) => {
            refusal.with_hint("stop that one first, or listen elsewhere with --socket").tell(out)
        }
        ServeError::Entrance(_)
        | ServeError::Activation(_)
        | ServeError::Metrics(_)
        | ServeError::Group(_)
        | ServeError::Runs(_)
        | ServeError::Spool(_)
        | ServeError::Load(_) => refusal.tell(out),
        ServeError::Io { .. } => {
            refusal.tell(out);
            Exit::Failed
        }
    }
}

/// One fact a line: to the journal with its fields where stderr goes there anyway, and to stderr.
struct Lines<'a> {
    out: &'a Output,
    journal: Option<Journal>,
}

impl Log for Lines<'_> {
    fn log(&self, entry: &Entry) {
        if self.journal.as_ref().is_some_and(|journal| journal.send(entry).is_ok()) {
            return;
        }
        match entry.level {
            Level::Error => self.out.error(&entry.text),
            Level::Warning => self.out.warning(&entry.text),
            Level::Note => self.out.note(&entry.text),
            Level::Detail => self.out.detail(&entry.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::daemon::stopping;

    const SERVICE: &str = include_str!("../../../packaging/assay.service");
    const SOCKET: &str = include_str!("../../../packaging/assay.socket");
    const SYSUSERS: &str = include_str!("../../../packaging/assay.sysusers");

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn setting<'a>(unit: &'a str, name: &str) -> &'a str {
        let is_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        unit.lines().find(is_it).unwrap_or_else(|| panic!("no {name}")).split_once('=').unwrap().1
    }

    #[test]
    fn the_units_are_of_this_command() {
        let mut words = setting(SERVICE, "ExecStart").split(' ');
        assert_eq!((words.next(), words.next()), (Some("/usr/bin/assay"), Some("daemon")));
        let args = Line::try_parse_from(["daemon"].into_iter().chain(words)).unwrap().args;
        assert_eq!(args.socket.to_str(), Some(setting(SOCKET, "ListenStream")));
        assert_eq!(args.spool, Path::new("/var/lib").join(setting(SERVICE, "StateDirectory")));
        assert_eq!(args.group, setting(SOCKET, "SocketGroup"));
        assert!(SYSUSERS.lines().any(|line| line == format!("g {} - -", args.group)));
        assert!(args.metrics.is_some());
        // The manager must not lose its patience before we do.
        let most = args.drain + stopping::TO_WRITE + stopping::TO_DIE;
        assert!(duration::parse(setting(SERVICE, "TimeoutStopSec")).unwrap() > most);
    }

    /// What systemd.exec(5) and systemd.resource-control(5) say each does.
    #[test]
    fn nothing_of_the_unit_acts_on_the_runs_beneath_it_or_gives_it_mounts_of_its_own() {
        let by_group =
            ["IPAddress", "IPAccounting", "Device", "ProtectClock", "Memory", "CPU", "IO", "RestrictNetwork"];
        // By name: what is private to it, protected from it, or bound into its view.
        let by_mounts = [
            "Private",
            "Protect",
            "ReadWritePaths",
            "ReadOnlyPaths",
            "InaccessiblePaths",
            "Bind",
            "Root",
            "Temporary",
            "DynamicUser",
            "ProcSubset",
            "NoExecPaths",
            "ExecPaths",
            "MountAPIVFS",
        ];
        for line in SERVICE.lines().filter(|line| !line.starts_with('#')) {
            for word in by_group.iter().chain(&by_mounts) {
                assert!(!line.starts_with(word) || line.starts_with("MemoryDenyWriteExecute="), "{line}");
            }
        }
    }
}
