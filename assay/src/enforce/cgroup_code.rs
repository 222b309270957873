//! A [`NetTable`] → the instructions of the programs that hold it on a cgroup. Pure.
//!
//! One short comparison an entry, in the order of the table: a deny that matches refuses, then an allow that
//! matches lets pass, and what matches nothing is refused. No maps, no loops, no memory: what the verifier has to
//! see is what is written here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::net_plan::{NetEntry, NetTable};
use crate::policy::net::{IpNet, Ports};

/// Which address family a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, v4-mapped addresses included.
    V6,
}

/// What the program decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The other end: connect, and an unconnected send.
    Reach,
    /// Our own end: bind.
    Bind,
}

// `struct bpf_sock_addr` and `struct bpf_sock` in include/uapi/linux/bpf.h.
const USER_IP4: i16 = 4;
const USER_IP6: i16 = 8;
const USER_PORT: i16 = 24;
const SOCK_TYPE: i16 = 8;
const SOCK_PROTOCOL: i16 = 12;

/// The registers: the context, the address (one word, or four), the port, and one to compute with.
const CONTEXT: u8 = 1;
const ADDRESS: [u8; 4] = [2, 3, 4, 5];
const PORT: u8 = 7;
const SCRATCH: u8 = 8;

// `SOCK_STREAM` and `SOCK_DGRAM`.
const STREAM: u32 = 1;
const DATAGRAM: u32 = 2;

const LOOPBACK_V4: u32 = 0x7f00_0001;

// Operation codes, as in the kernel's instruction set document.
const LOAD_U32: u8 = 0x61;
const MOV_REG: u8 = 0xbf;
const MOV_IMM: u8 = 0xb7;
const SHIFT_RIGHT: u8 = 0x77;
const TO_BIG_ENDIAN: u8 = 0xdc;
const JUMP_IF_NOT_EQUAL: u8 = 0x56;
const JUMP_IF_GREATER: u8 = 0x26;
const JUMP_IF_LESS: u8 = 0xa6;
const EXIT: u8 = 0x95;
const STORE_U32: u8 = 0x63;
const STORE_IMM: u8 = 0x62;
const LOAD_U64: u8 = 0x79;
const LOAD_IMM64: u8 = 0x18;
const ADD_IMM: u8 = 0x07;
const CALL: u8 = 0x85;
const JUMP_IF_ZERO: u8 = 0x15;
const JUMP_IF_REG_GREATER: u8 = 0x2d;

/// The context while helpers are called, the time that an answer holds until, and the stack.
const KEPT: u8 = 9;
const UNTIL: u8 = 6;
const STACK: u8 = 10;
/// Where the key of a look-up lies on the stack: a class, then an address.
const KEY: i16 = -20;
/// `BPF_PSEUDO_MAP_FD`
const MAP_FD: u8 = 1;
/// `bpf_map_lookup_elem`
const LOOK_UP: u32 = 1;
/// `bpf_ktime_get_ns`
const CLOCK: u32 = 5;

/// One instruction. A jump's offset is in instructions after the next.
fn instruction(code: u8, to: u8, from: u8, offset: i16, value: u32) -> u64 {
    u64::from(code)
        | u64::from(to & 0xf) << 8
        | u64::from(from & 0xf) << 12
        | u64::from(offset.cast_unsigned()) << 16
        | u64::from(value) << 32
}

fn answer(allowed: bool) -> [u64; 2] {
    [instruction(MOV_IMM, 0, 0, 0, u32::from(allowed)), instruction(EXIT, 0, 0, 0, 0)]
}

/// The program for one kind of call and family. `addresses` is the descriptor of the map of addresses by classes of
/// names; without it, names allow nothing.
pub fn program(table: &NetTable, family: Family, call: Call, addresses: Option<i32>) -> Vec<u64> {
    let names = addresses.filter(|_| call == Call::Reach && !table.names.is_empty());
    let refusal = names.map_or_else(|| answer(false).to_vec(), |map| allowed_by_name(table, map));
    let mut code = vec![
        instruction(LOAD_U32, PORT, CONTEXT, USER_PORT, 0),
        // It is there in network order; this makes it the host's.
        instruction(TO_BIG_ENDIAN, PORT, 0, 0, 16),
    ];
    if let Some(map) = names {
        store_address(&mut code, family);
        denied_by_name(&mut code, table, map);
    }
    match family {
        Family::V4 => {
            load_word(&mut code, ADDRESS[0], USER_IP4);
            v4(&mut code, table, call, &refusal);
        }
        Family::V6 => {
            for (register, offset) in ADDRESS.into_iter().zip([0, 4, 8, 12]) {
                load_word(&mut code, register, USER_IP6 + offset);
            }
            let mut mapped = vec![instruction(MOV_REG, ADDRESS[0], ADDRESS[3], 0, 0)];
            v4(&mut mapped, table, call, &refusal);
            guard(&mut code, &[(ADDRESS[0], 0), (ADDRESS[1], 0), (ADDRESS[2], 0xffff)], mapped);
            v6(&mut code, table, call, &refusal);
        }
    }
    code
}

/// The program that lets only TCP and UDP sockets of the internet families be made: no raw, ping, SCTP or MPTCP
/// sockets, whose addresses the other programs do not see.
pub fn socket_program() -> Vec<u64> {
    let mut code = vec![
        instruction(LOAD_U32, 2, CONTEXT, SOCK_TYPE, 0),
        instruction(LOAD_U32, 3, CONTEXT, SOCK_PROTOCOL, 0),
    ];
    for (kind, protocol) in [(STREAM, 0), (STREAM, 6), (DATAGRAM, 0), (DATAGRAM, 17)] {
        guard(&mut code, &[(2, kind), (3, protocol)], answer(true).to_vec());
    }
    code.extend(answer(false));
    code
}

fn load_word(code: &mut Vec<u64>, register: u8, offset: i16) {
    code.push(instruction(LOAD_U32, register, CONTEXT, offset, 0));
    code.push(instruction(TO_BIG_ENDIAN, register, 0, 0, 32));
}

/// Runs `body` when each register has its value, else goes on behind it.
fn guard(code: &mut Vec<u64>, conditions: &[(u8, u32)], body: Vec<u64>) {
    for (index, (register, value)) in conditions.iter().enumerate() {
        let over = conditions.len() - index - 1 + body.len();
        code.push(instruction(JUMP_IF_NOT_EQUAL, *register, 0, jump(over), *value));
    }
    code.extend(body);
}

/// A jump's offset; `MAX_ENTRIES` keeps every program far below its range.
fn jump(over: usize) -> i16 {
    i16::try_from(over).expect("a table within its limit makes no jump this long")
}

/// The most entries a table may have: with eleven instructions each, every jump fits into its 16 bits.
pub const MAX_ENTRIES: usize = 1_000;

fn v4(code: &mut Vec<u64>, table: &NetTable, call: Call, refusal: &[u64]) {
    if call == Call::Reach {
        // To the kernel, the unspecified address is this host.
        guard(code, &[(ADDRESS[0], 0)], vec![instruction(MOV_IMM, ADDRESS[0], 0, 0, LOOPBACK_V4)]);
    }
    if call == Call::Bind && !table.names.is_empty() {
        guard(code, &[(ADDRESS[0], 0)], within_ports(DOMAIN, answer(false).to_vec()));
    }
    for entry in &denied(table, call) {
        if call == Call::Bind && is_bound_by(entry, Ipv4Addr::UNSPECIFIED.into()) {
            // Bound to every address, a socket is bound to a denied one.
            let body = within_ports(entry.ports, answer(false).to_vec());
            guard(code, &[(ADDRESS[0], 0)], body);
        }
        if let Some(words) = v4_conditions(entry.net)
            && decide(code, &words, entry.ports, false)
        {
            return;
        }
    }
    for entry in allowed(table, call) {
        if let Some(words) = v4_conditions(entry.net)
            && decide(code, &words, entry.ports, true)
        {
            return;
        }
    }
    code.extend_from_slice(refusal);
}

fn is_bound_by(entry: &NetEntry, wildcard: IpAddr) -> bool {
    entry.net.is_some_and(|net| net.is_bound_by(wildcard))
}

fn v6(code: &mut Vec<u64>, table: &NetTable, call: Call, refusal: &[u64]) {
    let unspecified = ADDRESS.map(|register| (register, 0));
    if call == Call::Reach {
        guard(code, &unspecified, vec![instruction(MOV_IMM, ADDRESS[3], 0, 0, 1)]);
    }
    if call == Call::Bind && !table.names.is_empty() {
        guard(code, &unspecified, within_ports(DOMAIN, answer(false).to_vec()));
    }
    for entry in &denied(table, call) {
        if call == Call::Bind && is_bound_by(entry, Ipv6Addr::UNSPECIFIED.into()) {
            guard(code, &unspecified, within_ports(entry.ports, answer(false).to_vec()));
        }
        if let Some(words) = v6_conditions(entry.net)
            && decide(code, &words, entry.ports, false)
        {
            return;
        }
    }
    for entry in allowed(table, call) {
        if let Some(words) = v6_conditions(entry.net)
            && decide(code, &words, entry.ports, true)
        {
            return;
        }
    }
    code.extend_from_slice(refusal);
}

/// The port of name servers.
const DOMAIN: Ports = Ports { low: 53, high: 53 };

/// The denies. Where names allow, nobody may put himself in the place of a name server.
fn denied(table: &NetTable, call: Call) -> Vec<NetEntry> {
    let mut entries = table.deny.clone();
    if call == Call::Bind && !table.names.is_empty() {
        let server = |address: &IpAddr| NetEntry { net: Some(IpNet::single(*address)), ports: DOMAIN };
        entries.extend(table.servers.iter().map(server));
    }
    entries
}

/// Puts the address on the stack as the map has it, and the context where helpers leave it.
fn store_address(code: &mut Vec<u64>, family: Family) {
    code.push(instruction(MOV_REG, KEPT, CONTEXT, 0, 0));
    let address = KEY + 4;
    match family {
        Family::V4 => {
            // ::ffff:0:0/96, as it lies in memory.
            for (at, value) in [(0, 0), (4, 0), (8, 0xffff_0000)] {
                code.push(instruction(STORE_IMM, STACK, 0, address + at, value));
            }
            code.push(instruction(LOAD_U32, SCRATCH, CONTEXT, USER_IP4, 0));
            code.push(instruction(STORE_U32, STACK, SCRATCH, address + 12, 0));
        }
        Family::V6 => {
            for at in [0, 4, 8, 12] {
                code.push(instruction(LOAD_U32, SCRATCH, CONTEXT, USER_IP6 + at, 0));
                code.push(instruction(STORE_U32, STACK, SCRATCH, address + at, 0));
            }
        }
    }
}

/// Runs `found` when an answer gave the address to a name of the class.
fn look_up(map: i32, class: usize, found: &[u64]) -> Vec<u64> {
    let mut code = vec![
        instruction(STORE_IMM, STACK, 0, KEY, class as u32),
        instruction(MOV_REG, 2, STACK, 0, 0),
        instruction(ADD_IMM, 2, 0, 0, i32::from(KEY).cast_unsigned()),
        instruction(LOAD_IMM64, 1, MAP_FD, 0, map.cast_unsigned()),
        0,
        instruction(CALL, 0, 0, 0, LOOK_UP),
        instruction(JUMP_IF_ZERO, 0, 0, jump(found.len()), 0),
    ];
    code.extend(found);
    code
}

/// Refuses what any answer ever gave to a denied name.
fn denied_by_name(code: &mut Vec<u64>, table: &NetTable, map: i32) {
    for (index, class) in table.names.iter().enumerate() {
        for ports in &class.deny {
            code.extend(within_ports(*ports, look_up(map, index + 1, &answer(false))));
        }
    }
    code.push(instruction(MOV_REG, CONTEXT, KEPT, 0, 0));
}

/// Lets pass what an answer that still holds gave to an allowed name, and nothing else.
fn allowed_by_name(table: &NetTable, map: i32) -> Vec<u64> {
    let mut holds = vec![
        instruction(LOAD_U64, UNTIL, 0, 0, 0),
        instruction(CALL, 0, 0, 0, CLOCK),
        instruction(JUMP_IF_REG_GREATER, 0, UNTIL, 2, 0),
    ];
    holds.extend(answer(true));
    // Port 0 is how a resolver asks which address it would use.
    let probe = Ports { low: 0, high: 0 };
    let mut code = Vec::new();
    for (index, class) in table.names.iter().enumerate().filter(|(_, class)| !class.allow.is_empty()) {
        for ports in class.allow.iter().chain([&probe]) {
            code.extend(within_ports(*ports, look_up(map, index + 1, &holds)));
        }
    }
    code.extend(answer(false));
    code
}

/// The allows, and the name servers where the other end is decided about.
fn allowed(table: &NetTable, call: Call) -> impl Iterator<Item = NetEntry> + '_ {
    let servers = table.nameservers.iter().filter(move |_| call == Call::Reach);
    // Port 0 is how a resolver asks which address it would use.
    let server = |address: &IpAddr, port| NetEntry {
        net: Some(IpNet::single(*address)),
        ports: Ports { low: port, high: port },
    };
    let servers = servers.flat_map(move |address| [server(address, 53), server(address, 0)]);
    table.allow.iter().copied().chain(servers)
}

/// A word of the address, how many of its leading bits count, and what they must be.
type Word = (u8, u32, u32);

/// What must hold of the one word of an IPv4 address; `None` when the network is of the other family.
fn v4_conditions(net: Option<IpNet>) -> Option<Vec<Word>> {
    match net {
        None => Some(Vec::new()),
        Some(IpNet { address: IpAddr::V4(address), prefix }) => {
            Some(vec![(ADDRESS[0], u32::from(prefix), address.to_bits())])
        }
        Some(IpNet { address: IpAddr::V6(_), .. }) => None,
    }
}

/// What must hold of the four words of an IPv6 address.
fn v6_conditions(net: Option<IpNet>) -> Option<Vec<Word>> {
    match net {
        None => Some(Vec::new()),
        Some(IpNet { address: IpAddr::V6(address), prefix }) => {
            let bits = address.to_bits();
            Some(
                ADDRESS
                    .into_iter()
                    .zip([0u32, 32, 64, 96])
                    .map(|(register, start)| {
                        let count = u32::from(prefix).saturating_sub(start).min(32);
                        (register, count, (bits >> (96 - start)) as u32)
                    })
                    .collect(),
            )
        }
        Some(IpNet { address: IpAddr::V4(_), .. }) => None,
    }
}

/// Answers when the words and the port match. Tells whether they always do: then nothing may come after it, since the
/// kernel refuses a program with instructions that are never reached.
fn decide(code: &mut Vec<u64>, words: &[Word], ports: Ports, allowed: bool) -> bool {
    let answer = answer(allowed);
    let decision = compare(words, within_ports(ports, answer.to_vec()));
    let is_final = decision == answer;
    code.extend(decision);
    is_final
}

/// Runs `body` when the words match.
fn compare(words: &[Word], body: Vec<u64>) -> Vec<u64> {
    words.iter().rev().fold(body, |body, &(register, count, value)| {
        let mut code = Vec::new();
        match count {
            0 => {}
            32 => code.push(instruction(JUMP_IF_NOT_EQUAL, register, 0, jump(body.len()), value)),
            count => {
                code.push(instruction(MOV_REG, SCRATCH, register, 0, 0));
                code.push(instruction(SHIFT_RIGHT, SCRATCH, 0, 0, 32 - count));
                code.push(instruction(
                    JUMP_IF_NOT_EQUAL,
                    SCRATCH,
                    0,
                    jump(body.len()),
                    value >> (32 - count),
                ));
            }
        }
        code.extend(body);
        code
    })
}

/// Runs `body` when the port is one of these.
fn within_ports(ports: Ports, body: Vec<u64>) -> Vec<u64> {
    let mut code = Vec::new();
    let length = body.len();
    if ports.low > 0 {
        let more = usize::from(ports.high < u16::MAX);
        code.push(instruction(JUMP_IF_LESS, PORT, 0, jump(length + more), u32::from(ports.low)));
    }
    if ports.high < u16::MAX {
        code.push(instruction(JUMP_IF_GREATER, PORT, 0, jump(length), u32::from(ports.high)));
    }
    code.extend(body);
    code
}

#[cfg(test)]
mod tests;
