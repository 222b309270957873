//! A network of its own: a namespace with a real name server, a web server, and this host's own `/etc` for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::sandbox::{sandbox, text};

/// Where the name server of every such network listens.
pub const SERVER: [&str; 2] = ["10.9.0.53", "fd09::53"];

/// A network, and where it keeps its files.
pub struct Network {
    folder: tempfile::TempDir,
    /// Lines of `/etc/resolv.conf`.
    pub resolv_conf: String,
    /// Lines of `/etc/hosts`.
    pub hosts: String,
    /// Options of dnsmasq.
    pub names: Vec<String>,
    /// Shell commands run inside before the command under test; what they add to `$ended` is ended after it.
    pub servers: String,
}

/// What came of a run in it.
pub struct Ran {
    /// The output.
    pub output: Output,
    /// The evidence, read back.
    pub evidence: assay::evidence::Evidence,
    /// The profile's text.
    pub profile: String,
    /// The addresses that the name server gave, by its own log: address → names.
    pub given: BTreeMap<IpAddr, BTreeSet<String>>,
}

impl Network {
    /// A network whose name server has these names: `NAME,ADDRESS` or `NAME,ADDRESS,ADDRESS`.
    pub fn with(records: &[&str]) -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            resolv_conf: format!("nameserver {}\n", SERVER[0]),
            hosts: "127.0.0.1 localhost\n".into(),
            names: records.iter().map(|record| format!("--host-record={record}")).collect(),
            servers: "python3 -m http.server 80 --bind :: >/dev/null 2>&1 &\nended=\"$ended $!\"\n".into(),
        }
    }

    /// Where its files lie; a web server begins there.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// What is done inside before the command: addresses, files, servers.
    fn script(&self) -> String {
        // Every server ends with the shell, however that ends.
        let mut lines = vec!["ended=; trap 'kill $ended 2>/dev/null || true' EXIT".to_owned()];
        lines.push("ip link set lo up".into());
        for end in ["53", "1", "2", "3", "4", "5"] {
            lines.push(format!(
                "ip addr add 10.9.0.{end}/32 dev lo; ip -6 addr add fd09::{end}/128 dev lo nodad"
            ));
        }
        lines.push("ip addr add 169.254.169.254/32 dev lo".into());
        for name in ["resolv.conf", "hosts"] {
            lines.push(format!("mount --bind {} /etc/{name}", self.path(name).display()));
        }
        lines.push(format!(
            "dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --bind-interfaces --pid-file= \
             --listen-address={},{} --log-queries --log-facility={} --user=root {} > /dev/null 2>&1 &\nended=$!",
            SERVER[0],
            SERVER[1],
            self.path("log").display(),
            self.names.join(" "),
        ));
        lines.push(self.servers.clone());
        lines.push(
            "for try in $(seq 200); do is_up=; ss -Hlun sport = 53 | grep -q . && ss -Hltn sport = 80 | grep -q . && \
             is_up=1 && break\nsleep 0.05; done\n[ \"$is_up\" ] || { echo 'the servers did not start' >&2; exit 99; }"
                .into(),
        );
        lines.push("set +e\n\"$@\"\nexit $?".into());
        lines.join("\n")
    }

    /// A policy that allows every file and these rules of `net`, as a file inside.
    pub fn policy(&self, net: &str) -> String {
        let path = self.path("policy.yaml");
        let text = format!(
            "api_version: assay/v1\nfs:\n  allow: [{{path: /, access: [read, write, execute]}}]\nnet: {net}\n"
        );
        fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    }

    /// Runs a command inside, under us with these options, and reads what is left of it.
    pub fn run(&self, options: &[&str], command: &[&str]) -> Ran {
        let output = self.output(options, command);
        let evidence = fs::read_to_string(self.path("run.evidence.yaml"))
            .unwrap_or_else(|error| panic!("evidence: {error}; {}", text(&output.stderr)));
        let evidence = assay::evidence::wire::read(&evidence).expect("evidence that reads back");
        let profile = fs::read_to_string(self.path("run.yaml")).expect("a profile");
        Ran { output, evidence, profile, given: self.given() }
    }

    fn output(&self, options: &[&str], command: &[&str]) -> Output {
        fs::write(self.path("resolv.conf"), &self.resolv_conf).expect("a file");
        fs::write(self.path("hosts"), &self.hosts).expect("a file");
        let profile = self.path("run.yaml");
        let assay = sandbox(&[&["--profile", &profile.to_string_lossy()], options].concat(), command);
        Command::new("unshare")
            .args(["--net", "--mount", "--propagation", "private", "sh", "-ec", &self.script(), "sh"])
            .arg(assay.get_program())
            .args(assay.get_args())
            .current_dir(self.folder())
            .output()
            .expect("a network namespace")
    }

    fn given(&self) -> BTreeMap<IpAddr, BTreeSet<String>> {
        let mut given: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
        for line in fs::read_to_string(self.path("log")).expect("the server's log").lines() {
            // `… config NAME is ADDRESS`
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [.., "config" | "reply" | "cached", name, "is", address] = words[..]
                && let Ok(address) = address.parse()
            {
                given.entry(address).or_default().insert(name.to_ascii_lowercase());
            }
        }
        given
    }
}
