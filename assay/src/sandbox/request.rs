//! One run as it was asked for: checked and complete. Pure.

pub use crate::evidence::wire::Format;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::CapabilitySet;

use super::artifact::Owner;
use super::descendants::Descendants;
use super::environment::EnvironmentRequest;
use super::user::User;

/// Everything that decides how a run goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRequest {
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
    /// How it is held.
    pub mode: Mode,
    /// Whether anything unenforceable and any lost event is fatal.
    pub is_fail_closed: bool,
    /// The record is held against a second witness, where the kernel has one.
    pub wants_second_witness: bool,
    /// Whether it goes on when nothing can be observed although a record was asked for.
    pub allows_unobserved: bool,
    /// What it is held to.
    pub policy: PolicySource,
    /// What is written about it.
    pub artifacts: Artifacts,
    /// How its environment is made.
    pub environment: EnvironmentRequest,
    /// Where it starts.
    pub workdir: Workdir,
    /// How long it may last.
    pub timeout: Timeout,
    /// As whom it runs.
    pub user: RunAs,
    /// Capabilities that are not dropped.
    pub kept_capabilities: CapabilitySet,
    /// What becomes of processes that outlive it.
    pub descendants: Descendants,
    /// Who owns the artifacts.
    pub owner: Owner,
    /// Whether a summary may be shown at the end.
    pub progress: Progress,
}

/// How a run is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// By whatever the kernel offers.
    Default,
    /// Not at all; it is only observed.
    DryRun,
    /// Containment must be active.
    Enforce,
}

impl Mode {
    /// The word in the evidence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::DryRun => "dry-run",
            Self::Enforce => "enforce",
        }
    }
}

/// Where the policy comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySource {
    /// The built-in minimal policy.
    Builtin,
    /// This file.
    File(PathBuf),
}

/// Where the command starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workdir {
    /// Where we are.
    Inherited,
    /// Here.
    At(PathBuf),
}

/// How long a run may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// As long as it likes.
    Never,
    /// So long.
    After(Duration),
}

/// As whom the command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunAs {
    /// As we do.
    Ourselves,
    /// As this user.
    User(User),
}

/// Whether a summary may be shown at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// On a terminal.
    Auto,
    /// Never.
    Never,
}

/// Where the three artifacts of a profiled run go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileFiles {
    /// The profile.
    pub profile: PathBuf,
    /// The evidence beside it.
    pub evidence: PathBuf,
    /// The report.
    pub report: PathBuf,
    /// How the first two are written.
    pub format: Format,
}

/// What is written about a run. Each is absent unless it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Artifacts {
    /// Profile, evidence and report.
    pub profile: Option<ProfileFiles>,
    /// The evidence bundle.
    pub bundle: Option<PathBuf>,
    /// The trace.
    pub trace: Option<PathBuf>,
    /// Raw records.
    pub records: Option<PathBuf>,
    /// The outcome.
    pub status: Option<PathBuf>,
    /// The one time that they carry, in seconds since 1970, instead of that at which they are made.
    pub epoch: Option<u64>,
}

impl Artifacts {
    /// Whether there is more to write than how the run came out.
    pub fn has_record(&self) -> bool {
        self.files().iter().any(|(name, _)| *name != "status")
    }

    /// Every file that will be written, with its name in the status file.
    pub fn files(&self) -> Vec<(&'static str, &Path)> {
        let mut files = Vec::new();
        if let Some(profile) = &self.profile {
            files.push(("profile", profile.profile.as_path()));
            files.push(("evidence", profile.evidence.as_path()));
            files.push(("report", profile.report.as_path()));
        }
        let more = [
            ("bundle", &self.bundle),
            ("trace", &self.trace),
            ("records", &self.records),
            ("status", &self.status),
        ];
        files.extend(more.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?))));
        files
    }
}

impl SandboxRequest {
    /// Whether a record was asked for, so that a run without one is refused.
    pub fn wants_record(&self) -> bool {
        self.artifacts.profile.is_some()
            || self.artifacts.bundle.is_some()
            || self.artifacts.trace.is_some()
            || self.artifacts.records.is_some()
            || self.mode == Mode::DryRun
            || self.is_fail_closed
    }
}

/// The evidence lies beside the profile: a final `.yaml`, `.yml` or `.json` becomes `.evidence.yaml` or
/// `.evidence.json`.
pub fn evidence_path(profile: &Path, format: Format) -> PathBuf {
    let ending = match format {
        Format::Yaml => ".evidence.yaml",
        Format::Json => ".evidence.json",
    };
    let name = profile.file_name().unwrap_or_default();
    let stem = match profile.extension() {
        Some(extension) if ["yaml", "yml", "json"].into_iter().any(|known| extension == known) => {
            profile.file_stem().unwrap_or_default()
        }
        _ => name,
    };
    profile.with_file_name(with_ending(stem.to_owned(), ending))
}

/// The report lies beside the profile unless it is named.
pub fn report_path(profile: &Path) -> PathBuf {
    with_ending(profile.as_os_str().to_owned(), ".report.md").into()
}

fn with_ending(mut name: OsString, ending: &str) -> OsString {
    name.push(ending);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(profile: &str, format: Format, evidence: &str) {
        assert_eq!(evidence_path(Path::new(profile), format), Path::new(evidence), "{profile}");
    }

    #[test]
    fn the_evidence_lies_beside_the_profile() {
        check("run.profile.yaml", Format::Yaml, "run.profile.evidence.yaml");
        check("a/run.yml", Format::Yaml, "a/run.evidence.yaml");
        check("/a/run.json", Format::Json, "/a/run.evidence.json");
        check("run.yaml", Format::Json, "run.evidence.json");
        check("a.yaml/run", Format::Yaml, "a.yaml/run.evidence.yaml");
        check("run.txt", Format::Json, "run.txt.evidence.json");
        check(".yaml", Format::Yaml, ".yaml.evidence.yaml");
        assert_eq!(report_path(Path::new("a/run.profile.yaml")), Path::new("a/run.profile.yaml.report.md"));
    }
}
