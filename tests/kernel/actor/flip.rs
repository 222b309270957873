//! Calls whose names another thread changes while they are made, and what the kernel did with each of them.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::memory::{native, terminated};

/// What is done with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flipped {
    /// `unlink`
    Removed,
    /// `rename` of it, to the same with `-moved` behind it, which does not change.
    Moved,
    /// `rename` to it, of a name that does not change.
    MovedTo,
    /// `mkdir`
    Made,
    /// `chmod`
    Changed,
}

/// One of two names, of the same length, as another thread leaves it.
struct Name {
    bytes: Vec<AtomicU8>,
}

impl Name {
    fn write(&self, name: &[u8]) {
        for (byte, letter) in self.bytes.iter().zip(name) {
            byte.store(*letter, Ordering::Relaxed);
        }
    }
}

/// Does it so many times. Each time both names are there, or neither where they are made; afterwards the one that is not
/// as it was is the one that the kernel acted on. How many were the first.
pub fn names(times: u64, how: Flipped, one: &[u8], other: &[u8]) -> i64 {
    let (first, second) = (terminated(one), terminated(other));
    let fixed = terminated(&[one, b"-fixed"].concat());
    let name = Name { bytes: first.iter().map(|byte| AtomicU8::new(*byte)).collect() };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                name.write(&first);
                name.write(&second);
            }
        });
        let mut hits = 0;
        for _ in 0..times {
            hits += i64::from(once(how, &name, &first, &second, &fixed));
        }
        is_over.store(true, Ordering::Relaxed);
        hits
    })
}

/// Once. Whether it was the first name.
fn once(how: Flipped, name: &Name, first: &[u8], second: &[u8], fixed: &[u8]) -> bool {
    let at = |bytes: &[u8]| bytes.as_ptr() as u64;
    let call = |nr: i64, args: [u64; 2]| native(nr, &[args[0], args[1], 0, 0, 0, 0]);
    let mode = |path: &[u8]| {
        // SAFETY: zeroes are such a value, and it is ours to be filled.
        let mut facts: libc::stat = unsafe { std::mem::zeroed() };
        (call(libc::SYS_stat, [at(path), &raw mut facts as u64]) == 0).then_some(facts.st_mode & 0o777)
    };
    let make = |path: &[u8]| {
        let fd = native(libc::SYS_creat, &[at(path), 0o644, 0, 0, 0, 0]);
        native(libc::SYS_close, &[fd as u64, 0, 0, 0, 0, 0]);
    };
    let given = name.bytes.as_ptr() as u64;
    match how {
        Flipped::Removed | Flipped::Moved | Flipped::Changed => {
            make(first);
            make(second);
        }
        Flipped::MovedTo => make(fixed),
        Flipped::Made => {}
    }
    // A name in the middle of being written is neither; then nothing happens, and it is tried again.
    loop {
        let returned = match how {
            Flipped::Removed => call(libc::SYS_unlink, [given, 0]),
            Flipped::Moved => call(libc::SYS_rename, [given, at(fixed)]),
            Flipped::MovedTo => call(libc::SYS_rename, [at(fixed), given]),
            Flipped::Made => call(libc::SYS_mkdir, [given, 0o755]),
            Flipped::Changed => call(libc::SYS_chmod, [given, 0o600]),
        };
        let is_first = match how {
            Flipped::Removed | Flipped::Moved => mode(first).is_none(),
            Flipped::MovedTo | Flipped::Made => mode(first).is_some(),
            Flipped::Changed => mode(first) == Some(0o600),
        };
        let is_second = match how {
            Flipped::Removed | Flipped::Moved => mode(second).is_none(),
            Flipped::MovedTo | Flipped::Made => mode(second).is_some(),
            Flipped::Changed => mode(second) == Some(0o600),
        };
        if returned == 0 && (is_first || is_second) {
            // What removes is what is counted: the one that is left is made anew where it lies.
            for path in [first, second, fixed].into_iter().filter(|_| how != Flipped::Removed) {
                call(if how == Flipped::Made { libc::SYS_rmdir } else { libc::SYS_unlink }, [at(path), 0]);
            }
            return is_first;
        }
    }
}

/// What is done with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlippedEnd {
    /// `connect` of a stream, where somebody listens
    Connected,
    /// `connect` of a stream, where nobody does
    Refused,
    /// `sendto` of a datagram
    Sent,
    /// `sendmsg` of a datagram
    SentAsMessage,
    /// `sendmmsg` of two datagrams
    SentTwice,
    /// `connect` by a path or an abstract name
    ConnectedByName,
    /// `bind` of a stream
    Bound,
}

/// Does it so many times with an address, that another thread changes all the time. How many went to the first, by what the
/// kernel says of the socket, or by what arrived there. Where nobody can tell, -1.
pub fn ends(times: u64, how: FlippedEnd, one: &[u8], other: &[u8]) -> i64 {
    let name = Name { bytes: one.iter().map(|byte| AtomicU8::new(*byte)).collect() };
    let turns = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                name.write(one);
                name.write(other);
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut hits = 0;
        for _ in 0..times {
            // The other thread is at work, and not only about to be.
            let seen = turns.load(Ordering::Relaxed);
            while turns.load(Ordering::Relaxed) == seen {
                std::thread::yield_now();
            }
            hits += end_once(how, &name, one, other);
        }
        is_over.store(true, Ordering::Relaxed);
        hits
    })
}

fn end_once(how: FlippedEnd, name: &Name, one: &[u8], other: &[u8]) -> i64 {
    let family = u64::from(u16::from_ne_bytes([one[0], one[1]]));
    let is_stream = !matches!(how, FlippedEnd::Sent | FlippedEnd::SentAsMessage | FlippedEnd::SentTwice);
    let kind = (if is_stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM }) as u64;
    let (at, len) = (name.bytes.as_ptr() as u64, one.len() as u64);
    loop {
        let fd = native(libc::SYS_socket, &[family, kind, 0, 0, 0, 0]) as u64;
        let data = c"m".as_ptr() as u64;
        let vector = [data, 1u64];
        let message = [at, len, vector.as_ptr() as u64, 1, 0, 0, 0, 0];
        let both = [message, message];
        let returned = match how {
            FlippedEnd::Connected | FlippedEnd::Refused | FlippedEnd::ConnectedByName => {
                native(libc::SYS_connect, &[fd, at, len, 0, 0, 0])
            }
            FlippedEnd::Bound => native(libc::SYS_bind, &[fd, at, len, 0, 0, 0]),
            FlippedEnd::Sent => native(libc::SYS_sendto, &[fd, data, 1, 0, at, len]),
            FlippedEnd::SentAsMessage => {
                native(libc::SYS_sendmsg, &[fd, message.as_ptr() as u64, 0, 0, 0, 0])
            }
            FlippedEnd::SentTwice => native(libc::SYS_sendmmsg, &[fd, both.as_ptr() as u64, 2, 0, 0, 0]),
        };
        let mut found = [0u8; 128];
        let mut size = found.len() as u32;
        let asked = if how == FlippedEnd::Bound { libc::SYS_getsockname } else { libc::SYS_getpeername };
        native(asked, &[fd, found.as_mut_ptr() as u64, &raw mut size as u64, 0, 0, 0]);
        native(libc::SYS_close, &[fd, 0, 0, 0, 0, 0]);
        // A name in the middle of being written is neither; then it is tried again.
        let is_known = |address: &[u8]| found[..address.len()] == *address;
        match how {
            FlippedEnd::Connected | FlippedEnd::ConnectedByName | FlippedEnd::Bound => {
                if returned == 0 && (is_known(one) || is_known(other)) {
                    return i64::from(is_known(one));
                }
            }
            // Who receives it counts.
            FlippedEnd::Refused | FlippedEnd::Sent | FlippedEnd::SentAsMessage | FlippedEnd::SentTwice => {
                return 0;
            }
        }
    }
}
