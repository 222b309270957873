use super::*;
use crate::observe::event::{Bytes, Doubt, ReadState};

const OWN: u32 = 10;
const OTHER: u32 = 20;
const ECONNREFUSED: i64 = -111;
const EINPROGRESS: i64 = -115;

fn call(op: Op, ret: i64, family: u16) -> Call {
    Call {
        socket: Some(SockFacts {
            family,
            kind: 1,
            protocol: 6,
            local_port: 0,
            local4: [127, 0, 0, 1],
            local6: [0; 16],
            is_port_chosen: 0,
        }),
        ..Call::bare(op, ret)
    }
}

fn unix(op: Op, ret: i64, name: &str, process: u32) -> Call {
    let bytes = [&[1, 0], name.as_bytes(), b"\0"].concat();
    let unix_name = (!name.is_empty()).then_some(Bytes { bytes, state: ReadState::Whole });
    Call { unix_name, args: [0, 0, 0, 0, 0, u64::from(process)], ..call(op, ret, AF_UNIX) }
}

fn inet(op: Op, ret: i64, address: [u8; 4], port: u16) -> Call {
    let mut call = call(op, ret, AF_INET);
    if let Some(socket) = &mut call.socket {
        (socket.local4, socket.local_port) = (address, port);
    }
    call
}

fn event(call: Call, is_request: bool) -> Event {
    let kind = if is_request { EventKind::UringComplete { request: 1, call } } else { EventKind::Call(call) };
    Event {
        t_ns: 0,
        run: 1,
        pid: OWN,
        tid: OWN,
        comm: Vec::new(),
        is_outside: false,
        has_overflowed: false,
        doubt: Doubt::None,
        repeat: None,
        kind,
    }
}

/// Whether the last socket, which came in a message, is admitted as somebody else's after the calls before it.
fn is_admitted(before: &[(Call, bool)], received: Call) -> bool {
    let (mut own, mut ledger) = (Own::default(), LossLedger::default());
    let mut processes = ProcessTable::default();
    processes.exec(OWN, 1);
    for (call, is_request) in before {
        assert!(!own.is_received_socket(&event(call.clone(), *is_request), &processes, &mut ledger));
    }
    assert!(own.is_received_socket(&event(received, false), &processes, &mut ledger));
    !ledger.gaps.is_empty()
}

#[test]
fn a_unix_socket_is_somebody_elses_unless_the_run_is_at_its_end_or_connected_there() {
    let received = |name, process| unix(Op::Receive, 1, name, process);
    let connected = |ret| (unix(Op::Connect, ret, "/run/x.sock", 0), false);
    for (before, received, want) in [
        (vec![], received("", OWN), false),
        (vec![], received("", OTHER), true),
        (vec![], received("/run/x.sock", OTHER), true),
        (vec![], received("/run/x.sock", OWN), false),
        (vec![], received("", 0), false),
        (vec![], received("/run/x.sock", 0), true),
        (vec![connected(0)], received("/run/x.sock", OTHER), false),
        (vec![(connected(0).0, true)], received("/run/x.sock", OTHER), false),
        (vec![connected(0)], received("/run/y.sock", OTHER), true),
        (vec![connected(ECONNREFUSED)], received("/run/x.sock", OTHER), true),
        (vec![(unix(Op::Bind, 0, "/run/x.sock", 0), false)], received("/run/x.sock", OTHER), true),
        (vec![(unix(Op::Send, 0, "/run/x.sock", 0), false)], received("/run/x.sock", OTHER), true),
    ] {
        assert_eq!(is_admitted(&before, received.clone()), want, "{before:?}, then {received:?}");
    }
}

#[test]
fn an_ip_socket_is_somebody_elses_unless_the_run_has_used_its_address_and_port() {
    let here = [127, 0, 0, 1];
    let received = inet(Op::Receive, 1, here, 80);
    for (before, want) in [
        (vec![], true),
        (vec![(inet(Op::Connect, 0, here, 80), false)], false),
        (vec![(inet(Op::Connect, EINPROGRESS, here, 80), false)], false),
        (vec![(inet(Op::Connect, 0, here, 80), true)], false),
        (vec![(inet(Op::Connect, ECONNREFUSED, here, 80), false)], true),
        (vec![(inet(Op::Bind, 0, here, 81), false)], true),
        // The same port at another address of this host is another socket.
        (vec![(inet(Op::Bind, 0, [127, 0, 0, 2], 80), false)], true),
        (vec![(inet(Op::Bind, 0, [0; 4], 80), false)], false),
    ] {
        assert_eq!(is_admitted(&before, received.clone()), want, "{before:?}");
    }
    assert!(!is_admitted(&[], inet(Op::Receive, 1, here, 0)), "one that is nowhere yet");
    assert!(is_admitted(&[], call(Op::Receive, 1, 40)), "one of another family");
}

#[test]
fn a_descriptor_that_was_closed_again_is_admitted() {
    let (mut own, mut ledger) = (Own::default(), LossLedger::default());
    let gone = Call { socket: None, ..call(Op::Receive, 3, AF_UNIX) };
    assert!(own.is_own_file(&event(gone, false), &mut ledger));
    assert_eq!(ledger.gaps.len(), 3);
}
