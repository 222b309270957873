//! What a path is relative to: the roots of a run and the variables that stand for them. Pure.
//!
//! A root is replaced at component boundaries, in paths and inside arguments; the longest root wins, ties in the
//! order of [`RootVar`]. `/` is never a root: everything would be relative to it.

use super::effort::looked_at;
use super::name::escape_into;

/// The variables, in the order that decides between roots of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootVar {
    /// Where the command was started.
    Workdir,
    /// The private temporary directory.
    Tmpdir,
    /// The user's home.
    Home,
    /// The temporary directory of whoever started the run, unless it is `/tmp`.
    CallerTmpdir,
    /// The user's runtime directory, `/run/user/1000`.
    RuntimeDir,
    /// The run's own control group, on any hierarchy.
    Cgroup,
    /// A group above the run's own, however many levels there are.
    CgroupParent,
}

impl RootVar {
    /// The variable as names have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workdir => "${WORKDIR}",
            Self::Tmpdir => "${TMPDIR}",
            Self::Home => "${HOME}",
            Self::CallerTmpdir => "${CALLER_TMPDIR}",
            Self::RuntimeDir => "${RUNTIME_DIR}",
            Self::Cgroup => "${CGROUP}",
            Self::CgroupParent => "${CGROUP_PARENT}",
        }
    }

    /// Whether it is a place for temporary files.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Tmpdir | Self::CallerTmpdir | Self::RuntimeDir)
    }

    /// Whether it is the run's control group, or one above it.
    pub fn is_cgroup(self) -> bool {
        matches!(self, Self::Cgroup | Self::CgroupParent)
    }

    /// The variable's name alone.
    pub fn name(self) -> &'static str {
        self.as_str().trim_start_matches("${").trim_end_matches('}')
    }
}

/// The run's place on one control group hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupPlace {
    /// Where the hierarchy is mounted: `/sys/fs/cgroup/unified`.
    pub mount: Vec<u8>,
    /// The run's group as an absolute path of the file tree, beneath `mount`.
    pub group: Vec<u8>,
}

/// What the caller knows about the run's places. Paths are absolute; where a place has two spellings (a link in it),
/// the resolved one comes first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roots {
    /// `${WORKDIR}`.
    pub workdir: Vec<Vec<u8>>,
    /// `${HOME}`.
    pub home: Vec<Vec<u8>>,
    /// `${TMPDIR}`: the private directory.
    pub tmpdir: Vec<Vec<u8>>,
    /// `${CALLER_TMPDIR}`; `/tmp` itself stays literal.
    pub caller_tmpdir: Vec<Vec<u8>>,
    /// `${RUNTIME_DIR}`; `/tmp` itself stays literal.
    pub runtime_dir: Vec<Vec<u8>>,
    /// The run's groups, v2 and v1.
    pub cgroups: Vec<CgroupPlace>,
    /// The user's name, for names such as `/tmp/pytest-of-alice`.
    pub user: Option<Vec<u8>>,
    /// The user's id, for names such as `/tmp/uv-1000`.
    pub uid: Option<u32>,
    /// The host's name, for names of lock files.
    pub hostname: Option<Vec<u8>>,
}

/// The roots, ready for substitution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootTable {
    /// Longest first, then by variable.
    entries: Vec<RootEntry>,
}

/// One spelling of one root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RootEntry {
    path: Vec<u8>,
    var: RootVar,
    /// Whether this is the spelling `observed.roots` tells.
    is_primary: bool,
}

/// A path with its root taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rooted<'a> {
    /// The variable it began with.
    pub var: RootVar,
    /// What is left: empty, or beginning with `/`.
    pub rest: &'a [u8],
    /// False when the path used another spelling than `observed.roots` has.
    pub is_primary: bool,
}

impl RootTable {
    /// The table of `roots`.
    pub fn new(roots: &Roots) -> Self {
        let mut entries: Vec<RootEntry> = Vec::new();
        let mut add = |paths: &[Vec<u8>], var: RootVar, is_primary: bool| {
            for (position, path) in paths.iter().enumerate() {
                let path = without_trailing_slashes(path);
                let is_usable = path.first() == Some(&b'/') && path.len() > 1;
                let is_literal =
                    matches!(var, RootVar::CallerTmpdir | RootVar::RuntimeDir) && path == b"/tmp";
                if is_usable && !is_literal {
                    entries.push(RootEntry {
                        path: path.to_vec(),
                        var,
                        is_primary: is_primary && position == 0,
                    });
                }
            }
        };
        add(&roots.workdir, RootVar::Workdir, true);
        add(&roots.tmpdir, RootVar::Tmpdir, true);
        add(&roots.home, RootVar::Home, true);
        add(&roots.caller_tmpdir, RootVar::CallerTmpdir, true);
        add(&roots.runtime_dir, RootVar::RuntimeDir, true);
        for place in &roots.cgroups {
            if !is_beneath(&place.group, &place.mount) {
                continue;
            }
            // A run has a group on each hierarchy, and a reader is told of each fold: none is the primary one.
            add(std::slice::from_ref(&place.group), RootVar::Cgroup, false);
            let mut above = parent(&place.group);
            while above.len() > place.mount.len() && is_beneath(above, &place.mount) {
                add(&[above.to_vec()], RootVar::CgroupParent, false);
                above = parent(above);
            }
        }
        entries.sort_by(|a, b| b.path.len().cmp(&a.path.len()).then(a.var.cmp(&b.var)));
        // Of two spellings with the same bytes, the first in order is the only one that can win.
        entries.dedup_by(|later, earlier| later.path == earlier.path);
        Self { entries }
    }

    /// The root that `path` lies in, if any.
    pub fn split<'a>(&self, path: &'a [u8]) -> Option<Rooted<'a>> {
        self.entries.iter().find_map(|entry| {
            let rest = path.strip_prefix(entry.path.as_slice())?;
            let is_at_boundary = rest.is_empty() || rest[0] == b'/';
            // A group above the run's is a root only itself and for its own files, never for other groups in it.
            let is_in_reach =
                entry.var != RootVar::CgroupParent || !rest[rest.len().min(1)..].contains(&b'/');
            (is_at_boundary && is_in_reach).then_some(Rooted {
                var: entry.var,
                rest,
                is_primary: entry.is_primary,
            })
        })
    }

    /// The roots that are told in `observed.roots`, with the spelling that undoes them.
    pub fn primary(&self) -> impl Iterator<Item = (RootVar, &[u8])> {
        self.entries.iter().filter(|entry| entry.is_primary).map(|entry| (entry.var, entry.path.as_slice()))
    }

    /// Every spelling of every root, the longest first.
    pub fn all(&self) -> impl Iterator<Item = (RootVar, &[u8])> {
        self.entries.iter().map(|entry| (entry.var, entry.path.as_slice()))
    }

    /// Appends `text` (an argument, a link's text) in `Name` form, with roots inside it replaced.
    pub fn substitute_into(&self, text: &[u8], out: &mut String) {
        let mut from = 0;
        // Where the word begins that `at` lies in, and whether it has a slash before `at`.
        let (mut word, mut has_slash) = (0, false);
        let mut skip_to = 0;
        looked_at(text.len());
        for at in 0..text.len() {
            if at >= skip_to
                && text[at] == b'/'
                && is_path_start(text, word, at, has_slash)
                && let Some((var, len)) = self.match_in_text(&text[at..])
            {
                escape_into(&text[from..at], out);
                out.push_str(var.as_str());
                skip_to = at + len;
                from = skip_to;
            }
            if is_delimiter(text[at]) {
                (word, has_slash) = (at + 1, false);
            } else {
                has_slash |= text[at] == b'/';
            }
        }
        escape_into(&text[from..], out);
    }

    fn match_in_text(&self, text: &[u8]) -> Option<(RootVar, usize)> {
        self.entries.iter().filter(|entry| entry.var != RootVar::CgroupParent).find_map(|entry| {
            let rest = text.strip_prefix(entry.path.as_slice())?;
            let ends = rest.first().is_none_or(|&byte| byte == b'/' || is_delimiter(byte));
            ends.then_some((entry.var, entry.path.len()))
        })
    }
}

/// Whether an absolute path can begin at `at`: at the start, after a delimiter, glued to an option (`-I/home/x`),
/// or after `file://`. In `/mnt/home/x` and `../home/x` none begins at `/home`.
fn is_path_start(text: &[u8], word: usize, at: usize, has_slash: bool) -> bool {
    // Of what stands before it two bytes are looked at, and never all.
    looked_at(2);
    let before = &text[word..at];
    before.is_empty()
        || (before[0] == b'-' && !has_slash)
        || (before == b"//" && text[..word].ends_with(b"file:"))
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'=' | b':' | b',' | b';' | b'\'' | b'"' | b'`' | b'(' | b')' | b'[' | b']' | b'{' | b'}')
        || matches!(byte, b'<' | b'>' | b'@' | b'|' | b'&' | b'?' | b'#' | b'*' | b'!' | b'\\')
        || byte.is_ascii_whitespace()
        || byte == 0
}

fn without_trailing_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// The directory above an absolute path, without a trailing slash; empty for `/x`.
pub fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&byte| byte == b'/').map_or(&[], |slash| &path[..slash])
}

/// Whether `path` is `directory` or lies in it.
pub fn is_beneath(path: impl AsRef<[u8]>, directory: impl AsRef<[u8]>) -> bool {
    let directory = without_trailing_slashes(directory.as_ref());
    path.as_ref().strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> RootTable {
        RootTable::new(&Roots {
            workdir: vec![b"/home/u/src/w".to_vec(), b"/link/w/".to_vec()],
            home: vec![b"/home/u".to_vec()],
            tmpdir: vec![b"/run/assay/t".to_vec()],
            caller_tmpdir: vec![b"/tmp".to_vec()],
            runtime_dir: vec![b"/run/user/7".to_vec()],
            cgroups: vec![CgroupPlace {
                mount: b"/sys/fs/cgroup".to_vec(),
                group: b"/sys/fs/cgroup/a/b/run".to_vec(),
            }],
            ..Roots::default()
        })
    }

    fn text(input: &str, want: &str) {
        let mut out = String::new();
        roots().substitute_into(input.as_bytes(), &mut out);
        assert_eq!(out, want, "{input}");
    }

    fn path(input: &str, want: Option<(&str, &str)>) {
        let got = roots()
            .split(input.as_bytes())
            .map(|r| (r.var.as_str(), std::str::from_utf8(r.rest).unwrap().to_owned()));
        assert_eq!(got, want.map(|(var, rest)| (var, rest.to_owned())), "{input}");
    }

    #[test]
    fn the_longest_root_wins_at_component_boundaries() {
        path("/home/u/src/w/a", Some(("${WORKDIR}", "/a")));
        path("/home/u/src/ww", Some(("${HOME}", "/src/ww")));
        path("/home/uu", None);
        path("/link/w", Some(("${WORKDIR}", "")));
        path("/tmp/x", None);
        path("/run/user/7/bus", Some(("${RUNTIME_DIR}", "/bus")));
        path("/run/user/77/bus", None);
        path("/", None);
    }

    #[test]
    fn the_tmp_of_all_stays_literal_whatever_it_is_used_for() {
        let tmp = || vec![b"/tmp".to_vec(), b"/srv/link-to-tmp".to_vec()];
        let table = RootTable::new(&Roots { caller_tmpdir: tmp(), runtime_dir: tmp(), ..Roots::default() });
        assert_eq!(table.split(b"/tmp/x"), None);
        assert_eq!(table.split(b"/srv/link-to-tmp/x").unwrap().var, RootVar::CallerTmpdir);
        let table = RootTable::new(&Roots { runtime_dir: vec![b"/tmp/run".to_vec()], ..Roots::default() });
        assert_eq!(table.split(b"/tmp/run/x").unwrap().var, RootVar::RuntimeDir);
    }

    #[test]
    fn groups_fold_and_so_do_those_above_but_not_their_neighbours() {
        path("/sys/fs/cgroup/a/b/run/memory.max", Some(("${CGROUP}", "/memory.max")));
        path("/sys/fs/cgroup/a/b/cpu.max", Some(("${CGROUP_PARENT}", "/cpu.max")));
        path("/sys/fs/cgroup/a", Some(("${CGROUP_PARENT}", "")));
        path("/sys/fs/cgroup/a/other/cpu.max", None);
        path("/sys/fs/cgroup/cpu.max", None);
    }

    #[test]
    fn roots_inside_arguments_are_replaced_only_where_a_path_begins() {
        text("-I/home/u/x", "-I${HOME}/x");
        text("--prefix=/home/u/src/w", "--prefix=${WORKDIR}");
        text("a:/home/u:/home/u/src/w/b", "a:${HOME}:${WORKDIR}/b");
        text("file:///home/u/x", "file://${HOME}/x");
        text("cat '/home/u/x' >/run/assay/t/y", "cat '${HOME}/x' >${TMPDIR}/y");
        text("/mnt/home/u/x", "/mnt/home/u/x");
        text("../home/u/x", "../home/u/x");
        text("x/home/u", "x/home/u");
        text("http://host/home/u/x", "http://host/home/u/x");
        text("/home/u2 /home/u.bak /home/u", "/home/u2 /home/u.bak ${HOME}");
        text("${HOME}/x", "\\x24{HOME}/x");
    }

    #[test]
    fn the_whole_tree_is_never_a_root_and_ties_go_by_order() {
        let table = RootTable::new(&Roots {
            workdir: vec![b"/root".to_vec()],
            home: vec![b"/root/".to_vec()],
            tmpdir: vec![b"/".to_vec()],
            ..Roots::default()
        });
        assert_eq!(table.split(b"/root/x").unwrap().var, RootVar::Workdir);
        assert_eq!(table.split(b"/x"), None);
        assert_eq!(table.primary().count(), 1);
    }
}
