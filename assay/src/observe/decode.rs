//! Turns one record from the ring into an [`Event`].
//!
//! Pure: no I/O, no state. An input it does not understand is a [`DecodeError`], never a panic and never a guess.

use std::net::{IpAddr, SocketAddr};

use assay_common::calls::Op;
use assay_common::hooks::Hook;
use assay_common::kind::{RecordKind, SectionTag, chain_state, late_state, read_state, walk_state};
use assay_common::limits::STRING_LEN;
use assay_common::record::{
    FileFacts, Header, PacketFacts, PeerFacts, Repeat, Section, SockFacts, flags, packet,
};
use zerocopy::FromBytes;

use super::endpoint::{AF_INET, AF_INET6};
use super::event::{
    Bytes, Call, Chain, ChainEnd, Doubt, Event, EventKind, Exec, Followed, Late, LateWorth, Packet, PathArg,
    ReadState, WalkEnd, Witness,
};

/// A record that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than a header, a section or its content need.
    #[error("decode a record: it is cut short")]
    Short,
    /// The size it states is not the size it has.
    #[error("decode a record: its size is not what it says")]
    Size,
    /// An unknown kind.
    #[error("decode a record: its kind is unknown")]
    Kind,
    /// An unknown operation.
    #[error("decode a record: its operation is unknown")]
    Op,
    /// An unknown section, or one that does not belong here.
    #[error("decode a record: it has a section that does not belong there")]
    Section,
    /// A state that is no state.
    #[error("decode a record: it has an unknown state")]
    State,
}

impl DecodeError {
    /// The stable word in the loss ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Short => "record-short",
            Self::Size => "record-size",
            Self::Kind => "record-kind",
            Self::Op => "record-operation",
            Self::Section => "record-section",
            Self::State => "record-state",
        }
    }
}

/// Sections of one record, each at most once.
#[derive(Default)]
struct Sections {
    a: PathArg,
    b: PathArg,
    file: Option<FileFacts>,
    socket: Option<SockFacts>,
    address: Option<Bytes>,
    unix_name: Option<Bytes>,
    argv: Option<Bytes>,
    image: Option<Chain>,
    packet: Option<PacketFacts>,
    payload: Option<Bytes>,
    repeat: Option<Repeat>,
    peer: Option<PeerFacts>,
    peer_image: Option<Chain>,
}

/// Decodes one record.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    let (header, mut rest) = Header::read_from_prefix(bytes).map_err(|_| DecodeError::Short)?;
    if header.size as usize != bytes.len() {
        return Err(DecodeError::Size);
    }
    let kind = RecordKind::from_number(header.kind).ok_or(DecodeError::Kind)?;
    let mut sections = Sections::default();
    while !rest.is_empty() {
        let (section, after) = Section::read_from_prefix(rest).map_err(|_| DecodeError::Short)?;
        let len = section.len as usize;
        let content = after.get(..len).ok_or(DecodeError::Short)?;
        sections.take(section, content)?;
        // The last section's padding may be left out.
        rest = after.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
    Ok(Event {
        t_ns: header.t_ns,
        run: header.run,
        pid: header.pid,
        tid: header.tid,
        comm: header.comm.split(|&byte| byte == 0).next().unwrap_or_default().to_vec(),
        is_outside: header.flags & flags::OUTSIDE != 0,
        has_overflowed: header.flags & flags::OVERFLOW != 0,
        doubt: if header.flags & flags::UNREAD != 0 {
            Doubt::Unread
        } else if header.flags & flags::UNCONFIRMED != 0 {
            Doubt::Unconfirmed
        } else {
            Doubt::None
        },
        repeat: sections.repeat,
        kind: event_kind(kind, &header, sections)?,
    })
}

fn event_kind(kind: RecordKind, header: &Header, sections: Sections) -> Result<EventKind, DecodeError> {
    let ret = header.ret;
    Ok(match kind {
        RecordKind::Call => EventKind::Call(call(header, sections)?),
        RecordKind::UringSubmit => {
            EventKind::UringSubmit { request: header.args[5], call: call(header, sections)? }
        }
        RecordKind::UringComplete => {
            EventKind::UringComplete { request: header.args[5], call: call(header, sections)? }
        }
        RecordKind::Exec => EventKind::Exec(Exec {
            ppid: header.ppid,
            old_tid: ret as u32,
            a: sections.a,
            image: sections.image,
            file: sections.file,
            is_script: header.flags & flags::SCRIPT != 0,
            argv: sections.argv,
        }),
        RecordKind::Fork => EventKind::Fork { pid: header.args[0] as u32, tid: ret as u32 },
        RecordKind::Exit => EventKind::Exit { status: ret as i32 },
        RecordKind::Leave => EventKind::Leave { pid: header.args[0] as u32, tid: ret as u32 },
        RecordKind::Packet => EventKind::Packet(packet_of(&sections)?),
        RecordKind::Witness => EventKind::Witness(Witness {
            hook: Hook::from_number(header.op).ok_or(DecodeError::Op)?,
            a: sections.a.chain,
            b: sections.b.chain,
            file: sections.file,
            family: header.args[0] as u16,
            address: sections.address,
        }),
        RecordKind::Sources => {
            let text = sections.payload.ok_or(DecodeError::Short)?.bytes;
            let mut halves = text.splitn(2, |&byte| byte == 0).map(<[u8]>::to_vec);
            let mut half = || halves.next().unwrap_or_default();
            EventKind::Sources { resolv_conf: half(), hosts: half() }
        }
    })
}

/// A packet from its two sections.
fn packet_of(sections: &Sections) -> Result<Packet, DecodeError> {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let (Some(facts), Some(payload)) = (&sections.packet, &sections.payload) else {
        return Err(DecodeError::Short);
    };
    let ip = match facts.family {
        AF_INET => {
            let [a, b, c, d, ..] = facts.remote;
            IpAddr::from([a, b, c, d])
        }
        AF_INET6 => IpAddr::from(facts.remote).to_canonical(),
        _ => return Err(DecodeError::State),
    };
    if !matches!(facts.protocol, TCP | UDP) {
        return Err(DecodeError::State);
    }
    let kept = payload.bytes.get(..facts.kept as usize).ok_or(DecodeError::Short)?;
    Ok(Packet {
        remote: SocketAddr::new(ip, facts.remote_port),
        is_out: facts.flags & packet::OUT != 0,
        cookie: facts.cookie,
        is_tcp: facts.protocol == TCP,
        is_home: facts.flags & packet::HOME != 0,
        sequence: facts.sequence,
        payload: kept.to_vec(),
        is_cut: facts.carried > facts.kept,
    })
}

fn call(header: &Header, mut sections: Sections) -> Result<Call, DecodeError> {
    if header.ret == ENAMETOOLONG {
        sections.a.admit_cut();
        sections.b.admit_cut();
    }
    Ok(Call {
        op: Op::from_number(header.op).ok_or(DecodeError::Op)?,
        nr: u16::try_from(header.nr).map_err(|_| DecodeError::Op)?,
        is_compat: header.flags & flags::COMPAT != 0,
        args: header.args,
        ret: header.ret,
        a: sections.a,
        b: sections.b,
        file: sections.file,
        socket: sections.socket,
        address: sections.address,
        unix_name: sections.unix_name,
        peer: sections.peer,
        peer_image: sections.peer_image,
    })
}

const ENAMETOOLONG: i64 = -36;

impl PathArg {
    /// The longest string that is read is as long as the longest that is allowed: one that was too long was longer.
    fn admit_cut(&mut self) {
        if self.requested.as_ref().is_some_and(|text| text.bytes.len() >= STRING_LEN - 1) {
            for text in [&mut self.requested, &mut self.rest].into_iter().flatten() {
                text.state = ReadState::Cut;
            }
        }
    }
}

impl Sections {
    fn take(&mut self, section: Section, content: &[u8]) -> Result<(), DecodeError> {
        let tag = SectionTag::from_number(section.tag).ok_or(DecodeError::Section)?;
        match tag {
            SectionTag::RequestedA => self.a.requested = Some(text(section, content)?),
            SectionTag::RequestedB => self.b.requested = Some(text(section, content)?),
            SectionTag::ChainA => self.a.chain = Some(chain(section, content)?),
            SectionTag::ChainB => self.b.chain = Some(chain(section, content)?),
            SectionTag::RestA => self.a.rest = Some(text(section, content)?),
            SectionTag::RestB => self.b.rest = Some(text(section, content)?),
            SectionTag::LateA => self.a.late = Some(late(section, content)?),
            SectionTag::LateB => self.b.late = Some(late(section, content)?),
            SectionTag::Followed => {
                let arg = if section.aux == 0 { &mut self.a } else { &mut self.b };
                arg.followed = Some(followed(content)?);
            }
            SectionTag::FileFacts => {
                self.file = Some(FileFacts::read_from_bytes(content).map_err(|_| DecodeError::Section)?);
            }
            SectionTag::SockFacts => {
                self.socket = Some(SockFacts::read_from_bytes(content).map_err(|_| DecodeError::Section)?);
            }
            SectionTag::Repeat => {
                self.repeat = Some(Repeat::read_from_bytes(content).map_err(|_| DecodeError::Section)?);
            }
            SectionTag::Sockaddr => self.address = Some(text(section, content)?),
            SectionTag::UnixName => self.unix_name = Some(text(section, content)?),
            SectionTag::Argv => self.argv = Some(text(section, content)?),
            SectionTag::PacketFacts => {
                self.packet = Some(PacketFacts::read_from_bytes(content).map_err(|_| DecodeError::Section)?);
            }
            SectionTag::Payload => self.payload = Some(text(section, content)?),
            SectionTag::PeerFacts => {
                self.peer = Some(PeerFacts::read_from_bytes(content).map_err(|_| DecodeError::Section)?);
            }
            SectionTag::PeerChain => self.peer_image = Some(chain(section, content)?),
            SectionTag::ImageChain => self.image = Some(chain(section, content)?),
            // The interpreter's name as written is in the new program's arguments too.
            SectionTag::InterpName => {}
        }
        Ok(())
    }
}

fn text(section: Section, content: &[u8]) -> Result<Bytes, DecodeError> {
    let state = match section.state {
        read_state::WHOLE => ReadState::Whole,
        read_state::CUT => ReadState::Cut,
        read_state::UNREADABLE => ReadState::Unreadable,
        _ => return Err(DecodeError::State),
    };
    Ok(Bytes { bytes: content.to_vec(), state })
}

/// Where the kind of a file begins in its mode.
const KIND_SHIFT: u32 = 12;

fn late(section: Section, content: &[u8]) -> Result<Late, DecodeError> {
    let worth = match section.state {
        late_state::FOUND => LateWorth::Found,
        late_state::TEXT => LateWorth::Text,
        late_state::GONE => LateWorth::Gone,
        _ => return Err(DecodeError::State),
    };
    let there = (section.aux != 0).then(|| u32::from(section.aux) << KIND_SHIFT);
    Ok(Late { bytes: content.to_vec(), worth, there })
}

fn followed(content: &[u8]) -> Result<Followed, DecodeError> {
    let (t_ns, links) = u64::read_from_prefix(content).map_err(|_| DecodeError::Section)?;
    let links = links.split(|&byte| byte == 0).filter(|link| !link.is_empty()).map(<[u8]>::to_vec).collect();
    Ok(Followed { t_ns, links })
}

fn chain(section: Section, content: &[u8]) -> Result<Chain, DecodeError> {
    let end = match section.state {
        chain_state::ROOT => ChainEnd::Root,
        chain_state::DETACHED => ChainEnd::Detached,
        chain_state::FOREIGN => ChainEnd::Foreign,
        chain_state::NAMELESS => ChainEnd::Nameless,
        chain_state::CUT => ChainEnd::Cut,
        chain_state::UNREADABLE => ChainEnd::Unreadable,
        _ => return Err(DecodeError::State),
    };
    let walk = match section.aux {
        walk_state::DONE => WalkEnd::Done,
        walk_state::PARENT => WalkEnd::Parent,
        walk_state::START => WalkEnd::Start,
        walk_state::NOT_CACHED => WalkEnd::NotCached,
        walk_state::LINK => WalkEnd::Link,
        walk_state::LIMIT => WalkEnd::Limit,
        walk_state::UNREADABLE => WalkEnd::Unreadable,
        _ => return Err(DecodeError::State),
    };
    // Names come leaf first, each with its NUL.
    let mut path = Vec::with_capacity(content.len() + 1);
    let names = content.strip_suffix(b"\0").unwrap_or(content);
    if !content.is_empty() {
        for name in names.rsplit(|&byte| byte == 0) {
            path.push(b'/');
            path.extend_from_slice(name);
        }
    } else if end != ChainEnd::Unreadable {
        path.push(b'/');
    }
    Ok(Chain { path, end, walk })
}
