//! The policy of a run: loaded, planned for this host, put in place, and asked about what happened.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::cgroup::Group;
use super::environment::Environment;
use super::notice::Notices;
use super::outcome::NotStarted;
use super::recorder::Places;
use super::request::{Mode, PolicySource, SandboxRequest};
use super::stage::Stage;
use crate::enforce::files::{HostFiles, nameservers};
use crate::enforce::mounts::Means as MountMeans;
use crate::enforce::status::explain_all;
use crate::enforce::{Confinement, Means, Plan, cgroup, plan, survey};
use crate::evidence::{Degradation, Evidence};
use crate::host::probe::probe;
use crate::host::{Host, Right};
use crate::policy::check::{Denial, path_of_name};
use crate::policy::telling;
use crate::policy::{Context, Files as _, Policy, Request, Verdict, judge, judge_effect, load, load_builtin};
use crate::profile::canonical::Barriers;
use crate::profile::effect::{Effect, EffectResult, FsEffect, FsOp, NetEffectOp};
use crate::profile::name::{Name, unescape};

/// A policy and what is in place of it.
#[derive(Debug)]
pub struct Hold {
    policy: Policy,
    mode: Mode,
    plan: Option<Plan>,
    /// Kept until the last process of the run is gone.
    programs: Option<cgroup::Held>,
    /// What placeholders need while the run lasts.
    scratch: Option<PathBuf>,
    /// Files the command is given open for writing: whoever gives it one authorises what it writes there.
    given: Vec<Vec<u8>>,
}

impl Hold {
    /// Loads the policy and, unless it is only to be observed, puts in place what is not the launcher's to do.
    pub fn prepare(
        request: &SandboxRequest,
        places: &Places,
        environment: &Environment,
        stage: &Stage,
        notices: &dyn Notices,
    ) -> Result<Self, NotStarted> {
        let group = stage.group().ok();
        let policy = read(request, places, notices)?;
        let mut hold = Self {
            policy,
            mode: request.mode,
            plan: None,
            programs: None,
            scratch: None,
            given: files_given(),
        };
        if request.mode == Mode::DryRun {
            return Ok(hold);
        }
        hold.refuse_forbidden(request, places, environment)?;
        let host = probe();
        let mut means = Means::probe(&host);
        means.cgroup_programs &= group.is_some();
        if request.is_fail_closed && means.mounts {
            hold.scratch = stage.scratch().map(Path::to_owned);
            means.placeholders_on = hold.scratch.as_deref().and_then(device_of);
        }
        hold.put_in_place(&host, means, group, notices);
        hold.tell_unheld(request, means.mounts, notices)?;
        Ok(hold)
    }

    /// Plans, and attaches the network programs; without them when they cannot be attached.
    fn put_in_place(&mut self, host: &Host, mut means: Means, group: Option<&Group>, notices: &dyn Notices) {
        let found = survey(&self.policy);
        let mut planned = plan(&self.policy, &host.landlock, &found, means);
        if let (Some(table), Some(group)) = (&planned.net, group) {
            let attached =
                File::open(group.directory()).map_err(|error| error.to_string()).and_then(|directory| {
                    cgroup::hold(table, directory.as_fd()).map_err(|error| error.to_string())
                });
            match attached {
                Ok(programs) => self.programs = Some(programs),
                Err(error) => {
                    notices.warning(&error);
                    means.cgroup_programs = false;
                    planned = plan(&self.policy, &host.landlock, &found, means);
                }
            }
        }
        self.plan = Some(planned);
    }

    fn tell_unheld(
        &self,
        request: &SandboxRequest,
        is_privileged: bool,
        notices: &dyn Notices,
    ) -> Result<(), NotStarted> {
        let unheld = explain_all(self.degradations(), is_privileged);
        if unheld.is_empty() {
            return Ok(());
        }
        if request.is_fail_closed {
            let refused = |text: &String| format!("--fail-closed, and this cannot be held: {text}");
            return Err(NotStarted::Unenforceable(unheld.iter().map(refused).collect()));
        }
        match request.mode {
            Mode::Enforce => unheld.iter().for_each(|text| notices.warning(&format!("not held: {text}"))),
            // A degradation in every artifact; on the command's own terminal it would mostly be in the way.
            Mode::Default | Mode::DryRun => {
                for text in &unheld {
                    notices.detail(&format!("not held: {text}"));
                }
            }
        }
        Ok(())
    }

    /// A command that the policy forbids to run is not tried.
    fn refuse_forbidden(
        &self,
        request: &SandboxRequest,
        places: &Places,
        environment: &Environment,
    ) -> Result<(), NotStarted> {
        let Some(program) = request.command.first() else { return Ok(()) };
        let path = environment.value(b"PATH").map(|path| path.as_bytes().to_vec());
        let mut first = None;
        // As with any other refusal, the search along PATH goes on after one.
        for file in find_programs(program.as_bytes(), path.as_deref(), places) {
            match judge(&self.policy, Request::Exec(&file)) {
                Verdict::Allowed { .. } => return Ok(()),
                Verdict::Denied(denial) => {
                    first.get_or_insert(denial);
                }
            }
        }
        first.map_or(Ok(()), |denial| Err(NotStarted::Forbidden(sentence(&denial))))
    }

    /// What the launcher does to itself; `None` in a dry run.
    pub fn confinement(&self) -> Option<Vec<u8>> {
        let scratch = self.scratch.as_ref().map(|scratch| scratch.as_os_str().as_bytes());
        self.plan.as_ref().map(|plan| Confinement::of(plan, scratch.unwrap_or_default()).to_bytes())
    }

    /// Names of environment variables that the policy lets stay.
    pub fn env_allow(&self) -> &[String] {
        &self.policy.env_allow
    }

    /// What was asked and is not held.
    pub fn degradations(&self) -> impl Iterator<Item = &Degradation> {
        self.plan.iter().flat_map(|plan| &plan.degradations)
    }

    /// What the run may find in its way.
    pub fn barriers(&self) -> Barriers {
        let Some(plan) = &self.plan else { return Barriers::default() };
        let mut barriers =
            Barriers { is_landlocked: plan.ruleset.handled.contains(&Right::Refer), ..Barriers::default() };
        for hold in &plan.holds {
            match hold.means {
                MountMeans::MaskDirectory | MountMeans::MaskFile => barriers.masked.push(hold.path.clone()),
                MountMeans::ReadOnly | MountMeans::ReadOnlyNoExecution => {
                    barriers.read_only.push(hold.path.clone());
                }
                MountMeans::NoExecution => {}
            }
            barriers.read_only.extend(hold.pins.iter().cloned());
            barriers.mount_points.push(hold.path.clone());
            barriers.mount_points.extend(hold.pins.iter().cloned());
        }
        for placeholders in &plan.placeholders {
            let directory = placeholders.directory.strip_suffix(b"/").unwrap_or(&placeholders.directory);
            barriers.masked.extend(placeholders.names.iter().map(|name| [directory, b"/", name].concat()));
            barriers.mount_points.push(placeholders.directory.clone());
        }
        for list in [&mut barriers.masked, &mut barriers.read_only, &mut barriers.mount_points] {
            list.sort();
            list.dedup();
        }
        barriers
    }

    /// Adds to the evidence what the policy says to each effect, and what it governs.
    pub fn judge(&self, evidence: &mut Evidence) {
        let roots = roots_of(evidence);
        let is_held = self.mode != Mode::DryRun;
        for (effect, facts) in &mut evidence.observed.effects {
            let verdict = self.verdict(effect, &roots);
            facts.is_authorised = Some(verdict.is_allowed());
            if result_of(effect) == EffectResult::Denied {
                let is_ours = is_held && (!verdict.is_allowed() || facts.denied_by == Some("policy"));
                facts.denied_by = Some(if is_ours { "policy" } else { "system" });
            }
        }
        evidence.observed.policy_digest = Some(self.policy.digest);
        if let Some(plan) = &self.plan {
            evidence.observed.not_governed.clone_from(&plan.not_governed);
        }
    }

    /// What the policy stopped, and what happened without its authority: a line for what one rule would allow.
    pub fn sentences(&self, evidence: &Evidence) -> Vec<String> {
        let roots = roots_of(evidence);
        let mut denials = Vec::new();
        for (effect, facts) in &evidence.observed.effects {
            let was_denied = result_of(effect) == EffectResult::Denied;
            let tells = if was_denied {
                facts.denied_by == Some("policy")
            } else {
                facts.is_authorised == Some(false)
            };
            if !tells {
                continue;
            }
            if let Verdict::Denied(denial) = self.verdict(effect, &roots) {
                let word = if was_denied { "denied" } else { "not authorised" };
                let what = folded(&denial.what, effect);
                let remedy = folded(&denial.remedy, effect);
                denials.push((word, Denial { what, remedy, ..denial }));
            }
        }
        telling::tell(denials)
    }

    fn verdict(&self, effect: &Effect, roots: &[(String, Vec<u8>)]) -> Verdict {
        if let Effect::Fs(FsEffect { op: FsOp::Write, path, result: EffectResult::Ok, .. }) = effect
            && self.given.contains(&path_of_name(path, roots))
        {
            return Verdict::Allowed { rule: "given open for writing".into(), place: None };
        }
        judge_effect(&self.policy, effect, roots)
    }

    /// Takes the network programs away again: the run is over.
    pub fn release(&mut self) {
        self.programs = None;
    }
}

/// Regular files that the command inherits open for writing, by path.
fn files_given() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let info = Path::new("/proc/self/fdinfo").join(&name);
        let info = std::fs::read_to_string(info).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let Some(flags) = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()) else { continue };
        let is_writable = matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR);
        let is_kept = flags & libc::O_CLOEXEC == 0;
        if is_kept
            && is_writable
            && std::fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file())
            && let Ok(path) = std::fs::read_link(entry.path())
        {
            files.push(path.into_os_string().into_encoded_bytes());
        }
    }
    files
}

fn device_of(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|meta| meta.dev())
}

fn sentence(denial: &Denial) -> String {
    format!("{}: {}; {}", denial.what, denial.why(), denial.remedy)
}

/// What changes from run to run in a name of this effect is written `*`: so a policy would allow it.
fn folded(text: &str, effect: &Effect) -> String {
    let names: Vec<&str> = match effect {
        Effect::Fs(fs) => [Some(&fs.path), fs.to.as_ref()].into_iter().flatten().map(Name::as_str).collect(),
        Effect::Exec(exec) => vec![exec.path.as_str()],
        Effect::Net(net) => net.address.iter().map(Name::as_str).collect(),
    };
    let mut text = text.to_owned();
    for name in names {
        // The first part is where the path begins; the others are folds.
        for fold in name.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(fold, _)| fold) {
            text = text.replace(&format!("\\x24{{{fold}}}"), "*");
        }
    }
    text
}

/// Whether it happened.
pub fn result_of(effect: &Effect) -> EffectResult {
    match effect {
        Effect::Fs(fs) => fs.result,
        Effect::Exec(exec) => exec.result,
        Effect::Net(net) => net.result,
    }
}

/// The roots of this run, as bytes, for reading the names of its effects.
pub fn roots_of(evidence: &Evidence) -> Vec<(String, Vec<u8>)> {
    let roots = evidence.observed.roots.iter();
    roots.filter_map(|(variable, path)| Some((variable.clone(), unescape(path)?))).collect()
}

fn read(request: &SandboxRequest, places: &Places, notices: &dyn Notices) -> Result<Policy, NotStarted> {
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let real = |path: &Path| HostFiles.real(&bytes(path)).unwrap_or_else(|| bytes(path));
    let context = Context {
        home: places.home.as_deref().filter(|home| home.is_absolute()).map(bytes),
        workdir: places.workdir.as_deref().map_or_else(|| b"/nonexistent/workdir".to_vec(), real),
        // Without a private directory nothing is granted in its name.
        tmpdir: places.tmpdir.as_deref().map_or_else(|| b"/nonexistent/tmpdir".to_vec(), real),
        caller_tmpdir: bytes(&places.caller_tmpdir),
        nameservers: nameservers(),
    };
    let loaded = match &request.policy {
        PolicySource::Builtin => load_builtin(&context, &HostFiles),
        PolicySource::File(file) => load(file.as_os_str().as_bytes(), &context, &HostFiles),
    };
    match loaded {
        Ok(policy) => {
            policy.warnings.iter().for_each(|warning| notices.warning(&warning.to_string()));
            Ok(policy)
        }
        Err(problems) => {
            for problem in &problems {
                notices.problem(&problem.to_string());
            }
            let count = match problems.len() {
                1 => "1 problem".to_owned(),
                many => format!("{many} problems"),
            };
            Err(NotStarted::Refused(format!("the policy is not valid: {count}")))
        }
    }
}

/// The files that the launcher will try, links followed.
fn find_programs(program: &[u8], path: Option<&[u8]>, places: &Places) -> Vec<Vec<u8>> {
    let workdir = places.workdir.as_deref().unwrap_or_else(|| Path::new("/"));
    super::exec::candidates(program, path)
        .into_iter()
        .map(|candidate| workdir.join(std::ffi::OsStr::from_bytes(candidate.to_bytes())))
        .filter(|file| is_program(file))
        .filter_map(|file: PathBuf| HostFiles.real(file.as_os_str().as_bytes()))
        .collect()
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether an effect has left the tree of the run: work goes on in a process that no longer belongs to it.
pub fn ends_observation(effect: &Effect) -> Option<&'static str> {
    let Effect::Net(net) = effect else { return None };
    if net.op != NetEffectOp::Connect || net.proto != "unix" || net.result != EffectResult::Ok {
        return None;
    }
    let address = net.address.as_ref().map(Name::as_str)?;
    let ends = [
        ("/docker.sock", "a container engine"),
        ("/podman.sock", "a container engine"),
        ("/containerd.sock", "a container engine"),
        ("/crio.sock", "a container engine"),
        ("/bus", "a message bus"),
        ("/system_bus_socket", "a message bus"),
        ("/systemd/private", "the service manager"),
    ];
    ends.into_iter().find(|(end, _)| address.ends_with(end)).map(|(_, what)| what)
}
