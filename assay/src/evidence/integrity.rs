//! What can be wrong with a bundle: one stable code for each, and the limits of every reader. Pure.

use std::fmt;

use crate::canon::read::{Fault, ReadError};

/// How much a reader takes before it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the archive as it lies on disk.
    pub archive_bytes: u64,
    /// Bytes after decompression, tar headers included.
    pub decoded_bytes: u64,
    /// Bytes of one line, and of the manifest.
    pub line_bytes: usize,
    /// Events.
    pub events: u64,
}

impl Limits {
    /// The limits of the format: nothing larger is a bundle.
    pub const FORMAT: Self =
        Self { archive_bytes: 100 << 20, decoded_bytes: 1 << 30, line_bytes: 1 << 20, events: 2_000_000 };
}

/// What is wrong with a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Failure {
    /// The stable code.
    pub code: Code,
    /// For a person: where, and what was found. Controls and foreign bytes in it are escaped.
    pub detail: String,
}

impl Failure {
    /// A failure with its detail.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// A text that is not the strict JSON of the format; `place` says which text.
    pub fn json(place: &str, error: &ReadError) -> Self {
        let code = match error.fault {
            Fault::ByteOrderMark => Code::JsonBom,
            Fault::Encoding => Code::JsonEncoding,
            Fault::Syntax | Fault::End | Fault::Trailing | Fault::Control => Code::JsonSyntax,
            Fault::LoneSurrogate => Code::JsonSurrogate,
            Fault::DuplicateKey(_) => Code::JsonDuplicateKey,
            Fault::Float => Code::JsonFloat,
            Fault::IntegerRange => Code::JsonInteger,
            Fault::Depth => Code::JsonDepth,
        };
        Self::new(code, format!("{place}, byte {}: {}", error.offset, error.fault))
    }
}

macro_rules! codes {
    ($($variant:ident $name:literal $meaning:literal,)*) => {
        /// A stable name for one kind of damage.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the checks.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name, as in `integrity/content-hash`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => concat!("integrity/", $name),)* }
            }

            /// What it means.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    Read "read" "The bytes could not be read from their source.",
    ArchiveLimit "archive-limit" "The archive is larger than 100 MiB.",
    Gzip "gzip" "Not gzip, or its data, length or checksum is damaged, or it ends early.",
    DecodedLimit "decoded-limit" "It decodes to more than 1 GiB.",
    Tar "tar" "A tar header is damaged, or the archive ends inside a member or before the two zero blocks.",
    MemberType "member-type" "A member is not a plain file: a link, directory, device, sparse file or extended header.",
    MemberName "member-name" "A member is not named `manifest.json` or `events.ndjson` exactly.",
    MemberOrder "member-order" "A member is missing, doubled, or not in the order manifest, events.",
    Trailing "trailing" "Something follows the archive: another gzip member, or bytes after the end of the tar.",
    LineLimit "line-limit" "A line, or the manifest, is longer than 1 MiB.",
    EventLimit "event-limit" "There are more than 2000000 events.",
    LineEnd "line-end" "The last line of the events does not end in LF.",
    JsonBom "json-bom" "A JSON text begins with a byte order mark.",
    JsonEncoding "json-encoding" "A JSON text is not UTF-8.",
    JsonSyntax "json-syntax" "A text is not one JSON value.",
    JsonDuplicateKey "json-duplicate-key" "A key occurs twice in one object.",
    JsonSurrogate "json-surrogate" "A string holds half a surrogate pair.",
    JsonFloat "json-float" "A number has a fraction or an exponent, or is minus zero.",
    JsonInteger "json-integer" "An integer is beyond 2^53-1 in either direction.",
    JsonDepth "json-depth" "Arrays and objects nest deeper than 64.",
    Version "version" "The manifest's `schema_version` is not one this reader knows.",
    Manifest "manifest" "The manifest lacks something, or something in it has the wrong form.",
    Algorithms "algorithms" "The manifest names other algorithms than those of the format.",
    BundleId "bundle-id" "`bundle_id` is not the run root.",
    Event "event" "An event lacks an attribute, or one has the wrong form.",
    Producer "producer" "An event's producer or its version is not the manifest's.",
    RunId "run-id" "An event's run id is not the manifest's.",
    Sequence "sequence" "The sequence does not count 0, 1, 2 and so on.",
    EventId "event-id" "An event's id is not its run id, a colon and its sequence number.",
    ContentHash "content-hash" "An event's content hash is not that of its content.",
    NotCanonical "not-canonical" "The manifest or a line of the events is not the canonical JSON (RFC 8785) of its value: white space, a line feed after the manifest, another order of keys, another spelling of a string.",
    FileSize "file-size" "The events have another length than the manifest says.",
    FileHash "file-hash" "The events have another digest than the manifest says.",
    EventCount "event-count" "There are more or fewer events than the manifest says.",
    RunRoot "run-root" "The run root is not that of the events.",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A short, harmless form of text that may be hostile, for details.
pub fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 80;
    let name = crate::profile::name::Name::from_bytes(&bytes[..bytes.len().min(MOST)]);
    let mut text = crate::profile::name::harmless(name.as_str()).into_owned();
    if bytes.len() > MOST {
        text.push('\u{2026}');
    }
    text
}
