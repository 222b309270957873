//! The policy of a run: loaded, planned for this host, put in place, and asked about what happened.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::caller::{Caller, Client};
use super::cgroup::Group;
use super::environment::Environment;
use super::given;
use super::in_the_way;
use super::interpreter;
use super::notice::Notices;
use super::outcome::NotStarted;
use super::parts::{IN_PART, refuse_parts};
use super::recorder::Places;
use super::request::{Mode, PolicySource, SandboxRequest};
use super::scratch;
use super::sources;
use super::stage::Stage;
use super::start;
use super::ungranted::{self, Paths, is_ungranted};
use crate::enforce::files::HostFiles;
use crate::enforce::mounts::Means as MountMeans;
use crate::enforce::status::explain_all;
use crate::enforce::survey::Survey;
use crate::enforce::{Confinement, Means, Plan, cgroup, deny_other_names, plan, survey};
use crate::evidence::{Actor, Degradation, Evidence, Refusal};
use crate::host::probe::probe;
use crate::host::{Host, Right};
use crate::observe::kernel::answers::NamesWanted;
use crate::policy::check::{Denial, path_of_name};
use crate::policy::telling::{self, Told};
use crate::policy::{
    Context, Files, Judge, Policy, Request, Verdict, judge, judge_with_port, load, load_builtin,
};
use crate::profile::barriers::Barriers;
use crate::profile::effect::{Effect, EffectResult, FsEffect, FsOp};
use crate::profile::identity::{Details, EffectFacts};
use crate::profile::name::{Name, unescape};

/// A policy and what is in place of it.
#[derive(Debug)]
pub struct Hold {
    policy: Policy,
    /// `None` in a dry run.
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
        caller: &Caller,
        places: &Places,
        environment: &Environment,
        stage: &Stage,
        can_mount: Option<bool>,
        notices: &dyn Notices,
    ) -> Result<Self, NotStarted> {
        let group = stage.group().ok();
        // What a client may not see we do not look at for it: what we say would tell.
        let as_client = start::look_as(request, caller)?;
        let mut policy = read(request, caller, places, notices)?;
        // But for other names of what is denied, which may lie where it has no rights: they are only denied besides.
        drop(as_client);
        let unsearched = deny_other_names(&mut policy);
        let _as_client = start::look_as(request, caller)?;
        let mut hold = Self { policy, plan: None, programs: None, scratch: None, given: given::files() };
        if request.mode == Mode::DryRun {
            return Ok(hold);
        }
        hold.refuse_forbidden(request, places, environment)?;
        let host = probe();
        let mut means = Means::probe(&host);
        means.cgroup_programs &= group.is_some();
        means.mounts = can_mount.unwrap_or(means.mounts);
        if request.is_fail_closed && means.mounts {
            hold.scratch = stage.scratch().map(Path::to_owned);
            means.placeholders = hold.scratch.is_some();
        }
        hold.put_in_place(&host, means, group, unsearched, notices);
        hold.tell_unheld(request, means.mounts, notices)?;
        Ok(hold)
    }

    /// Plans, and attaches the network programs; without them when they cannot be attached.
    fn put_in_place(
        &mut self,
        host: &Host,
        mut means: Means,
        group: Option<&Group>,
        unsearched: BTreeSet<Vec<u8>>,
        notices: &dyn Notices,
    ) {
        let mut found = Survey { unsearched, ..survey(&self.policy, !means.names) };
        if let (Some(scratch), true) = (&self.scratch, means.placeholders) {
            scratch::keep_coverable(&mut found.above_missing, scratch);
        }
        let mut planned = plan(&self.policy, &host.landlock, &found, means);
        if let (Some(table), Some(group)) = (&planned.net, group)
            // Those that names concern wait for who reads the answers: `hold_names`.
            && table.names.is_empty()
        {
            let attached =
                File::open(group.directory()).map_err(|error| error.to_string()).and_then(|directory| {
                    cgroup::hold(table, directory.as_fd(), None).map_err(|error| error.to_string())
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

    /// The names that the run is held to as their answers come; `None` when there are none.
    pub fn names(&self) -> Option<NamesWanted> {
        let table = self.plan.as_ref()?.net.as_ref().filter(|table| !table.names.is_empty())?;
        let ends = table.names.iter().map(|class| class.reversed.clone()).collect();
        let denies = table.names.iter().map(|class| !class.deny.is_empty()).collect();
        Some(NamesWanted { ends, denies, servers: table.servers.clone() })
    }

    /// Attaches the network programs that ask for the addresses of names. Without them the command must not start.
    pub fn hold_names(
        &mut self,
        group: Option<&Group>,
        addresses: Option<BorrowedFd<'_>>,
    ) -> Result<(), NotStarted> {
        let table = self.plan.as_ref().and_then(|plan| plan.net.as_ref());
        let Some(table) = table.filter(|table| !table.names.is_empty()) else { return Ok(()) };
        let group =
            group.ok_or_else(|| NotStarted::Failed("hold the names of the policy: no group".into()))?;
        let programs = File::open(group.directory())
            .map_err(|error| error.to_string())
            .and_then(|directory| {
                cgroup::hold(table, directory.as_fd(), addresses).map_err(|error| error.to_string())
            })
            .map_err(NotStarted::Failed)?;
        self.programs = Some(programs);
        Ok(())
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
        for file in interpreter::find_programs(program.as_bytes(), path.as_deref(), places) {
            // A script is started by its interpreter, and that by the next.
            let needed = interpreter::with_interpreters(file);
            let denied = needed.filter_map(|file| match judge(&self.policy, Request::Exec(&file)) {
                Verdict::Allowed { .. } => None,
                Verdict::Denied(denial) => Some(denial),
            });
            match denied.take(1).last() {
                None => return Ok(()),
                Some(denial) => {
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

    /// Whether a mask or a placeholder hides something from the run.
    pub fn hides(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| {
            let is_mask = |means| matches!(means, MountMeans::MaskDirectory | MountMeans::MaskFile);
            !plan.placeholders.is_empty() || plan.holds.iter().any(|hold| is_mask(hold.means))
        })
    }

    /// What the run may find in its way.
    pub fn barriers(&self) -> Barriers {
        let Some(plan) = &self.plan else { return Barriers::default() };
        let mut barriers =
            Barriers { is_landlocked: plan.ruleset.handled.contains(&Right::Refer), ..Barriers::default() };
        barriers.has_given_directories = given::has_directory();
        if plan.is_proc_own {
            barriers.hidden_processes = processes();
        }
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
    pub fn judge(&self, evidence: &mut Evidence, details: &Details) {
        let roots = roots_of(evidence);
        let folds = &evidence.observed.folded;
        let paths = LazyCell::new(|| Paths::of(folds, &roots));
        let mut judge = Judge::new(&self.policy, &roots);
        for (effect, facts) in &mut evidence.observed.effects {
            let verdict = self.verdict_by_number(effect, facts, &roots, details, &mut judge);
            facts.is_authorised = Some(verdict.is_allowed());
            if result_of(effect) == EffectResult::Denied {
                let is_in_the_way = facts.denied_by == Some("policy");
                let is_ungranted = self.plan.as_ref().map(|plan| is_ungranted(&plan.ruleset, effect, &paths));
                let is_ours = is_ungranted.is_some_and(|is| is || is_in_the_way || !verdict.is_allowed());
                facts.denied_by = Some(if is_ours { "policy" } else { "system" });
                if is_ours && verdict.is_allowed() {
                    let ungranted = || Refusal { rule: None, at: None, remedy: ungranted::REMEDY.into() };
                    let plan = self.plan.as_ref().filter(|_| is_in_the_way);
                    let refusal = plan.map(|plan| in_the_way::refusal(&self.policy, plan, effect, &roots));
                    facts.refused = Some(Box::new(refusal.unwrap_or_else(ungranted)));
                }
            }
            let is_told = facts.denied_by == Some("policy") || result_of(effect) == EffectResult::Ok;
            if let (true, Verdict::Denied(denial)) = (is_told, &verdict) {
                facts.refused = Some(Box::new(refusal(denial, effect)));
            }
            if result_of(effect) == EffectResult::Ok && verdict.is_allowed() {
                facts.by = None;
            }
        }
        refuse_parts(evidence, &details.parts);
        evidence.observed.policy_digest = Some(self.policy.digest);
        if let Some(plan) = &self.plan {
            evidence.observed.not_governed.clone_from(&plan.not_governed);
        }
    }

    /// What the policy stopped, and what happened without its authority: a line for what one rule would allow.
    pub fn sentences(&self, evidence: &Evidence) -> Vec<String> {
        let roots = roots_of(evidence);
        let mut judge = Judge::new(&self.policy, &roots);
        let (mut denials, mut held) = (Vec::new(), Vec::new());
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
            let Verdict::Denied(denial) = self.verdict(effect, &facts.addresses, &roots, &mut judge) else {
                let by = facts.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
                let what = named(effect);
                let why = facts.refused.as_ref().map_or("", |refused| &refused.remedy);
                // What it was part of has its line.
                if why != IN_PART {
                    held.push(format!("denied: {what}{by}: {why}"));
                }
                continue;
            };
            let word = if was_denied { "denied" } else { "not authorised" };
            let what = folded(&denial.what, effect);
            let remedy = folded(&denial.remedy, effect);
            let by = facts.by.as_deref().map(Actor::to_string);
            denials.push(Told { word, by, denial: Denial { what, remedy, ..denial } });
        }
        let mut lines = telling::tell(denials);
        lines.append(&mut held);
        lines
    }

    /// As [`Self::verdict`]; somebody else's port that the kernel chose is held by its number.
    fn verdict_by_number(
        &self,
        effect: &Effect,
        facts: &EffectFacts,
        roots: &[(String, Vec<u8>)],
        details: &Details,
        judge: &mut Judge<'_>,
    ) -> Verdict {
        // Few have any, and every effect is asked about.
        let is_told = matches!(effect, Effect::Net(_));
        let numbers = is_told.then(|| details.ports.get(effect)).flatten().into_iter().flatten();
        let verdicts: Vec<_> =
            numbers.filter_map(|number| judge_with_port(&self.policy, effect, *number, roots)).collect();
        match verdicts.first() {
            Some(first) if verdicts.iter().all(Verdict::is_allowed) => first.clone(),
            _ => self.verdict(effect, &facts.addresses, roots, judge),
        }
    }

    fn verdict(
        &self,
        effect: &Effect,
        addresses: &BTreeSet<IpAddr>,
        roots: &[(String, Vec<u8>)],
        judge: &mut Judge<'_>,
    ) -> Verdict {
        if let Effect::Fs(FsEffect { op: FsOp::Write, path, result: EffectResult::Ok, .. }) = effect
            && self.given.contains(&path_of_name(path, roots))
        {
            return Verdict::Allowed { rule: "given open for writing".into(), place: None };
        }
        judge.effect_at(effect, addresses)
    }

    /// Takes the network programs away again: the run is over.
    pub fn release(&mut self) {
        self.programs = None;
    }
}

/// An effect in a few words.
fn named(effect: &Effect) -> String {
    match effect {
        Effect::Fs(fs) => {
            let to = fs.to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
            format!("{} {}{to}", fs.op.as_str(), fs.path)
        }
        Effect::Exec(exec) => format!("execute {}", exec.path),
        Effect::Net(net) => {
            let address = net.address.as_ref().map(Name::as_str).unwrap_or_default();
            format!("{} {} {address}", net.op.as_str(), net.proto)
        }
    }
}

/// All processes that there are. Before the command starts none of them is the run's, but for the launcher.
fn processes() -> BTreeSet<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn sentence(denial: &Denial) -> String {
    format!("{}: {}; {}", denial.what, denial.why(), denial.remedy)
}

fn refusal(denial: &Denial, effect: &Effect) -> Refusal {
    Refusal {
        rule: denial.rule.as_ref().map(|(rule, _)| rule.clone()),
        at: denial.rule.as_ref().map(|(_, place)| place.to_string()),
        remedy: folded(&denial.remedy, effect),
    }
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

fn read(
    request: &SandboxRequest,
    caller: &Caller,
    places: &Places,
    notices: &dyn Notices,
) -> Result<Policy, NotStarted> {
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let real = |path: &Path| HostFiles.real(&bytes(path)).unwrap_or_else(|| bytes(path));
    let context = Context {
        home: places.home.as_deref().filter(|home| home.is_absolute()).map(bytes),
        workdir: places.workdir.as_deref().map_or_else(|| b"/nonexistent/workdir".to_vec(), real),
        // Without a private directory nothing is granted in its name.
        tmpdir: places.tmpdir.as_deref().map_or_else(|| b"/nonexistent/tmpdir".to_vec(), real),
        caller_tmpdir: bytes(&places.caller_tmpdir),
        runtime_dir: bytes(&places.runtime_dir),
        nameservers: sources::nameservers(),
    };
    let files = caller.client().map_or(&HostFiles as &dyn Files, Client::policy_files);
    let loaded = match &request.policy {
        PolicySource::Builtin => load_builtin(&context, files),
        PolicySource::File(file) => load(file.as_os_str().as_bytes(), &context, files),
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
