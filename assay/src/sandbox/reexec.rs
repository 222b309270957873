//! Our two helper processes: how they are started again from our own binary, and how `main` tells them apart.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};

use super::{descriptors, launcher, watchdog};

/// What a helper is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Becomes the command.
    Launcher,
    /// The same, with namespaces of its own: for who has no rights outside of them.
    LauncherApart,
    /// Outlives us if we are killed, and ends the run then.
    Watchdog,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Launcher => "__launch",
            Self::LauncherApart => "__launch-apart",
            Self::Watchdog => "__watchdog",
        }
    }
}

/// Starts a helper. What it is to do goes through the stream, which nobody else holds.
pub fn spawn(role: Role) -> io::Result<(Child, UnixStream)> {
    spawn_with(role, None)
}

/// The same, with this for its standard input.
pub fn spawn_with(role: Role, stdin: Option<OwnedFd>) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    // The only descriptor of ours that passes an exec, for the one exec below: we have one thread that starts
    // processes, and it drops this end right after.
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("assay").arg(role.word()).arg(theirs.as_raw_fd().to_string());
    // What the environment makes a loader or a library do is meant for the command, not for us.
    command.env_clear();
    if role == Role::Watchdog {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    if let Some(stdin) = stdin {
        command.stdin(stdin);
    }
    Ok((command.spawn()?, ours))
}

/// Runs this process as a helper when its arguments say so. For `main`, before anything else.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    let word = args.next()?;
    let role =
        [Role::Launcher, Role::LauncherApart, Role::Watchdog].into_iter().find(|role| word == role.word())?;
    let number = args.next().and_then(|number| number.to_str()?.parse().ok());
    let Some(number) = number.filter(|_| args.next().is_none()) else { return Some(ExitCode::from(2)) };
    Some(match role {
        Role::Launcher | Role::LauncherApart => match descriptors::take(number) {
            Ok(fd) if role == Role::LauncherApart => launcher::run_apart(UnixStream::from(fd)),
            Ok(fd) => launcher::run(UnixStream::from(fd)),
            Err(_) => ExitCode::from(2),
        },
        Role::Watchdog => watchdog::run(number),
    })
}
