//! Every format with its shape, and the shapes of what is only written here: what commands print as JSON, the trace, the
//! status file. `docs/formats/schema` is made of this table.

use std::path::{Path, PathBuf};

use crate::canon::shape::{Field, Form, Members, Shape, always, list, map, or_null, schema, set, sometimes};
use crate::cli::doctor::State;
use crate::cli::output::Output;
use crate::enforce::status::Component;
use crate::evidence::diff::Kind as ChangeKind;
use crate::evidence::lint::Level;
use crate::evidence::shapes;
use crate::exit::Exit;
use crate::host::Right;
use crate::observe::observation::Access;
use crate::observe::trace;
use crate::profile::wire::{Grant, Section};
use crate::sandbox::outcome::Verdict;

/// A format.
pub struct Format {
    /// The name of its schema, without the version.
    pub name: &'static str,
    /// What it is, for a person.
    pub title: &'static str,
    /// What it holds.
    pub shape: fn() -> Shape,
}

/// Every format that programs read.
pub const FORMATS: [Format; 21] = [
    format("evidence-profile", "The evidence profile of a run", shapes::evidence_profile),
    format("profile", "A profile: a policy that only allows", crate::profile::shape::profile),
    format("policy", "A policy", crate::policy::shape::policy),
    format("bundle-manifest", "manifest.json of an evidence bundle, as it is written here", shapes::manifest),
    format(
        "bundle-event",
        "One line of events.ndjson of an evidence bundle, as it is written here",
        shapes::event,
    ),
    format("trace-line", "One line of a trace", trace_line),
    format("status-file", "The status file of a run", status_file),
    format("spool-entry", "One line of the chain of a spool", crate::spool::entry::shape),
    format("spool-begun", "What is noted of a run when it begins", crate::spool::begun::shape),
    format("verify-output", "What `assay evidence verify --format json` prints", verify_output),
    format("lint-output", "What `assay evidence lint --format json` prints", lint_output),
    format("diff-output", "What `assay evidence diff --format json` prints", diff_output),
    format("show-output", "What `assay evidence show --format json` prints", show_output),
    format("gate-output", "What `assay evidence gate --format json` prints", gate_output),
    format("runs-list-output", "What `assay runs list --format json` prints", runs_list_output),
    format("runs-show-output", "What `assay runs show --format json` prints", runs_show_output),
    format("runs-verify-output", "What `assay runs verify --format json` prints", runs_verify_output),
    format("profile-merge-output", "What `assay profile merge --format json` prints", profile_merge_output),
    format("profile-diff-output", "What `assay profile diff --format json` prints", profile_diff_output),
    format("policy-check-output", "What `assay policy check --format json` prints", policy_check_output),
    format("doctor-output", "What `assay doctor --format json` prints", doctor_output),
];

const fn format(name: &'static str, title: &'static str, shape: fn() -> Shape) -> Format {
    Format { name, title, shape }
}

impl Format {
    /// The name of the file that its schema stands in.
    pub fn file(&self) -> String {
        format!("{}.v1.schema.json", self.name)
    }

    /// Its JSON Schema.
    pub fn schema(&self) -> String {
        schema(self.title, &(self.shape)())
    }
}

/// Flags of `assay schemas`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the schemas go.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes one schema a format into a directory.
pub fn run(args: &Args, out: &Output) -> Exit {
    match write(&args.directory) {
        Ok(()) => Exit::Success,
        Err(error) => {
            out.error(&format!("write schemas to {}: {error}", args.directory.display()));
            Exit::Refused
        }
    }
}

fn write(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    FORMATS.iter().try_for_each(|format| std::fs::write(directory.join(format.file()), format.schema()))
}

fn word(one: &'static str) -> Shape {
    Shape::Word(vec![one])
}

fn digest() -> Shape {
    Shape::Form(Form::Digest)
}

fn trace_line() -> Shape {
    let end = Shape::Object(vec![
        always("end", Shape::Exactly(true.into()), "the last line"),
        always("events", Shape::Count, "how many lines stand above"),
        always("lost", Shape::Count, "how many records did not arrive"),
    ]);
    let cut = Shape::Object(vec![
        always("end", Shape::Exactly(false.into()), "the last line of a trace that is not whole"),
        always("reason", Shape::Word(vec!["observer killed", "not observed"]), "why"),
    ]);
    let text = |key, about| sometimes(key, Shape::Text, about);
    let state = |key| {
        let words = ["looked-up-late", "unverified", "lexical", "nameless", "cut", "unreadable"];
        sometimes(key, Shape::Word(words.into()), "absent when the kernel resolved the name")
    };
    let only_true = |key, about| sometimes(key, Shape::Exactly(true.into()), about);
    let number = |key, about| always(key, Shape::Count, about);
    let peer = Shape::Object(vec![
        sometimes("pid", Shape::Count, "the process that listened"),
        sometimes("uid", Shape::Count, "its user"),
        text("program", "the program that it ran; absent where it had ended"),
        text("comm", "the kernel's short name of it; absent where it had ended"),
    ]);
    let line = Shape::Object(vec![
        number("seq", "the place among the observations, from 0; those without a line have one too"),
        number("t_ns", "nanoseconds since the command's first instruction"),
        number("pid", "the process"),
        number("tid", "the thread"),
        number("ppid", "the parent process"),
        always("comm", Shape::Text, "the kernel's short name of the process"),
        always("op", Shape::Word(trace::words()), "the system call, without its variants"),
        text("path", "where the kernel went, links resolved"),
        state("path_state"),
        text("to", "the second name; of a symlink its text"),
        state("to_state"),
        text("requested", "what the program asked for, where that differs"),
        text("requested_to", "what the program asked for as the second name, where that differs"),
        sometimes("access", set(Shape::Word(Access::ALL.map(trace::access_word).into())), "of an open"),
        only_true("path_only", "O_PATH"),
        only_true("exchange", "a rename that exchanged both names"),
        sometimes(
            "namespaces",
            set(Shape::Word(trace::namespace_words())),
            "the kinds of unshare, setns and clone, by their names in `/proc/self/ns`",
        ),
        text("interpreter", "the program that runs a script"),
        state("interpreter_state"),
        sometimes("argv", list(Shape::Text), "of a program start, without secrets"),
        only_true("argv_cut", "there were more arguments"),
        text("proto", "of a socket"),
        text("address", "an IP address, the path of a socket, or `@name` of an abstract one"),
        state("address_state"),
        sometimes("port", Shape::Between(0, u16::MAX.into()), "of the address"),
        text("host", "the name that the address was given for"),
        only_true("ephemeral", "the kernel chose the port"),
        sometimes("peer", peer, "who answered at a UNIX socket; empty where the kernel names nobody"),
        always("result", Shape::Text, "`ok`, or the errno's name"),
    ]);
    Shape::OneOf(vec![end, cut, line])
}

fn status_file() -> Shape {
    let file = || {
        Shape::Object(vec![
            always("path", Shape::Text, "where it is"),
            always("sha256", Shape::Form(Form::Hex), "of its bytes"),
        ])
    };
    let artifacts = ["profile", "evidence", "report", "bundle", "trace", "records"];
    let verdicts = Verdict::ALL.map(Verdict::as_str);
    Shape::Object(vec![
        always("child", or_null(shapes::outcome()), "how the command ended; null when it did not start"),
        always("exit_code", Shape::Between(0, 255), "ours"),
        always("verdict", Shape::Word(verdicts.into()), "what was decided"),
        always("reasons", list(Shape::Text), "why"),
        always(
            "artifacts",
            Shape::Object(artifacts.map(|name| sometimes(name, file(), "")).into()),
            "what was written",
        ),
        sometimes(
            "degradations",
            list(shapes::degradation()),
            "what was asked of the sandbox and not kept; absent where the observer died and nobody can tell",
        ),
    ])
}

fn bundle() -> [Field; 2] {
    [
        always("run_id", Shape::Filled, "the run"),
        always("run_root", digest(), "over the events' content hashes"),
    ]
}

fn event() -> Field {
    sometimes("event", Shape::Count, "the place of the event in the bundle")
}

fn verify_output() -> Shape {
    let good = Shape::Object(vec![
        always("verified", Shape::Exactly(true.into()), "the bundle is good"),
        always("archive_sha256", digest(), "of the archive's bytes"),
        always("event_count", Shape::Count, "how many events it holds"),
        sometimes("attested_by", Shape::Text, "the id of the key that signed the attestation"),
    ])
    .and(bundle());
    let bad = Shape::Object(vec![
        always("verified", Shape::Exactly(false.into()), "it is not, or could not be read"),
        sometimes("code", Shape::Text, "which check failed; absent when it could not be read"),
        always("detail", Shape::Text, "what was found, for a person"),
    ]);
    Shape::OneOf(vec![good, bad])
}

fn level() -> Shape {
    Shape::Word([Level::Error, Level::Warn, Level::Info].map(Level::as_str).into())
}

fn lint_output() -> Shape {
    let finding = || {
        Shape::Object(vec![
            always("level", level(), "how bad it is"),
            always("message", Shape::Text, "what was seen"),
            always("rule", Shape::Text, "`--explain` tells more"),
            always("subject", Shape::Text, "what it concerns; empty for the bundle as a whole"),
            event(),
        ])
    };
    let counts =
        [Level::Error, Level::Warn, Level::Info].map(|level| always(level.as_str(), Shape::Count, ""));
    let more = Shape::Object(vec![
        always("count", Shape::Count, "how many"),
        always("level", level(), "the worst of them"),
        always("rule", Shape::Text, "of this rule"),
    ]);
    let reason = always("reason", Shape::Text, "why it is ignored");
    Shape::Object(vec![
        always("counts", Shape::Object(counts.into()), "findings by level"),
        always("findings", list(finding()), "the worst first"),
        always("ignored", list(finding().and([reason])), "what the project's settings ignore"),
        always("more", list(more), "findings that are only counted"),
    ])
    .and(bundle())
}

fn diff_output() -> Shape {
    let side = || Shape::Object(vec![always("event_count", Shape::Count, "")]).and(bundle());
    let count = |key| always(key, Shape::Count, "");
    let change = Shape::Object(vec![
        always("change", Shape::Word(vec!["added", "removed", "changed"]), "from A to B"),
        always("kind", Shape::Word(ChangeKind::ALL.map(ChangeKind::as_str).into()), "of what"),
        always("subject", Shape::Text, "the name or endpoint"),
        sometimes("op", Shape::Text, "the operation"),
        sometimes("before", Shape::Anything, "as A has it"),
        sometimes("after", Shape::Anything, "as B has it"),
        sometimes(
            "aspect",
            Shape::Word(vec!["op", "result", "sha256", "value"]),
            "of what changed: which part",
        ),
    ]);
    Shape::Object(vec![
        always("a", side(), "the first bundle"),
        always("b", side(), "the second"),
        always("same", Shape::Truth, "nothing differs"),
        always(
            "counts",
            Shape::Object(["added", "removed", "changed"].map(count).into()),
            "changes by what they are",
        ),
        always("changes", list(change), "what differs"),
    ])
}

fn show_output() -> Shape {
    Shape::Object(vec![
        always(
            "events",
            list(map(Shape::Anything)),
            "those that were asked for, as they stand in the bundle",
        ),
        always("manifest", map(Shape::Anything), "as it stands in the bundle"),
        always("verified", Shape::Truth, "false when the bundle changed while it was read"),
    ])
}

fn gate_output() -> Shape {
    let reason = || {
        Shape::Object(vec![
            always("code", Shape::Text, "a stable word"),
            always("detail", Shape::Text, "for a person"),
            always("subject", Shape::Text, "what it concerns; empty for the bundle as a whole"),
            event(),
        ])
    };
    Shape::Object(vec![
        always("verdict", Shape::Word(vec!["pass", "fail"]), ""),
        always("reasons", list(reason()), "why it does not pass"),
        always("notes", list(reason()), "what is worth saying and fails nothing"),
        always("more_reasons", Shape::Count, "reasons that are only counted"),
        always("more_notes", Shape::Count, "notes that are only counted"),
        sometimes("policy_digest", digest(), "of the policy's bytes"),
        sometimes("baseline_run_id", Shape::Filled, "the run it was held against"),
    ])
    .and(bundle())
}

fn listed_run() -> Shape {
    Shape::Object(vec![
        always("entry", crate::spool::entry::shape(), "as the chain has it"),
        always("line_sha256", digest(), "of the entry's line, which the next entry names"),
        sometimes("collected_by", Shape::Count, "the entry that says that the run's files were removed"),
    ])
}

fn runs_list_output() -> Shape {
    Shape::Object(vec![
        always("runs", list(listed_run()), "the last one first"),
        always("more", Shape::Count, "how many more there are than were asked for"),
        always(
            "unsearched",
            map(Shape::Count),
            "runs that were not searched wholly for paths and hosts, by why",
        ),
    ])
}

fn runs_show_output() -> Shape {
    listed_run().and([always("directory", Shape::Filled, "where its files are, or were")])
}

fn runs_verify_output() -> Shape {
    let count = |key, about| always(key, Shape::Count, about);
    let codes = crate::spool::fault::Code::ALL.iter().map(|code| code.as_str()).collect();
    let fault = Shape::Object(vec![
        always("code", Shape::Word(codes), "a stable word; `--explain` tells more"),
        always("detail", Shape::Text, "for a person"),
        sometimes("entry", Shape::Count, "the entry that it concerns"),
    ]);
    let head = Shape::Object(vec![
        count("entry", "its place"),
        always("sha256", digest(), "of its line: what `--head` takes"),
    ]);
    Shape::Object(vec![
        always("verified", Shape::Truth, "nothing is wrong"),
        always("head", or_null(head), "the last entry"),
        count("entries", "lines of the chain that are entries"),
        count("runs", "entries that tell a run"),
        count("collected", "runs whose files were removed by `gc`"),
        count("files", "files that were read"),
        count("bundles", "bundles that were verified"),
        count("signatures", "of the keys that were given"),
        always("faults", list(fault), "what is wrong"),
        always("notes", list(Shape::Text), "what is worth saying and is not wrong"),
    ])
}

fn section() -> Field {
    let sections = [Section::Fs, Section::Net, Section::Exec].map(Section::as_str);
    always("section", Shape::Word(sections.into()), "the list of the profile")
}

/// What `assay profile merge --format json` writes, and `merge` and `diff` read.
pub(super) fn profile_merge_output() -> Shape {
    let rule = || {
        Shape::Object(vec![
            section(),
            always("rule", Shape::Text, "as the profile writes it"),
            always("seen_in", Shape::Form(Form::Share), "how many of the runs needed it"),
            sometimes("access", Shape::Word(Grant::ALL.map(Grant::as_str).into()), "of a rule of `fs`"),
        ])
    };
    Shape::Object(vec![
        always("runs", Shape::Count, "how many"),
        always("policy", crate::profile::shape::profile(), "the profile of all of them"),
        always("rules", list(rule()), "its rules"),
        always("left_out", list(rule()), "what fewer runs needed than were asked for"),
    ])
}

fn profile_diff_output() -> Shape {
    list(Shape::Object(vec![
        section(),
        always("what", Shape::Text, "the rule or effect"),
        sometimes("before", Shape::Text, "as the first has it; absent when it has not"),
        sometimes("after", Shape::Text, "as the second has it; absent when it has not"),
    ]))
}

fn policy_check_output() -> Shape {
    let valid = |is: bool| always("valid", Shape::Exactly(is.into()), "whether it is a policy");
    let problem = Shape::Object(vec![
        always("file", Shape::Text, "where"),
        always("line", Shape::Count, ""),
        always("column", Shape::Count, ""),
        always("message", Shape::Text, "what is wrong"),
        always("hint", or_null(Shape::Text), "what to write instead"),
    ]);
    let allowed = Shape::Object(vec![
        always("request", Shape::Text, "what was asked"),
        always("verdict", word("allowed"), ""),
        always("rule", Shape::Text, "the rule that allows it"),
        always("at", or_null(Shape::Text), "where that rule stands"),
    ]);
    let denied = Shape::Object(vec![
        always("request", Shape::Text, "what was asked"),
        always("verdict", word("denied"), ""),
        always("why", Shape::Text, "for a person"),
        always("rule", or_null(Shape::Text), "the rule that denies it; null when no rule allows it"),
        always("at", or_null(Shape::Text), "where that rule stands"),
        always("remedy", Shape::Text, "what would allow it"),
    ]);
    let rule = Shape::Object(vec![
        always("list", Shape::Text, "the list it stands in"),
        always("rule", Shape::Text, "as it is written"),
        always("access", Shape::Text, "what it governs"),
        always("at", Shape::Text, "where it stands"),
        always("status", Shape::Word(vec!["held", "moot", "not held"]), "on this host"),
        always("why", Shape::Text, "by what, or why not"),
    ]);
    let degradation = Shape::Object(vec![
        always("component", Shape::Word(Component::ALL.map(Component::as_str).into()), "what it concerns"),
        always("reason", Shape::Text, "a stable word"),
        always("detail", or_null(Shape::Text), "the path or address that is not held"),
    ]);
    Shape::OneOf(vec![
        Shape::Object(vec![
            valid(false),
            always("problems", Shape::List(Box::new(problem), Members::Some), "all of them"),
        ]),
        Shape::Object(vec![
            valid(true),
            always("answers", list(Shape::OneOf(vec![allowed, denied])), "to `--path` and `--connect`"),
        ]),
        Shape::Object(vec![
            valid(true),
            always("policy", Shape::Text, "its name"),
            always("digest", digest(), "of its bytes"),
            always("rules", list(rule), "what becomes of each"),
            always("degradations", list(degradation), "what this host cannot hold"),
            always("not_governed", list(Shape::Text), "standing limits of enforcement here"),
            always("warnings", list(Shape::Text), "what is worth a look"),
        ]),
    ])
}

fn doctor_output() -> Shape {
    let way = Shape::Object(vec![
        always("what", Shape::Text, "what it is, or why there is nothing to type"),
        always("commands", list(Shape::Text), "what to type, in order"),
    ]);
    let check = Shape::Object(vec![
        always("name", Shape::Text, "what was looked at"),
        always("state", Shape::Word(State::ALL.map(State::as_str).into()), ""),
        always("fact", Shape::Text, "what was found"),
        always("remedy", or_null(Shape::Text), "what would change it"),
        always("fix", list(way), "the ways to get it, for a person to choose from"),
    ]);
    let rights = Right::ALL.map(|right| sometimes(right.as_str(), Shape::Truth, ""));
    let landlock = Shape::Object(vec![
        always("abi", or_null(Shape::Count), "null when there is no Landlock"),
        always("rights", Shape::Object(rights.into()), "whether it governs them"),
    ]);
    Shape::Object(vec![
        always("can_observe", Shape::Truth, "a run can be recorded here, by this user"),
        always("kernel", Shape::Text, "its release"),
        always("arch", Shape::Text, "the machine's architecture"),
        always("checks", Shape::List(Box::new(check), Members::Some), "what was looked at"),
        always("landlock", landlock, "what can be enforced"),
    ])
}
