//! The rules of a policy, resolved: every path absolute, every variable replaced. Pure.

use super::net::NetRule;
use super::pattern::Pattern;
use super::problem::{Place, Problem};
use crate::canon::digest::Digest;

/// What a program may do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Read a file, list a directory.
    Read,
    /// Change content, or make, remove and move names.
    Write,
    /// Start as a program; includes reading that file, as the kernel reads a program to start it.
    Execute,
    /// List directories, and nothing else that `read` includes.
    List,
}

impl Access {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Execute, Self::List];

    /// The word in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::List => "list",
        }
    }
}

/// A set of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AccessSet(u8);

impl AccessSet {
    /// None.
    pub const EMPTY: Self = Self(0);
    /// Read and execute: what a bare path in an allow list means.
    pub const READ_EXECUTE: Self = Self(0b101);
    /// Read and write.
    pub const READ_WRITE: Self = Self(0b011);
    /// Every access: what a bare path in a deny list means. `read` includes `list`.
    pub const ALL: Self = Self(0b111);

    /// A set of one.
    pub fn of(access: Access) -> Self {
        Self(match access {
            Access::Read => 0b001,
            Access::Write => 0b010,
            Access::Execute => 0b100,
            Access::List => 0b1000,
        })
    }

    /// Whether `access` is in it.
    pub fn has(self, access: Access) -> bool {
        self.0 & Self::of(access).0 != 0
    }

    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in this one and not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The words, in order, as in `read, write`.
    pub fn words(self) -> String {
        let words: Vec<_> =
            Access::ALL.into_iter().filter(|access| self.has(*access)).map(Access::as_str).collect();
        words.join(", ")
    }
}

impl FromIterator<Access> for AccessSet {
    fn from_iter<I: IntoIterator<Item = Access>>(accesses: I) -> Self {
        accesses.into_iter().fold(Self::EMPTY, |set, access| set.union(Self::of(access)))
    }
}

/// A rule about paths: of `fs`, or of `exec` (there the access is execute).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    /// As it is written in the policy.
    pub text: String,
    /// Where it is written.
    pub place: Place,
    /// What it allows or denies.
    pub access: AccessSet,
    /// The path as written, and where it really leads when links are followed.
    pub patterns: Vec<Pattern>,
    /// Whether it comes from `base: system`.
    pub is_base: bool,
}

impl PathRule {
    /// Whether it speaks about `access` to `path`.
    pub fn applies(&self, access: Access, path: &[u8]) -> bool {
        let is_meant = self.access.has(access) || access == Access::List && self.access.has(Access::Read);
        is_meant && self.patterns.iter().any(|pattern| pattern.covers(path))
    }
}

/// What stands beneath a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// What any program needs.
    System,
    /// Nothing.
    None,
}

/// A policy, resolved for one work directory, home and temporary directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How it was named: the file, or `builtin:minimal`.
    pub name: String,
    /// What stands beneath it.
    pub base: Base,
    /// `fs.allow`, the base's rules first.
    pub fs_allow: Vec<PathRule>,
    /// `fs.deny`.
    pub fs_deny: Vec<PathRule>,
    /// `net.allow`.
    pub net_allow: Vec<NetRule>,
    /// `net.deny`.
    pub net_deny: Vec<NetRule>,
    /// `exec.allow`, when there is one: then only what it lists may run.
    pub exec_allow: Option<Vec<PathRule>>,
    /// `exec.deny`.
    pub exec_deny: Vec<PathRule>,
    /// `env.allow`: names, with `*`.
    pub env_allow: Vec<String>,
    /// The host's name servers: asking them is implied by any rule of `net.allow` that gives a host by name.
    pub nameservers: Vec<std::net::IpAddr>,
    /// Roots for spelling paths the way a policy does, longest first: variable text and absolute path.
    pub roots: Vec<(String, Vec<u8>)>,
    /// What is odd but not wrong.
    pub warnings: Vec<Problem>,
    /// SHA-256 of the policy's bytes; with `extends`, of the list of the digests of all its files.
    pub digest: Digest,
}

impl Policy {
    /// A path as a policy would spell it: under a variable where one fits, escaped where it must be.
    pub fn spell(&self, path: &[u8]) -> String {
        for (variable, root) in &self.roots {
            if root.as_slice() == b"/" {
                continue;
            }
            if let Some(rest) = path.strip_prefix(root.as_slice())
                && (rest.is_empty() || rest.starts_with(b"/"))
            {
                return format!("{variable}{}", spell_bytes(rest));
            }
        }
        spell_bytes(path)
    }
}

/// Bytes of a path in a policy's escapes: the form of [`crate::profile::name`], and `\x2a` for `*`, `\x5b` for `[`.
pub fn spell_bytes(path: &[u8]) -> String {
    crate::profile::name::Name::from_bytes(path).as_str().replace('*', "\\x2a").replace('[', "\\x5b")
}

/// Text as a YAML scalar: plain where that is safe, else in single quotes.
pub fn yaml_scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/' || c == '.')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@%".contains(c))
        && text.contains('/');
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}
