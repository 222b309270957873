//! What can be wrong with a spool: one stable code for each. Pure.

use std::fmt;

macro_rules! codes {
    ($($variant:ident $name:literal $meaning:literal,)*) => {
        /// A stable name for one kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name, as in `chain/edited`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it means.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    Missing "chain/missing" "There is no chain, or nothing in it.",
    Begin "chain/begin" "The chain does not begin with its first entry: its beginning was deleted.",
    BegunAnew "chain/begun-anew" "The chain was removed, and another begun where runs lay already.",
    Line "chain/line" "A line in the chain is no entry: it was edited, or put there.",
    Edited "chain/edited" "An entry names another line before it than the one that is there: that one was edited.",
    Deleted "chain/deleted" "Entries between two others are gone.",
    Reordered "chain/reordered" "An entry stands at another place than it was written to, or a second time.",
    Torn "chain/torn" "The chain ends in something that is no whole entry: a writer was stopped, or the chain was cut. The next writer closes it.",
    RolledBack "chain/rolled-back" "The entry that was noted as the last one is not in the chain: it was cut, or an older copy was put in its place.",
    RunMissing "run/missing" "The directory of a run is gone, and no entry says that it was collected.",
    RunExtra "run/extra" "Something lies among the runs that no entry names: the entry was cut off, or it was put there.",
    FileMissing "file/missing" "A file of a run is gone.",
    FileChanged "file/changed" "A file of a run is not the one that its entry names.",
    FileExtra "file/extra" "Something lies in the directory of a run that its entry does not name.",
    Bundle "file/bundle" "A bundle is as its entry names it, and is not good.",
    RunId "file/run-id" "A bundle is of another run than its entry says.",
    SignedLine "signature/line" "A line that the host signed is not in the chain: it was edited, cut off, or an older copy was put in its place.",
    Unsigned "signature/missing" "The last entries are signed by none of the keys, nor is one behind them: a writer was stopped before it signed, or they were put there.",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The stable code.
    pub code: Code,
    /// The entry that it concerns, by its place.
    pub seq: Option<u64>,
    /// For a person: where, and what was found. Controls and foreign bytes in it are escaped.
    pub detail: String,
}

impl Fault {
    /// A fault of the chain as a whole.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, seq: None, detail: detail.into() }
    }

    /// A fault of one entry.
    pub fn of(code: Code, seq: u64, detail: impl Into<String>) -> Self {
        Self { code, seq: Some(seq), detail: detail.into() }
    }
}
