//! Drafts of events → their lines, one after the other. Pure.

use super::{CONTENT_TYPE, Content, Draft, Emission, Line, SOURCE, SPEC_VERSION};
use crate::canon::digest::Digest;
use crate::canon::node::Scalar;
use crate::canon::write;

/// Composes lines of one run; keeps what they have in common, and the memory they are made in.
pub(super) struct Composer<'a> {
    run_id: &'a str,
    /// Attributes of every line with their values, in order, each as it is written.
    common: Vec<(&'static str, String)>,
    layout: Layout,
    content: Content,
    sequence: u64,
    line: Line,
}

/// How a line is put together: the same for all lines with the same attributes, and most have those of the one before.
#[derive(Default)]
struct Layout {
    /// The extensions, and whether there is a subject.
    extensions: Vec<&'static str>,
    has_subject: bool,
    /// What stands before each value of the line's own, in order.
    pieces: Vec<(String, Source)>,
    end: String,
}

/// Where a value is from.
#[derive(Debug, Clone, Copy)]
enum Source {
    Hash,
    Sequence,
    Data,
    Id,
    Kind,
    Subject,
    Extension(usize),
}

impl Layout {
    fn is_of(&self, draft: &Draft<'_>) -> bool {
        !self.end.is_empty()
            && self.has_subject == draft.subject.is_some()
            && self.extensions.iter().copied().eq(draft.extensions.iter().map(|(key, _)| *key))
    }

    fn of(draft: &Draft<'_>, common: &[(&'static str, String)]) -> Self {
        let mut own = vec![
            ("assaycontenthash", Source::Hash),
            ("assayseq", Source::Sequence),
            ("data", Source::Data),
            ("id", Source::Id),
            ("type", Source::Kind),
        ];
        let has_subject = draft.subject.is_some();
        own.extend(has_subject.then_some(("subject", Source::Subject)));
        own.extend(draft.extensions.iter().enumerate().map(|(at, (key, _))| (*key, Source::Extension(at))));
        // Attribute names are ASCII, where the order of bytes is that of RFC 8785.
        own.sort_unstable_by_key(|(key, _)| *key);
        let mut common = common.iter().peekable();
        let mut text = String::from("{");
        let mut pieces = Vec::new();
        for (key, source) in own {
            while let Some((_, member)) = common.next_if(|(common, _)| *common < key) {
                text.push_str(member);
                text.push(',');
            }
            text.push('"');
            text.push_str(key);
            text.push_str("\":");
            pieces.push((std::mem::replace(&mut text, String::from(",")), source));
        }
        text.pop();
        for (_, member) in common {
            text.push(',');
            text.push_str(member);
        }
        text.push_str("}\n");
        let extensions = draft.extensions.iter().map(|(key, _)| *key).collect();
        Self { extensions, has_subject, pieces, end: text }
    }
}

impl<'a> Composer<'a> {
    /// For the lines of this run.
    pub(super) fn new(run_id: &'a str, emission: &Emission) -> Self {
        let time = emission.time.to_string();
        let text = |key, text: &str| {
            let mut member = format!("\"{key}\":");
            write::append_string(text, &mut member);
            (key, member)
        };
        let mut common = vec![
            text("assaygit", &emission.git),
            ("assaypii", "\"assaypii\":false".to_owned()),
            text("assayproducer", &emission.producer),
            text("assayproducerversion", &emission.version),
            text("assayrunid", run_id),
            ("assaysecrets", "\"assaysecrets\":false".to_owned()),
            text("datacontenttype", CONTENT_TYPE),
            text("source", SOURCE),
            text("specversion", SPEC_VERSION),
            text("time", &time),
        ];
        common.sort_unstable_by_key(|(key, _)| *key);
        Self {
            run_id,
            common,
            layout: Layout::default(),
            content: Content::default(),
            sequence: 0,
            line: Line { bytes: String::new(), content_hash: Digest::from_raw([0; 32]) },
        }
    }

    /// The next line.
    pub(super) fn compose(&mut self, draft: &Draft<'_>) -> &Line {
        let subject = draft.subject.as_deref();
        self.content.begin(|out| out.push_str(&draft.data));
        self.content.end(CONTENT_TYPE, SPEC_VERSION, subject, draft.kind);
        self.line.content_hash = Digest::of(self.content.text.as_bytes());
        if !self.layout.is_of(draft) {
            self.layout = Layout::of(draft, &self.common);
        }
        let bytes = &mut self.line.bytes;
        bytes.clear();
        for (before, source) in &self.layout.pieces {
            bytes.push_str(before);
            match source {
                Source::Hash => {
                    bytes.push('"');
                    bytes.push_str(self.line.content_hash.text().as_str());
                    bytes.push('"');
                }
                Source::Sequence => Scalar::Count(self.sequence).append(bytes),
                Source::Data => bytes.push_str(&draft.data),
                Source::Id => {
                    write::append_string(self.run_id, bytes);
                    bytes.pop();
                    bytes.push(':');
                    Scalar::Count(self.sequence).append(bytes);
                    bytes.push('"');
                }
                Source::Kind => write::append_string(draft.kind, bytes),
                Source::Subject => write::append_string(subject.unwrap_or_default(), bytes),
                Source::Extension(at) => write::append(&draft.extensions[*at].1, bytes),
            }
        }
        bytes.push_str(&self.layout.end);
        self.sequence += 1;
        &self.line
    }
}
