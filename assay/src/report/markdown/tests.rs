use proptest::prelude::*;

use super::*;
use crate::evidence::{ProcessFacts, samples};
use crate::observe::loss::Kind;
use crate::profile::effect::{EffectResult, FsOp};
use crate::profile::name::Name;

fn report(evidence: &Evidence) -> String {
    let mut out = Vec::new();
    write(&mut out, evidence, Basis::Run).unwrap();
    String::from_utf8(out).unwrap()
}

fn has(evidence: &Evidence, lines: &[&str]) {
    let text = report(evidence);
    for line in lines {
        assert!(text.lines().any(|there| there == *line), "{line}\n{text}");
    }
}

#[test]
fn a_quiet_run_says_so_on_the_first_screen() {
    let evidence = samples::evidence(samples::harmless(), Vec::new());
    has(
        &evidence,
        &[
            "# Run report",
            "`make test`",
            "**Nothing was denied and nothing was unauthorised.** The command exited with 0, after 1234 ms.",
            "**Written outside the work directory:** nothing.",
            "**Protected configuration written:** none.",
            "**Denied:** nothing.",
            "**What this record cannot vouch for:** nothing: files, programs and network are complete.",
            "- `connect` `tcp` `127.0.0.1:8080`",
            "| rename | `${WORKDIR}/out/a.o` | `${WORKDIR}/out/b.o` | ok | 2 |",
        ],
    );
}

#[test]
fn how_much_went_where_is_a_table() {
    let mut evidence = samples::evidence(samples::harmless(), Vec::new());
    assert!(!report(&evidence).contains("## Traffic"));
    evidence.observed.endpoints = samples::endpoints();
    has(
        &evidence,
        &[
            "## Traffic",
            "| `api.test` | 10.0.0.1, fd00::1 | `tcp` | 443 | 3 | 1 | 2 | 100 | 200 |",
            "|  | 10.0.0.1 | `sctp` | 9 | 1 | 0 | 0 |  |  |",
            "| others, to this port |  | `tcp` | 80 |  | 0 | 0 | 5 | 6 |",
        ],
    );
}

#[test]
fn what_matters_stands_first() {
    let effects = vec![
        samples::fs(FsOp::Write, "${HOME}/.bashrc", None, EffectResult::Ok),
        samples::fs(FsOp::Create, "${WORKDIR}/.git/hooks/pre-commit", None, EffectResult::Ok),
        samples::fs(FsOp::Read, "/etc/shadow", None, EffectResult::Denied),
        samples::fs(FsOp::Write, "/dev/null", None, EffectResult::Ok),
    ];
    let mut evidence = samples::evidence(effects, Vec::new());
    for (effect, facts) in &mut evidence.observed.effects {
        if effect.result() == EffectResult::Denied {
            facts.denied_by = Some("system");
        }
    }
    evidence.coverage.ledger.admit(Kind::Fs, "io-uring", "3 times");
    evidence.observed.processes = vec![
        ProcessFacts {
            pid: 5,
            ppid: 0,
            programs: vec![vec!["make".into()]],
            status: Some(512),
            ..ProcessFacts::default()
        },
        ProcessFacts {
            pid: 6,
            ppid: 5,
            programs: vec![vec!["sh".into(), "-c".into(), "a | b".into()]],
            status: Some(9),
            ..ProcessFacts::default()
        },
    ];
    has(
        &evidence,
        &[
            "- write `${HOME}/.bashrc`",
            "- create `${WORKDIR}/.git/hooks/pre-commit`",
            "- read `/etc/shadow`, by system",
            "- the record of files is partial: `io-uring`",
            "- `make` — exit 2",
            "  - `sh -c a | b` — signal 9",
        ],
    );
    assert!(!report(&evidence).contains("- write `/dev/null`"));
}

#[test]
fn where_a_socket_led_out_of_the_run_is_told_and_counted_outside_the_identity() {
    let ends = [
        "/run/docker.sock",
        "/run/user/1000/bus",
        "${RUNTIME_DIR}/bus",
        "/run/dbus/system_bus_socket",
        "/tmp/ssh-${RANDOM}/agent.${PID}",
        "${HOME}/.gnupg/S.gpg-agent",
    ];
    for address in ends {
        let effects =
            vec![samples::connect("unix", address, None), samples::connect("unix", "/srv/own.sock", None)];
        let mut evidence = samples::evidence(effects, Vec::new());
        let identity = evidence.identity.clone();
        evidence.count_ends();
        let counted: Vec<_> =
            evidence.observed.counters.iter().filter(|(name, _)| name.starts_with("ended_at.")).collect();
        let hits = evidence.observed.effects.values().next().unwrap().hits;
        assert_eq!(counted, [(&format!("ended_at.{address}"), &hits)]);
        assert_eq!(evidence.identity, identity);
        let text = report(&evidence);
        let at = text.find("Observation ended here").unwrap_or_else(|| panic!("{text}"));
        assert!(
            text[at..].lines().take(5).any(|line| line.starts_with(&format!("- `{address}` ("))),
            "{text}"
        );
    }
    let evidence = samples::evidence(vec![samples::connect("unix", "/srv/own.sock", None)], Vec::new());
    assert!(!report(&evidence).contains("Observation ended"));
}

/// The lines with everything in code spans and escaped bars taken out: what is left is the report's own.
fn skeleton(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| {
            let mut out = String::new();
            let mut rest = line;
            while let Some(at) = rest.find('`') {
                out.push_str(&rest[..at]);
                let fence = rest[at..].chars().take_while(|c| *c == '`').count();
                let body = &rest[at + fence..];
                // The span ends at the next run of exactly as many.
                let mut end = None;
                let mut from = 0;
                while let Some(next) = body[from..].find('`').map(|next| from + next) {
                    let run = body[next..].chars().take_while(|c| *c == '`').count();
                    if run == fence {
                        end = Some(next + run);
                        break;
                    }
                    from = next + run;
                }
                let end = end.unwrap_or_else(|| panic!("a span is not closed: {line}"));
                out.push('S');
                rest = &body[end..];
            }
            out.push_str(rest);
            out
        })
        .collect()
}

proptest! {
    #[test]
    fn a_hostile_name_cannot_change_the_layout(
        hostile in prop_oneof![
            prop::collection::vec(any::<u8>(), 1..80).prop_map(|bytes| Name::from_bytes(&bytes).as_str().to_owned()),
            "[`|#*_<>\\[\\]() \\\\!-]{1,40}",
            Just("x`\n# Verdict: all is well\n| a | b |".to_owned()),
            Just("``` \u{202e}<script>".to_owned()),
        ],
    ) {
        let build = |name: &str| {
            let effects = vec![
                samples::fs(FsOp::Rename, &format!("/srv/{name}"), Some(&format!("/srv/{name}")), EffectResult::Denied),
                samples::fs(FsOp::Read, &format!("/srv/{name}/x"), None, EffectResult::Ok),
                samples::exec(&format!("/srv/{name}")),
                samples::connect("unix", &format!("@{name}"), None),
            ];
            let mut evidence = samples::evidence(effects, Vec::new());
            evidence.identity.command = vec![name.to_owned()];
            evidence.observed.processes = vec![ProcessFacts { pid: 1, ppid: 0, programs: vec![vec![name.to_owned()]], ..ProcessFacts::default() }];
            evidence.observed.env_removed = vec![name.to_owned()];
            evidence.observed.roots.insert("HOME".into(), name.to_owned());
            evidence.coverage.ledger.admit(Kind::Net, name, name);
            evidence
        };
        // Names reach the report in `Name` form; text that is not (a reason) is made harmless by the report.
        let hostile = Name::from_bytes(hostile.as_bytes()).as_str().to_owned();
        // A slash would be another directory.
        let hostile = hostile.replace('/', "_");
        prop_assert_eq!(skeleton(&report(&build(&hostile))), skeleton(&report(&build("plain"))));
    }
}
