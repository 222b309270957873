use std::io::BufReader;

use super::*;
use crate::evidence::timestamp::Timestamp;
use crate::spool::entry::{Files, Run, Summary, User};
use crate::spool::lines::Lines;

fn line(seq: u64, prev: Digest, body: Body) -> String {
    let time = Timestamp::new(1_767_323_045).unwrap();
    crate::spool::entry::wire::to_line(&Entry { seq, prev, time, body })
}

fn run(exit_code: u8) -> Body {
    Body::Run(Box::new(Run {
        user: User { uid: 0, name: None },
        begun_at: Timestamp::new(0).unwrap(),
        directory: "d".into(),
        files: Files::new(),
        summary: Summary { exit_code, ..Summary::default() },
    }))
}

/// A chain of so many entries.
fn chain(count: u64) -> Vec<String> {
    let mut lines = vec![line(0, nothing(), Body::Begun)];
    for seq in 1..count {
        let prev = Digest::of(lines.last().unwrap().as_bytes());
        lines.push(line(seq, prev, run(seq as u8)));
    }
    lines
}

fn walk(text: &[u8], wanted: Option<Digest>) -> Walked {
    let mut lines = Lines::new(BufReader::new(text), 0);
    let mut walk = Walk::new(wanted);
    while let Some(line) = lines.read().unwrap() {
        walk.add(&line);
    }
    walk.finish()
}

fn told(text: &str) -> Vec<(&'static str, Option<u64>)> {
    walk(text.as_bytes(), None).faults.iter().map(|fault| (fault.code.as_str(), fault.seq)).collect()
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|line| line.clone() + "\n").collect()
}

fn check(change: impl Fn(&mut Vec<String>), expect: &[(&'static str, Option<u64>)]) {
    let mut lines = chain(6);
    change(&mut lines);
    assert_eq!(told(&text(&lines)), expect);
}

#[test]
fn a_chain_as_it_was_written_has_no_fault() {
    for count in 1..6 {
        let lines = chain(count);
        let walked = walk(text(&lines).as_bytes(), Some(Digest::of(lines[0].as_bytes())));
        assert_eq!(walked.faults, []);
        assert_eq!(walked.entries, count);
        let sha256 = Digest::of(lines.last().unwrap().as_bytes());
        assert_eq!(walked.head, Some(Head { seq: count - 1, sha256 }));
    }
}

#[test]
fn what_was_done_to_a_chain_is_named() {
    // Edited, to another entry and to none.
    check(
        |lines| lines[2] = lines[2].replace("\"exit_code\":2", "\"exit_code\":0"),
        &[("chain/edited", Some(2))],
    );
    check(|lines| lines[2].push(' '), &[("chain/line", None), ("chain/deleted", Some(3))]);
    check(|lines| lines[2].insert(0, 'x'), &[("chain/line", None), ("chain/deleted", Some(3))]);
    check(|lines| lines.insert(2, "x".into()), &[("chain/line", None)]);
    check(|lines| lines.insert(2, String::new()), &[("chain/line", None)]);
    // Deleted: one, several, the beginning, everything.
    check(|lines| drop(lines.remove(2)), &[("chain/deleted", Some(3))]);
    check(|lines| drop(lines.drain(2..5)), &[("chain/deleted", Some(5))]);
    check(|lines| drop(lines.remove(0)), &[("chain/begin", Some(1))]);
    check(Vec::clear, &[("chain/missing", None)]);
    // Reordered, and doubled.
    check(
        |lines| lines.swap(2, 3),
        &[("chain/reordered", Some(3)), ("chain/reordered", Some(2)), ("chain/reordered", Some(4))],
    );
    check(|lines| lines.insert(3, lines[2].clone()), &[("chain/reordered", Some(2))]);
    // Edited and numbered anew behind it: then each names another line than the one before.
    check(
        |lines| {
            lines.remove(2);
            for seq in 2..5u64 {
                let was = format!("\"seq\":{}", seq + 1);
                lines[seq as usize] = lines[seq as usize].replace(&was, &format!("\"seq\":{seq}"));
            }
        },
        &[("chain/edited", Some(1)), ("chain/edited", Some(2)), ("chain/edited", Some(3))],
    );
    // Begun anew.
    check(
        |lines| *lines = vec![line(0, nothing(), Body::BegunAnew { found: 2 })],
        &[("chain/begun-anew", Some(0))],
    );
    check(|lines| *lines = vec![line(0, nothing(), run(0))], &[("chain/begin", Some(0))]);
    check(|lines| *lines = vec![line(0, Digest::of(b"x"), Body::Begun)], &[("chain/begin", Some(0))]);
    // A number that no entry has.
    check(|lines| lines.push(line(u64::MAX, nothing(), run(0))), &[("chain/deleted", Some(u64::MAX))]);
    check(
        |lines| lines.extend([line(u64::MAX, nothing(), run(0)), line(u64::MAX, nothing(), run(0))]),
        &[("chain/deleted", Some(u64::MAX)), ("chain/reordered", Some(u64::MAX))],
    );
}

#[test]
fn what_is_cut_at_the_end_shows_by_the_line_that_was_noted() {
    let lines = chain(6);
    let noted = Some(Digest::of(lines[5].as_bytes()));
    assert_eq!(walk(text(&lines).as_bytes(), noted).faults, []);
    // It has grown since.
    let more = text(&chain(9));
    assert_eq!(walk(more.as_bytes(), noted).faults, []);
    for count in 1..6 {
        let walked = walk(text(&lines[..count]).as_bytes(), noted);
        let codes: Vec<&str> = walked.faults.iter().map(|fault| fault.code.as_str()).collect();
        assert_eq!(codes, ["chain/rolled-back"]);
        assert_eq!(walk(text(&lines[..count]).as_bytes(), None).faults, [], "nothing else can tell it");
    }
}

#[test]
fn half_a_line_is_told_until_an_entry_tells_it() {
    let lines = chain(3);
    let (whole, last) = (text(&lines[..2]), lines[2].clone());
    let prev = Digest::of(lines[1].as_bytes());
    assert_eq!(told(&(whole.clone() + &last)), [], "only the line feed is missing");
    for cut in 1..last.len() {
        let half = &last[..cut];
        assert_eq!(told(&(whole.clone() + half)), [("chain/torn", None)]);
        let torn = format!("{half}\n");
        let facts = Torn { sha256: Digest::of(torn.as_bytes()), bytes: torn.len() as u64 };
        let closed = line(2, prev, Body::Torn(facts));
        let walked = walk(format!("{whole}{torn}{closed}\n").as_bytes(), None);
        assert_eq!((walked.faults, walked.torn, walked.entries), (vec![], vec![facts], 3));
        // One that tells other bytes closes nothing, nor does one behind nothing.
        let other = line(2, prev, Body::Torn(Torn { bytes: facts.bytes + 1, ..facts }));
        assert_eq!(told(&format!("{whole}{torn}{other}\n")), [("chain/line", None)]);
        assert_eq!(told(&format!("{whole}{closed}\n")), [("chain/line", Some(2))]);
    }
}

#[test]
fn the_end_that_is_torn_is_told_as_the_next_entry_has_to() {
    let check = |behind: &str, closed: &str| {
        let text = text(&chain(2)) + behind;
        let mut lines = Lines::new(BufReader::new(text.as_bytes()), 0);
        let mut walk = Walk::new(None);
        while let Some(line) = lines.read().unwrap() {
            walk.add(&line);
        }
        let torn = Torn { sha256: Digest::of(closed.as_bytes()), bytes: closed.len() as u64 };
        assert_eq!(walk.torn_end(), Some(torn));
    };
    check("half", "half\n");
    check("half\n", "half\n");
    check("half\n{\"a", "half\n{\"a\n");
    check("\0\0\0", "\0\0\0\n");
    check("\n", "\n");
}

proptest::proptest! {
    #[test]
    fn whatever_bytes_are_changed_it_does_not_go_unseen(at in 0usize..2000, byte: u8) {
        let lines = chain(6);
        let mut bytes = text(&lines).into_bytes();
        let at = at % bytes.len();
        let was = std::mem::replace(&mut bytes[at], byte);
        let walked = walk(&bytes, Some(Digest::of(lines[5].as_bytes())));
        proptest::prop_assert_eq!(walked.faults.is_empty(), was == byte);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        proptest::prop_assert!(!walk(&bytes, None).faults.is_empty());
    }
}
