//! What a run's evidence and trace say of the acts on sockets that were refused.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;

/// How the last step of a cell is told: what it does, by which protocol, and to which end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct As {
    pub op: &'static str,
    pub proto: &'static str,
    pub address: String,
}

impl As {
    pub fn inet(op: &'static str, proto: &'static str, end: SocketAddr) -> Self {
        Self { op, proto, address: end.ip().to_canonical().to_string() }
    }

    pub fn unix(op: &'static str, address: impl Into<String>) -> Self {
        Self { op, proto: "unix", address: address.into() }
    }

    /// Of such a socket nothing but its kind is told.
    pub fn family(proto: &'static str) -> Self {
        Self { op: "connect", proto, address: String::new() }
    }
}

/// What a record says was refused.
pub struct Refused {
    /// How often, and by whom.
    effects: Vec<(As, u64, String)>,
    /// Each with its errno.
    lines: Vec<(As, String)>,
    /// What was done and is told as not authorised.
    pub unauthorised: Vec<As>,
}

impl Refused {
    pub fn read(evidence: &Value, trace: &str) -> Self {
        // Each word is one that a cell knows; what none knows, none asks for.
        let known = |value: &Value, op: &str| -> As {
            let word = |all: &[&'static str], text: &str| {
                all.iter().find(|one| **one == text).copied().unwrap_or("")
            };
            let proto = word(PROTOS, value["proto"].as_str().unwrap_or_default());
            As { op: word(OPS, op), proto, address: value["address"].as_str().unwrap_or_default().to_owned() }
        };
        let effects = evidence["observed"]["effects"]["net"].as_array().expect("effects").iter();
        let op = |effect: &Value| effect["op"].as_str().expect("an operation").to_owned();
        let unauthorised = effects
            .clone()
            .filter(|effect| effect["result"] == "ok" && effect["authorised"] == false)
            .map(|effect| known(effect, &op(effect)))
            .collect();
        let effects = effects.filter(|effect| effect["result"] == "denied").map(|effect| {
            let by = effect["denied_by"].as_str().expect("who refused it").to_owned();
            (known(effect, &op(effect)), effect["hits"].as_u64().expect("a number"), by)
        });
        let lines = trace.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let lines =
            lines.filter(|line| line["result"].is_string() && line["proto"].is_string()).map(|line| {
                let op = line["op"].as_str().expect("an operation");
                let op = if op == "socket" { "connect" } else { op };
                (known(&line, op), line["result"].as_str().expect("text").to_owned())
            });
        Self { effects: effects.collect(), lines: lines.collect(), unauthorised }
    }

    /// What is missing of so many cells that are told alike and ended so.
    pub fn misses(&self, told: &As, cells: &BTreeMap<String, u64>) -> Option<String> {
        let all: u64 = cells.values().sum();
        let of = self.effects.iter().filter(|(effect, ..)| effect == told);
        let by_policy: u64 = of.clone().filter(|(.., by)| by == "policy").map(|(_, hits, _)| hits).sum();
        let by_others = of.filter(|(.., by)| by != "policy").count();
        if by_policy != all || by_others > 0 {
            return Some(format!(
                "{all} blocked, {by_policy} told as denied by the policy, {by_others} by others"
            ));
        }
        cells.iter().find_map(|(errno, count)| {
            let lines = self.lines.iter().filter(|(line, result)| line == told && result == errno).count();
            (lines as u64 != *count).then(|| format!("{count} ended with {errno}, the trace has {lines}"))
        })
    }
}

const OPS: &[&str] = &["connect", "bind", "listen", "send"];
const PROTOS: &[&str] = &[
    "tcp",
    "udp",
    "unix",
    "netlink",
    "netlink-audit",
    "packet",
    "vsock",
    "raw",
    "icmp",
    "mptcp",
    "sctp",
    "bluetooth",
    "alg",
];
