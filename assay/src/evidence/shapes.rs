//! What the evidence profile and the members of a bundle hold, as data: readers check it, schemas are made of it. Pure.

use super::events::{CONTENT_TYPE, SOURCE, SPEC_VERSION, kind};
use super::manifest::{CANON, EVENTS, HASH, ROOT};
use super::version::SchemaVersion;
use super::{CANONICALIZER, Component, wire};
use crate::canon::shape::{Field, Form, Shape, always, list, map, set, sometimes};
use crate::observe::loss::{Completeness, Kind};
use crate::profile::effect::{EffectResult, FsOp, HostFrom, NetEffectOp};

/// Who can refuse an act.
pub const DENIERS: [&str; 3] = ["policy", "launch", "system"];

fn word(one: &'static str) -> Shape {
    Shape::Word(vec![one])
}

/// The evidence profile.
pub fn evidence_profile() -> Shape {
    Shape::Object(vec![
        always("schema", word(wire::SCHEMA), "name and version of the format"),
        always("run_id", Shape::Form(Form::RunId), "`sandbox_` and the first 16 hex digits of `digest`"),
        always(
            "digest",
            Shape::Form(Form::Digest),
            "over the canonical JSON of `identity`, and of nothing else",
        ),
        always("identity", identity(), "what two runs of one behaviour have in common"),
        always("coverage", coverage(), "how far the record can be trusted"),
        always("observed", observed(), "true of this run only; never part of the identity"),
    ])
}

/// What the run id is computed from.
fn identity() -> Shape {
    let effects = Shape::Object(vec![
        always("fs", set(fs_effect()), "effects on files"),
        always("exec", set(exec_effect()), "programs that were started"),
        always("net", set(net_effect()), "effects on the network"),
    ]);
    Shape::Object(vec![
        always(
            "canonicalizer",
            word(CANONICALIZER),
            "the rules that made names equal that differ from run to run",
        ),
        always("command", list(Shape::Text), "the command and its arguments, without secrets"),
        always("effects", effects, "what was done, each once, in order"),
        always("outcome", outcome(), "how the command ended"),
        always("degradations", set(degradation()), "what was asked of the sandbox and not kept"),
    ])
}

/// An effect on files.
pub fn fs_effect() -> Shape {
    let ops = FsOp::ALL.map(FsOp::as_str);
    Shape::Object(vec![
        always("op", Shape::Word(ops.into()), "what was done"),
        always("path", Shape::Text, "the name; of a symlink the link, of a rename or link the old name"),
        sometimes("to", Shape::Text, "the new name; of a symlink its text"),
        always("result", result(), "`denied`: EACCES, EPERM or EROFS, whoever refused"),
    ])
}

/// The start of a program.
pub fn exec_effect() -> Shape {
    Shape::Object(vec![
        always("path", Shape::Text, "the program, a script, or a script's interpreter"),
        always("result", result(), "`denied`: EACCES, EPERM or EROFS, whoever refused"),
    ])
}

/// An effect on the network.
pub fn net_effect() -> Shape {
    let ops = NetEffectOp::NAMED.map(NetEffectOp::as_str);
    let from = HostFrom::ALL.map(HostFrom::as_str);
    let port = Shape::OneOf(vec![Shape::Between(0, u16::MAX.into()), word("ephemeral")]);
    Shape::Object(vec![
        always("op", Shape::Word(ops.into()), "what was done"),
        always("proto", Shape::Text, "`tcp`, `udp`, `unix`, `netlink` …"),
        sometimes("host", Shape::Text, "the name that the address was given for"),
        sometimes("host_from", Shape::Word(from.into()), "how the name is known"),
        sometimes(
            "address",
            Shape::Text,
            "an IP address, the path of a socket, or `@name` of an abstract one",
        ),
        sometimes("port", port, "the port; `ephemeral` when the kernel chose it for the run"),
        always("result", result(), "`ok` also when the peer refused or the act is under way"),
    ])
}

fn result() -> Shape {
    Shape::Word(vec![EffectResult::Ok.as_str(), EffectResult::Denied.as_str()])
}

/// How a command ended.
pub fn outcome() -> Shape {
    Shape::OneOf(vec![
        Shape::Object(vec![always("exit_code", Shape::Between(0, 255), "the command's own")]),
        Shape::Object(vec![always("signal", Shape::Text, "the name of the signal that ended it")]),
        Shape::Object(vec![always("timeout", Shape::Exactly(true.into()), "its time was over")]),
    ])
}

/// Something that was asked of the sandbox and not kept.
pub fn degradation() -> Shape {
    Shape::Object(vec![
        always("component", Shape::Word(Component::ALL.map(Component::as_str).into()), "what it concerns"),
        always("reason", Shape::Text, "a stable word"),
        sometimes(
            "detail",
            Shape::Text,
            "the path or address that is not held; without it, all of the component",
        ),
    ])
}

fn completeness() -> Shape {
    Shape::Word(
        [Completeness::Complete, Completeness::Partial, Completeness::None].map(Completeness::as_str).into(),
    )
}

fn coverage() -> Shape {
    let kinds = Kind::ALL.map(Kind::as_str);
    let detail = || always("detail", Shape::Text, "what exactly, for a person");
    let reason = Shape::OneOf(vec![
        Shape::Object(vec![
            always("kind", Shape::Word(kinds.into()), "the kind it concerns"),
            always("reason", Shape::Text, "a stable word"),
            detail(),
        ]),
        // What was lost may have been of any kind.
        Shape::Object(vec![always("reason", word(wire::RECORDS_LOST), "records did not arrive"), detail()]),
    ]);
    Shape::Object(vec![
        always("fs", completeness(), "of effects on files"),
        always("exec", completeness(), "of programs"),
        always("net", completeness(), "of effects on the network"),
        always("reasons", list(reason), "why something is not complete"),
    ])
}

fn observed() -> Shape {
    let effects = Shape::Object(vec![
        always("fs", set(fs_effect().and(facts())), ""),
        always("exec", set(exec_effect().and(facts())), ""),
        always(
            "net",
            set(net_effect().and(facts()).and([
                sometimes("addresses", set(Shape::Text), "the addresses that the name stood for"),
                sometimes("asked", set(Shape::Text), "the names that clients asked for there besides"),
                sometimes("peers", set(peer()), "who was at the other end of a UNIX connection"),
            ])),
            "",
        ),
    ]);
    let fold = Shape::Object(vec![
        always("rule", Shape::Text, "the name of the rule"),
        always("from", Shape::Text, "the name as it was"),
        always("to", Shape::Text, "the name in the identity"),
    ]);
    let unread = Shape::Object(vec![always("unread", Shape::Text, "why there is no digest")]);
    let process = Shape::Object(vec![
        always("pid", Shape::Between(0, u32::MAX.into()), "its id"),
        always("ppid", Shape::Between(0, u32::MAX.into()), "its parent's id"),
        sometimes("status", Shape::Between(0, u32::MAX.into()), "as wait(2) has it"),
        sometimes(
            "began_us",
            Shape::Count,
            "first seen, in microseconds since the command's first instruction",
        ),
        sometimes("ended_us", Shape::Count, "seen to end, likewise"),
        always("programs", list(list(Shape::Text)), "the argument lists of the programs it ran, in order"),
    ]);
    Shape::Object(vec![
        always("started_at", Shape::Text, "RFC 3339 in UTC"),
        always("duration_ms", Shape::Count, "to the end of the last descendant"),
        always("mode", Shape::Text, "`default`, `dry-run`, `enforce`"),
        always("verdict", Shape::Text, "what was decided"),
        always("descendants", Shape::Text, "what became of processes that outlived the command"),
        always("is_unobserved", Shape::Truth, "nothing could be observed at all"),
        sometimes("policy_digest", Shape::Form(Form::Digest), "of the policy's bytes"),
        always("counters", map(Shape::Count), "counts by name"),
        always("lost", map(Shape::Count), "records that did not arrive, by where they were lost"),
        always("effects", effects, "each effect again, with what is true of this run"),
        sometimes("endpoints", list(endpoint()), "where it connected, with numbers"),
        always("folded", list(fold), "what the canonicaliser made equal, by rule"),
        always(
            "programs",
            map(Shape::OneOf(vec![Shape::Form(Form::Digest), unread])),
            "SHA-256 of each program",
        ),
        always("processes", list(process), "in order of birth"),
        always("host", map(Shape::Text), "facts about the host"),
        always("versions", map(Shape::Text), "of what made the record"),
        always("roots", map(Shape::Text), "what the variables stood for"),
        always("not_governed", list(Shape::Text), "standing limits of enforcement here"),
        always("env_removed", list(Shape::Text), "names of variables that were removed; values never"),
    ])
}

/// One end of connections.
fn endpoint() -> Shape {
    let from = HostFrom::ALL.map(HostFrom::as_str);
    Shape::Object(vec![
        always("proto", Shape::Text, "`tcp`, `udp` …"),
        sometimes("host", Shape::Text, "what the addresses are called"),
        sometimes("host_from", Shape::Word(from.into()), "how the name is known"),
        sometimes("addresses", set(Shape::Text), "the addresses"),
        always("port", Shape::Between(0, u16::MAX.into()), "the port; where the run served, its own"),
        sometimes("served", Shape::Exactly(true.into()), "others connected to the run here"),
        sometimes("connections", Shape::Count, "that were made; not told where the run served"),
        sometimes("failed", Shape::Count, "attempts that came to nothing"),
        sometimes("blocked", Shape::Count, "attempts that were refused, whoever refused"),
        sometimes("bytes_out", Shape::Count, "sent, behind TCP's or UDP's header"),
        sometimes("bytes_in", Shape::Count, "received, behind TCP's or UDP's header"),
    ])
}

/// The other end of a UNIX connection.
fn peer() -> Shape {
    let number = || Shape::Between(0, u32::MAX.into());
    Shape::Object(vec![
        sometimes("pid", number(), "the process that listened"),
        sometimes("uid", number(), "its user"),
        sometimes("program", Shape::Text, "the program that it ran"),
        sometimes("comm", Shape::Text, "the kernel's short name of it"),
        sometimes("unread", Shape::Text, "why something of it is missing"),
    ])
}

/// What is true of one effect in this run.
fn facts() -> Vec<Field> {
    let actor = Shape::Object(vec![
        always("pid", Shape::Between(0, u32::MAX.into()), "its process"),
        sometimes("program", Shape::Text, "the program that the process ran"),
        always("comm", Shape::Text, "the kernel's short name of it"),
    ]);
    let refusal = Shape::Object(vec![
        sometimes("rule", Shape::Text, "the rule that denies it; without one, no rule allows it"),
        sometimes("at", Shape::Text, "where that rule stands"),
        always("remedy", Shape::Text, "what would allow it"),
    ]);
    vec![
        always("hits", Shape::Count, "how often"),
        sometimes("denied_by", Shape::Word(DENIERS.into()), "who refused it"),
        sometimes("authorised", Shape::Truth, "whether the policy allows it"),
        sometimes("by", actor, "who did it first"),
        sometimes("refused", refusal, "why the policy does not allow it"),
    ]
}

/// `manifest.json` of a bundle.
pub fn manifest() -> Shape {
    let digest = || Shape::Form(Form::Digest);
    let events = Shape::Object(vec![
        always("path", word(EVENTS), "the member"),
        always("sha256", digest(), "of its bytes"),
        always("bytes", whole(), "its length"),
    ]);
    let version = i64::from(SchemaVersion::WRITTEN.number());
    Shape::Object(vec![
        always("schema_version", Shape::Between(version, version), "of the bundle"),
        always("bundle_id", digest(), "the run root"),
        always(
            "producer",
            Shape::Object(vec![always("name", Shape::Text, ""), always("version", Shape::Text, "")]),
            "the program that wrote it",
        ),
        always("run_id", Shape::Form(Form::RunId), "the run"),
        always("event_count", whole(), "how many lines `events.ndjson` has"),
        always("run_root", digest(), "over the events' content hashes"),
        always(
            "algorithms",
            Shape::Object(vec![
                always("canon", word(CANON), "how JSON is made canonical"),
                always("hash", word(HASH), "how bytes are hashed"),
                always("root", word(ROOT), "how the run root is computed"),
            ]),
            "how the rest is computed",
        ),
        always("files", Shape::Object(vec![always(EVENTS, events, "")]), "the other member"),
    ])
}

/// A number of things that JSON keeps exactly.
fn whole() -> Shape {
    Shape::Between(0, crate::canon::value::MAX_INTEGER)
}

/// One line of `events.ndjson`, as it is written here.
pub fn event() -> Shape {
    let subject = || always("subject", Shape::Text, "the path, program or endpoint");
    let text = |key, about| sometimes(key, Shape::Text, about);
    let effect = |kind, data: Shape, more: Vec<Field>| {
        one_event(kind, data)
            .and([
                subject(),
                sometimes("assayauthorised", Shape::Truth, "whether the policy allows it"),
                sometimes("assaydeniedby", Shape::Word(DENIERS.into()), "who refused it"),
                sometimes("assayhits", Shape::Count, "how often"),
            ])
            .and(more)
    };
    let started = Shape::Object(vec![
        always("canonicalizer", word(CANONICALIZER), ""),
        always("command", list(Shape::Text), "the command and its arguments, without secrets"),
    ]);
    let digest = sometimes("sha256", Shape::Form(Form::Digest), "of the program");
    let counts = ["degradations", "exec", "fs", "net"].map(|key| always(key, whole(), "how many"));
    let ended = || always("outcome", outcome(), "how the command ended");
    Shape::OneOf(vec![
        one_event(kind::STARTED, started).and([
            text("assaymode", "how the run was held"),
            sometimes("assaypolicydigest", Shape::Form(Form::Digest), "of the policy's bytes"),
            text("assaykernel", "the kernel's release"),
            text("assayarch", "the machine's architecture"),
            text("assayobserver", "the digest of the observer's object"),
        ]),
        effect(kind::FS, fs_effect(), Vec::new()),
        effect(
            kind::EXEC,
            exec_effect().and([digest]),
            vec![text("assaydigesterror", "why there is no digest")],
        ),
        effect(
            kind::NET,
            net_effect(),
            vec![
                text("assayaddresses", "the addresses that the name stood for, between spaces"),
                text("assayasked", "the names that clients asked for there besides, between spaces"),
                text("assaypeers", "who answered at a UNIX socket, as the text of a JSON array"),
            ],
        ),
        one_event(kind::DEGRADED, degradation())
            .and([text("subject", "the path or address that is not held")]),
        one_event(
            kind::SUMMARY,
            Shape::Object(vec![always("counts", Shape::Object(counts.into()), "of events"), ended()]),
        )
        .and([
            always("assaycoveragefs", completeness(), "of effects on files"),
            always("assaycoverageexec", completeness(), "of programs"),
            always("assaycoveragenet", completeness(), "of effects on the network"),
            always("assaylost", Shape::Count, "records that did not arrive"),
            text("assaygaps", "why something is not complete, as the text of a JSON array"),
            text("assaynotgoverned", "standing limits of enforcement, as the text of a JSON array"),
            text("assaydescendants", "what became of processes that outlived the command"),
            text("assayverdict", "what was decided"),
            text("assaystartedat", "when the run began"),
            sometimes("assaydurationms", Shape::Count, "how long it took"),
        ]),
        one_event(kind::FINISHED, Shape::Object(vec![ended()])),
    ])
}

fn one_event(kind: &'static str, data: Shape) -> Shape {
    Shape::Object(vec![
        always("specversion", word(SPEC_VERSION), "of CloudEvents"),
        always("type", word(kind), "what the event tells"),
        always("source", word(SOURCE), "who tells it"),
        always("id", Shape::Text, "the run id, a colon, and the place among the events"),
        always("time", Shape::Form(Form::Moment), "when it was written"),
        always("datacontenttype", word(CONTENT_TYPE), "of `data`"),
        always("assayrunid", Shape::Form(Form::RunId), "the run"),
        always("assayseq", whole(), "the place among the events, from 0"),
        always("assayproducer", Shape::Text, "the program that wrote it"),
        always("assayproducerversion", Shape::Text, "its version"),
        always("assaygit", Shape::Text, "the commit it was built from"),
        always("assaypii", Shape::Truth, "whether personal data is in it"),
        always("assaysecrets", Shape::Truth, "whether secrets are in it"),
        always(
            "assaycontenthash",
            Shape::Form(Form::Digest),
            "over `data`, `datacontenttype`, `specversion`, `subject` and `type`",
        ),
        always("data", data, "what the identity holds, and the digests of programs"),
    ])
}
