use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use super::*;
use crate::policy::load::{Context, NoFiles, load_bytes};
use crate::policy::{Policy, Request, check::Inet, judge};

/// What the kernel half noted: class and address → until when. The clock stands at [`NOW`].
type Noted = BTreeMap<(u32, [u8; 16]), u64>;

const NOW: u64 = 1_000;
/// Where the stack ends, and where a value that was looked up lies.
const STACK_END: u64 = 0x1_0000;
const VALUE: u64 = 0x2_0000;

fn run(code: &[u64], context: &[u8]) -> u32 {
    run_with(code, context, &Noted::new())
}

/// Runs a program the way the kernel would, for the few instructions it is made of. Anything else is a panic.
fn run_with(code: &[u64], context: &[u8], noted: &Noted) -> u32 {
    let mut registers = [0u64; 11];
    registers[usize::from(STACK)] = STACK_END;
    let mut stack = [0u8; 64];
    let mut value_found = 0;
    let mut at = 0usize;
    loop {
        let word = code[at];
        let (to, from) = ((word >> 8 & 0xf) as usize, (word >> 12 & 0xf) as usize);
        let (offset, value) = ((word >> 16) as u16 as i16, (word >> 32) as u32);
        let mut is_jump = false;
        let on_stack = |base: u64| (base + 64 - STACK_END).wrapping_add_signed(offset.into()) as usize;
        match word as u8 {
            LOAD_U32 => {
                assert_eq!(from, usize::from(CONTEXT));
                let start = offset as usize;
                registers[to] = u64::from(u32::from_le_bytes(context[start..start + 4].try_into().unwrap()));
            }
            LOAD_U64 => {
                assert_eq!((registers[from], offset), (VALUE, 0));
                registers[to] = value_found;
            }
            LOAD_IMM64 => {
                assert_eq!((from, code[at + 1]), (usize::from(MAP_FD), 0));
                registers[to] = u64::from(value);
                at += 1;
            }
            STORE_IMM => {
                let start = on_stack(registers[to]);
                stack[start..start + 4].copy_from_slice(&value.to_le_bytes());
            }
            STORE_U32 => {
                let start = on_stack(registers[to]);
                stack[start..start + 4].copy_from_slice(&(registers[from] as u32).to_le_bytes());
            }
            ADD_IMM => registers[to] = registers[to].wrapping_add_signed(i64::from(value as i32)),
            CALL if value == LOOK_UP => {
                let start = (registers[2] + 64 - STACK_END) as usize;
                let class = u32::from_le_bytes(stack[start..start + 4].try_into().unwrap());
                let address = stack[start + 4..start + 20].try_into().unwrap();
                let found = noted.get(&(class, address));
                value_found = found.copied().unwrap_or(0);
                // What a helper leaves in these is anybody's guess.
                registers[1..6].fill(0xdead_dead);
                registers[0] = if found.is_some() { VALUE } else { 0 };
            }
            CALL if value == CLOCK => {
                registers[1..6].fill(0xdead_dead);
                registers[0] = NOW;
            }
            MOV_REG => registers[to] = registers[from],
            // The value is extended with its sign.
            MOV_IMM => registers[to] = i64::from(value as i32) as u64,
            SHIFT_RIGHT => registers[to] >>= value,
            TO_BIG_ENDIAN => {
                registers[to] = match value {
                    16 => u64::from((registers[to] as u16).swap_bytes()),
                    32 => u64::from((registers[to] as u32).swap_bytes()),
                    other => panic!("width {other}"),
                }
            }
            JUMP_IF_NOT_EQUAL => is_jump = registers[to] as u32 != value,
            JUMP_IF_GREATER => is_jump = registers[to] as u32 > value,
            JUMP_IF_LESS => is_jump = (registers[to] as u32) < value,
            JUMP_IF_ZERO => is_jump = registers[to] == 0,
            JUMP_IF_REG_GREATER => is_jump = registers[to] > registers[from],
            EXIT => return registers[0] as u32,
            other => panic!("instruction {other:#x}"),
        }
        at += 1;
        if is_jump {
            at += usize::try_from(offset).unwrap();
        }
    }
}

fn context(address: IpAddr, port: u16) -> Vec<u8> {
    let mut bytes = vec![0u8; 60];
    match address {
        IpAddr::V4(v4) => bytes[4..8].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes[8..24].copy_from_slice(&v6.octets()),
    }
    bytes[24..26].copy_from_slice(&port.to_be_bytes());
    bytes
}

fn policy(rules: &str) -> Policy {
    let text = format!("api_version: assay/v1\nnet: {rules}");
    load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).expect("a valid policy")
}

fn table(policy: &Policy) -> NetTable {
    let entry = |rule: &crate::policy::net::NetRule| match rule.target {
        crate::policy::net::Target::Net(net) => NetEntry { net: Some(net), ports: rule.ports },
        _ => NetEntry { net: None, ports: rule.ports },
    };
    NetTable {
        allow: policy.net_allow.iter().map(entry).collect(),
        deny: policy.net_deny.iter().map(entry).collect(),
        nameservers: Vec::new(),
        names: Vec::new(),
        servers: Vec::new(),
    }
}

fn program_says(table: &NetTable, call: Call, address: IpAddr, port: u16) -> bool {
    let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
    run(&program(table, family, call, None), &context(address, port)) == 1
}

#[test]
fn a_deny_of_another_host_does_not_keep_from_listening() {
    let bind = |rules: &str, address: &str, port| {
        program_says(&table(&policy(rules)), Call::Bind, address.parse().unwrap(), port)
    };
    let rules =
        "{allow: ['*:*'], deny: ['169.254.169.254', '127.0.0.0/8:22', '[::1]:23', '[fd00:ec2::254]']}";
    for (address, port, want) in [
        ("0.0.0.0", 0, true),
        ("::", 0, true),
        ("0.0.0.0", 22, false),
        ("0.0.0.0", 23, true),
        ("::", 22, false),
        ("::", 23, false),
        ("169.254.169.254", 0, false),
    ] {
        assert_eq!(bind(rules, address, port), want, "{address}:{port}");
    }
}

#[test]
fn the_program_and_the_policy_say_the_same() {
    let rules = [
        "{allow: ['10.0.0.0/8:5432', '127.0.0.1:*', '[::1]:80-90', '[fc00::/7]:*'], deny: ['10.1.0.0/16', '10.2.0.0/15:5432']}",
        "{allow: ['*:443'], deny: ['169.254.169.254', 'fe80::/10']}",
        "{allow: ['0.0.0.0/0:53', '203.0.113.7:1-2', '[2001:db8::1]:9'], deny: ['203.0.113.7:2']}",
        "{allow: ['*'], deny: ['127.0.0.0/8:22', '[::1]:22']}",
        "{allow: ['0.0.0.0:*', '[::]:*'], deny: ['169.254.169.254', '127.0.0.2:80', '[::1]:90', '[fe80::/10]:*', '127.0.0.0/8:100']}",
        "{allow: ['192.168.0.0/31', '[2001:db8:8000::/33]:7', '0.0.0.0:8080', '[::]:8080']}",
        "{deny: ['*']}",
        "{allow: ['*:*'], deny: ['169.254.169.254', '127.0.0.1:9']}",
        "{allow: ['0.0.0.0/0:*', '10.0.0.0/8'], deny: ['10.1.0.0/16:22']}",
        "{allow: ['[::/0]:*', '*:443'], deny: ['[::1]:22']}",
        "{allow: ['*:*'], deny: ['*:*', '10.0.0.1']}",
    ];
    let addresses = [
        "10.0.0.1",
        "10.1.2.3",
        "10.2.9.9",
        "10.3.255.255",
        "10.4.0.0",
        "127.0.0.1",
        "127.0.0.2",
        "0.0.0.0",
        "::",
        "::1",
        "::2",
        "fd12::1",
        "fe80::1",
        "febf::1",
        "169.254.169.254",
        "203.0.113.7",
        "255.255.255.255",
        "192.168.0.1",
        "192.168.0.2",
        "2001:db8::1",
        "2001:db8:8000::5",
        "2001:db8:7fff::5",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.1.0.1",
        "::ffff:169.254.169.254",
    ];
    for rules in rules {
        let policy = policy(rules);
        let table = table(&policy);
        for address in addresses {
            let address: IpAddr = address.parse().unwrap();
            for port in [0, 1, 2, 7, 9, 22, 53, 80, 85, 90, 91, 100, 443, 5432, 8080, 65535] {
                for call in [Call::Reach, Call::Bind] {
                    let inet = Inet {
                        is_local: call == Call::Bind,
                        address: Some(address),
                        host: None,
                        port: Some(port),
                    };
                    let want = judge(&policy, Request::Inet(inet)).is_allowed();
                    assert_eq!(
                        program_says(&table, call, address, port),
                        want,
                        "{rules} {call:?} {address} {port}"
                    );
                }
            }
        }
    }
}

/// Whether the kernel would find a way to each instruction: it refuses a program where it does not.
fn is_all_reached(code: &[u64]) -> bool {
    let mut reached = vec![false; code.len()];
    let mut open = vec![0usize];
    while let Some(at) = open.pop() {
        if std::mem::replace(&mut reached[at], true) {
            continue;
        }
        let word = code[at];
        match word as u8 {
            EXIT => {}
            JUMP_IF_NOT_EQUAL | JUMP_IF_GREATER | JUMP_IF_LESS => {
                open.extend([at + 1, at + 1 + usize::from((word >> 16) as u16)]);
            }
            _ => open.push(at + 1),
        }
    }
    reached.into_iter().all(|is_reached| is_reached)
}

#[test]
fn what_allows_or_denies_everything_leaves_no_dead_code() {
    for rules in [
        "{allow: ['*:*']}",
        "{allow: ['*:*', '10.0.0.1:80']}",
        "{allow: ['*:*'], deny: ['169.254.169.254']}",
        "{allow: ['0.0.0.0/0:*']}",
        "{allow: ['0.0.0.0/0', '[::/0]', '127.0.0.1:1']}",
        "{allow: ['[::/0]:*'], deny: ['[::1]:22']}",
        "{allow: ['127.0.0.1:*'], deny: ['*:*', '10.0.0.1']}",
        "{deny: ['0.0.0.0/0']}",
        "{}",
    ] {
        let mut table = table(&policy(rules));
        for nameservers in [vec![], vec!["192.0.2.53".parse().unwrap(), "2001:db8::53".parse().unwrap()]] {
            table.nameservers = nameservers;
            for family in [Family::V4, Family::V6] {
                for call in [Call::Reach, Call::Bind] {
                    assert!(
                        is_all_reached(&program(&table, family, call, None)),
                        "{rules} {family:?} {call:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn name_servers_can_be_asked_and_nothing_else_there() {
    let server: IpAddr = "192.0.2.53".parse().unwrap();
    let table = NetTable { nameservers: vec![server], ..NetTable::default() };
    assert!(program_says(&table, Call::Reach, server, 53));
    assert!(!program_says(&table, Call::Reach, server, 80));
    assert!(!program_says(&table, Call::Bind, server, 53));
    let mapped = IpAddr::V6("::ffff:192.0.2.53".parse::<Ipv6Addr>().unwrap());
    assert!(program_says(&table, Call::Reach, mapped, 53));
}

#[test]
fn only_tcp_and_udp_sockets_are_made() {
    let says = |kind: u32, protocol: u32| {
        let mut context = [0u8; 16];
        context[8..12].copy_from_slice(&kind.to_le_bytes());
        context[12..16].copy_from_slice(&protocol.to_le_bytes());
        run(&socket_program(), &context) == 1
    };
    assert!(says(1, 6) && says(2, 17) && says(1, 0) && says(2, 0));
    assert!(!says(3, 1) && !says(2, 1) && !says(1, 262) && !says(1, 132) && !says(2, 136) && !says(3, 255));
}

proptest::proptest! {
    #[test]
    fn any_table_says_what_its_entries_say(
        nets in proptest::collection::vec((proptest::bool::ANY, proptest::prelude::any::<u128>(), 0u8..=128, 0u16..100, 0u16..100), 0..8),
        address in proptest::prelude::any::<u128>(), near in proptest::bool::ANY, port in 0u16..100,
    ) {
        let nets: Vec<_> = nets.into_iter().map(|(is_deny, bits, prefix, a, b)| {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            let net = IpNet { address: IpAddr::V6(Ipv6Addr::from_bits(bits & mask)), prefix };
            (is_deny, NetEntry { net: Some(net), ports: Ports { low: a.min(b), high: a.max(b) } })
        }).collect();
        let table = NetTable {
            allow: nets.iter().filter(|(is_deny, _)| !is_deny).map(|(_, entry)| *entry).collect(),
            deny: nets.iter().filter(|(is_deny, _)| *is_deny).map(|(_, entry)| *entry).collect(),
            nameservers: Vec::new(),
        names: Vec::new(),
        servers: Vec::new(),
        };
        let address = match (near, nets.first()) {
            (true, Some((_, NetEntry { net: Some(net), .. }))) => net.address,
            _ => IpAddr::V6(Ipv6Addr::from_bits(address)),
        };
        proptest::prop_assume!(!address.is_unspecified() && address.to_canonical().is_ipv6());
        let hits = |entries: &[NetEntry]| entries.iter().any(|e| e.net.unwrap().contains(address) && e.ports.contains(port));
        let want = !hits(&table.deny) && hits(&table.allow);
        proptest::prop_assert_eq!(program_says(&table, Call::Reach, address, port), want);
    }
}

#[test]
fn the_program_and_the_policy_say_the_same_of_names() {
    let rules = "{allow: ['a.test:80', '*.w.test:443', '10.0.0.0/8:22', '*.a.test:81'], \
                 deny: ['bad.test:1-100', '10.9.0.9', '*.bad.w.test', '[fd09::9]:*']}";
    let policy = policy(rules);
    let mut table = table(&policy);
    // Names are held by their classes alone.
    let is_net =
        |rule: &&crate::policy::net::NetRule| matches!(rule.target, crate::policy::net::Target::Net(_));
    let literal =
        |rules: &[crate::policy::net::NetRule]| rules.iter().map(|rule| is_net(&rule)).collect::<Vec<_>>();
    let (allow, deny) = (literal(&policy.net_allow), literal(&policy.net_deny));
    table.allow =
        table.allow.into_iter().zip(allow).filter_map(|(entry, is_net)| is_net.then_some(entry)).collect();
    table.deny =
        table.deny.into_iter().zip(deny).filter_map(|(entry, is_net)| is_net.then_some(entry)).collect();
    table.names = crate::enforce::name_classes::classes(&policy.net_allow, &policy.net_deny);
    let class_of = |name: &str| {
        let reversed: Vec<u8> = name.bytes().rev().chain([0]).collect();
        let ends = table.names.iter().enumerate().filter(|(_, class)| reversed.starts_with(&class.reversed));
        ends.max_by_key(|(_, class)| class.reversed.len()).map(|(index, _)| index as u32 + 1)
    };
    let given: &[(&str, &[&str])] = &[
        ("10.9.0.1", &["a.test"]),
        ("10.9.0.2", &["x.w.test", "other.test"]),
        ("10.9.0.3", &["a.test", "bad.test"]),
        ("10.9.0.4", &["x.bad.w.test"]),
        ("10.9.0.5", &["other.test"]),
        ("10.9.0.6", &[]),
        ("10.9.0.9", &["a.test"]),
        ("192.0.2.1", &["x.a.test", "y.w.test"]),
        ("fd09::1", &["a.test"]),
        ("fd09::9", &["a.test"]),
        ("fd09::3", &["bad.test", "z.w.test"]),
    ];
    let key = |address: &str| match address.parse::<IpAddr>().unwrap() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let noted_until = |until: u64| -> Noted {
        let each = given.iter().flat_map(|(address, names)| names.iter().map(move |name| (*address, *name)));
        each.filter_map(|(address, name)| Some(((class_of(name)?, key(address).octets()), until))).collect()
    };
    let (holds, is_over) = (noted_until(NOW), noted_until(NOW - 1));
    for (address, names) in given {
        let host = names.join(",");
        for port in [0, 1, 22, 53, 80, 81, 100, 101, 443] {
            let judged = |host: Option<&str>| {
                let address = Some(address.parse().unwrap());
                judge(&policy, Request::Inet(Inet { is_local: false, address, host, port: Some(port) }))
                    .is_allowed()
            };
            let as_it_is = address.parse::<IpAddr>().unwrap();
            // An IPv4 address by a socket of either family.
            for address in [as_it_is, key(address).into()] {
                let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
                let code = program(&table, family, Call::Reach, Some(3));
                let says = |noted| run_with(&code, &context(address, port), noted) == 1;
                let named = judged((!names.is_empty()).then_some(&host));
                assert_eq!(says(&holds), named, "{address}:{port} {host}");
                // What ran out allows nothing, and denies for good.
                assert_eq!(says(&is_over), named && judged(None), "{address}:{port} {host} ran out");
                let without = program(&table, family, Call::Reach, None);
                assert_eq!(
                    run(&without, &context(address, port)) == 1,
                    judged(None),
                    "{address}:{port} unnamed"
                );
            }
        }
    }
}
