//! The measured process: does what it is told, over and over, and says how long it took.
//!
//! In: a job a line on stdin. Out: one number a line on stdout, nanoseconds of this thread's own processor time where
//! the job is a loop. It knows nothing of hooks.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::raw_calls;

/// What is measured, or tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// The shortest call there is.
    Getppid,
    /// A file opened and closed: two calls.
    OpenClose,
    /// Opens by the 32-bit entry.
    Compat,
    /// Opens with strings that are not paged in.
    Untouched,
    /// Programs started.
    Start,
}

impl Job {
    const ALL: [Self; 5] = [Self::Getppid, Self::OpenClose, Self::Compat, Self::Untouched, Self::Start];

    /// Its word on the line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Getppid => "getppid",
            Self::OpenClose => "open-close",
            Self::Compat => "compat",
            Self::Untouched => "untouched",
            Self::Start => "start",
        }
    }
}

/// Does the jobs on stdin until it ends.
pub fn execute(processor: usize) -> Result<()> {
    pin(processor)?;
    let file = std::env::current_exe()?;
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let job = line.split_once(' ').and_then(|(word, times)| {
            Some((Job::ALL.into_iter().find(|job| job.as_str() == word)?, times.parse().ok()?))
        });
        let Some((job, times)) = job else { bail!("what is `{line}`?") };
        writeln!(stdout, "{}", run(job, times, &file)?)?;
        stdout.flush()?;
    }
    Ok(())
}

/// Does one job.
fn run(job: Job, times: u32, file: &Path) -> Result<u64> {
    let path = CString::new(file.as_os_str().as_encoded_bytes())?;
    let text = if job == Job::Untouched { Some(text_file(&path)?) } else { None };
    let began = thread_time();
    for _ in 0..times {
        match job {
            Job::Getppid => {
                std::hint::black_box(rustix::process::getppid());
            }
            // Not `open`, which is a system call of its own.
            Job::OpenClose => {
                drop(openat(CWD, &*path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
            }
            Job::Compat => raw_calls::open_by_32_bit_entry(&path)?,
            Job::Untouched => {
                raw_calls::open_with_untouched_string(text.as_ref().expect("made for this job above"))?;
            }
            // Ourselves with nothing to do, which ends at once.
            Job::Start => {
                let status =
                    Command::new(file).args(["bench", "actor", "0"]).stdin(Stdio::null()).status()?;
                if !status.success() {
                    bail!("a program without work failed ({status})");
                }
            }
        }
    }
    Ok(thread_time() - began)
}

/// A file that holds the path, without a name.
fn text_file(path: &CString) -> Result<File> {
    let name = std::env::temp_dir().join(format!("assay-bench-{}", std::process::id()));
    let mut file = File::create_new(&name)?;
    file.write_all(path.as_bytes_with_nul())?;
    let reopened = File::open(&name);
    fs::remove_file(&name)?;
    Ok(reopened?)
}

/// Processor time of this thread: what others take of the processor is not in it.
/// Nanoseconds of processor time that this thread has had.
pub fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A process of that kind, from the side of the one that measures. It ends when this is dropped.
pub struct Actor {
    child: Child,
    jobs: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Actor {
    /// Starts one on this processor.
    pub fn start(processor: usize) -> Result<Self> {
        Self::start_by(Command::new(std::env::current_exe()?), processor)
    }

    /// Starts one by a command that ends in our own program.
    pub fn start_by(mut command: Command, processor: usize) -> Result<Self> {
        command.args(["bench", "actor", &processor.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("start the measured process")?;
        let jobs = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("piped above"));
        Ok(Self { child, jobs, answers })
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The time for this many.
    pub fn run(&mut self, job: Job, times: u32) -> Result<Duration> {
        let jobs = self.jobs.as_mut().expect("taken only when dropped");
        writeln!(jobs, "{} {times}", job.as_str())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let time = answer.trim().parse().map(Duration::from_nanos);
        time.with_context(|| format!("the measured process failed at {}", job.as_str()))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // The end of its input is the end of its work; a process that has died already is as good.
        drop(self.jobs.take());
        drop(self.child.wait());
    }
}

/// Keeps this process on one processor.
pub fn pin(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).with_context(|| format!("stay on processor {processor}"))
}
