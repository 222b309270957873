//! A [`NetTable`] → the instructions of the programs that hold it on a cgroup. Pure.
//!
//! One short comparison an entry, in the order of the table: a deny that matches refuses, then an allow that
//! matches lets pass, and what matches nothing is refused. No maps, no loops, no memory: what the verifier has to
//! see is what is written here.

use std::net::IpAddr;

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

/// The program for one kind of call and family.
pub fn program(table: &NetTable, family: Family, call: Call) -> Vec<u64> {
    let mut code = vec![
        instruction(LOAD_U32, PORT, CONTEXT, USER_PORT, 0),
        // It is there in network order; this makes it the host's.
        instruction(TO_BIG_ENDIAN, PORT, 0, 0, 16),
    ];
    match family {
        Family::V4 => {
            load_word(&mut code, ADDRESS[0], USER_IP4);
            v4(&mut code, table, call);
        }
        Family::V6 => {
            for (register, offset) in ADDRESS.into_iter().zip([0, 4, 8, 12]) {
                load_word(&mut code, register, USER_IP6 + offset);
            }
            let mut mapped = vec![instruction(MOV_REG, ADDRESS[0], ADDRESS[3], 0, 0)];
            v4(&mut mapped, table, call);
            guard(&mut code, &[(ADDRESS[0], 0), (ADDRESS[1], 0), (ADDRESS[2], 0xffff)], mapped);
            v6(&mut code, table, call);
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

fn v4(code: &mut Vec<u64>, table: &NetTable, call: Call) {
    if call == Call::Reach {
        // To the kernel, the unspecified address is this host.
        guard(code, &[(ADDRESS[0], 0)], vec![instruction(MOV_IMM, ADDRESS[0], 0, 0, LOOPBACK_V4)]);
    }
    for entry in &table.deny {
        if call == Call::Bind {
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
    code.extend(answer(false));
}

fn v6(code: &mut Vec<u64>, table: &NetTable, call: Call) {
    let unspecified = ADDRESS.map(|register| (register, 0));
    if call == Call::Reach {
        guard(code, &unspecified, vec![instruction(MOV_IMM, ADDRESS[3], 0, 0, 1)]);
    }
    for entry in &table.deny {
        if call == Call::Bind {
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
    code.extend(answer(false));
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
