//! The process that ends the run when the observer dies: no unobserved run goes on.
//!
//! It is outside the run's group, in a session of its own, and holds nothing of the caller's open but the directories
//! of two artifacts. When the stream closes without a word it kills the group, says so in the trace and in the status
//! file, and removes the group and the private directory.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ExitCode};
use std::time::Duration;

use super::artifact::{Owner, Target};
use super::cgroup::Group;
use super::outcome::{Decision, Verdict};
use super::reexec::{self, Role};
use super::spec::{LastWords, WatchSpec};
use super::{descriptors, heir, signals, status, tmpdir};
use crate::exit::Exit;

/// Says "I am ready".
const READY: u8 = b'r';
/// Says "the trace is in its place".
const TRACED: u8 = b't';
/// Says "all is cleaned up, go".
const DISMISSED: u8 = b'd';
/// How long a process that was killed may take to be gone, for example in uninterruptible input or output.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an heir may take to write the artifacts.
const HEIR_PATIENCE: Duration = Duration::from_secs(600);

/// Our end of a running watchdog.
#[derive(Debug)]
pub struct Watchdog {
    process: Child,
    stream: UnixStream,
    /// For an heir, to tell it that all is written. When nobody holds it any more there is none.
    heir: Option<UnixStream>,
}

impl Watchdog {
    /// Starts one. It is not ready before [`wait_ready`](Self::wait_ready) returns.
    pub fn spawn(spec: &WatchSpec) -> io::Result<Self> {
        let (heir, heard) = UnixStream::pair()?;
        let (process, mut stream) = reexec::spawn_with(Role::Watchdog, Some(heard.into()))?;
        spec.send(&mut stream)?;
        Ok(Self { process, stream, heir: Some(heir) })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The line for an heir, and what an heir must not hold.
    pub fn take_line(&mut self) -> (Option<UnixStream>, RawFd) {
        (self.heir.take(), self.stream.as_raw_fd())
    }

    /// Waits until it can no longer be ended by what ends us.
    pub fn wait_ready(&mut self) -> io::Result<()> {
        let mut word = [0u8; 1];
        self.stream.read_exact(&mut word)?;
        if word[0] == READY { Ok(()) } else { Err(io::Error::from(io::ErrorKind::InvalidData)) }
    }

    /// Tells it that the trace is this run's from now on.
    pub fn announce_trace(&mut self) {
        // It may have been killed; then there is nobody to tell.
        drop(self.stream.write_all(&[TRACED]));
    }

    /// Whether it still runs. One that does not was killed by somebody.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Lets it go without cleaning up, and waits for its end.
    pub fn dismiss(mut self) {
        // It may have been killed; then there is nobody to tell.
        drop(self.stream.write_all(&[DISMISSED]));
        // It may have been stopped. There is nothing left for it to do.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Runs this process as the watchdog.
pub fn run(number: RawFd) -> ExitCode {
    super::apart::set_apart();
    match watch(number) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn watch(number: RawFd) -> io::Result<()> {
    signals::ignore_all()?;
    descriptors::close_all_but(number);
    let mut stream = UnixStream::from(descriptors::take(number)?);
    let heir = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from).ok();
    descriptors::let_go_of_stdio();
    // We were just forked, so we lead no group and this succeeds.
    rustix::process::setsid()?;
    // A name for `ps`; without it the kernel shows `exe`.
    rustix::thread::set_name(c"assay-watchdog").ok();
    let spec = WatchSpec::receive(&mut stream)?;
    // Before the command starts, so that it cannot put another directory in their place.
    let places = Places::prepare(&spec.last_words);
    std::env::set_current_dir("/")?;
    // Who is not there to read it has died already.
    drop(stream.write_all(&[READY]));

    let mut is_traced = false;
    let mut word = [0u8; 1];
    while stream.read_exact(&mut word).is_ok() {
        match word[0] {
            DISMISSED => return Ok(()),
            TRACED => is_traced = true,
            _ => {}
        }
    }
    let has_group = spec.group.is_some();
    if let Some(directory) = spec.group {
        let group = Group::adopt(directory);
        group.kill_and_wait(PATIENCE);
        drop(group.remove());
    }
    if !heir.is_some_and(|line| heir::wait_for(line, HEIR_PATIENCE)) {
        places.say(is_traced, has_group);
    }
    let removed = [spec.tmpdir, spec.scratch].map(|path| path.map_or(Ok(()), |path| tmpdir::remove(&path)));
    removed.into_iter().collect()
}

/// The last line of a trace whose observer was killed: how many events there were, nobody knows.
pub const TRACE_END: &[u8] = b"{\"end\":false,\"reason\":\"observer killed\"}\n";

/// Where the last words go, with the directories held open.
struct Places {
    status: Option<Target>,
    trace: Option<Target>,
    owner: Owner,
}

impl Places {
    /// A place that cannot be opened is one that the observer itself complains of.
    fn prepare(words: &LastWords) -> Self {
        let open = |path: &Option<PathBuf>| path.as_deref().and_then(|path| Target::prepare(path).ok());
        Self { status: open(&words.status), trace: open(&words.trace), owner: words.owner }
    }

    fn say(&self, is_traced: bool, has_group: bool) {
        // Nobody is left to tell that it could not be said.
        if let Some(trace) = self.trace.as_ref().filter(|_| is_traced) {
            drop(trace.end_stream(self.owner, TRACE_END));
        }
        if let Some(status) = &self.status {
            let bytes = status::render(None, &killed(has_group, NOT_WRITTEN), &[], None);
            drop(status.write(self.owner, |out| out.write_all(&bytes)));
        }
    }
}

/// Said where there was no heir, or it was killed too.
const NOT_WRITTEN: &str = "no artifact was written but the trace as far as it went";

/// What a run comes to whose observer was killed.
pub fn killed(has_group: bool, written: &str) -> Decision {
    let became = if has_group {
        "the watchdog ended the command"
    } else {
        "the command may go on: it had no control group to end it by"
    };
    Decision {
        verdict: Verdict::Failed,
        exit: Exit::Failed,
        reasons: vec![
            "the observer was killed before the run was over".into(),
            became.into(),
            written.into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_say_what_became_of_the_run() {
        let status = |has_group| {
            String::from_utf8(status::render(None, &killed(has_group, NOT_WRITTEN), &[], None)).unwrap()
        };
        assert_eq!(
            status(true),
            concat!(
                r#"{"artifacts":{},"child":null,"exit_code":125,"reasons":["#,
                r#""the observer was killed before the run was over","#,
                r#""the watchdog ended the command","#,
                r#""no artifact was written but the trace as far as it went"],"verdict":"failed"}"#,
                "\n"
            )
        );
        assert!(status(false).contains("the command may go on"));
    }

    #[test]
    fn a_trace_of_another_run_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("t");
        std::fs::write(&trace, "{}\n").unwrap();
        let words = LastWords { status: None, trace: Some(trace.clone()), owner: Owner::Ourselves };
        let places = Places::prepare(&words);
        places.say(false, true);
        assert_eq!(std::fs::read(&trace).unwrap(), b"{}\n");
        places.say(true, true);
        assert_eq!(std::fs::read(&trace).unwrap(), [b"{}\n", TRACE_END].concat());
    }
}
