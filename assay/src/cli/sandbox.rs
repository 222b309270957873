//! Flags → a sandbox request, and what a run says to its user.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use rustix::thread::CapabilitySet;

use crate::cli::env;
use crate::cli::failure::Refusal;
use crate::cli::output::Output;
use crate::enforce::status::brief;
use crate::exit::Exit;
use crate::profile::name::Name;
use crate::sandbox::artifact::Owner;
use crate::sandbox::assemble::Tally;
use crate::sandbox::caller::Caller;
use crate::sandbox::descendants::Descendants;
use crate::sandbox::environment::{EnvironmentRequest, Scrubbing};
use crate::sandbox::notice::Notices;
use crate::sandbox::outcome::{Decision, Verdict};
use crate::sandbox::request::{
    self, Artifacts, Format, Mode, PolicySource, ProfileFiles, Progress, RunAs, SandboxRequest, Timeout,
    Workdir,
};
use crate::sandbox::{self, Finished, assemble, capabilities, duration, user};
use crate::served::SOCKET;
use crate::served::client::{self, Unserved};

/// At the end of the help.
const EXAMPLES: &str = "\
Examples:
  assay sandbox -- make test          contain it by the built-in policy
  assay sandbox --dry-run --profile run.yaml -- make test
                                      learn what it does, block nothing
  assay sandbox --policy run.yaml --enforce -- make test
                                      hold it to what was learnt
  assay sandbox --fail-closed --profile p.yaml --bundle b.tgz -- ./agent
                                      evidence for others, or no run at all";

/// Flags of `assay sandbox`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "assay sandbox [OPTIONS] -- COMMAND [ARG]...",
    disable_help_flag = true,
    after_help = EXAMPLES
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line; the request has none of them"
)]
pub struct Args {
    /// Write what the command did as a policy, with the evidence and a report beside it.
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    profile: Option<PathBuf>,
    /// How the profile and its evidence are written.
    #[arg(
        long,
        value_enum,
        default_value_t = FormatWord::Yaml,
        value_name = "FORMAT",
        requires = "profile",
        help_heading = "Record"
    )]
    profile_format: FormatWord,
    /// Where the report goes, HTML if the name ends in `.html`; otherwise the profile's path with `.report.md`.
    #[arg(long, value_name = "FILE", requires = "profile", help_heading = "Record")]
    profile_report: Option<PathBuf>,
    /// Write the canonical evidence bundle; needs `--profile`.
    #[arg(long, value_name = "FILE", requires = "profile", help_heading = "Record")]
    bundle: Option<PathBuf>,
    /// Write every observation as it happens, one JSON object a line.
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    trace: Option<PathBuf>,
    /// Keep the raw records, from which the whole record can be made again.
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    keep_records: Option<PathBuf>,
    /// Check the record against what the kernel's security modules are asked, where it loads programs there; taking them
    /// away may take seconds.
    #[arg(long, help_heading = "Record")]
    second_witness: bool,
    /// Write the outcome as JSON.
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    status_file: Option<PathBuf>,
    /// Go on when nothing can be observed; every artifact then says so.
    #[arg(long, help_heading = "Record")]
    allow_unobserved: bool,

    /// The policy; otherwise the built-in minimal one.
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    policy: Option<PathBuf>,
    /// Observe only, never block; exit 4 if an action was not authorised by the policy.
    #[arg(long, conflicts_with = "enforce", help_heading = "Policy")]
    dry_run: bool,
    /// Containment must be active; what cannot be held is named and degrades to audit.
    #[arg(long, help_heading = "Policy")]
    enforce: bool,
    /// Anything unenforceable, and any lost event, is fatal.
    #[arg(long, help_heading = "Policy")]
    fail_closed: bool,
    /// Capabilities that are not dropped, with or without `CAP_`.
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Policy")]
    keep_caps: Vec<String>,

    /// Keep only a short list of variables, and what is allowed.
    #[arg(long, conflicts_with = "env_passthrough", help_heading = "Environment")]
    env_strict: bool,
    /// Remove the variables that make programs load code.
    #[arg(long, conflicts_with = "env_passthrough", help_heading = "Environment")]
    env_strip_exec: bool,
    /// Variables that stay whatever else is said; `*` stands for any characters.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        conflicts_with = "env_passthrough",
        help_heading = "Environment"
    )]
    env_allow: Vec<OsString>,
    /// Set a fixed `PATH`.
    #[arg(long, conflicts_with = "env_passthrough", help_heading = "Environment")]
    env_safe_path: bool,
    /// Pass the whole environment on, secrets included, and no private `TMPDIR`; recorded.
    #[arg(long, help_heading = "Environment")]
    env_passthrough: bool,

    /// Start the command in this directory.
    #[arg(long, value_name = "DIR", help_heading = "Command")]
    workdir: Option<PathBuf>,
    /// End the command after this time: 10, 1.5m, 2h; 0 is never.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Command")]
    timeout: Option<Duration>,
    /// Run the command as this user.
    #[arg(long, value_name = "NAME|UID[:GID]", help_heading = "Command")]
    user: Option<String>,
    /// Have the daemon at this socket run it and keep the record: `auto`, when we lack the rights ourselves and it is
    /// there; `never`; or a path.
    #[arg(long, default_value = "auto", value_name = "auto|never|PATH", help_heading = "Command")]
    daemon: Daemon,
    /// What becomes of processes that outlive the command.
    #[arg(long, value_enum, default_value_t = DescendantsWord::Wait, value_name = "WHAT", help_heading = "Command")]
    descendants: DescendantsWord,
    /// Whether to show a short summary at the end, on a terminal.
    #[arg(long, value_enum, default_value_t = ProgressWord::Auto, value_name = "WHEN", help_heading = "Command")]
    progress: ProgressWord,

    /// Print this.
    // With one layout: what fits a screen.
    #[arg(short = 'h', long = "help", action = clap::ArgAction::HelpShort)]
    _help: Option<bool>,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND", hide = true)]
    command: Vec<OsString>,
}

/// Which daemon is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Daemon {
    Auto,
    Never,
    At(PathBuf),
}

impl std::str::FromStr for Daemon {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "auto" => Self::Auto,
            "never" => Self::Never,
            path => Self::At(path.into()),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatWord {
    Yaml,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DescendantsWord {
    /// Wait 5 s, then SIGTERM, then after 2 s kill them.
    Wait,
    /// Kill them at once.
    Kill,
    /// Let them run on: unobserved, and no longer held on the network.
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProgressWord {
    Auto,
    Never,
}

/// Runs it.
pub fn run(args: Args, out: &Output) -> Exit {
    // First of all: whatever is open now came from our caller.
    let caller = Caller::ourselves();
    let daemon = args.daemon.clone();
    let asked = to_request(args).and_then(|request| {
        let stream = ask_daemon(&daemon, &request, out)?;
        Ok((request, stream))
    });
    let (request, stream) = match asked {
        Ok(asked) => asked,
        Err(refusal) => return refusal.tell(out),
    };
    let finished = match stream {
        Some(stream) => client::run(&request, &caller, stream, out),
        None => sandbox::run(&request, &caller, out),
    };
    tell(&finished.decision, &finished.told_before, *out);
    if request.progress == Progress::Auto && out.is_read_by_a_person() {
        summarise(&finished, *out);
    }
    finished.decision.exit
}

/// The daemon that is to run it, where one is.
fn ask_daemon(
    daemon: &Daemon,
    request: &SandboxRequest,
    out: &Output,
) -> Result<Option<UnixStream>, Refusal> {
    let (path, is_wanted) = match daemon {
        Daemon::Never => return Ok(None),
        Daemon::Auto if capabilities::can_observe() => return Ok(None),
        Daemon::Auto => (Path::new(SOCKET), false),
        Daemon::At(path) => (path.as_path(), true),
    };
    let stream = match client::connect(path) {
        Ok(stream) => stream,
        Err(Unserved::Connect { source, .. }) if !is_wanted && source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) if is_wanted => {
            return Err(Refusal::new(error.to_string()).with_hint("`--daemon never` does without it"));
        }
        // One that is there and does not let us: without it there may be no record.
        Err(error) => {
            out.warning(&error.to_string());
            return Ok(None);
        }
    };
    let what = match request {
        SandboxRequest { user: RunAs::User(_), .. } => "`--user`",
        SandboxRequest { wants_second_witness: true, .. } => "`--second-witness`",
        SandboxRequest { kept_capabilities, .. } if !kept_capabilities.is_empty() => "`--keep-caps`",
        _ => return Ok(Some(stream)),
    };
    Err(Refusal::new(format!("{what} is nothing that the daemon does"))
        .with_hint("with `--daemon never`, as root"))
}

impl Notices for Output {
    fn error(&self, text: &str) {
        Self::error(self, text);
    }

    fn problem(&self, text: &str) {
        Self::problem(self, text);
    }

    fn warning(&self, text: &str) {
        Self::warning(self, text);
    }

    fn hint(&self, text: &str) {
        Self::hint(self, text);
    }

    fn note(&self, text: &str) {
        Self::note(self, text);
    }

    fn detail(&self, text: &str) {
        Self::detail(self, text);
    }
}

/// What went wrong, whoever reads it.
fn tell(decision: &Decision, told_before: &[String], out: Output) {
    match decision.verdict {
        Verdict::Incomplete if decision.exit != Exit::Incomplete => {
            let is_news = |reason: &&String| !told_before.contains(reason);
            decision.reasons.iter().filter(is_news).for_each(|reason| out.warning(reason));
        }
        Verdict::Refused | Verdict::Failed | Verdict::Incomplete => {
            let is_news = |reason: &&String| !(out.tells_warnings() && told_before.contains(reason));
            decision.reasons.iter().filter(is_news).for_each(|reason| out.error(reason));
        }
        // What was not started has no summary.
        Verdict::Unauthorised | Verdict::Denied
            if matches!(decision.exit, Exit::Unauthorised | Exit::NotExecutable) =>
        {
            decision.reasons.iter().for_each(|reason| out.error(reason));
        }
        // The summary tells these.
        Verdict::Ok | Verdict::Unauthorised | Verdict::Denied => {}
    }
}

/// A few lines for a person, one fact each.
fn summarise(finished: &Finished, out: Output) {
    let Some(child) = finished.child else { return };
    let decision = &finished.decision;
    out.note(&format!("{}: the command {}", decision.verdict.as_str(), assemble::end_words(child)));
    let was_told = decision.exit == Exit::Unauthorised;
    if matches!(decision.verdict, Verdict::Unauthorised | Verdict::Denied) && !was_told {
        decision.reasons.iter().for_each(|reason| out.note(reason));
    }
    if let Some(tally) = &finished.tally {
        for line in tally_lines(tally) {
            out.note(&line);
        }
    }
    for line in brief(&finished.degradations) {
        out.note(&format!("not kept: {line}"));
    }
    for (kind, written) in &finished.written {
        let path = Name::from_bytes(written.path.as_os_str().as_encoded_bytes());
        out.note(&format!("{kind}: {path}"));
    }
}

fn tally_lines(tally: &Tally) -> Vec<String> {
    let counted = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let mut lines = vec![
        format!("run {}", tally.run_id),
        counted(tally.written, "name written", "names written"),
        counted(tally.programs, "program started", "programs started"),
        counted(tally.connections, "connection", "connections"),
    ];
    if tally.failed > 0 {
        let failed = usize::try_from(tally.failed).unwrap_or(usize::MAX);
        lines.push(counted(failed, "attempt to connect failed", "attempts to connect failed"));
    }
    if let Some((out, into)) = tally.bytes {
        lines.push(format!("{out} bytes sent, {into} received"));
    }
    if tally.denied > 0 {
        lines.push(counted(tally.denied, "effect denied", "effects denied"));
    }
    lines
}

fn to_request(args: Args) -> Result<SandboxRequest, Refusal> {
    let invoking = invoking_user()?;
    let owner = match &invoking {
        Some(user) => Owner::Invoking { uid: user.uid, gid: user.gid },
        None => Owner::Ourselves,
    };
    let user = match &args.user {
        Some(text) => Some(user::parse(text).map_err(|error| Refusal::new(format!("--user: {error}")))?),
        None => invoking,
    };
    Ok(SandboxRequest {
        mode: match (args.dry_run, args.enforce) {
            (true, _) => Mode::DryRun,
            (_, true) => Mode::Enforce,
            _ => Mode::Default,
        },
        is_fail_closed: args.fail_closed,
        wants_second_witness: args.second_witness,
        allows_unobserved: args.allow_unobserved,
        artifacts: artifacts(&args)?,
        environment: if args.env_passthrough {
            EnvironmentRequest::Passthrough
        } else {
            EnvironmentRequest::Scrub(Scrubbing {
                is_strict: args.env_strict,
                strips_exec: args.env_strip_exec,
                has_safe_path: args.env_safe_path,
                allow: args.env_allow,
            })
        },
        policy: args.policy.map_or(PolicySource::Builtin, PolicySource::File),
        workdir: args.workdir.map_or(Workdir::Inherited, Workdir::At),
        timeout: match args.timeout {
            None | Some(Duration::ZERO) => Timeout::Never,
            Some(duration) => Timeout::After(duration),
        },
        user: run_as(user)?,
        kept_capabilities: kept_capabilities(&args.keep_caps)?,
        descendants: match args.descendants {
            DescendantsWord::Wait => Descendants::Wait,
            DescendantsWord::Kill => Descendants::Kill,
            DescendantsWord::Leave => Descendants::Leave,
        },
        owner,
        progress: match args.progress {
            ProgressWord::Auto => Progress::Auto,
            ProgressWord::Never => Progress::Never,
        },
        command: args.command,
    })
}

/// The user who called `sudo`. The variables mean it only when we are root: else anybody could have set them.
fn invoking_user() -> Result<Option<user::User>, Refusal> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let Some(uid) = env::read(env::SUDO_UID) else { return Ok(None) };
    let gid = env::read(env::SUDO_GID).map(|gid| gid.to_string_lossy().into_owned());
    user::invoking(&uid.to_string_lossy(), gid.as_deref()).map_err(|error| Refusal::new(error.to_string()))
}

fn run_as(user: Option<user::User>) -> Result<RunAs, Refusal> {
    let Some(user) = user else { return Ok(RunAs::Ourselves) };
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let may_change = capabilities::has(CapabilitySet::SETUID) && capabilities::has(CapabilitySet::SETGID);
    if may_change {
        Ok(RunAs::User(user))
    } else if (user.uid, user.gid) == (uid, gid) {
        Ok(RunAs::Ourselves)
    } else {
        Err(Refusal::new(format!("--user: take on user id {}: we have no right to", user.uid))
            .with_hint("run as root"))
    }
}

fn kept_capabilities(names: &[String]) -> Result<CapabilitySet, Refusal> {
    names.iter().filter(|name| !name.is_empty()).try_fold(CapabilitySet::empty(), |kept, name| {
        let one = capabilities::parse(name).map_err(|error| {
            let known = capabilities::DROPPED.map(|(name, _)| name).join(", ");
            Refusal::new(format!("--keep-caps: {error}"))
                .with_hint(format!("those that are dropped are {known}"))
        })?;
        Ok(kept | one)
    })
}

fn artifacts(args: &Args) -> Result<Artifacts, Refusal> {
    let format = match args.profile_format {
        FormatWord::Yaml => Format::Yaml,
        FormatWord::Json => Format::Json,
    };
    let profile = args.profile.as_ref().map(|profile| ProfileFiles {
        profile: profile.clone(),
        evidence: request::evidence_path(profile, format),
        report: args.profile_report.clone().unwrap_or_else(|| request::report_path(profile)),
        format,
    });
    let artifacts = Artifacts {
        profile,
        bundle: args.bundle.clone(),
        trace: args.trace.clone(),
        records: args.keep_records.clone(),
        status: args.status_file.clone(),
        epoch: env::read(env::SOURCE_DATE_EPOCH).and_then(|seconds| seconds.to_str()?.parse().ok()),
    };
    let mut names = BTreeMap::new();
    for (name, path) in artifacts.files() {
        if let Some(other) = names.insert(path.to_owned(), name) {
            return Err(Refusal::new(format!(
                "{other} and {name} would both be written to {}",
                path.display()
            )));
        }
    }
    Ok(artifacts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn request(line: &str) -> Result<SandboxRequest, String> {
        let words = std::iter::once("sandbox").chain(line.split_whitespace());
        let cli = <Cli as clap::Parser>::try_parse_from(words).map_err(|error| error.to_string())?;
        to_request(cli.args).map_err(|refusal| refusal.text)
    }

    fn check_refused(line: &str, expect: &str) {
        let text = request(line).expect_err(line);
        assert!(text.contains(expect), "{line}: {text}");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        check_refused("--dry-run --enforce -- true", "cannot be used with");
        check_refused("--bundle b -- true", "--profile");
        check_refused("--profile-report r -- true", "--profile");
        check_refused("--profile-format json -- true", "--profile");
        check_refused("--env-passthrough --env-strict -- true", "cannot be used with");
        check_refused("--profile a --trace a -- true", "both be written to a");
        check_refused("--profile a --profile-report a.evidence.yaml -- true", "both be written to");
        check_refused("--timeout soon -- true", "no duration");
        check_refused("--keep-caps NOPE -- true", "`NOPE` is no capability");
        check_refused("--user no-such-user-here -- true", "no-such-user-here");
        check_refused("--descendants maybe -- true", "maybe");
        check_refused("--", "required");
        check_refused("true", "unexpected argument");
        check_refused("--nonsense -- true", "--nonsense");
    }

    #[test]
    fn a_summary_tells_one_fact_a_line() {
        let mut tally = Tally {
            run_id: "sandbox_0".into(),
            written: 1,
            programs: 2,
            connections: 0,
            failed: 0,
            bytes: None,
            denied: 0,
        };
        let lines = ["run sandbox_0", "1 name written", "2 programs started", "0 connections"];
        assert_eq!(tally_lines(&tally), lines);
        tally.denied = 1;
        assert_eq!(tally_lines(&tally)[4], "1 effect denied");
        (tally.failed, tally.bytes) = (2, Some((10, 1)));
        let told = ["2 attempts to connect failed", "10 bytes sent, 1 received", "1 effect denied"];
        assert_eq!(tally_lines(&tally)[4..], told);
    }

    #[test]
    fn flags_become_what_they_mean() {
        let plain = request("-- true -x --timeout").unwrap();
        assert_eq!(plain.command, ["true", "-x", "--timeout"]);
        assert_eq!((plain.mode, plain.timeout), (Mode::Default, Timeout::Never));
        assert!(!plain.wants_record());
        let line = "--dry-run --profile p.yaml --profile-format json --timeout 1.5m --keep-caps cap_net_raw,CHOWN \
            --env-allow A,B_* --env-strict --descendants leave --workdir /tmp --status-file s -- a";
        let full = request(line).unwrap();
        assert!(full.wants_record());
        assert_eq!(full.timeout, Timeout::After(Duration::from_secs(90)));
        assert_eq!(full.kept_capabilities, CapabilitySet::NET_RAW | CapabilitySet::CHOWN);
        assert_eq!(full.descendants, Descendants::Leave);
        let files: Vec<String> =
            full.artifacts.files().iter().map(|(name, path)| format!("{name}={}", path.display())).collect();
        assert_eq!(
            files,
            ["profile=p.yaml", "evidence=p.evidence.json", "report=p.yaml.report.md", "status=s"]
        );
        let EnvironmentRequest::Scrub(scrubbing) = full.environment else { panic!("scrubbing is on") };
        assert!(scrubbing.is_strict && !scrubbing.strips_exec);
        assert_eq!(scrubbing.allow, ["A", "B_*"]);
        assert_eq!(request("--timeout 0 -- a").unwrap().timeout, Timeout::Never);
    }
}
