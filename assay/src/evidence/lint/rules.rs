//! The table of rules: id, level, title, why, what to do, check. Each has a good and a bad example in the tests. Pure.

use super::checks;
use super::seen::Seen;
use super::{Found, Level};
use crate::evidence::verify::Verified;
use crate::evidence::view::View;

/// One rule.
pub struct Rule {
    /// Its stable name.
    pub id: &'static str,
    /// How bad it is unless the project or the case says otherwise.
    pub level: Level,
    /// What it says, in a few words.
    pub title: &'static str,
    /// Why a reviewer should care.
    pub why: &'static str,
    /// What to do about it.
    pub advice: &'static str,
    pub(super) check: Check,
}

/// How a rule looks.
#[derive(Clone, Copy)]
pub(super) enum Check {
    /// At each event.
    Event(fn(&Seen, &View<'_>) -> Option<Found>),
    /// At the end, at what went by.
    Whole(fn(&Seen, &Verified) -> Vec<Found>),
}

/// The rule of this name.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}

/// Every rule, in the order they are told.
pub const RULES: &[Rule] = &[
    Rule {
        id: "containment-absent",
        level: Level::Error,
        title: "a whole kind of action was not held",
        why: "The sandbox was asked to hold files, programs or the network to a policy, and this host could not: what the run did not do, it chose not to do.",
        advice: "Run on a host where `assay doctor` says it can be held, or use `--fail-closed` so that such a run does not start.",
        check: Check::Event(checks::containment_absent),
    },
    Rule {
        id: "containment-degraded",
        level: Level::Warn,
        title: "something that was asked of the sandbox was not held",
        why: "The rest of the policy was held, this part was only watched.",
        advice: "Look whether the run used it; change the policy so that it can be held, or the host.",
        check: Check::Event(checks::containment_degraded),
    },
    Rule {
        id: "not-contained",
        level: Level::Info,
        title: "the run was observed and not contained",
        why: "In a dry run nothing is blocked: denials are missing because nothing was denied.",
        advice: "Run with `--enforce` once the policy fits.",
        check: Check::Event(checks::not_contained),
    },
    Rule {
        id: "coverage-none",
        level: Level::Error,
        title: "a kind of action was not observed at all",
        why: "The record cannot say anything about it; that nothing is listed means nothing.",
        advice: "Run where the observer can load: `assay doctor` says what is missing.",
        check: Check::Whole(checks::coverage_none),
    },
    Rule {
        id: "coverage-partial",
        level: Level::Warn,
        title: "a kind of action was observed in part",
        why: "Something may have happened that is not in the record; the reasons say what.",
        advice: "Read the reasons; run again without what caused them, or on another kernel.",
        check: Check::Whole(checks::coverage_partial),
    },
    Rule {
        id: "coverage-unstated",
        level: Level::Warn,
        title: "the record does not say how much was observed",
        why: "Without coverage nobody can tell nothing happened from nothing was seen.",
        advice: "Treat it as partial. Bundles of `assay sandbox` always say it.",
        check: Check::Whole(checks::coverage_unstated),
    },
    Rule {
        id: "events-lost",
        level: Level::Error,
        title: "events were lost",
        why: "The run did more than the record shows, and nobody knows what.",
        advice: "Run again on a quieter machine; `--fail-closed` makes a loss fatal.",
        check: Check::Whole(checks::events_lost),
    },
    Rule {
        id: "record-incomplete",
        level: Level::Warn,
        title: "the record lacks its beginning, its end or its summary",
        why: "A record that was cut is whole as far as its hashes go, and still tells half.",
        advice: "Get the bundle from the run again; do not accept it for a gate.",
        check: Check::Whole(checks::record_incomplete),
    },
    Rule {
        id: "counts-differ",
        level: Level::Error,
        title: "the summary counts other events than there are",
        why: "Events were taken out or put in before the bundle was sealed.",
        advice: "Do not trust the bundle; ask where it came from.",
        check: Check::Whole(checks::counts_differ),
    },
    Rule {
        id: "run-id-differs",
        level: Level::Error,
        title: "the run id is not that of the identity in the events",
        why: "The run id names a behaviour; these events describe another one.",
        advice: "Do not trust the bundle; ask where it came from.",
        check: Check::Whole(checks::run_id_differs),
    },
    Rule {
        id: "protected-config-written",
        level: Level::Error,
        title: "configuration that makes code run later was changed",
        why: "Git hooks, CI workflows, agent, editor and shell configuration run code after the sandbox is gone, with the rights of whoever runs it.",
        advice: "Read the change before anything uses it; deny writing there in the policy.",
        check: Check::Event(checks::protected_config_written),
    },
    Rule {
        id: "git-config-written",
        level: Level::Warn,
        title: "a repository's git configuration was changed",
        why: "`.git/config` can name programs that the next git command runs. Cloning writes it for good reasons.",
        advice: "Look at `git config --list` for aliases, filters, hooksPath, fsmonitor and sshCommand.",
        check: Check::Event(checks::git_config_written),
    },
    Rule {
        id: "credential-read",
        level: Level::Error,
        title: "credentials or keys were read",
        why: "Who reads a key can use it elsewhere, for as long as it lives.",
        advice: "Deny the file in the policy; replace the key if the run had a way out.",
        check: Check::Event(checks::credential_read),
    },
    Rule {
        id: "secret-file-read",
        level: Level::Warn,
        title: "a file that often holds secrets was read",
        why: "Environment files and the agents' own credentials are read for good reasons, and leak from there.",
        advice: "Check what was in it, and where the run connected.",
        check: Check::Event(checks::secret_file_read),
    },
    Rule {
        id: "exec-from-memory",
        level: Level::Error,
        title: "a program ran from memory or from a deleted file",
        why: "There is no file that anybody could look at afterwards.",
        advice: "Find out which program does it and why; deny it in the policy.",
        check: Check::Event(checks::exec_from_memory),
    },
    Rule {
        id: "exec-of-written",
        level: Level::Warn,
        title: "the run wrote a program and ran it",
        why: "What ran was made during the run: downloaded, unpacked or built.",
        advice: "Its digest is in the bundle: compare it with what should have been built.",
        check: Check::Event(checks::exec_of_written),
    },
    Rule {
        id: "exec-from-temp",
        level: Level::Warn,
        title: "a program ran from a temporary place",
        why: "Anybody may put files there, and they are gone when somebody looks.",
        advice: "Find out what put it there; do not allow `execute` on temporary directories.",
        check: Check::Event(checks::exec_from_temp),
    },
    Rule {
        id: "exec-from-workdir",
        level: Level::Info,
        title: "a program ran from the work directory",
        why: "The run may change what it runs there.",
        advice: "Expected for builds and tests; otherwise look at the program.",
        check: Check::Event(checks::exec_from_workdir),
    },
    Rule {
        id: "set-id-program",
        level: Level::Warn,
        title: "a program ran that raises its own rights",
        why: "sudo, su, mount and their like act with other rights than the run was given.",
        advice: "Deny it in the policy (`exec.deny`); under enforcement it fails anyway.",
        check: Check::Event(checks::set_id_program),
    },
    Rule {
        id: "root-socket",
        level: Level::Error,
        title: "a socket was used whose other end acts for the caller",
        why: "Through a container engine, a system or user bus, or a key agent, work goes on outside the sandbox and outside this record.",
        advice: "Deny the socket in the policy; look in the log of the service for what was asked of it.",
        check: Check::Event(checks::root_socket),
    },
    Rule {
        id: "cloud-metadata",
        level: Level::Error,
        title: "the cloud's metadata service was addressed",
        why: "It hands the machine's own credentials to whoever asks.",
        advice: "Deny the address in the policy; replace the machine's credentials if an answer came.",
        check: Check::Event(checks::cloud_metadata),
    },
    Rule {
        id: "egress-plain-address",
        level: Level::Warn,
        title: "a connection went to a plain address",
        why: "No name was asked for before, so there is nothing to review it by.",
        advice: "Find out whose address it is; allow by name or by a narrow range.",
        check: Check::Event(checks::egress_plain_address),
    },
    Rule {
        id: "other-name-asked",
        level: Level::Warn,
        title: "a server was asked for another name than it was found by",
        why: "What answers at an allowed address may be somebody else: a host that many share takes whoever is asked for.",
        advice: "Find out who answers to that name there; deny the address if the run had no business with them.",
        check: Check::Event(checks::other_name_asked),
    },
    Rule {
        id: "many-deletions",
        level: Level::Warn,
        title: "many files were deleted",
        why: "A clean-up and a mistake look the same.",
        advice: "Compare with what should be gone; the bundle lists every name.",
        check: Check::Whole(checks::many_deletions),
    },
    Rule {
        id: "unauthorised",
        level: Level::Warn,
        title: "the run did what its policy does not authorise",
        why: "It was not blocked, because the run was a dry run or this could not be held.",
        advice: "Allow it in the policy if it is needed, or find out why it happens.",
        check: Check::Event(checks::unauthorised),
    },
    Rule {
        id: "denied",
        level: Level::Info,
        title: "an action was denied",
        why: "It shows what the run tried.",
        advice: "Allow it in the policy if it is needed.",
        check: Check::Event(checks::denied),
    },
    Rule {
        id: "secret-in-text",
        level: Level::Error,
        title: "something with the shape of a secret stands in the record",
        why: "Bundles travel; whoever gets this one gets the secret.",
        advice: "Replace the secret, and keep this bundle to yourself.",
        check: Check::Event(checks::secret_in_text),
    },
    Rule {
        id: "argv-unredacted",
        level: Level::Error,
        title: "the command holds a secret in plain text",
        why: "Every user of the machine could read it while the run went on, and every reader of this bundle can.",
        advice: "Pass it through a file or the environment; replace the secret.",
        check: Check::Event(checks::argv_unredacted),
    },
    Rule {
        id: "marked-sensitive",
        level: Level::Warn,
        title: "its producer marked an event as holding secrets or personal data",
        why: "`assaysecrets` or `assaypii` is true.",
        advice: "Treat the bundle accordingly.",
        check: Check::Event(checks::marked_sensitive),
    },
    Rule {
        id: "clock-odd",
        level: Level::Warn,
        title: "time runs backwards, or events lie a day apart",
        why: "Events are stamped when the bundle is written, at once and in order.",
        advice: "Ask how the bundle was made; its order is by sequence, not by time.",
        check: Check::Event(checks::clock_odd),
    },
    Rule {
        id: "order-odd",
        level: Level::Warn,
        title: "events are not in the order of the format, or one is there twice",
        why: "The canonical order leaves no room for a choice; another order is another program's or somebody's hand.",
        advice: "Ask how the bundle was made.",
        check: Check::Event(checks::order_odd),
    },
    Rule {
        id: "unknown-event-type",
        level: Level::Warn,
        title: "an event of a type that is not known here",
        why: "Nothing here can judge it.",
        advice: "Read it with a newer version, or ask its producer what it means.",
        check: Check::Event(checks::unknown_event_type),
    },
    Rule {
        id: "malformed-data",
        level: Level::Warn,
        title: "an event does not hold what its type says",
        why: "Rules judge what they can read; the rest went by them.",
        advice: "Ask the producer; `gate` does not pass such an event.",
        check: Check::Event(checks::malformed_data),
    },
    Rule {
        id: "unknown-manifest-key",
        level: Level::Info,
        title: "the manifest holds a key that the format does not have",
        why: "No hash covers it.",
        advice: "Do not rely on it.",
        check: Check::Whole(checks::unknown_manifest_key),
    },
    Rule {
        id: "packed-again",
        level: Level::Info,
        title: "the archive was packed again",
        why: "Times, owners or modes are set that the format leaves empty. The members are whole.",
        advice: "Nothing, if you know who did it.",
        check: Check::Whole(checks::packed_again),
    },
];
