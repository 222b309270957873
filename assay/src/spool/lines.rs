//! The lines of a chain, one after the other, with a bound on memory: what is longer than an entry may be is hashed and
//! passed over. Pure: the bytes are the caller's.

use std::io::{self, BufRead};

use sha2::{Digest as _, Sha256};

use super::entry::MOST_BYTES;
use crate::canon::digest::Digest;

/// Reads lines.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    offset: u64,
    bytes: Vec<u8>,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has, without its line feed.
    pub length: u64,
    /// Of those bytes.
    pub sha256: Digest,
    /// Whether a line feed ends it.
    pub is_ended: bool,
    /// The bytes, where they are no more than an entry may have, and one more where they are.
    pub bytes: &'a [u8],
}

impl<R: BufRead> Lines<R> {
    /// Lines of an input that begins at this place of its file.
    pub fn new(input: R, offset: u64) -> Self {
        Self { input, offset, bytes: Vec::new() }
    }

    /// What they are read from.
    pub fn input(&self) -> &R {
        &self.input
    }

    /// The next line; nothing at the end.
    pub fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut hasher = Sha256::new();
        self.bytes.clear();
        let (offset, mut length, mut is_ended) = (self.offset, 0u64, false);
        loop {
            let available = self.input.fill_buf()?;
            if available.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', available);
            let part = &available[..end.unwrap_or(available.len())];
            hasher.update(part);
            length += part.len() as u64;
            let room = (MOST_BYTES + 1).saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                is_ended = true;
                break;
            }
        }
        if length == 0 && !is_ended {
            return Ok(None);
        }
        self.offset += length + u64::from(is_ended);
        let sha256 = Digest::from_raw(hasher.finalize().into());
        Ok(Some(Line { offset, length, sha256, is_ended, bytes: &self.bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], buffer: usize) -> Vec<(u64, u64, Digest, bool)> {
        let mut lines = Lines::new(io::BufReader::with_capacity(buffer, text), 0);
        let mut read = Vec::new();
        while let Some(line) = lines.read().unwrap() {
            assert_eq!(line.bytes.len() as u64, line.length.min(MOST_BYTES as u64 + 1));
            read.push((line.offset, line.length, line.sha256, line.is_ended));
        }
        read
    }

    #[test]
    fn lines_are_told_with_their_places() {
        for buffer in [1, 2, 3, 64] {
            let expect = [
                (0, 1, Digest::of(b"a"), true),
                (2, 0, Digest::of(b""), true),
                (3, 3, Digest::of(b"bcd"), false),
            ];
            assert_eq!(read(b"a\n\nbcd", buffer), expect);
            assert_eq!(read(b"", buffer), []);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let long = vec![b'x'; 3 * MOST_BYTES];
        let text = [long.as_slice(), b"\nnext\n"].concat();
        let place = long.len() as u64 + 1;
        let expect = [(0, long.len() as u64, Digest::of(&long), true), (place, 4, Digest::of(b"next"), true)];
        assert_eq!(read(&text, 1000), expect);
    }
}
