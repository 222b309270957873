//! A bundle's bytes: from a file, or from stdin when the path is `-`. Opens and reads, judges nothing.

use std::fs::File;
use std::io::{self, BufWriter, Cursor, Read, Seek as _, Write};
use std::ops::ControlFlow;
use std::path::Path;

use crate::evidence::integrity::{Failure, Limits, shown};
use crate::evidence::manifest::Manifest;
use crate::evidence::verify::{Event, Verified, reread, verify};

/// Where a bundle's bytes come from.
pub struct Input {
    /// The name for messages, harmless to print.
    pub name: String,
    source: Source,
}

enum Source {
    /// Can be read again from its start.
    File(File),
    /// Came through a pipe, and was kept because it has to be read again.
    Memory(Cursor<Vec<u8>>),
    /// Comes through a pipe, and is read once.
    Stream(Box<dyn Read + Send>),
}

/// A bundle that could not be opened, or is not good.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It could not be opened or read.
    #[error("open {name}: {error}")]
    Open {
        /// Which.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// It is not good.
    #[error("{name}: {failure}")]
    Bad {
        /// Which.
        name: String,
        /// Why.
        failure: Failure,
    },
    /// It changed between two readings.
    #[error("{name}: changed while it was read")]
    Changed {
        /// Which.
        name: String,
    },
}

impl Input {
    /// Opens a bundle that is read once.
    pub fn open_once(path: &Path) -> Result<Self, InputError> {
        Self::open(path, |reader| Ok(Source::Stream(reader)))
    }

    /// Opens a bundle that is read more than once: what is no plain file is kept in memory, up to the limit of
    /// the format.
    pub fn open_again(path: &Path) -> Result<Self, InputError> {
        Self::open(path, |reader| {
            let mut bytes = Vec::new();
            // One byte more than the limit lets the reader find that it was passed.
            reader.take(Limits::FORMAT.archive_bytes + 1).read_to_end(&mut bytes)?;
            Ok(Source::Memory(Cursor::new(bytes)))
        })
    }

    fn open(
        path: &Path,
        otherwise: impl FnOnce(Box<dyn Read + Send>) -> io::Result<Source>,
    ) -> Result<Self, InputError> {
        if path == Path::new("-") {
            let source = otherwise(Box::new(io::stdin()))
                .map_err(|error| InputError::Open { name: "stdin".into(), error })?;
            return Ok(Self { name: "stdin".into(), source });
        }
        let name = shown(path.as_os_str().as_encoded_bytes());
        let open = || {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if metadata.is_file() { Ok(Source::File(file)) } else { otherwise(Box::new(file)) }
        };
        match open() {
            Ok(source) => Ok(Self { name, source }),
            Err(error) => Err(InputError::Open { name, error }),
        }
    }

    /// Whether it lies in a file that can be opened again by its path, and so need not be held open.
    pub fn is_file(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// Verifies it from its start, handing each event to `visit`.
    pub fn verify(&mut self, visit: impl FnMut(&Manifest, &Event)) -> Result<Verified, InputError> {
        let name = self.name.clone();
        let reader = self.reader()?;
        verify(reader, Limits::FORMAT, visit).map_err(|failure| InputError::Bad { name, failure })
    }

    /// Reads it again, handing on the events that are wanted by their place, and makes sure that it still is what was
    /// verified, unless `visit` had enough before the end.
    pub fn reread(
        &mut self,
        before: &Verified,
        is_wanted: impl FnMut(u64) -> bool,
        visit: impl FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<(), InputError> {
        let name = self.name.clone();
        let reader = self.reader()?;
        match reread(reader, Limits::FORMAT, is_wanted, visit) {
            Ok(digest) if digest.is_none_or(|digest| digest == before.archive.sha256) => Ok(()),
            _ => Err(InputError::Changed { name }),
        }
    }

    fn reader(&mut self) -> Result<&mut dyn Read, InputError> {
        Ok(match &mut self.source {
            Source::File(file) => {
                file.rewind().map_err(|error| InputError::Open { name: self.name.clone(), error })?;
                file
            }
            Source::Memory(bytes) => {
                bytes.set_position(0);
                bytes
            }
            Source::Stream(reader) => reader,
        })
    }
}

/// Whether more than one of the paths is stdin, which can be read only once; that is said.
pub fn stdin_more_than_once<'a>(
    paths: impl IntoIterator<Item = &'a Path>,
    out: &crate::cli::output::Output,
) -> bool {
    let is_more = paths.into_iter().filter(|path| *path == Path::new("-")).count() > 1;
    if is_more {
        out.error("only one file can come from stdin");
    }
    is_more
}

/// Writes a result to stdout, or says that it could not.
pub fn write_result(out: &crate::cli::output::Output, bytes: &[u8]) -> bool {
    match out.result(bytes) {
        Ok(()) => true,
        Err(error) => {
            out.error(&format!("write the result: {error}"));
            false
        }
    }
}

/// Writes a file beside its target and renames it, so that nobody reads half of it and no link is followed, or says that
/// it could not.
pub fn write_file(
    out: &crate::cli::output::Output,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> bool {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = tempfile::NamedTempFile::new_in(directory).and_then(|file| {
        let mut file = BufWriter::with_capacity(1 << 16, file);
        write(&mut file)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)
    });
    if let Err(error) = &written {
        out.error(&format!("write {}: {error}", path.display()));
    }
    written.is_ok()
}

/// Reads a small file (a policy, a key, an attestation) up to `most` bytes.
pub fn read_small(path: &Path, most: u64) -> Result<Vec<u8>, InputError> {
    let name = shown(path.as_os_str().as_encoded_bytes());
    let read = || {
        let mut bytes = Vec::new();
        let reader: Box<dyn Read> =
            if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
        reader.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::other(format!("larger than {most} bytes")));
        }
        Ok(bytes)
    };
    read().map_err(|error| InputError::Open { name, error })
}
