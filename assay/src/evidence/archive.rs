//! The two members of a bundle <-> gzip'd tar. The only user of tar and flate2.
//!
//! Writing is deterministic: no names, times or owners of this machine. Reading streams, follows nothing, unpacks
//! nothing, and stops before a limit is passed. What a member holds is not judged here.

use std::io::{self, BufRead, BufReader, Read, Write};

use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use memchr::memchr;
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use crate::canon::digest::Digest;
use crate::evidence::integrity::{Code, Failure, Limits, shown};
use crate::evidence::manifest::{EVENTS, MANIFEST};

const BLOCK: usize = 512;
const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Writes an archive: the manifest, then exactly `events_bytes` bytes that `events` writes.
pub fn write<W: Write>(
    out: W,
    manifest: &[u8],
    events_bytes: u64,
    events: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<W> {
    // The fastest: the next level takes two and a half times as long, at the end of a run, to save a thirtieth.
    let gzip = GzBuilder::new().mtime(0).operating_system(255).write(out, Compression::fast());
    let mut gzip = io::BufWriter::with_capacity(1 << 16, gzip);
    let manifest_bytes = manifest.len() as u64;
    gzip.write_all(header(MANIFEST, manifest_bytes).as_bytes())?;
    gzip.write_all(manifest)?;
    pad(&mut gzip, manifest_bytes)?;
    gzip.write_all(header(EVENTS, events_bytes).as_bytes())?;
    let mut counted = CountedWriter { inner: &mut gzip, count: 0 };
    events(&mut counted)?;
    if counted.count != events_bytes {
        return Err(io::Error::other("the events changed while they were written"));
    }
    pad(&mut gzip, events_bytes)?;
    gzip.write_all(&ZEROS)?;
    gzip.write_all(&ZEROS)?;
    gzip.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
}

/// How many bytes an archive of members of these lengths is when it is decoded.
pub fn decoded_bytes(manifest: u64, events: u64) -> u64 {
    let member = |size: u64| BLOCK as u64 + size + padding(size) as u64;
    member(manifest) + member(events) + 2 * BLOCK as u64
}

fn header(name: &str, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_path(name).expect("a short relative name fits a header");
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header.set_cksum();
    header
}

fn pad(out: &mut impl Write, size: u64) -> io::Result<()> {
    out.write_all(&ZEROS[..padding(size)])
}

fn padding(size: u64) -> usize {
    (BLOCK as u64 - 1 - (size + BLOCK as u64 - 1) % BLOCK as u64) as usize
}

struct CountedWriter<'a, W> {
    inner: &'a mut W,
    count: u64,
}

impl<W: Write> Write for CountedWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// What the archive as such was like, once it was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveFacts {
    /// The digest of the archive's own bytes, as they lie on disk.
    pub sha256: Digest,
    /// The digest of the events' bytes.
    pub events_sha256: Digest,
    /// Their length.
    pub events_bytes: u64,
    /// True when times, owners, modes or names are set that the format leaves empty. Allowed, for archives that were
    /// packed again.
    pub is_restamped: bool,
}

/// Reads the members of an archive in order.
pub struct ArchiveReader<R: Read> {
    decoded: BufReader<Limited<GzDecoder<BufReader<Source<R>>>>>,
    limits: Limits,
    left: u64,
    events_bytes: u64,
    events_hash: Sha256,
    is_restamped: bool,
}

impl<R: Read> ArchiveReader<R> {
    /// Starts to read.
    pub fn new(input: R, limits: Limits) -> Self {
        let source = Source { inner: input, left: limits.archive_bytes, hash: Sha256::new() };
        let gzip = GzDecoder::new(BufReader::with_capacity(1 << 16, source));
        let decoded = BufReader::with_capacity(1 << 16, Limited { inner: gzip, left: limits.decoded_bytes });
        Self { decoded, limits, left: 0, events_bytes: 0, events_hash: Sha256::new(), is_restamped: false }
    }

    /// Reads the first member whole.
    pub fn read_manifest(&mut self) -> Result<Vec<u8>, Failure> {
        let size = self.member(MANIFEST)?;
        if size > self.limits.line_bytes as u64 {
            return Err(Failure::new(Code::LineLimit, format!("{MANIFEST} has {size} bytes")));
        }
        // The limit above bounds it on every platform.
        let mut manifest = vec![0; size as usize];
        self.fill(&mut manifest)?;
        self.skip_padding(size)?;
        let size = self.member(EVENTS)?;
        self.left = size;
        self.events_bytes = size;
        Ok(manifest)
    }

    /// Reads the next line of the second member into `line`, without its LF. False when there is none.
    pub fn read_line(&mut self, line: &mut Vec<u8>) -> Result<bool, Failure> {
        line.clear();
        if self.left == 0 {
            return Ok(false);
        }
        loop {
            let available = self.decoded.fill_buf().map_err(failure)?;
            if available.is_empty() {
                return Err(Failure::new(Code::Tar, format!("the archive ends inside {EVENTS}")));
            }
            let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(available.len());
            let end = memchr(b'\n', &available[..most]);
            let taken = end.map_or(most, |at| at + 1);
            if line.len() + end.unwrap_or(most) > self.limits.line_bytes {
                return Err(Failure::new(Code::LineLimit, format!("{EVENTS} has a line beyond the limit")));
            }
            line.extend_from_slice(&available[..end.unwrap_or(most)]);
            self.events_hash.update(&available[..taken]);
            self.decoded.consume(taken);
            self.left -= taken as u64;
            if end.is_some() {
                return Ok(true);
            }
            if self.left == 0 {
                return Err(Failure::new(Code::LineEnd, "the last line does not end in LF"));
            }
        }
    }

    /// Reads on to the end, which must come at once.
    pub fn finish(mut self) -> Result<ArchiveFacts, Failure> {
        self.skip_padding(self.events_bytes)?;
        // Two zero blocks end a tar; more of them fill it up to a record.
        let mut block = ZEROS;
        for at in 0.. {
            let read = self.read_up_to(&mut block)?;
            if read == 0 && at >= 2 {
                break;
            }
            if read < BLOCK {
                let code = if at < 2 { Code::Tar } else { Code::Trailing };
                return Err(Failure::new(code, "the tar does not end in whole zero blocks"));
            }
            if block != ZEROS {
                // A header in the place of the first end block is one member too many; later ones would be hidden
                // from every other reader of tar.
                let is_header =
                    at == 0 && Header::from_byte_slice(&block).cksum().is_ok_and(|sum| sum == sum_of(&block));
                return Err(if is_header {
                    Failure::new(Code::MemberOrder, "a third member follows")
                } else {
                    Failure::new(Code::Trailing, "bytes follow the second member")
                });
            }
        }
        let mut source = self.decoded.into_inner().inner.into_inner();
        if !source.fill_buf().map_err(failure)?.is_empty() {
            return Err(Failure::new(Code::Trailing, "bytes follow the gzip member"));
        }
        Ok(ArchiveFacts {
            sha256: Digest::from_raw(source.into_inner().hash.finalize().into()),
            events_sha256: Digest::from_raw(self.events_hash.finalize().into()),
            events_bytes: self.events_bytes,
            is_restamped: self.is_restamped,
        })
    }

    /// Reads a header, which must be that of a plain file of this name; returns its size.
    fn member(&mut self, name: &str) -> Result<u64, Failure> {
        let mut block = ZEROS;
        self.fill(&mut block)?;
        if block == ZEROS {
            return Err(Failure::new(Code::MemberOrder, format!("{name} is missing")));
        }
        let header = Header::from_byte_slice(&block);
        if !header.cksum().is_ok_and(|sum| sum == sum_of(&block)) {
            return Err(Failure::new(Code::Tar, "a header has a wrong checksum"));
        }
        if !matches!(header.entry_type(), EntryType::Regular) {
            let kind = shown(&block[156..157]);
            return Err(Failure::new(Code::MemberType, format!("a member has type `{kind}`")));
        }
        let found = header.path_bytes();
        let other = if name == MANIFEST { EVENTS } else { MANIFEST };
        if *found == *other.as_bytes() {
            return Err(Failure::new(Code::MemberOrder, format!("{other} in the place of {name}")));
        }
        // The name field alone, filled with zeros: no prefix, nothing hidden behind the first NUL.
        let (stored, rest) = block[..100].split_at(name.len());
        let prefix = &block[345..500];
        if stored != name.as_bytes() || rest.iter().chain(prefix).any(|byte| *byte != 0) {
            return Err(Failure::new(Code::MemberName, format!("a member is named `{}`", shown(&found))));
        }
        if block[157..257].iter().any(|byte| *byte != 0) {
            return Err(Failure::new(Code::MemberType, format!("{name} is a link")));
        }
        // Octal digits only: the binary form of GNU tar is for sizes far beyond the limit.
        let size = octal(&block[124..136])
            .ok_or_else(|| Failure::new(Code::Tar, format!("the size of {name} is not a number")))?;
        if size > self.limits.decoded_bytes {
            return Err(Failure::new(Code::DecodedLimit, format!("{name} has {size} bytes")));
        }
        self.is_restamped |= block != *self::header(name, size).as_bytes();
        Ok(size)
    }

    fn skip_padding(&mut self, size: u64) -> Result<(), Failure> {
        let mut bytes = ZEROS;
        let bytes = &mut bytes[..padding(size)];
        self.fill(bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(Failure::new(Code::Trailing, "bytes are hidden between the members"));
        }
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Failure> {
        if self.read_up_to(bytes)? < bytes.len() {
            return Err(Failure::new(Code::Tar, "the archive ends early"));
        }
        Ok(())
    }

    /// Fills `bytes` unless the archive ends before; says how far it came. An end inside the gzip stream is an error
    /// of its own, which `read_exact` would not tell from the end of the tar.
    fn read_up_to(&mut self, bytes: &mut [u8]) -> Result<usize, Failure> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.decoded.read(&mut bytes[filled..]).map_err(failure)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }
}

/// The sum a header must hold: its bytes, with the field of the sum itself as spaces.
fn sum_of(block: &[u8; BLOCK]) -> u32 {
    let sum: u32 = block[..148].iter().chain(&block[156..]).map(|byte| u32::from(*byte)).sum();
    sum + 8 * u32::from(b' ')
}

fn octal(field: &[u8]) -> Option<u64> {
    let end = field.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(field.len());
    let (digits, rest) = field.split_at(end);
    if digits.is_empty() || rest.iter().any(|byte| !matches!(byte, 0 | b' ')) {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| match digit {
        b'0'..=b'7' => Some(value << 3 | u64::from(digit - b'0')),
        _ => None,
    })
}

/// The bytes on disk: counted against their limit, and hashed.
struct Source<R> {
    inner: R,
    left: u64,
    hash: Sha256,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes).map_err(|error| {
            io::Error::new(error.kind(), Failure::new(Code::Read, shown(error.to_string().as_bytes())))
        })?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other(Failure::new(Code::ArchiveLimit, "the archive is too large")))?;
        self.hash.update(&bytes[..read]);
        Ok(read)
    }
}

/// The decoded bytes, counted against their limit before they are handed on.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other(Failure::new(Code::DecodedLimit, "it decodes to too much")))?;
        Ok(read)
    }
}

/// Our own failures travel inside I/O errors; all else that goes wrong between the file and us is gzip's.
fn failure(error: io::Error) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => Failure::new(Code::Gzip, shown(error.to_string().as_bytes())),
    }
}

#[cfg(test)]
mod tests;
