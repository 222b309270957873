//! What a client asks for, as it crosses: numbers and words in the header, names and values in the body. Pure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::policy_files::PolicyFiles;
use super::wire::WireError;
use crate::sandbox::descendants::Descendants;
use crate::sandbox::environment::{EnvironmentRequest, Scrubbing};
use crate::sandbox::inherited::Inherited;
use crate::sandbox::request::{Format, Mode, PolicySource, SandboxRequest, Timeout, Workdir};

/// A request without what only its client needs: where artifacts lie, who owns them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an answer of its own, as in the request")]
pub struct Ask {
    /// The command and its arguments.
    pub command: Vec<Vec<u8>>,
    /// The client's environment.
    pub environment: Vec<Vec<u8>>,
    /// Descriptors that the command inherits, by the client's numbers; 0, 1 and 2 with them as far as they are open.
    pub descriptors: Vec<i32>,
    /// Signals, and which standard streams are closed.
    pub inherited: Inherited,
    /// How it is held.
    pub mode: Mode,
    /// As in [`SandboxRequest`].
    pub is_fail_closed: bool,
    /// As in [`SandboxRequest`].
    pub allows_unobserved: bool,
    /// How the environment is made.
    pub scrubbing: EnvironmentRequest,
    /// Where the command starts, if not where the client is.
    pub workdir: Option<Vec<u8>>,
    /// How long it may last.
    pub timeout: Timeout,
    /// What becomes of what outlives it.
    pub descendants: Descendants,
    /// How profile and evidence are written.
    pub format: Format,
    /// Whether the report is HTML.
    pub is_report_html: bool,
    /// Whether the three artifacts were asked for.
    pub wants_profile: bool,
    /// The time that artifacts carry.
    pub epoch: Option<u64>,
    /// The path of the trace and of raw records, where they were asked for: the client gives their files.
    pub streams: Vec<(String, Vec<u8>)>,
    /// The path of the policy, if it is not the built-in one.
    pub policy: Option<Vec<u8>>,
    /// What it is read from.
    pub policy_files: PolicyFiles,
}

/// The header. Lists of names are lengths here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "as in `Ask`")]
pub struct AskHeader {
    command: Vec<u32>,
    environment: Vec<u32>,
    descriptors: Vec<i32>,
    inherited: Inherited,
    mode: Mode,
    is_fail_closed: bool,
    allows_unobserved: bool,
    scrubbing: Option<ScrubbingHeader>,
    workdir: Option<u32>,
    timeout_ms: Option<u64>,
    descendants: Descendants,
    format: Format,
    is_report_html: bool,
    wants_profile: bool,
    epoch: Option<u64>,
    streams: Vec<(String, u32)>,
    policy: Option<u32>,
    policy_files: Vec<FileHeader>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScrubbingHeader {
    is_strict: bool,
    strips_exec: bool,
    has_safe_path: bool,
    allow: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHeader {
    path: u32,
    content: u32,
    is_readable: bool,
}

impl Ask {
    /// What a request asks of others. `environment`, `descriptors` and `inherited` are the client's.
    pub fn of(
        request: &SandboxRequest,
        environment: Vec<Vec<u8>>,
        descriptors: Vec<i32>,
        inherited: Inherited,
        policy_files: PolicyFiles,
    ) -> Self {
        let artifacts = &request.artifacts;
        let streams = [("trace", &artifacts.trace), ("records", &artifacts.records)];
        let is_html = |path: &PathBuf| {
            let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
            matches!(ending.as_deref(), Some("html" | "htm"))
        };
        let policy = match &request.policy {
            PolicySource::Builtin => None,
            PolicySource::File(path) => Some(path.as_os_str().as_bytes().to_vec()),
        };
        Self {
            command: request.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
            environment,
            descriptors,
            inherited,
            mode: request.mode,
            is_fail_closed: request.is_fail_closed,
            allows_unobserved: request.allows_unobserved,
            scrubbing: request.environment.clone(),
            workdir: match &request.workdir {
                Workdir::Inherited => None,
                Workdir::At(path) => Some(path.as_os_str().as_bytes().to_vec()),
            },
            timeout: request.timeout,
            descendants: request.descendants,
            format: artifacts.profile.as_ref().map_or(Format::Yaml, |profile| profile.format),
            is_report_html: artifacts.profile.as_ref().is_some_and(|profile| is_html(&profile.report)),
            wants_profile: artifacts.profile.is_some(),
            epoch: artifacts.epoch,
            streams: streams
                .into_iter()
                .filter_map(|(name, path)| {
                    Some((name.to_owned(), path.as_ref()?.as_os_str().as_bytes().to_vec()))
                })
                .collect(),
            policy_files,
            policy,
        }
    }

    /// Header and body.
    pub fn pack(&self) -> (AskHeader, Vec<u8>) {
        let mut body = Vec::new();
        let mut put = |bytes: &[u8]| {
            body.extend_from_slice(bytes);
            bytes.len() as u32
        };
        let header = AskHeader {
            command: self.command.iter().map(|word| put(word)).collect(),
            environment: self.environment.iter().map(|entry| put(entry)).collect(),
            descriptors: self.descriptors.clone(),
            inherited: self.inherited,
            mode: self.mode,
            is_fail_closed: self.is_fail_closed,
            allows_unobserved: self.allows_unobserved,
            scrubbing: match &self.scrubbing {
                EnvironmentRequest::Passthrough => None,
                EnvironmentRequest::Scrub(scrubbing) => Some(ScrubbingHeader {
                    is_strict: scrubbing.is_strict,
                    strips_exec: scrubbing.strips_exec,
                    has_safe_path: scrubbing.has_safe_path,
                    allow: scrubbing.allow.iter().map(|pattern| put(pattern.as_bytes())).collect(),
                }),
            },
            workdir: self.workdir.as_deref().map(&mut put),
            timeout_ms: match self.timeout {
                Timeout::Never => None,
                Timeout::After(duration) => Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
            },
            descendants: self.descendants,
            format: self.format,
            is_report_html: self.is_report_html,
            wants_profile: self.wants_profile,
            epoch: self.epoch,
            streams: self.streams.iter().map(|(name, path)| (name.clone(), put(path))).collect(),
            policy: self.policy.as_deref().map(&mut put),
            policy_files: self
                .policy_files
                .iter()
                .map(|(path, content)| FileHeader {
                    path: put(path),
                    is_readable: content.is_ok(),
                    content: match content {
                        Ok(bytes) => put(bytes),
                        Err(why) => put(why.as_bytes()),
                    },
                })
                .collect(),
        };
        (header, body)
    }

    /// Reads both. What cannot be a request is an error.
    pub fn unpack(header: &AskHeader, body: &[u8]) -> Result<Self, WireError> {
        let mut rest = body;
        let mut take = |length: u32| -> Result<Vec<u8>, WireError> {
            let (bytes, after) =
                rest.split_at_checked(length as usize).ok_or(WireError::Wrong("its body is too short"))?;
            rest = after;
            Ok(bytes.to_vec())
        };
        let mut take_all =
            |lengths: &[u32]| lengths.iter().map(|length| take(*length)).collect::<Result<Vec<_>, _>>();
        let command = take_all(&header.command)?;
        let environment = take_all(&header.environment)?;
        let scrubbing = match &header.scrubbing {
            None => EnvironmentRequest::Passthrough,
            Some(scrubbing) => EnvironmentRequest::Scrub(Scrubbing {
                is_strict: scrubbing.is_strict,
                strips_exec: scrubbing.strips_exec,
                has_safe_path: scrubbing.has_safe_path,
                allow: take_all(&scrubbing.allow)?.into_iter().map(OsString::from_vec).collect(),
            }),
        };
        let workdir = header.workdir.map(&mut take).transpose()?;
        let mut streams = Vec::new();
        for (name, length) in &header.streams {
            streams.push((name.clone(), take(*length)?));
        }
        let policy = header.policy.map(&mut take).transpose()?;
        let mut files = BTreeMap::new();
        for file in &header.policy_files {
            let path = take(file.path)?;
            let content = take(file.content)?;
            let content = if file.is_readable {
                Ok(content)
            } else {
                Err(String::from_utf8_lossy(&content).into_owned())
            };
            files.insert(path, content);
        }
        if !rest.is_empty() {
            return Err(WireError::Wrong("its body is too long"));
        }
        let ask = Self {
            command,
            environment,
            descriptors: header.descriptors.clone(),
            inherited: header.inherited,
            mode: header.mode,
            is_fail_closed: header.is_fail_closed,
            allows_unobserved: header.allows_unobserved,
            scrubbing,
            workdir,
            timeout: header.timeout_ms.map_or(Timeout::Never, |ms| Timeout::After(Duration::from_millis(ms))),
            descendants: header.descendants,
            format: header.format,
            is_report_html: header.is_report_html,
            wants_profile: header.wants_profile,
            epoch: header.epoch,
            streams,
            policy,
            policy_files: PolicyFiles::of(files),
        };
        ask.check()?;
        Ok(ask)
    }

    fn check(&self) -> Result<(), WireError> {
        let names = self.command.iter().chain(&self.environment).chain(&self.workdir).chain(&self.policy);
        if names.chain(self.streams.iter().map(|(_, path)| path)).any(|name| name.contains(&0)) {
            return Err(WireError::Wrong("a name has a NUL in it"));
        }
        if self.command.is_empty() {
            return Err(WireError::Wrong("there is no command"));
        }
        let mut numbers = self.descriptors.clone();
        numbers.sort_unstable();
        if numbers.first().is_some_and(|first| *first < 0) || numbers.windows(2).any(|two| two[0] == two[1]) {
            return Err(WireError::Wrong("its descriptors are not each another"));
        }
        let mut streams: Vec<&str> = self.streams.iter().map(|(name, _)| name.as_str()).collect();
        streams.sort_unstable();
        if !matches!(streams[..], [] | ["records" | "trace"] | ["records", "trace"]) {
            return Err(WireError::Wrong("no such stream"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask() -> Ask {
        Ask {
            command: vec![b"a".to_vec(), Vec::new(), b"\xff\n".to_vec()],
            environment: vec![b"A=\xfe".to_vec(), b"B".to_vec()],
            descriptors: vec![0, 1, 7],
            inherited: Inherited { ignored: 1, blocked: 2, closed: 4 },
            mode: Mode::Enforce,
            is_fail_closed: true,
            allows_unobserved: false,
            scrubbing: EnvironmentRequest::Scrub(Scrubbing {
                allow: vec!["X_*".into()],
                ..Scrubbing::default()
            }),
            workdir: Some(b"/w".to_vec()),
            timeout: Timeout::After(Duration::from_millis(1500)),
            descendants: Descendants::Kill,
            format: Format::Json,
            is_report_html: true,
            wants_profile: true,
            epoch: Some(1),
            streams: vec![("trace".into(), b"t\xff".to_vec())],
            policy: Some(b"p.yaml".to_vec()),
            policy_files: PolicyFiles::of(BTreeMap::from([
                (b"p.yaml".to_vec(), Ok(b"api".to_vec())),
                (b"q".to_vec(), Err("no".into())),
            ])),
        }
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let full = ask();
        let plain = Ask {
            scrubbing: EnvironmentRequest::Passthrough,
            workdir: None,
            policy: None,
            timeout: Timeout::Never,
            ..full.clone()
        };
        for ask in [full, plain] {
            let (header, body) = ask.pack();
            let text = serde_json::to_vec(&header).unwrap();
            let header: AskHeader = serde_json::from_slice(&text).unwrap();
            assert_eq!(Ask::unpack(&header, &body).unwrap(), ask);
        }
    }

    #[test]
    fn what_cannot_be_a_request_is_refused() {
        let check = |change: fn(&mut Ask)| {
            let mut ask = ask();
            change(&mut ask);
            let (header, body) = ask.pack();
            assert!(Ask::unpack(&header, &body).is_err(), "{ask:?}");
        };
        check(|ask| ask.command.clear());
        check(|ask| ask.command[0] = b"a\0b".to_vec());
        check(|ask| ask.environment.push(b"A=\0".to_vec()));
        check(|ask| ask.descriptors = vec![3, 4, 3]);
        check(|ask| ask.descriptors = vec![-1]);
        check(|ask| ask.streams.push(("trace".into(), Vec::new())));
        check(|ask| ask.streams.push(("../etc".into(), Vec::new())));
        let (header, mut body) = ask().pack();
        body.push(0);
        assert!(Ask::unpack(&header, &body).is_err());
        body.truncate(4);
        assert!(Ask::unpack(&header, &body).is_err());
    }
}
