//! Flags → a service, what it says, and what it does with a connection.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::failure::Refusal;
use crate::cli::output::Output;
use crate::daemon::activation::Passed;
use crate::daemon::entrance::EntranceError;
use crate::daemon::limits::Limits;
use crate::daemon::log::{Entry, Level, Log};
use crate::daemon::notify;
use crate::daemon::serve::{self, Plan, ServeError};
use crate::daemon::worker::{Assignment, Served};
use crate::exit::Exit;
use crate::observe::kernel::Observer;
use crate::sandbox::duration;
use crate::sandbox::user::UserError;
use crate::served::duty;
use crate::served::reserve::Reserve;

/// Flags of `assay daemon`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen; a socket that a service manager passes is taken instead.
    #[arg(long, value_name = "PATH", default_value = "/run/assay/assay.sock")]
    socket: PathBuf,
    /// Where the records of all runs are kept.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/assay")]
    spool: PathBuf,
    /// Whose members may connect, beside root.
    #[arg(long, value_name = "NAME|GID", default_value = "assay")]
    group: String,
    /// So many runs at once.
    #[arg(long, value_name = "N", default_value_t = Limits::default().runs)]
    max_runs: u32,
    /// So many runs of one user at once.
    #[arg(long, value_name = "N", default_value_t = Limits::default().runs_per_user)]
    max_runs_per_user: u32,
    /// So many runs of one user within a minute.
    #[arg(long, value_name = "N", default_value_t = Limits::default().starts_per_minute)]
    max_starts_per_minute: u32,
    /// So many bytes of one user in the spool.
    #[arg(long, value_name = "N", default_value_t = Limits::default().spool_bytes_per_user)]
    max_spool_bytes_per_user: u64,
    /// So long runs are waited for when it is told to stop.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30s")]
    drain: Duration,
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
        passed: Passed { pid: text("LISTEN_PID"), count: text("LISTEN_FDS") },
        notify: std::env::var_os("NOTIFY_SOCKET"),
        alive_every: notify::alive_every(
            text("WATCHDOG_USEC").as_deref(),
            text("WATCHDOG_PID").as_deref(),
            std::process::id(),
        ),
    };
    let slots = plan.limits.runs;
    let spool = plan.spool.clone();
    let load = || {
        duty::open_spool(&spool)?;
        Ok(Served { shared: (), slots, work, refuse: duty::refuse })
    };
    match serve::run(plan, load, &Screen(out)) {
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
        | ServeError::Group(_)
        | ServeError::Runs(_)
        | ServeError::Load(_) => refusal.tell(out),
        ServeError::Io { .. } => {
            refusal.tell(out);
            Exit::Failed
        }
    }
}

/// stderr, one fact a line.
struct Screen<'a>(&'a Output);

impl Log for Screen<'_> {
    fn log(&self, entry: &Entry) {
        match entry.level {
            Level::Error => self.0.error(&entry.text),
            Level::Warning => self.0.warning(&entry.text),
            Level::Note => self.0.note(&entry.text),
            Level::Detail => self.0.detail(&entry.text),
        }
    }
}

/// Serves the run of a connection.
fn work((): (), assignment: Assignment) -> Exit {
    let reserve = Reserve::take().unwrap_or_default();
    duty::work(Box::new(Observer::start), reserve, assignment)
}
