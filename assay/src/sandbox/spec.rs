//! What this process tells its two helpers, the launcher and the watchdog, and what they answer.
//!
//! One frame: the length of a JSON header, the header, then byte strings that JSON could not hold. Both ends are
//! the same binary, so there are no versions; what does not decode is an error all the same.

use std::ffi::{CString, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::artifact::Owner;
use super::inherited::Inherited;

/// No frame is longer: the kernel's own bound on arguments and environment is 6 MiB by default, and at most a
/// quarter of the stack limit.
const MAX_BYTES: u32 = 1 << 30;

/// What the launcher is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchSpec {
    /// The command's arguments, its name first.
    pub argv: Vec<Vec<u8>>,
    /// Its environment.
    pub envp: Vec<Vec<u8>>,
    /// The file through which it joins the run's group.
    pub procs_file: Option<PathBuf>,
    /// Where it starts; `None` leaves it where we are.
    pub workdir: Option<PathBuf>,
    /// The rest.
    pub settings: LaunchSettings,
}

/// The part of a launch that is numbers and flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchSettings {
    /// Ids and groups to take on.
    pub ids: Option<Ids>,
    /// Capabilities to drop, as the kernel's bits.
    pub dropped: u64,
    /// Whether to set `no_new_privs`.
    pub has_no_new_privs: bool,
    /// The signal state and closed descriptors to put back.
    pub inherited: Inherited,
    /// Whether what needs rights beyond its own is done for it by who serves the run: its group, its mounts.
    pub is_served: bool,
    /// The rules that the launcher restricts itself by, as `enforce` serialised them; `None` in a dry run.
    pub ruleset: Option<Vec<u8>>,
}

/// Ids of the child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ids {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// What the watchdog is to clean up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSpec {
    /// The run's group.
    pub group: Option<PathBuf>,
    /// The child's private directory.
    pub tmpdir: Option<PathBuf>,
    /// The directory that placeholders need.
    pub scratch: Option<PathBuf>,
    /// Where it says what became of us.
    pub last_words: LastWords,
}

/// Files that tell of a run whose observer was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWords {
    /// The status file.
    pub status: Option<PathBuf>,
    /// The trace.
    pub trace: Option<PathBuf>,
    /// Who owns them.
    pub owner: Owner,
}

/// What a launch was doing when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Reading the spec.
    Spec,
    /// Joining the run's group.
    Group,
    /// Giving up privileges.
    Privileges,
    /// Taking on another user's ids.
    Ids,
    /// Restricting itself by the policy.
    Ruleset,
    /// Entering the working directory.
    Workdir,
    /// Putting the signal state back.
    Signals,
    /// Starting the program.
    Exec,
}

impl Stage {
    /// What was attempted, so that "failed to {}" reads.
    pub fn attempt(self) -> &'static str {
        match self {
            Self::Spec => "read what to launch",
            Self::Group => "join the run's control group",
            Self::Privileges => "drop capabilities",
            Self::Ids => "take on the ids of the user",
            Self::Ruleset => "restrict the command by the policy",
            Self::Workdir => "enter the working directory",
            Self::Signals => "restore the signal state",
            Self::Exec => "start the command",
        }
    }
}

/// Something that the launcher was to do and this host did not let it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unheld {
    /// The control groups are writable for the child.
    CgroupWritable,
    /// Its `/proc` shows processes of others.
    OtherProcessesVisible,
    /// A privileged program can bring dropped capabilities back.
    BoundingSetKept,
}

/// What the launcher answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Answer {
    /// It tried to get namespaces of its own; before all others, from a launcher that was started for that.
    Apart {
        /// Whether it has them.
        is_done: bool,
    },
    /// All is done but the start; it waits for the word.
    Ready {
        /// What could not be held.
        unheld: Vec<Unheld>,
    },
    /// The next thing it does is `execve`; when the other end then closes without a failure, that succeeded.
    Starting,
    /// It failed and ends.
    Failed {
        /// At what.
        stage: Stage,
        /// With which error.
        errno: i32,
        /// More words, where the number is not all.
        detail: Option<String>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LaunchHeader {
    settings: LaunchSettings,
    argv: Vec<u32>,
    envp: Vec<u32>,
    procs_file: Option<u32>,
    workdir: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchHeader {
    group: Option<u32>,
    tmpdir: Option<u32>,
    scratch: Option<u32>,
    status: Option<u32>,
    trace: Option<u32>,
    owner: Option<(u32, u32)>,
}

impl LaunchSpec {
    /// Sends it.
    pub fn send(&self, to: &mut dyn Write) -> io::Result<()> {
        let length = |bytes: &Vec<u8>| bytes.len() as u32;
        let header = LaunchHeader {
            settings: self.settings.clone(),
            argv: self.argv.iter().map(length).collect(),
            envp: self.envp.iter().map(length).collect(),
            procs_file: path_length(self.procs_file.as_ref()),
            workdir: path_length(self.workdir.as_ref()),
        };
        let mut body: Vec<u8> = self.argv.iter().chain(&self.envp).flatten().copied().collect();
        for path in [&self.procs_file, &self.workdir].into_iter().flatten() {
            body.extend_from_slice(path.as_os_str().as_bytes());
        }
        send_frame(to, &header, &body)
    }

    /// Receives it.
    pub fn receive(from: &mut dyn Read) -> io::Result<Self> {
        let header: LaunchHeader = receive_header(from)?;
        let argv = header.argv.iter().map(|length| take(from, *length)).collect::<io::Result<_>>()?;
        let envp = header.envp.iter().map(|length| take(from, *length)).collect::<io::Result<_>>()?;
        let procs_file = take_path(from, header.procs_file)?;
        let workdir = take_path(from, header.workdir)?;
        Ok(Self { argv, envp, procs_file, workdir, settings: header.settings })
    }

    /// The arguments as `execve` takes them.
    pub fn argv(&self) -> io::Result<Vec<CString>> {
        to_c_strings(&self.argv)
    }

    /// The environment as `execve` takes it.
    pub fn envp(&self) -> io::Result<Vec<CString>> {
        to_c_strings(&self.envp)
    }
}

impl WatchSpec {
    /// Sends it.
    pub fn send(&self, to: &mut dyn Write) -> io::Result<()> {
        let header = WatchHeader {
            group: path_length(self.group.as_ref()),
            tmpdir: path_length(self.tmpdir.as_ref()),
            scratch: path_length(self.scratch.as_ref()),
            status: path_length(self.last_words.status.as_ref()),
            trace: path_length(self.last_words.trace.as_ref()),
            owner: match self.last_words.owner {
                Owner::Ourselves => None,
                Owner::Invoking { uid, gid } => Some((uid, gid)),
            },
        };
        let words = &self.last_words;
        let paths = [&self.group, &self.tmpdir, &self.scratch, &words.status, &words.trace];
        let body: Vec<u8> =
            paths.into_iter().flatten().flat_map(|path| path.as_os_str().as_bytes()).copied().collect();
        send_frame(to, &header, &body)
    }

    /// Receives it.
    pub fn receive(from: &mut dyn Read) -> io::Result<Self> {
        let header: WatchHeader = receive_header(from)?;
        let group = take_path(from, header.group)?;
        let tmpdir = take_path(from, header.tmpdir)?;
        let scratch = take_path(from, header.scratch)?;
        let last_words = LastWords {
            status: take_path(from, header.status)?,
            trace: take_path(from, header.trace)?,
            owner: header.owner.map_or(Owner::Ourselves, |(uid, gid)| Owner::Invoking { uid, gid }),
        };
        Ok(Self { group, tmpdir, scratch, last_words })
    }
}

impl Answer {
    /// Sends it.
    pub fn send(&self, to: &mut dyn Write) -> io::Result<()> {
        send_frame(to, self, &[])
    }

    /// Receives the next; `None` when the other end closed before it began one.
    pub fn receive(from: &mut dyn Read) -> io::Result<Option<Self>> {
        let mut first = [0u8; 1];
        loop {
            match from.read(&mut first) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The other end was killed with our frame unread.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        receive_header(&mut first.as_slice().chain(from)).map(Some)
    }
}

fn send_frame<T: Serialize>(to: &mut dyn Write, header: &T, body: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let mut frame = Vec::with_capacity(4 + header.len() + body.len());
    frame.extend_from_slice(&(header.len() as u32).to_le_bytes());
    frame.extend_from_slice(&header);
    frame.extend_from_slice(body);
    to.write_all(&frame)
}

fn receive_header<T: for<'a> Deserialize<'a>>(from: &mut dyn Read) -> io::Result<T> {
    let mut length = [0u8; 4];
    from.read_exact(&mut length)?;
    let header = take(from, u32::from_le_bytes(length))?;
    Ok(serde_json::from_slice(&header)?)
}

fn take(from: &mut dyn Read, length: u32) -> io::Result<Vec<u8>> {
    if length > MAX_BYTES {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut bytes = Vec::new();
    if from.take(u64::from(length)).read_to_end(&mut bytes)? == length as usize {
        Ok(bytes)
    } else {
        Err(io::Error::from(io::ErrorKind::UnexpectedEof))
    }
}

fn take_path(from: &mut dyn Read, length: Option<u32>) -> io::Result<Option<PathBuf>> {
    length.map(|length| take(from, length).map(|bytes| PathBuf::from(OsString::from_vec(bytes)))).transpose()
}

fn path_length(path: Option<&PathBuf>) -> Option<u32> {
    path.map(|path| path.as_os_str().len() as u32)
}

fn to_c_strings(texts: &[Vec<u8>]) -> io::Result<Vec<CString>> {
    texts.iter().map(|text| CString::new(text.clone()).map_err(io::Error::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> LaunchSpec {
        LaunchSpec {
            argv: vec![b"a".to_vec(), b"".to_vec(), b"\xff\n".to_vec()],
            envp: vec![b"A=\xfe".to_vec()],
            procs_file: Some("/sys/fs/cgroup/x y".into()),
            workdir: None,
            settings: LaunchSettings {
                ids: Some(Ids { uid: 1, gid: 2, groups: vec![3, 4] }),
                dropped: u64::MAX,
                has_no_new_privs: true,
                is_served: true,
                inherited: Inherited { ignored: 1 << 63, blocked: 3, closed: 7 },
                ruleset: Some(b"rules".to_vec()),
            },
        }
    }

    #[test]
    fn what_is_received_is_what_was_sent() {
        let mut frame = Vec::new();
        spec().send(&mut frame).unwrap();
        assert_eq!(LaunchSpec::receive(&mut frame.as_slice()).unwrap(), spec());
        for end in 0..frame.len() {
            assert!(LaunchSpec::receive(&mut &frame[..end]).is_err(), "cut at {end}");
        }

        let last_words =
            LastWords { status: None, trace: Some("t\n".into()), owner: Owner::Invoking { uid: 7, gid: 8 } };
        let watch = WatchSpec {
            group: None,
            tmpdir: Some("/tmp/\u{e9}".into()),
            scratch: Some("/s".into()),
            last_words,
        };
        let mut frame = Vec::new();
        watch.send(&mut frame).unwrap();
        assert_eq!(WatchSpec::receive(&mut frame.as_slice()).unwrap(), watch);

        let failed = Answer::Failed { stage: Stage::Workdir, errno: 2, detail: None };
        let mut frames = Vec::new();
        Answer::Starting.send(&mut frames).unwrap();
        failed.send(&mut frames).unwrap();
        let mut rest = frames.as_slice();
        assert_eq!(Answer::receive(&mut rest).unwrap(), Some(Answer::Starting));
        assert_eq!(Answer::receive(&mut rest).unwrap(), Some(failed));
        assert_eq!(Answer::receive(&mut rest).unwrap(), None);
    }

    #[test]
    fn a_length_that_is_no_length_is_an_error() {
        assert!(LaunchSpec::receive(&mut [0xff; 64].as_slice()).is_err());
        assert!(Answer::receive(&mut [1, 0, 0].as_slice()).is_err());
    }
}
