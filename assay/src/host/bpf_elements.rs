//! Elements of maps: looked up, set and removed, one by one or many at a time.
//!
//! Bytes in, bytes out. The caller knows the sizes of a map's keys and values.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use super::bpf_syscall::{bpf, command, command_mut};

/// `BPF_MAP_LOOKUP_ELEM`
const LOOKUP: libc::c_int = 1;
/// `BPF_MAP_UPDATE_ELEM`
const UPDATE: libc::c_int = 2;
/// `BPF_MAP_DELETE_ELEM`
const DELETE: libc::c_int = 3;
/// `BPF_MAP_GET_NEXT_KEY`
const NEXT_KEY: libc::c_int = 4;
/// `BPF_MAP_GET_FD_BY_ID`
const BY_ID: libc::c_int = 14;
/// `BPF_MAP_LOOKUP_BATCH`
const LOOKUP_BATCH: libc::c_int = 24;
/// `BPF_MAP_UPDATE_BATCH`
const UPDATE_BATCH: libc::c_int = 26;

/// Elements handed over at a time.
const CHUNK: u32 = 16 * 1024;
/// Bytes of values handed over at a time, at most.
const CHUNK_BYTES: usize = 1 << 20;

/// `union bpf_attr` of the commands on one element.
#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr` of the commands on many.
#[repr(C)]
struct Many {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// `union bpf_attr` of `BPF_MAP_GET_FD_BY_ID`.
#[repr(C)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

fn element(map: BorrowedFd<'_>, key: &[u8], value: u64) -> Element {
    Element { map_fd: map.as_raw_fd() as u32, padding: 0, key: key.as_ptr() as u64, value, flags: 0 }
}

/// The value of a key, or nothing where there is none.
pub fn lookup(map: BorrowedFd<'_>, key: &[u8], value_size: usize) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0u8; value_size];
    let found = command_mut(LOOKUP, &mut element(map, key, value.as_mut_ptr() as u64));
    Ok(unless_absent(found)?.map(|_| value))
}

/// Sets an element.
pub fn set(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    command(UPDATE, &element(map, key, value.as_ptr() as u64)).map(drop)
}

/// Removes an element. Whether there was one.
pub fn remove(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<bool> {
    Ok(unless_absent(command(DELETE, &element(map, key, 0)))?.is_some())
}

/// A map that is the value of another's element, by the number that stands there.
pub fn open_by_id(id: u32) -> io::Result<OwnedFd> {
    bpf(BY_ID, &ById { id, next_id: 0, open_flags: 0 })
}

/// `count` values of an array from `first` on, one behind the other.
pub fn values(map: BorrowedFd<'_>, value_size: usize, first: u32, count: u32) -> io::Result<Vec<u8>> {
    let chunk = chunk_of(value_size).min(count.max(1));
    let (mut keys, mut all) = (vec![0u32; chunk as usize], Vec::new());
    let mut part = vec![0u8; chunk as usize * value_size];
    let mut done = 0;
    while done < count {
        // The kernel goes on behind the one that it is told.
        let before = (first + done).wrapping_sub(1);
        let mut place = 0u32;
        let mut batch = Many {
            in_batch: if before == u32::MAX { 0 } else { (&raw const before) as u64 },
            out_batch: (&raw mut place) as u64,
            keys: keys.as_mut_ptr() as u64,
            values: part.as_mut_ptr() as u64,
            count: chunk.min(count - done),
            map_fd: map.as_raw_fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        let told = unless_absent(command_mut(LOOKUP_BATCH, &mut batch))?;
        all.extend_from_slice(&part[..batch.count as usize * value_size]);
        done += batch.count;
        if told.is_none() || batch.count == 0 {
            break;
        }
    }
    if done == count { Ok(all) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Sets `count` values of an array from `first` on to zero.
pub fn clear_values(map: BorrowedFd<'_>, value_size: usize, first: u32, count: u32) -> io::Result<()> {
    let chunk = chunk_of(value_size).min(count.max(1));
    let zeros = vec![0u8; chunk as usize * value_size];
    let mut done = 0;
    while done < count {
        let now = chunk.min(count - done);
        let keys: Vec<u32> = (first + done..first + done + now).collect();
        let mut batch = Many {
            in_batch: 0,
            out_batch: 0,
            keys: keys.as_ptr() as u64,
            values: zeros.as_ptr() as u64,
            count: now,
            map_fd: map.as_raw_fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        command_mut(UPDATE_BATCH, &mut batch)?;
        done += now;
    }
    Ok(())
}

/// All keys of a hash with their values. Others may add and remove meanwhile: what is there all the time is among them.
pub fn entries(
    map: BorrowedFd<'_>,
    key_size: usize,
    value_size: usize,
) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all = Vec::new();
    let (mut place, mut has_begun, mut chunk) = (0u32, false, 512usize);
    loop {
        let (mut keys, mut found) = (vec![0u8; chunk * key_size], vec![0u8; chunk * value_size]);
        let before = place;
        let mut batch = Many {
            in_batch: if has_begun { (&raw const before) as u64 } else { 0 },
            out_batch: (&raw mut place) as u64,
            keys: keys.as_mut_ptr() as u64,
            values: found.as_mut_ptr() as u64,
            count: chunk as u32,
            map_fd: map.as_raw_fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        let told = match command_mut(LOOKUP_BATCH, &mut batch) {
            // More lie in one place of the hash than were asked for.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                chunk *= 2;
                place = before;
                continue;
            }
            other => unless_absent(other)?,
        };
        let count = batch.count as usize;
        let pairs = keys.chunks_exact(key_size).zip(found.chunks_exact(value_size)).take(count);
        all.extend(pairs.map(|(key, value)| (key.to_vec(), value.to_vec())));
        if told.is_none() {
            return Ok(all);
        }
        has_begun = true;
    }
}

/// Keys of a hash whose values are too long to be copied for it; at most `most`.
pub fn keys(map: BorrowedFd<'_>, key_size: usize, most: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    while all.len() < most {
        let mut next = vec![0u8; key_size];
        let mut element = element(map, all.last().map_or(&[], Vec::as_slice), next.as_mut_ptr() as u64);
        if all.is_empty() {
            element.key = 0;
        }
        if unless_absent(command_mut(NEXT_KEY, &mut element))?.is_none() {
            break;
        }
        all.push(next);
    }
    Ok(all)
}

fn chunk_of(value_size: usize) -> u32 {
    CHUNK.min((CHUNK_BYTES / value_size.max(1)).max(1) as u32)
}

fn unless_absent(told: io::Result<libc::c_long>) -> io::Result<Option<libc::c_long>> {
    match told {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        other => other.map(Some),
    }
}
