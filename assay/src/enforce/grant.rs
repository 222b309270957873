//! A ruleset: what Landlock is to be told, as plain values that travel to the launched child. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::survey::Kind;
use crate::host::Right;
use crate::policy::rule::{Access, AccessSet};

/// What Landlock is to be told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ruleset {
    /// Rights that are restricted: what no grant allows is refused. None: Landlock restricts nothing.
    pub handled: BTreeSet<Right>,
    /// Rights beneath paths.
    #[serde(with = "grants")]
    pub paths: BTreeMap<Vec<u8>, BTreeSet<Right>>,
    /// TCP ports that may be connected to and bound.
    pub ports: BTreeSet<u16>,
}

/// How the system calls of the command are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// Not at all.
    #[default]
    None,
    /// No sockets of other families, no typing into a terminal.
    Families,
    /// Besides, no IPv4 and IPv6 sockets.
    NoInternet,
}

/// Paths are bytes; JSON has text. They travel in the escapes of every other name of ours.
mod grants {
    use std::collections::{BTreeMap, BTreeSet};

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::host::Right;
    use crate::profile::name::{Name, unescape};

    type Grants = BTreeMap<Vec<u8>, BTreeSet<Right>>;

    pub(super) fn serialize<S: Serializer>(grants: &Grants, to: S) -> Result<S::Ok, S::Error> {
        let text: BTreeMap<_, _> = grants
            .iter()
            .map(|(path, rights)| (Name::from_bytes(path).as_str().to_owned(), rights))
            .collect();
        text.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Grants, D::Error> {
        let text = BTreeMap::<String, BTreeSet<Right>>::deserialize(from)?;
        text.into_iter()
            .map(|(path, rights)| {
                let bytes =
                    unescape(&path).ok_or_else(|| D::Error::custom("a path is not in its escaped form"))?;
                Ok((bytes, rights))
            })
            .collect()
    }
}

/// One path, likewise.
pub mod path_text {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::profile::name::{Name, unescape};

    /// Writes it.
    pub fn serialize<S: Serializer>(path: &[u8], to: S) -> Result<S::Ok, S::Error> {
        Name::from_bytes(path).as_str().serialize(to)
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        unescape(&String::deserialize(from)?)
            .ok_or_else(|| D::Error::custom("a path is not in its escaped form"))
    }
}

/// A list of paths, likewise.
pub mod path_list {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::profile::name::{Name, unescape};

    /// Writes it.
    pub fn serialize<S: Serializer>(paths: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        let text: Vec<_> = paths.iter().map(|path| Name::from_bytes(path).to_string()).collect();
        text.serialize(to)
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
        Vec::<String>::deserialize(from)?
            .iter()
            .map(|path| unescape(path).ok_or_else(|| D::Error::custom("a path is not in its escaped form")))
            .collect()
    }
}

/// The rights an access to something of this kind comes to. Rights that only make sense on a directory are never
/// put on anything else: the kernel refuses such a rule.
pub fn rights_of(access: AccessSet, kind: Kind) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    if access.has(Access::Read) {
        rights.extend([Right::ReadFile, Right::ReadDir]);
    }
    if access.has(Access::List) {
        rights.insert(Right::ReadDir);
    }
    if access.has(Access::Write) {
        rights.extend([
            Right::WriteFile,
            Right::Truncate,
            Right::IoctlDev,
            Right::ResolveUnix,
            Right::RemoveDir,
            Right::RemoveFile,
            Right::MakeChar,
            Right::MakeDir,
            Right::MakeReg,
            Right::MakeSock,
            Right::MakeFifo,
            Right::MakeBlock,
            Right::MakeSym,
            Right::Refer,
        ]);
    }
    if access.has(Access::Execute) {
        // The kernel opens a program for reading in order to start it.
        rights.extend([Right::Execute, Right::ReadFile]);
    }
    if kind == Kind::File {
        rights.retain(|right| right.is_for_files());
    }
    rights
}

impl Ruleset {
    /// Grants more beneath a path.
    pub fn grant(&mut self, path: &[u8], rights: BTreeSet<Right>) {
        if !rights.is_empty() {
            self.paths.entry(path.to_vec()).or_default().extend(rights);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ruleset_travels_unharmed() {
        let mut ruleset =
            Ruleset { handled: Right::ALL.into_iter().collect(), ports: [443].into(), ..Ruleset::default() };
        ruleset.grant(b"/a\xff\n\\/${HOME}", rights_of(AccessSet::ALL, Kind::Directory));
        let text = serde_json::to_string(&ruleset).unwrap();
        assert_eq!(serde_json::from_str::<Ruleset>(&text).unwrap(), ruleset);
    }

    #[test]
    fn a_device_gets_no_right_of_a_directory() {
        let rights = rights_of(AccessSet::READ_WRITE, Kind::File);
        assert!(rights.iter().all(|right| right.is_for_files()));
        assert!(rights.contains(&Right::ReadFile) && rights.contains(&Right::WriteFile));
    }
}
