//! What every path of the run is called in the identity, and by which rules. Pure.
//!
//! Roots first, then component by component from the root down, each with what the run's record proves about the
//! path up to there. A temporary file that was renamed onto its target has two names: its own pattern, and its
//! target's, under which its writing is told.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::observe::observation::PathState;

use super::canonical::Canonicalizer;
use super::content_address::{Store, fan_out_of, fold_content_address};
use super::name::escape_into;
use super::paths::{Moved, PathId};
use super::redact::find_key_shapes;
use super::roots::{RootTable, RootVar, is_beneath, parent};
use super::secrets::Secrets;
use super::volatile::{FoldedName, Proof, Template, find, fold, fold_text, is_derived};

/// What a path is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Naming {
    /// Its name, secrets marked.
    pub text: String,
    /// The rules that made it differ from the path; roots that `observed.roots` undoes are not among them.
    pub rules: Vec<&'static str>,
    /// Set when the path itself is a temporary name that became another: its own pattern.
    pub own: Option<String>,
}

/// Where a walk down a path stands.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts, each asked for by name")]
struct Place {
    text: String,
    rules: Vec<&'static str>,
    is_made: bool,
    is_gone: bool,
    is_in_temp: bool,
    is_in_git: bool,
    own: Option<String>,
}

/// Names paths.
pub struct Namer<'a> {
    run: &'a Canonicalizer,
    bytes: Vec<&'a [u8]>,
    roots: RootTable,
    templates: Vec<Template>,
    clock: Option<(u64, u64)>,
    user: Option<&'a [u8]>,
    fan_out: HashSet<&'a [u8]>,
    places: HashMap<&'a [u8], Rc<Place>>,
    known: HashMap<PathId, Rc<Naming>>,
    secrets: Secrets,
}

/// How many moves are followed: a temporary name of a temporary name.
const MAX_MOVES: u8 = 8;

impl<'a> Namer<'a> {
    /// A namer for a run that ended at this time; `secrets` are those of its arguments.
    pub fn new(run: &'a Canonicalizer, ended_at: Option<u64>, secrets: Secrets) -> Self {
        let bytes = run.paths.all_bytes();
        let fan_out = bytes.iter().flat_map(|path| fan_out_of(path)).collect();
        let started_at = run.context.started_at;
        Self {
            roots: RootTable::new(&run.context.roots),
            templates: run
                .templates
                .iter()
                .map(|(prefix, len, suffix)| Template {
                    prefix: prefix.clone(),
                    len: *len,
                    suffix: suffix.clone(),
                })
                .collect(),
            clock: started_at.map(|start| (start, ended_at.unwrap_or(start).max(start))),
            user: run.context.roots.user.as_deref(),
            fan_out,
            places: HashMap::new(),
            known: HashMap::new(),
            secrets,
            run,
            bytes,
        }
    }

    /// The roots.
    pub fn roots(&self) -> &RootTable {
        &self.roots
    }

    /// The secrets, to be written in.
    pub fn into_secrets(self) -> Secrets {
        self.secrets
    }

    /// The secrets so far.
    pub fn secrets(&mut self) -> &mut Secrets {
        &mut self.secrets
    }

    /// The path as it was seen.
    pub fn bytes(&self, id: PathId) -> &'a [u8] {
        self.bytes[id.0 as usize]
    }

    /// What `id` is called.
    pub fn name(&mut self, id: PathId) -> Rc<Naming> {
        if let Some(known) = self.known.get(&id) {
            return Rc::clone(known);
        }
        let naming = Rc::new(self.name_new(id));
        self.known.insert(id, Rc::clone(&naming));
        naming
    }

    /// What a symlink's text is called.
    pub fn link_text(&mut self, link: PathId, text: PathId) -> Naming {
        let bytes = self.bytes(text);
        if bytes.first() == Some(&b'/') {
            let place = self.place(bytes, MAX_MOVES);
            let is_dir = bytes.len() > 1 && bytes.ends_with(b"/");
            let slash = if is_dir { "/" } else { "" };
            return Naming { text: format!("{}{slash}", place.text), rules: place.rules.clone(), own: None };
        }
        // A name beside the link: it is called what that file is called.
        if !bytes.contains(&b'/') {
            let mut beside = parent(self.bytes(link)).to_vec();
            beside.push(b'/');
            beside.extend_from_slice(bytes);
            if let Some(id) = self.run.paths.find(&beside) {
                let naming = self.name(id);
                if naming.rules.iter().any(|rule| *rule != "root-alias") {
                    let last = naming.text.rsplit('/').next().unwrap_or_default().to_owned();
                    return Naming { text: last, rules: naming.rules.clone(), own: None };
                }
            }
        }
        let life = *self.run.paths.life(link);
        let run = self.run;
        let is_actor = |id: u32| run.processes.is_related(id, &life.actors);
        let proof = Proof {
            is_made: life.made.is_some(),
            is_gone: !life.is_alive,
            is_in_temp: false,
            is_made_read_write: false,
            is_actor: &is_actor,
            templates: &[],
            clock: self.clock,
            user: None,
            hostname: run.context.roots.hostname.as_deref(),
        };
        let folded = if self.is_named_in_arguments(bytes) { None } else { fold_text(bytes, &proof) };
        match folded {
            Some(FoldedName { text, rules }) => Naming { text, rules, own: None },
            None => Naming { text: self.plain(bytes), rules: Vec::new(), own: None },
        }
    }

    /// What an abstract socket is called, bound by the run or not.
    pub fn abstract_name(&mut self, name: &[u8], is_bound: bool) -> Naming {
        // The kernel's own choice, when a socket is bound to no name.
        if is_bound && name.len() == 5 && name.iter().all(u8::is_ascii_hexdigit) {
            return Naming { text: "@${RANDOM}".into(), rules: vec!["autobind"], own: None };
        }
        let run = self.run;
        let is_actor = |id: u32| run.processes.is_task(id);
        let proof = Proof {
            is_made: is_bound,
            is_gone: is_bound,
            is_in_temp: false,
            is_made_read_write: false,
            is_actor: &is_actor,
            templates: &[],
            clock: self.clock,
            user: None,
            hostname: None,
        };
        let folded = if self.is_named_in_arguments(name) { None } else { fold_text(name, &proof) };
        if let Some(FoldedName { text, rules }) = folded {
            return Naming { text: format!("@{text}"), rules, own: None };
        }
        let mut text = String::from("@");
        let found = find_key_shapes(name);
        let roots = &self.roots;
        self.secrets.mark(name, &found, &mut text, |plain, out| roots.substitute_into(plain, out));
        Naming { text, rules: Vec::new(), own: None }
    }

    fn name_new(&mut self, id: PathId) -> Naming {
        let bytes = self.bytes(id);
        match self.run.paths.life(id).state {
            PathState::Resolved | PathState::LookedUpLate | PathState::Unverified | PathState::Lexical
                if bytes.first() == Some(&b'/') =>
            {
                let place = self.place(bytes, MAX_MOVES);
                Naming { text: place.text.clone(), rules: place.rules.clone(), own: place.own.clone() }
            }
            PathState::Nameless => self.nameless(bytes),
            PathState::Cut => Naming { text: format!("${{CUT}}{}", self.plain(bytes)), ..Naming::default() },
            PathState::Unreadable => {
                Naming { text: format!("${{UNREADABLE}}{}", self.plain(bytes)), ..Naming::default() }
            }
            PathState::Resolved
            | PathState::LookedUpLate
            | PathState::Unverified
            | PathState::Lexical
            | PathState::Literal => Naming { text: self.plain(bytes), ..Naming::default() },
        }
    }

    /// `pipe:[123]`, `memfd:name`, `/dir/name (deleted)`, `/dir/#unnamed`. The last two are written in front of the path,
    /// where no real name can have it: real ones begin with a slash or a variable.
    fn nameless(&mut self, bytes: &'a [u8]) -> Naming {
        let parts = if bytes.first() == Some(&b'/') {
            let deleted = bytes.strip_suffix(b" (deleted)").map(|path| ("deleted:", path, ""));
            deleted.or_else(|| bytes.strip_suffix(b"/#unnamed").map(|directory| ("unnamed:", directory, "/")))
        } else {
            None
        };
        if let Some((what, path, slash)) = parts {
            let place = self.place(path, MAX_MOVES);
            let path = place.own.as_ref().unwrap_or(&place.text);
            let slash = if path == "/" { "" } else { slash };
            let mut rules = place.rules.clone();
            add_rule(&mut rules, "nameless");
            return Naming { text: format!("{what}{path}{slash}"), rules, own: None };
        }
        let number = bytes.iter().position(|&byte| byte == b'[');
        if let Some(open) = number
            && bytes.ends_with(b"]")
            && bytes[open + 1..bytes.len() - 1].iter().all(u8::is_ascii_digit)
        {
            return Naming { text: self.plain(&bytes[..open]), rules: vec!["nameless"], own: None };
        }
        let mut text = String::new();
        self.roots.substitute_into(bytes, &mut text);
        Naming { text, ..Naming::default() }
    }

    fn plain(&mut self, bytes: &[u8]) -> String {
        let mut text = String::new();
        let mut found = find_key_shapes(bytes);
        self.secrets.add_learned(bytes, &mut found);
        self.secrets.mark(bytes, &found, &mut text, escape_into);
        text
    }

    fn is_named_in_arguments(&self, name: &[u8]) -> bool {
        self.run.context.command.iter().any(|argument| is_word_of(argument, name))
    }

    /// The place of an absolute path: from the deepest place known, down.
    fn place(&mut self, path: &'a [u8], moves: u8) -> Rc<Place> {
        if let Some(place) = self.places.get(path) {
            return Rc::clone(place);
        }
        let (start, mut place) = self.start(path);
        let mut place_end = start;
        // Components left, from the right, until one whose place is known.
        let mut ends = Vec::new();
        let mut end = path.len();
        while end > start {
            if let Some(known) = self.places.get(&path[..end]) {
                place = Rc::clone(known);
                place_end = end;
                break;
            }
            ends.push(end);
            end = path[..end].iter().rposition(|&byte| byte == b'/').unwrap_or(start).max(start);
        }
        for end in ends.into_iter().rev() {
            let name = &path[place_end..end];
            let name = name.strip_prefix(b"/").unwrap_or(name);
            if !name.is_empty() {
                place = Rc::new(self.step(&place, &path[..end], name, moves));
            }
            // A place below a move is right only as deep as moves were followed from here.
            if moves == MAX_MOVES {
                self.places.insert(&path[..end], Rc::clone(&place));
            }
            place_end = end;
        }
        if place.text.is_empty() { Rc::new(Place { text: "/".into(), ..Place::default() }) } else { place }
    }

    /// Takes roots and the names the kernel numbers off the front of a path: where they end, and what they are.
    fn start(&self, path: &[u8]) -> (usize, Rc<Place>) {
        if let Some((end, text)) = self.proc_start(path) {
            return (end, Rc::new(Place { text, rules: vec!["proc-pid"], ..Place::default() }));
        }
        if let Some(rest) = path.strip_prefix(b"/dev/pts/")
            && !rest.is_empty()
            && rest.iter().all(u8::is_ascii_digit)
        {
            let text = "/dev/pts/${PTS}".into();
            return (path.len(), Rc::new(Place { text, rules: vec!["terminal"], ..Place::default() }));
        }
        if let Some(rooted) = self.roots.split(path) {
            let rules = match rooted.var {
                RootVar::Cgroup | RootVar::CgroupParent => vec!["cgroup"],
                _ if rooted.is_primary => Vec::new(),
                _ => vec!["root-alias"],
            };
            let place = Place {
                text: rooted.var.as_str().into(),
                rules,
                is_gone: rooted.var == RootVar::Tmpdir,
                is_in_temp: matches!(rooted.var, RootVar::Tmpdir | RootVar::CallerTmpdir),
                ..Place::default()
            };
            return (path.len() - rooted.rest.len(), Rc::new(place));
        }
        for directory in [&b"/tmp"[..], b"/var/tmp", b"/dev/shm"] {
            if is_beneath(path, directory) {
                let mut text = String::new();
                escape_into(directory, &mut text);
                return (directory.len(), Rc::new(Place { text, is_in_temp: true, ..Place::default() }));
            }
        }
        (0, Rc::new(Place::default()))
    }

    /// `/proc/<pid>`, `/proc/<pid>/task/<tid>` and `/proc/<pid>/map_files/<addresses>`.
    fn proc_start(&self, path: &[u8]) -> Option<(usize, String)> {
        let rest = path.strip_prefix(b"/proc/")?;
        let mut parts = rest.split(|&byte| byte == b'/');
        let first = parts.next()?;
        let task_name = |name: &[u8]| match name {
            b"self" | b"thread-self" => Some("${PID}"),
            _ if !name.is_empty() && name.iter().all(u8::is_ascii_digit) => {
                let id = std::str::from_utf8(name).ok().and_then(|text| text.parse().ok());
                Some(if id.is_some_and(|id| self.run.processes.is_task(id)) {
                    "${PID}"
                } else {
                    "${OTHER_PID}"
                })
            }
            _ => None,
        };
        let mut text = format!("/proc/{}", task_name(first)?);
        let mut end = "/proc/".len() + first.len();
        let second = parts.next();
        let third = parts.next();
        match (second, third) {
            (Some(b"task"), Some(task)) if task_name(task).is_some() => {
                let name = if task_name(task) == Some("${PID}") { "${TID}" } else { "${OTHER_TID}" };
                text.push_str("/task/");
                text.push_str(name);
                end += "/task/".len() + task.len();
            }
            (Some(b"map_files"), Some(addresses)) if !addresses.is_empty() => {
                text.push_str("/map_files/${ADDRESS}");
                end += "/map_files/".len() + addresses.len();
            }
            _ => {}
        }
        Some((end, text))
    }

    fn step(&mut self, above: &Place, path: &'a [u8], name: &'a [u8], moves: u8) -> Place {
        let id = self.run.paths.find(path);
        let life = id.map(|id| *self.run.paths.life(id));
        let is_made_itself = life.is_some_and(|life| life.made.is_some());
        let is_only_refused =
            life.is_some_and(|life| life.was_refused && !life.was_there && life.made.is_none());
        let is_made = is_made_itself || above.is_made;
        let is_gone = above.is_gone || life.is_some_and(|life| !life.is_alive);
        let actors = life.map_or([0; 4], |life| life.actors);
        let run = self.run;
        let is_actor = |id: u32| run.processes.is_related(id, &actors);
        let proof = Proof {
            is_made: is_made || is_only_refused,
            is_gone: is_gone || is_only_refused,
            is_in_temp: above.is_in_temp,
            is_made_read_write: life.is_some_and(|life| life.is_made_read_write),
            is_actor: &is_actor,
            templates: &self.templates,
            clock: self.clock,
            user: self.user.filter(|_| above.is_in_temp || is_user_place(path)),
            hostname: run.context.roots.hostname.as_deref().filter(|_| is_made),
        };
        let mut folded = if above.text.starts_with("/proc/${") { None } else { fold(name, &proof) };
        if folded.is_none() {
            let store = Store { is_in_git: above.is_in_git, is_made, is_spread: self.fan_out.contains(path) };
            folded = fold_content_address(path, name, store);
        }
        let target = life.filter(|life| is_made_itself && !life.is_alive).and_then(|life| match life.moved {
            Moved::To(target) => Some(target),
            Moved::No | Moved::Various => None,
        });
        if folded.is_none()
            && let Some(target) = target
        {
            let target_name = self.bytes(target).rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            folded = is_derived(name, target_name);
        }
        // The two digits of a hash are a word of many arguments (`cd`), and never what they name.
        let is_spread = name.len() <= 2 && folded.as_ref().is_some_and(|folded| folded.text == "${HASH}");
        if folded.is_some() && !is_spread && self.is_named_in_arguments(name) {
            folded = None;
        }
        let mut place = Place {
            text: String::with_capacity(above.text.len() + name.len() + 1),
            rules: above.rules.clone(),
            is_made,
            is_gone,
            is_in_temp: above.is_in_temp,
            is_in_git: above.is_in_git || name.ends_with(b".git"),
            own: None,
        };
        place.text.push_str(&above.text);
        place.text.push('/');
        let Some(folded) = folded else {
            let text = self.plain(name);
            place.text.push_str(&text);
            return place;
        };
        place.text.push_str(&folded.text);
        for rule in &folded.rules {
            add_rule(&mut place.rules, rule);
        }
        if let Some(target) = target
            && moves > 0
        {
            let to = self.place(self.bytes(target), moves - 1);
            for rule in &to.rules {
                add_rule(&mut place.rules, rule);
            }
            add_rule(&mut place.rules, "temp-rename");
            place.own = Some(std::mem::replace(&mut place.text, to.text.clone()));
        }
        place
    }
}

/// Whether `name` stands in `text`, and not only as a part of a longer word.
fn is_word_of(text: &[u8], name: &[u8]) -> bool {
    let mut from = 0;
    while let Some(start) = find(&text[from..], name).map(|at| from + at) {
        let end = start + name.len();
        let is_start =
            start == 0 || !text[start - 1].is_ascii_alphanumeric() || !name[0].is_ascii_alphanumeric();
        let is_end = text.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric())
            || !name[name.len() - 1].is_ascii_alphanumeric();
        if is_start && is_end {
            return true;
        }
        from = start + 1;
    }
    false
}

fn add_rule(rules: &mut Vec<&'static str>, rule: &'static str) {
    if !rules.contains(&rule) {
        rules.push(rule);
    }
}

/// Places where a component is a user's name.
fn is_user_place(path: &[u8]) -> bool {
    [&b"/run/user"[..], b"/var/mail", b"/var/spool/mail", b"/var/spool/cron", b"/run/sudo", b"/run/lock"]
        .iter()
        .any(|place| is_beneath(path, place))
}
