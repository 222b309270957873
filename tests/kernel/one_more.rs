//! A command held to what it was learned to do, doing one thing more: the one more is stopped, the rest goes on.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

/// What a workload is asked to do beyond what it was learned to: writing elsewhere, reading a key, starting another
/// program, connecting elsewhere. Each ends the shell with a number of its own when it is not stopped.
fn acts(port: u16) -> String {
    let acts = [
        "( echo x > \"$HOME/../open/elsewhere\" ) 2>/dev/null".to_owned(),
        "( read -r line < \"$HOME/.ssh/id_ed25519\" ) 2>/dev/null".to_owned(),
        "/usr/bin/tac /dev/null 2>/dev/null".to_owned(),
        format!(
            "/usr/bin/python3 -SIc 'import socket; socket.create_connection((\"127.0.0.2\", {port}), 5)' 2>/dev/null"
        ),
    ];
    let each = acts.iter().enumerate();
    each.map(|(number, act)| format!("if {act}; then exit {}; fi; ", 71 + number)).collect()
}

/// Holds `script` and one thing more to what was learned from `script`; `home` is its home, `record` runs a script.
pub fn is_stopped(home: &Path, script: &str, record: &dyn Fn(&str) -> (Value, Value)) {
    let open = home.parent().expect("a folder above").join("open");
    for folder in [&open, &home.join(".ssh")] {
        fs::create_dir_all(folder).expect("a folder");
    }
    // Nothing but the policy is in the way.
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("a mode");
    fs::write(home.join(".ssh/id_ed25519"), "key\n").expect("a key");
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let (evidence, status) = record(&format!("( set -e; {script}\n) || exit 70\n{}exit 0", acts(port)));
    assert_eq!(status["exit_code"], 0, "from 71: the act that was not stopped; {status:#}");
    assert_eq!(status["verdict"], "denied", "{status:#}");
    let elsewhere = home.parent().expect("a folder above").join("open/elsewhere");
    assert!(!elsewhere.exists());
    listener.set_nonblocking(true).expect("a listener");
    assert!(listener.accept().is_err(), "it connected");
    let has = |kind: &str, key: &str, value: &str| {
        let effects = evidence["identity"]["effects"][kind].as_array().expect("effects");
        effects.iter().any(|effect| effect[key] == value && effect["result"] == "denied")
    };
    assert!(has("fs", "path", &elsewhere.to_string_lossy()), "{evidence:#}");
    assert!(has("fs", "path", "${HOME}/.ssh/id_ed25519"), "{evidence:#}");
    assert!(has("exec", "path", "/usr/bin/tac"), "{evidence:#}");
    // Where the program itself was learned, the connection is what is refused.
    let is_python =
        |effect: &Value| effect["path"].as_str().is_some_and(|path| path.starts_with("/usr/bin/python3"));
    let programs = evidence["identity"]["effects"]["exec"].as_array().expect("effects");
    let is_refused = programs.iter().any(|effect| is_python(effect) && effect["result"] == "denied");
    assert!(is_refused || has("net", "address", "127.0.0.2"), "{evidence:#}");
}
