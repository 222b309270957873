//! Flags → check: is this policy valid, what does it mean here, what happens to a path or an endpoint.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::evidence::input::read_small;
use crate::cli::output::Output;
use crate::enforce::files::HostFiles;
use crate::enforce::status::{Held, RuleStatus};
use crate::enforce::survey::Survey;
use crate::enforce::{Means, Plan, deny_other_names, plan, survey};
use crate::exit::Exit;
use crate::host::probe::probe;
use crate::policy::check::Inet;
use crate::policy::net::{Ports, Target, parse as parse_net};
use crate::policy::rule::{Access, Policy};
use crate::policy::yaml::MAX_BYTES;
use crate::policy::{
    Context, Files as _, Problem, Request, Verdict, builtin, judge, load, load_builtin, load_bytes,
};
use crate::profile::name::{Name, harmless};
use crate::report::json::escaped;
use crate::sandbox::caller::Caller;
use crate::sandbox::{sources, tmpdir};

/// Commands under `assay policy`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Is this policy valid, what does it mean on this host, what happens to a path or an endpoint.
    Check(CheckArgs),
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a person.
    Text,
    /// For a program.
    Json,
}

/// Flags of `assay policy check`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["file", "builtin"]))]
pub struct CheckArgs {
    /// The policy; `-` is the standard input.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The built-in minimal policy; alone, it is printed.
    #[arg(long)]
    builtin: bool,
    /// What happens to this path, access by access; may be given more than once.
    #[arg(long, value_name = "PATH")]
    path: Vec<PathBuf>,
    /// What happens to this endpoint: `HOST:PORT`, `[V6]:PORT` or `unix:PATH`; may be given more than once.
    #[arg(long, value_name = "HOST:PORT")]
    connect: Vec<String>,
    /// What `${WORKDIR}` stands for.
    #[arg(long, value_name = "DIR", default_value = ".")]
    workdir: PathBuf,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs it. 0: the policy is valid, and the answers are on stdout, whatever they are; 2: it is not valid.
pub fn run(command: Command, out: &Output) -> Exit {
    let Command::Check(args) = command;
    check(&args, out)
}

fn check(args: &CheckArgs, out: &Output) -> Exit {
    let asks = !args.path.is_empty() || !args.connect.is_empty();
    if args.builtin && !asks && args.format == Format::Text {
        return print(out, builtin::MINIMAL);
    }
    let context = match context(&args.workdir) {
        Ok(context) => context,
        Err(error) => {
            out.error(&error);
            return Exit::Refused;
        }
    };
    let loaded = match &args.file {
        Some(file) if file.as_os_str() == "-" => match read_small(file, MAX_BYTES as u64) {
            // What it extends is looked for from here.
            Ok(bytes) => load_bytes(b"stdin", &bytes, &context, &HostFiles),
            Err(error) => {
                out.error(&error.to_string());
                return Exit::Refused;
            }
        },
        Some(file) => load(file.as_os_str().as_bytes(), &context, &HostFiles),
        None => load_builtin(&context, &HostFiles),
    };
    let mut policy = match loaded {
        Ok(policy) => policy,
        Err(problems) => return refuse(args.format, &problems, out),
    };
    for warning in &policy.warnings {
        out.warning(&warning.to_string());
    }
    let unsearched = deny_other_names(&mut policy);
    if asks {
        answer(args, &policy, &context, out)
    } else {
        explain(args.format, &policy, &context, unsearched, out)
    }
}

/// Tells every problem: on stderr each line begins `FILE:LINE:COL:`.
fn refuse(format: Format, problems: &[Problem], out: &Output) -> Exit {
    for problem in problems {
        out.problem(&problem.to_string());
    }
    if format == Format::Json {
        let list: Vec<_> = problems
            .iter()
            .map(|problem| {
                json!({
                    "file": problem.place.file, "line": problem.place.line, "column": problem.place.column,
                    "message": problem.message, "hint": problem.hint,
                })
            })
            .collect();
        print_json(out, &json!({ "valid": false, "problems": list }));
    }
    Exit::Refused
}

/// What the policy means here, rule by rule.
fn explain(
    format: Format,
    policy: &Policy,
    context: &Context,
    unsearched: BTreeSet<Vec<u8>>,
    out: &Output,
) -> Exit {
    let host = probe();
    let means = Means::probe(&host);
    let found = Survey { unsearched, ..survey(policy, !means.names) }.with_empty(&context.tmpdir);
    let plan = plan(policy, &host.landlock, &found, means);
    match format {
        Format::Json => print_json(out, &explain_json(policy, &plan)),
        Format::Text => print(out, &explain_text(policy, &plan)),
    }
}

fn held_word(held: &Held) -> (&'static str, String) {
    match held {
        Held::By(means) => ("held", format!("by {means}")),
        Held::Moot(why) => ("moot", (*why).to_owned()),
        Held::Not(reasons) => ("not held", reasons.join(", ")),
    }
}

fn explain_text(policy: &Policy, plan: &Plan) -> String {
    let mut text = format!("{}: valid, {}\n", policy.name, policy.digest);
    let is_own = |rule: &&RuleStatus| rule.place.file != builtin::BASE_NAME;
    let base = plan.rules.len() - plan.rules.iter().filter(is_own).count();
    if base > 0 {
        writeln!(text, "base: system: {base} rules").expect("writing to a String cannot fail");
    }
    for rule in plan.rules.iter().filter(is_own) {
        let (word, why) = held_word(&rule.held);
        let access = if rule.access.is_empty() { String::new() } else { format!(" [{}]", rule.access) };
        let name = harmless(&rule.text);
        writeln!(text, "{}: {} {name}{access}: {word}: {why}", rule.place, rule.list)
            .expect("writing to a String cannot fail");
    }
    for degradation in &plan.degradations {
        writeln!(text, "degradation: {}", harmless(&degradation.explain()))
            .expect("writing to a String cannot fail");
    }
    for limit in &plan.not_governed {
        writeln!(text, "not governed: {limit}").expect("writing to a String cannot fail");
    }
    text
}

fn explain_json(policy: &Policy, plan: &Plan) -> Value {
    let rules: Vec<_> = plan
        .rules
        .iter()
        .map(|rule| {
            let (word, why) = held_word(&rule.held);
            json!({
                "list": rule.list, "rule": rule.text, "access": rule.access, "at": rule.place.to_string(),
                "status": word, "why": why,
            })
        })
        .collect();
    let degradations: Vec<_> = plan
        .degradations
        .iter()
        .map(|degradation| {
            json!({
                "component": degradation.component.as_str(), "reason": degradation.reason,
                "detail": degradation.detail,
            })
        })
        .collect();
    json!({
        "valid": true, "policy": policy.name, "digest": policy.digest.to_string(), "rules": rules,
        "degradations": degradations, "not_governed": plan.not_governed,
        "warnings": policy.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// One answer to `--path` or `--connect`.
struct Answer {
    what: String,
    verdict: Verdict,
}

fn answer(args: &CheckArgs, policy: &Policy, context: &Context, out: &Output) -> Exit {
    let mut answers = Vec::new();
    for path in &args.path {
        let path = absolute(path, context);
        for access in Access::ALL {
            let request =
                if access == Access::Execute { Request::Exec(&path) } else { Request::File(access, &path) };
            answers.push(Answer {
                what: format!("{} {}", access.as_str(), Name::from_bytes(&path)),
                verdict: judge(policy, request),
            });
        }
    }
    for endpoint in &args.connect {
        match judge_endpoint(endpoint, policy, context) {
            Ok(verdicts) => answers.extend(
                verdicts
                    .into_iter()
                    .map(|(what, verdict)| Answer { what: format!("connect {what}"), verdict }),
            ),
            Err(error) => {
                out.error(&error);
                return Exit::Refused;
            }
        }
    }
    match args.format {
        Format::Json => {
            let list: Vec<_> = answers.iter().map(answer_json).collect();
            print_json(out, &json!({ "valid": true, "answers": list }))
        }
        Format::Text => print(out, &answers.iter().map(answer_text).collect::<String>()),
    }
}

fn answer_text(answer: &Answer) -> String {
    match &answer.verdict {
        Verdict::Allowed { rule, place } => {
            let place = place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
            format!("{}: allowed by `{}`{place}\n", harmless(&answer.what), harmless(rule))
        }
        Verdict::Denied(denial) => {
            let told = format!("{}: denied: {}; {}", answer.what, denial.why(), denial.remedy);
            format!("{}\n", harmless(&told))
        }
    }
}

fn answer_json(answer: &Answer) -> Value {
    match &answer.verdict {
        Verdict::Allowed { rule, place } => json!({
            "request": answer.what, "verdict": "allowed", "rule": rule,
            "at": place.as_ref().map(ToString::to_string),
        }),
        Verdict::Denied(denial) => json!({
            "request": answer.what, "verdict": "denied", "why": denial.why(),
            "rule": denial.rule.as_ref().map(|(rule, _)| rule),
            "at": denial.rule.as_ref().map(|(_, place)| place.to_string()),
            "remedy": denial.remedy,
        }),
    }
}

/// The absolute path behind an argument, links followed as far as it exists.
fn absolute(path: &std::path::Path, context: &Context) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    let joined = match bytes {
        b"~" => context.home.clone().unwrap_or_else(|| bytes.to_vec()),
        [b'~', b'/', rest @ ..] => match &context.home {
            Some(home) => [home.as_slice(), b"/", rest].concat(),
            None => bytes.to_vec(),
        },
        [b'/', ..] => bytes.to_vec(),
        relative => [context.workdir.as_slice(), b"/", relative].concat(),
    };
    HostFiles.real(&joined).unwrap_or(joined)
}

/// The answer, or one for each range of ports where those differ.
fn judge_endpoint(text: &str, policy: &Policy, context: &Context) -> Result<Vec<(String, Verdict)>, String> {
    let (target, ports) = parse_net(text, context)
        .map_err(|(message, hint)| hint.map_or(message.clone(), |hint| format!("{message}; {hint}")))?;
    let inet = |address: Option<IpAddr>, host| {
        let at =
            |port| judge(policy, Request::Inet(Inet { is_local: false, address, host, port: Some(port) }));
        let end = match address {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            Some(IpAddr::V4(address)) => address.to_string(),
            None => host.unwrap_or("*").to_owned(),
        };
        let found = by_port(policy, ports, &at);
        let is_one = found.len() == 1;
        let all = if ports.is_any() { "*".to_owned() } else { range(ports.low, ports.high) };
        found
            .into_iter()
            .map(|(low, high, mut verdict)| {
                let ports = if is_one { all.clone() } else { range(low, high) };
                if let Verdict::Denied(denial) = &mut verdict
                    && denial.rule.is_none()
                {
                    denial.remedy = format!("net.allow: - \"{end}:{ports}\"");
                }
                let what = if is_one { text.to_owned() } else { format!("{end}:{ports}") };
                (what, verdict)
            })
            .collect()
    };
    let one = |verdict| vec![(text.to_owned(), verdict)];
    Ok(match &target {
        Target::UnixPath(patterns) => {
            let path =
                patterns.first().map(crate::policy::pattern::Pattern::literal_prefix).unwrap_or_default();
            one(judge(policy, Request::UnixPath(&HostFiles.real(&path).unwrap_or(path))))
        }
        Target::UnixAbstract(name) => one(judge(policy, Request::UnixAbstract(name))),
        Target::Net(net) => inet(Some(net.address), None),
        Target::Host(name) => inet(None, Some(name.as_str())),
        Target::Any => inet(None, None),
    })
}

/// The verdict of each range of `ports` that has one verdict.
fn by_port(policy: &Policy, ports: Ports, at: &dyn Fn(u16) -> Verdict) -> Vec<(u16, u16, Verdict)> {
    let rules = policy.net_allow.iter().chain(&policy.net_deny);
    let mut starts: BTreeSet<u32> =
        rules.flat_map(|rule| [u32::from(rule.ports.low), u32::from(rule.ports.high) + 1]).collect();
    // Where a policy gives hosts by name, asking a name server is allowed.
    starts.extend([u32::from(ports.low), 0, 1, 53, 54]);
    let mut found: Vec<(u16, Verdict)> = Vec::new();
    for start in starts.into_iter().filter_map(|start| u16::try_from(start).ok()) {
        if !ports.contains(start) {
            continue;
        }
        let verdict = at(start);
        let is_same = |known: &Verdict| match (known, &verdict) {
            (Verdict::Denied(known), Verdict::Denied(denial)) => known.rule == denial.rule,
            (known, verdict) => known == verdict,
        };
        if !found.last().is_some_and(|(_, known)| is_same(known)) {
            found.push((start, verdict));
        }
    }
    let ends: Vec<u16> =
        found.iter().skip(1).map(|(start, _)| start - 1).chain(std::iter::once(ports.high)).collect();
    found.into_iter().zip(ends).map(|((low, verdict), high)| (low, high, verdict)).collect()
}

fn range(low: u16, high: u16) -> String {
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

/// What the variables stand for when nobody runs anything: the invoking user's home, this directory, and a free name
/// where a run would make its private temporary directory.
fn context(workdir: &std::path::Path) -> Result<Context, String> {
    let workdir = std::fs::canonicalize(workdir)
        .map_err(|error| format!("the work directory {}: {error}", workdir.display()))?;
    let caller_tmpdir =
        std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()).unwrap_or_else(|| "/tmp".into());
    let home = std::env::var_os("SUDO_UID")
        .and_then(|uid| home_of(&uid))
        .or_else(|| std::env::var_os("HOME").filter(|home| OsStr::as_bytes(home).starts_with(b"/")));
    let bases = [PathBuf::from(&caller_tmpdir), "/tmp".into(), "/var/tmp".into()];
    let uid = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let uid = uid.unwrap_or_else(|| rustix::process::getuid().as_raw());
    // A policy can be looked at where no run could be.
    let private = tmpdir::choose(&bases).unwrap_or_else(|_| bases[0].join("assay-private"));
    Ok(Context {
        home: home.map(OsString::into_vec),
        workdir: workdir.into_os_string().into_vec(),
        tmpdir: private.into_os_string().into_vec(),
        caller_tmpdir: caller_tmpdir.into_vec(),
        runtime_dir: Caller::ourselves().runtime_dir(uid).into_os_string().into_vec(),
        nameservers: sources::nameservers(),
    })
}

/// The home of a user in `/etc/passwd`.
fn home_of(uid: &OsStr) -> Option<OsString> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let uid = uid.to_str()?;
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(uid))?;
    line.split(':').nth(5).map(Into::into)
}

fn print(out: &Output, text: &str) -> Exit {
    match out.result(text.as_bytes()) {
        Ok(()) => Exit::Success,
        Err(error) => {
            out.error(&format!("write the result: {error}"));
            Exit::Refused
        }
    }
}

fn print_json(out: &Output, value: &Value) -> Exit {
    print(out, &escaped(format!("{value:#}\n")))
}
