//! What needs a run of its own: names that change under the observer's eyes, and a connection that was made before.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;

use crate::actor::{Act, Flipped, FlippedEnd, act};
use crate::needs::{Need, are_met};
use crate::network::{inet, unix};
use crate::stage::Stage;

/// Each open is told by the file it led to, whatever the string was a moment later.
#[test]
fn a_name_that_another_thread_changes_is_told_by_its_file() {
    let test = "evasions::races::a_name_that_another_thread_changes_is_told_by_its_file";
    let Some(stage) = Stage::new(test) else { return };
    stage.file("race-a", "").file("race-b", "");
    let number = fs::metadata(stage.path("race-a")).expect("a file").ino();
    let times = 20_000;
    let flip = Act::Flip { times, name: stage.at("race-a").into_bytes(), letters: (b'a', b'b'), number };
    let played = stage.play(&[act(flip)]);
    let opens = |name: &str| {
        let path = stage.at(name);
        let is_open = |line: &&serde_json::Value| line["op"] == "open" && line["path"] == path.as_str();
        played.act().iter().filter(is_open).count() as i64
    };
    let (a, b) = (opens("race-a"), opens("race-b"));
    assert_eq!((a, a + b), (played.told.returns[0], times as i64));
    assert!(a > 0 && b > 0, "nothing raced: {a} and {b}");
    stage.check_coverage(&played);
}

/// Each of two names, in the kind of call that leaves no descriptor: what is told is what the kernel did.
#[test]
fn a_call_on_a_name_that_another_thread_changes_is_told_by_what_was_done() {
    let test = "evasions::races::a_call_on_a_name_that_another_thread_changes_is_told_by_what_was_done";
    let times = 3_000;
    let kinds = [
        (Flipped::Removed, "unlink", "path"),
        (Flipped::Moved, "rename", "path"),
        (Flipped::MovedTo, "rename", "to"),
        (Flipped::Made, "mkdir", "path"),
        (Flipped::Changed, "chmod", "path"),
    ];
    for (how, op, field) in kinds {
        let Some(stage) = Stage::new(test) else { return };
        let names = ["race-a", "race-b"].map(|name| stage.at(name));
        let [one, other] = names.clone().map(String::into_bytes);
        let played = stage.play(&[act(Act::FlipNames { times, how, one, other })]);
        let lines = played.act();
        let told = |name: &str| {
            let is_told =
                |line: &&serde_json::Value| line["op"] == op && line["result"] == "ok" && line[field] == name;
            lines.iter().filter(is_told).count() as i64
        };
        let (first, all) = (played.told.returns[0], times as i64);
        assert_eq!((told(&names[0]), told(&names[1])), (first, all - first), "{how:?}");
        assert!(first > 0 && first < all, "{how:?}: nothing raced: {first}");
        assert_eq!(played.lost, 0);
        stage.check_coverage(&played);
    }
}

/// A stage for addresses that differ in one byte, so that none is ever half of one and half of the other.
fn two_ends() -> (std::net::UdpSocket, std::net::UdpSocket) {
    loop {
        let first = std::net::UdpSocket::bind("127.0.0.1:0").expect("a receiver");
        let port = first.local_addr().expect("its address").port();
        if let Ok(second) = std::net::UdpSocket::bind(("127.0.0.1", port ^ 1)) {
            return (first, second);
        }
    }
}

/// How often each of two ends is told.
fn told(played: &crate::stage::Played, op: &str, ends: &[std::net::SocketAddr; 2]) -> [i64; 2] {
    let is_told = |line: &serde_json::Value, end: &std::net::SocketAddr| {
        line["op"] == op && line["address"] == end.ip().to_string() && line["port"] == end.port()
    };
    ends.map(|end| played.act().iter().filter(|line| is_told(line, &end)).count() as i64)
}

/// Each datagram is told by the end that it went to, and by whatever call.
#[test]
fn a_datagram_to_an_address_that_another_thread_changes_is_told_by_where_it_went() {
    let test =
        "evasions::races::a_datagram_to_an_address_that_another_thread_changes_is_told_by_where_it_went";
    let times = 120;
    for (how, each) in [(FlippedEnd::Sent, 1), (FlippedEnd::SentAsMessage, 1), (FlippedEnd::SentTwice, 2)] {
        let Some(stage) = Stage::new(test) else { return };
        let (first, second) = two_ends();
        let ends = [&first, &second].map(|socket| socket.local_addr().expect("its address"));
        let [one, other] = ends.map(inet);
        let played = stage.play(&[act(Act::FlipEnds { times, how, one, other })]);
        // The sockets hold as many as are sent.
        let [a, b] = [first, second].map(|socket| {
            socket.set_nonblocking(true).expect("to look only");
            std::iter::from_fn(|| socket.recv(&mut [0; 8]).ok()).count() as i64
        });
        assert_eq!(a + b, times as i64 * each, "{how:?}: some did not arrive");
        assert!(a > 0 && b > 0, "{how:?}: nothing raced: {a} and {b}");
        assert_eq!(told(&played, "send", &ends), [a, b], "{how:?}");
        stage.check_coverage(&played);
    }
}

/// Each connection is told by the end that it has, and each bind by the address it got.
#[test]
fn a_connection_to_an_address_that_another_thread_changes_is_told_by_where_it_went() {
    let test =
        "evasions::races::a_connection_to_an_address_that_another_thread_changes_is_told_by_where_it_went";
    for (how, op) in [(FlippedEnd::Connected, "connect"), (FlippedEnd::Bound, "bind")] {
        let Some(stage) = Stage::new(test) else { return };
        let times = 400;
        let (first, second) = two_ends();
        let ends = [&first, &second].map(|socket| socket.local_addr().expect("its address"));
        // The ports of one protocol are not those of another.
        let listeners = (how == FlippedEnd::Connected)
            .then(|| ends.map(|end| TcpListener::bind(end).expect("a listener")));
        let [one, other] = ends.map(inet);
        for listener in listeners.iter().flatten() {
            let listener = listener.try_clone().expect("the same");
            std::thread::spawn(move || listener.incoming().take(times as usize).for_each(drop));
        }
        let played = stage.play(&[act(Act::FlipEnds { times, how, one, other })]);
        let (first, all) = (played.told.returns[0], times as i64);
        assert_eq!(told(&played, op, &ends), [first, all - first], "{how:?}");
        assert!(first > 0 && first < all, "{how:?}: nothing raced: {first}");
        stage.check_coverage(&played);
    }
}

/// Nobody listens at either end: of each attempt the kernel knows only what it was asked.
#[test]
fn a_connection_that_is_refused_is_told_by_where_it_was_refused() {
    let test = "evasions::races::a_connection_that_is_refused_is_told_by_where_it_was_refused";
    let Some(stage) = Stage::new(test) else { return };
    let times = 400;
    let (first, second) = two_ends();
    let ends = [&first, &second].map(|socket| socket.local_addr().expect("its address"));
    let [one, other] = ends.map(inet);
    let played = stage.play(&[act(Act::FlipEnds { times, how: FlippedEnd::Refused, one, other })]);
    let told = told(&played, "connect", &ends);
    assert_eq!(told.iter().sum::<i64>(), times as i64);
    // What the run's packets were, by the end that they went to.
    let endpoints = played.evidence["observed"]["endpoints"].as_array().expect("the ends").clone();
    let begun = ends.map(|end| {
        let is_it = |one: &&serde_json::Value| one["port"] == end.port();
        endpoints.iter().find(is_it).map_or(0, |one| one["failed"].as_i64().unwrap_or(-1))
    });
    assert_eq!(begun, told, "{endpoints:#?}");
    assert!(told[0] > 0 && told[1] > 0, "nothing raced: {told:?}");
    stage.check_coverage(&played);
}

/// By path and by abstract name.
#[test]
fn a_unix_address_that_another_thread_changes_is_told_by_where_it_went() {
    let test = "evasions::races::a_unix_address_that_another_thread_changes_is_told_by_where_it_went";
    for is_abstract in [false, true] {
        let Some(stage) = Stage::new(test) else { return };
        let times = 400;
        let number = std::process::id();
        let names = ["a", "b"].map(|name| {
            if is_abstract { format!("assay-{number}-{name}") } else { stage.at(&format!("sock-{name}")) }
        });
        let addresses = names.clone().map(|name| {
            let path = if is_abstract { format!("\0{name}") } else { format!("{name}\0") };
            unix(path.as_bytes())
        });
        for name in &names {
            let listener = if is_abstract {
                let address = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a name");
                std::os::unix::net::UnixListener::bind_addr(&address).expect("a listener")
            } else {
                std::os::unix::net::UnixListener::bind(name).expect("a listener")
            };
            std::thread::spawn(move || listener.incoming().take(times as usize).for_each(drop));
        }
        let [one, other] = addresses;
        let how = FlippedEnd::ConnectedByName;
        let played = stage.play(&[act(Act::FlipEnds { times, how, one, other })]);
        let (first, all) = (played.told.returns[0], times as i64);
        let told = names.map(|name| {
            let name = if is_abstract { format!("@{name}") } else { name };
            let is_told = |line: &&serde_json::Value| {
                line["op"] == "connect" && line["result"] == "ok" && line["address"] == name.as_str()
            };
            played.act().iter().filter(is_told).count() as i64
        });
        assert_eq!(told, [first, all - first], "abstract: {is_abstract}");
        assert!(first > 0 && first < all, "nothing raced: {first}");
        stage.check_coverage(&played);
    }
}

#[test]
fn a_work_directory_that_moves_is_told() {
    let Some(stage) = Stage::new("evasions::races::a_work_directory_that_moves_is_told") else { return };
    let moved = stage.path("").parent().expect("a folder above").join("moved");
    let script = format!(
        "mv \"$PWD\" {0} && cd {0} && echo x > f && cd .. && mv {0} {1}",
        moved.display(),
        stage.path("").components().as_path().display()
    );
    let played = stage.run(&["sh", "-c", &script]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let told: Vec<String> = played.trace.iter().map(|line| stage.shown(line)).collect();
    let made = format!("open {}/f < f [write create] = ok", moved.display());
    assert!(told.contains(&made), "{told:#?}");
    assert!(
        told.iter().any(|line| line.starts_with(&format!("rename $ -> {}", moved.display()))),
        "{told:#?}"
    );
    stage.check_coverage(&played);
}

/// What is sent over a connection that was made before the run goes where no call of the run's went.
#[test]
fn a_connection_that_was_made_before_is_admitted() {
    let test = "evasions::races::a_connection_that_was_made_before_is_admitted";
    if !are_met(test, &[Need::Program("bash")]) {
        return;
    }
    let Some(stage) = Stage::new(test) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let at = listener.local_addr().expect("its address");
    let stage =
        stage.before(&format!("exec 9<>/dev/tcp/127.0.0.1/{}", at.port())).partial("net", "inherited-socket");
    let played = stage.run(&["sh", "-c", "echo carried out >&9"]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let detail = format!("descriptor 9, connected to {at}");
    assert!(
        played.evidence["coverage"]["reasons"].to_string().contains(&detail),
        "{}",
        played.evidence["coverage"]
    );
    stage.check_coverage(&played);
}
