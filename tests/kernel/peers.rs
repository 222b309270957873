//! Who answers at the other end of a UNIX socket: the program that listened there, in another process that nobody observes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use assay::evidence::{Peer, wire};
use assay::profile::effect::{Effect, EffectResult, NetEffectOp};

use crate::harness::sandbox::{ASSAY, sandbox, text};
use crate::needs::{Need, are_met};

/// Listens in every way that its peers may find, and stays until its input ends. What has ended is gone before it says so.
const SERVER: &str = r"
import os, socket, sys
folder = sys.argv[1]
def bound(kind, name):
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(name)
    return made
path = bound(socket.SOCK_STREAM, folder + '/path')
abstract = bound(socket.SOCK_SEQPACKET, '\0assay-peers-' + folder)
datagrams = bound(socket.SOCK_DGRAM, folder + '/datagrams')
closed = bound(socket.SOCK_STREAM, folder + '/closed')
left = bound(socket.SOCK_STREAM, folder + '/left')
for name in ('path', 'datagrams', 'closed', 'left'):
    os.chmod(folder + '/' + name, 0o777)
first = os.fork()
if first == 0:
    left.listen(8)
    os._exit(0)
os.waitpid(first, 0)
os.setuid(12345)
path.listen(8); abstract.listen(8)
print(os.getpid(), first, flush=True)
sys.stdin.read()
";

/// Finds them all; the one that listens nowhere refuses.
const CLIENT: &str = r"
import socket, sys
folder = sys.argv[1]
for kind, name in ((socket.SOCK_STREAM, folder + '/path'), (socket.SOCK_SEQPACKET, '\0assay-peers-' + folder),
                   (socket.SOCK_DGRAM, folder + '/datagrams'), (socket.SOCK_STREAM, folder + '/left')):
    socket.socket(socket.AF_UNIX, kind).connect(name)
try:
    socket.socket(socket.AF_UNIX).connect(folder + '/closed')
except ConnectionRefusedError:
    sys.exit(0)
sys.exit(1)
";

struct Server {
    child: Child,
    /// Its process, and the one that listened and has ended.
    processes: [u32; 2],
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new("/usr/bin/python3")
            .args(["-SIc", SERVER])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut said = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut said).expect("its word");
        let numbers: Vec<u32> = said.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        Self { child, processes: numbers.try_into().expect("two processes") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

#[test]
fn who_listens_at_a_socket_is_told_by_program_user_and_process() {
    const NAME: &str = "peers::who_listens_at_a_socket_is_told_by_program_user_and_process";
    let needs = [Need::Root, Need::Btf, Need::CgroupV2, Need::Program("python3")];
    if !are_met(NAME, &needs) {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let at = folder.path().to_str().expect("a plain name").to_owned();
    std::os::unix::fs::chown(&at, Some(12345), None).expect("a folder of the server's");
    let server = Server::start(folder.path());
    let python = fs::canonicalize("/usr/bin/python3").expect("the program");
    let program = python.to_str().expect("a plain name");

    let profile = format!("{at}/run.json");
    let (bundle, trace) = (format!("{at}/run.assay"), format!("{at}/run.ndjson"));
    let files = ["--profile", &profile, "--profile-format", "json", "--bundle", &bundle, "--trace", &trace];
    let options = [&["--dry-run"], &files[..]].concat();
    let output = sandbox(&options, &["/usr/bin/python3", "-SIc", CLIENT, &at])
        .current_dir(&at)
        .output()
        .expect("assay runs");
    // The sockets are beyond what the policy allows, which a dry run says at its end.
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let evidence = fs::read_to_string(format!("{at}/run.evidence.json")).expect("evidence");
    let evidence = wire::read(&evidence).expect("evidence");

    let [listener, ended] = server.processes;
    let comm = Some("python3".to_owned());
    let lives = Peer { process: Some((listener, 12345)), program: Some(program.to_owned()), comm };
    let gone = Peer { process: Some((ended, 0)), program: None, comm: None };
    let unnamed = Peer { process: None, program: None, comm: None };
    for (name, wanted) in [
        ("${WORKDIR}/path", Some(&lives)),
        ("@assay-peers-", Some(&lives)),
        ("${WORKDIR}/left", Some(&gone)),
        ("${WORKDIR}/datagrams", Some(&unnamed)),
        ("${WORKDIR}/closed", None),
    ] {
        let of_it: Vec<_> = evidence
            .observed
            .effects
            .iter()
            .filter(|(effect, _)| {
                matches!(effect, Effect::Net(net) if net.op == NetEffectOp::Connect
                    && net.address.as_ref().is_some_and(|address| address.as_str().starts_with(name)))
            })
            .collect();
        let [(effect, facts)] = of_it[..] else { panic!("{name}: {of_it:?}") };
        assert_eq!(effect.result(), EffectResult::Ok, "{name}");
        assert_eq!(facts.peers.iter().collect::<Vec<_>>(), wanted.into_iter().collect::<Vec<_>>(), "{name}");
    }
    let report = fs::read_to_string(format!("{at}/run.json.report.md")).expect("a report");
    let line = format!("`connect` `unix` `unix:${{WORKDIR}}/path` (`{program}, uid 12345`)");
    assert!(report.contains(&line), "{report}");
    assert!(report.contains(&format!("`process {ended}, which had ended, uid 0`")), "{report}");
    // So does the bundle, to a program and to a person, and the trace.
    let shown = |more: &[&str]| {
        let output =
            Command::new(ASSAY).args(["evidence", "show", &bundle]).args(more).output().expect("show");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let listing = shown(&[]);
    let answered = format!("unix unix:${{WORKDIR}}/path  answered by {program}, uid 12345\n");
    assert!(listing.contains(&answered), "{listing}");
    let events = shown(&["--format", "json"]);
    let attribute = format!(
        r#""assaypeers":"[{{\"comm\":\"python3\",\"pid\":{listener},\"program\":\"{program}\",\"uid\":12345}}]""#
    );
    assert!(events.replace(": ", ":").contains(&attribute), "{events}");
    let lines = fs::read_to_string(&trace).expect("a trace");
    let peer = format!(
        r#""peer":{{"pid":{listener},"uid":12345,"program":"{program}","comm":"python3"}},"result":"ok""#
    );
    assert!(lines.contains(&peer), "{lines}");
    assert!(
        lines.contains(&format!(r#""peer":{{"pid":{ended},"uid":0}}"#)) && lines.contains(r#""peer":{}"#),
        "{lines}"
    );
    // It is the host's, and no part of what the run is known by.
    let identity = evidence.identity.effects.iter().map(|effect| format!("{effect:?}")).collect::<String>();
    assert!(!identity.contains("12345"), "{identity}");
}
