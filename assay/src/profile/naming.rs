//! What every path of the run is called in the identity, and by which rules. Pure.
//!
//! Roots first, then component by component from the root down, each with what the run's record proves about the
//! path up to there. A temporary file that was renamed onto its target has two names: its own pattern, and its
//! target's, under which its writing is told.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use crate::observe::observation::PathState;

use super::alike::drawn_alike;
use super::canonical::Canonicalizer;
use super::content_address::{Store, fan_out_of, fold_content_address};
use super::dated::{dates_in, last_of};
use super::effort::looked_at;
use super::fold_rule::FoldRule;
use super::mounted::Mounted;
use super::name::{Name, escape_into};
use super::number_hash::NumberHasher;
use super::ordinals::{counting_like_user, counting_places};
use super::paths::{MadeAs, Moved, PathId};
use super::place::{At, Begin, Last, MAX_MOVES, Place, Places, is_user_place};
use super::place_names::fold_place_name;
use super::redact::{Secret, find_key_shapes};
use super::roots::{RootTable, RootVar, parent};
use super::secrets::Secrets;
use super::start::{is_plain, start_of};
use super::temp_forms::is_numbered_by_pytest;
use super::template::Template;
use super::volatile::{FoldedName, Proof, fold, fold_text, is_derived, is_word_of};
use super::words::Words;

/// What a path is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// Its name, secrets marked.
    pub text: Name,
    /// The rules that made it differ from the path; roots that `observed.roots` undoes are not among them.
    pub rules: Vec<FoldRule>,
    /// Set when the path itself is a temporary name that became another: its own pattern.
    pub own: Option<Name>,
}

impl Naming {
    fn of(text: &str, rules: Vec<FoldRule>) -> Self {
        Self { text: Name::from_canonical(text), rules, own: None }
    }
}

/// Names paths.
pub struct Namer<'a> {
    run: &'a Canonicalizer,
    roots: RootTable,
    templates: Vec<Template>,
    /// The table of the command's arguments, where they are many.
    words: Option<Words>,
    clock: Option<(u64, u64)>,
    user: Option<&'a [u8]>,
    fan_out: HashSet<&'a [u8]>,
    /// Directories that are called by the day of the run, one part of the date each.
    dated: HashSet<&'a [u8]>,
    /// Where numbers are no ids of processes though they could be, and where none of the user.
    counting: HashSet<(PathId, usize)>,
    counting_like_user: HashSet<(PathId, usize)>,
    /// Where the few digits stand that were drawn for a temporary file.
    drawn_alike: HashMap<PathId, (usize, usize)>,
    mounted: Mounted,
    /// The places of directories, what lies in one is named often.
    places: Places<'a>,
    /// The directory that was asked for last.
    last: Option<Last<'a>>,
    /// The names that no rule made, which are most, and the others.
    plain: Vec<Option<Name>>,
    folded: HashMap<PathId, Naming, BuildHasherDefault<NumberHasher>>,
    secrets: Secrets,
}

impl<'a> Namer<'a> {
    /// A namer for a run that ended at this time and mounted so much; `secrets` are those of its arguments.
    pub fn new(run: &'a Canonicalizer, mounted: Mounted, ended_at: Option<u64>, secrets: Secrets) -> Self {
        let fan_out = run.paths.ids().flat_map(|id| fan_out_of(run.paths.bytes(id))).collect();
        let started_at = run.context.started_at;
        let mut namer = Self {
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
            words: Words::of(&run.context.command),
            // Somebody may have set the clock back meanwhile; then names were made by both.
            clock: started_at.map(|start| {
                let end = ended_at.unwrap_or(start);
                (start.min(end), start.max(end))
            }),
            user: run.context.roots.user.as_deref(),
            fan_out,
            dated: HashSet::new(),
            counting: counting_places(&run.paths, &run.processes),
            counting_like_user: counting_like_user(&run.paths, run.context.roots.uid),
            drawn_alike: drawn_alike(&run.paths),
            mounted,
            places: Places::default(),
            last: None,
            plain: vec![None; run.paths.len()],
            folded: HashMap::default(),
            secrets,
            run,
        };
        namer.dated = namer.dated();
        namer
    }

    /// Directories that spell a day near the run, in paths that the run made. Not where the arguments name all of it.
    fn dated(&self) -> HashSet<&'a [u8]> {
        let paths = &self.run.paths;
        let made = paths.ids().filter(|id| paths.life(*id).made.is_some());
        let dates = made.flat_map(|id| dates_in(paths.bytes(id), self.clock));
        let is_told = |date: &Vec<&[u8]>| date.iter().all(|path| self.is_named_in_arguments(last_of(path)));
        dates.filter(|date| !is_told(date)).flatten().collect()
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
        self.run.paths.bytes(id)
    }

    /// What `id` is called.
    pub fn name(&mut self, id: PathId) -> Naming {
        if let Some(text) = &self.plain[id.0 as usize] {
            return Naming { text: text.clone(), rules: Vec::new(), own: None };
        }
        if let Some(known) = self.folded.get(&id) {
            return known.clone();
        }
        let naming = self.name_new(id);
        if naming.rules.is_empty() && naming.own.is_none() {
            self.plain[id.0 as usize] = Some(naming.text.clone());
        } else {
            self.folded.insert(id, naming.clone());
        }
        naming
    }

    /// What a symlink's text is called.
    pub fn link_text(&mut self, link: PathId, text: PathId) -> Naming {
        let bytes = self.bytes(text);
        if bytes.first() == Some(&b'/') {
            let place = self.place(bytes, self.run.paths.find(bytes), MAX_MOVES);
            let is_dir = bytes.len() > 1 && bytes.ends_with(b"/");
            let slash = if is_dir { "/" } else { "" };
            return Naming::of(&format!("{}{slash}", place.text), place.rules);
        }
        // A name beside the link: it is called what that file is called.
        if !bytes.contains(&b'/') {
            let mut beside = parent(self.bytes(link)).to_vec();
            beside.push(b'/');
            beside.extend_from_slice(bytes);
            if let Some(id) = self.run.paths.find(&beside) {
                let naming = self.name(id);
                if naming.rules.iter().any(|rule| *rule != FoldRule::RootAlias) {
                    let last = naming.text.as_str().rsplit('/').next().unwrap_or_default();
                    return Naming::of(last, naming.rules);
                }
            }
        }
        let life = *self.run.paths.life(link);
        let run = self.run;
        let is_actor = |_: usize, id: u32| run.processes.is_related(id, &life.actors);
        let proof = Proof {
            is_made: life.made.is_some(),
            is_gone: !life.is_alive,
            hostname: run.context.roots.hostname.as_deref(),
            ..Proof::of_text(&is_actor, self.clock)
        };
        let is_kept = self.is_named_in_arguments(bytes) || !self.secrets_in(bytes).is_empty();
        let folded = if is_kept { None } else { fold_text(bytes, &proof) };
        match folded {
            Some(FoldedName { text, rules }) => Naming::of(&text, rules),
            None => Naming::of(&self.plain(bytes), Vec::new()),
        }
    }

    /// What an abstract socket is called, bound by the run or not.
    pub fn abstract_name(&mut self, name: &[u8], is_bound: bool) -> Naming {
        // The kernel's own choice, when a socket is bound to no name.
        if is_bound && name.len() == 5 && name.iter().all(u8::is_ascii_hexdigit) {
            return Naming::of("@${RANDOM}", vec![FoldRule::Autobind]);
        }
        let run = self.run;
        let is_actor = |_: usize, id: u32| run.processes.is_task(id);
        let proof = Proof { is_made: is_bound, is_gone: is_bound, ..Proof::of_text(&is_actor, self.clock) };
        let is_kept = self.is_named_in_arguments(name) || !self.secrets_in(name).is_empty();
        let folded = if is_kept { None } else { fold_text(name, &proof) };
        if let Some(FoldedName { text, rules }) = folded {
            return Naming::of(&format!("@{text}"), rules);
        }
        let mut text = String::from("@");
        let found = self.secrets_in(name);
        let roots = &self.roots;
        self.secrets.mark(name, &found, &mut text, |plain, out| roots.substitute_into(plain, out));
        Naming::of(&text, Vec::new())
    }

    fn name_new(&mut self, id: PathId) -> Naming {
        let bytes = self.bytes(id);
        match self.run.paths.life(id).state {
            PathState::Resolved | PathState::LookedUpLate | PathState::Unverified | PathState::Lexical
                if bytes.first() == Some(&b'/') =>
            {
                let place = self.place(bytes, Some(id), MAX_MOVES);
                Naming { own: place.own.map(Name::from_canonical), ..Naming::of(&place.text, place.rules) }
            }
            PathState::Nameless => self.nameless(bytes),
            PathState::Cut => Naming::of(&format!("${{CUT}}{}", self.plain(bytes)), Vec::new()),
            PathState::Unreadable => Naming::of(&format!("${{UNREADABLE}}{}", self.plain(bytes)), Vec::new()),
            PathState::Resolved
            | PathState::LookedUpLate
            | PathState::Unverified
            | PathState::Lexical
            | PathState::Literal => Naming::of(&self.plain(bytes), Vec::new()),
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
            let place = self.place(path, self.run.paths.find(path), MAX_MOVES);
            let path = place.own.as_ref().unwrap_or(&place.text);
            let slash = if path == "/" { "" } else { slash };
            let mut rules = place.rules.clone();
            add_rule(&mut rules, FoldRule::Nameless);
            return Naming::of(&format!("{what}{path}{slash}"), rules);
        }
        let number = bytes.iter().position(|&byte| byte == b'[');
        if let Some(open) = number
            && bytes.ends_with(b"]")
            && bytes[open + 1..bytes.len() - 1].iter().all(u8::is_ascii_digit)
        {
            return Naming::of(&self.plain(&bytes[..open]), vec![FoldRule::Nameless]);
        }
        let mut text = String::new();
        let found = self.secrets_in(bytes);
        let roots = &self.roots;
        self.secrets.mark(bytes, &found, &mut text, |plain, out| roots.substitute_into(plain, out));
        Naming::of(&text, Vec::new())
    }

    fn plain(&mut self, bytes: &[u8]) -> String {
        let mut text = String::new();
        self.plain_into(bytes, &mut text);
        text
    }

    fn secrets_in(&self, bytes: &[u8]) -> Vec<Secret> {
        let mut found = find_key_shapes(bytes);
        self.secrets.add_learned(bytes, &mut found);
        found
    }

    fn plain_into(&mut self, bytes: &[u8], text: &mut String) {
        let found = self.secrets_in(bytes);
        self.secrets.mark(bytes, &found, text, escape_into);
    }

    fn is_named_in_arguments(&self, name: &[u8]) -> bool {
        let command = &self.run.context.command;
        match &self.words {
            Some(words) => words.have(command, name),
            None => command.iter().any(|argument| is_word_of(argument, name)),
        }
    }

    /// The place of an absolute path, whose number this is: that of its directory, and a step down.
    fn place(&mut self, path: &'a [u8], id: Option<PathId>, moves: u8) -> Place {
        // Names come by directory, and most places of a large run are found here.
        if let Some((above, name)) = self.last.as_ref().and_then(|last| last.above(moves, path)) {
            return self.step(&above, (path, id), name, moves);
        }
        let start = self.begin(path, moves);
        let name = path[start.end..].iter().rposition(|&byte| byte == b'/').map(|slash| start.end + slash);
        let (above, name) = match name {
            None if start.end == path.len() => return start.place(),
            None => (Rc::new(start.place()), &path[start.end..]),
            Some(slash) if slash == start.end => (Rc::new(start.place()), &path[slash + 1..]),
            Some(slash) => (self.directory(&path[..slash], &start, moves), &path[slash + 1..]),
        };
        // A slash at the end names the same thing.
        let place =
            if name.is_empty() { above.as_ref().clone() } else { self.step(&above, (path, id), name, moves) };
        if place.text.is_empty() { Place { text: "/".into(), ..Place::default() } } else { place }
    }

    /// The place of a directory, by a walk that begins at `start`: from the deepest place known, down.
    fn directory(&mut self, path: &'a [u8], start: &Begin, moves: u8) -> Rc<Place> {
        if let Some(last) = &self.last
            && (last.moves, last.path) == (moves, path)
        {
            return Rc::clone(&last.place);
        }
        let mut place = None;
        let mut place_end = start.end;
        // Components left, from the right, until one whose place is known.
        let mut ends = Vec::new();
        let mut end = path.len();
        while end > start.end {
            if let Some(known) = self.places.find(moves, &path[..end]) {
                place = Some(known);
                place_end = end;
                break;
            }
            ends.push(end);
            end = path[..end].iter().rposition(|&byte| byte == b'/').unwrap_or(start.end).max(start.end);
        }
        let mut place = place.unwrap_or_else(|| Rc::new(start.place()));
        for end in ends.into_iter().rev() {
            let name = &path[place_end..end];
            let name = name.strip_prefix(b"/").unwrap_or(name);
            if !name.is_empty() {
                let directory = &path[..end];
                let id = self.run.paths.find(directory);
                place = Rc::new(self.step(&place, (directory, id), name, moves));
            }
            self.places.keep(moves, &path[..end], &place);
            place_end = end;
        }
        let is_plain = self.mounted.is_empty() && is_plain(path, &self.roots);
        self.last = Some(Last { moves, path, place: Rc::clone(&place), is_plain });
        place
    }

    /// Where a path begins: at a root that a mount put there once more, or as [`start_of`] has it.
    fn begin(&mut self, path: &'a [u8], moves: u8) -> Begin {
        if let Some((end, place)) = self.mounted_start(path, moves) {
            return Begin { end, at: At::Mounted(Box::new(place)) };
        }
        let start = start_of(path, &self.roots, &self.run.processes);
        Begin { end: start.end, at: At::Start(start) }
    }

    /// A root of the host's tree that lies beneath a mount of the run.
    fn mounted_start(&mut self, path: &'a [u8], moves: u8) -> Option<(usize, Place)> {
        let (at, var, end) = self.mounted.root_beneath(path, &self.roots)?;
        if moves == 0 || self.roots.split(path).is_some() {
            return None;
        }
        let at = &path[..at];
        let mut place = self.place(at, self.run.paths.find(at), moves);
        place.text.push_str(var.as_str());
        add_rule(&mut place.rules, FoldRule::MountedRoot);
        place.is_in_temp |= var.is_temporary();
        place.is_gone |= var == RootVar::Tmpdir;
        place.own = None;
        Some((end, place))
    }

    fn step(
        &mut self,
        above: &Place,
        (path, id): (&'a [u8], Option<PathId>),
        name: &'a [u8],
        moves: u8,
    ) -> Place {
        looked_at(above.text.len() + name.len());
        let life = id.map(|id| *self.run.paths.life(id));
        let is_made_itself = life.is_some_and(|life| life.made.is_some());
        let is_only_refused =
            life.is_some_and(|life| life.was_refused && !life.was_there && life.made.is_none());
        let is_made = is_made_itself || above.is_made;
        let is_gone = above.is_gone || life.is_some_and(|life| !life.is_alive);
        let actors = life.map_or([0; 4], |life| life.actors);
        let run = self.run;
        let counting = &self.counting;
        let is_actor = |at: usize, number: u32| {
            run.processes.is_related(number, &actors) && !id.is_some_and(|id| counting.contains(&(id, at)))
        };
        let counting_like_user = &self.counting_like_user;
        let is_users = above.is_in_temp || is_user_place(path);
        let is_user_id = |at: usize, number: u32| {
            run.context.roots.uid == Some(number)
                && !id.is_some_and(|id| counting_like_user.contains(&(id, at)))
        };
        let proof = Proof {
            is_made: is_made || is_only_refused,
            is_gone: is_gone || is_only_refused,
            is_in_temp: above.is_in_temp,
            is_in_tmp: above.text.ends_with("/tmp"),
            is_numbered: is_numbered_by_pytest(&above.text),
            is_directory: life.is_some_and(|life| life.made == Some(MadeAs::Directory)),
            is_made_private: life.is_some_and(|life| life.is_made_private),
            drawn_alike: id.and_then(|id| self.drawn_alike.get(&id)).copied(),
            is_drawn_by_maker: life.is_some_and(|life| life.is_drawn_by_maker),
            is_moved: life.is_some_and(|life| matches!(life.moved, Moved::To(_))),
            is_in_git: above.is_in_git,
            is_actor: &is_actor,
            templates: &self.templates,
            clock: self.clock,
            user: self.user.filter(|_| is_users),
            is_user_id: if is_users { Some(&is_user_id) } else { None },
            hostname: run.context.roots.hostname.as_deref().filter(|_| is_made || is_only_refused),
        };
        let is_dated = self.dated.contains(path);
        let mut folded = if is_dated {
            Some(FoldedName { text: "${TIME}".into(), rules: vec![FoldRule::Time] })
        } else {
            fold_place_name(name, &self.roots)
        };
        if folded.is_none() && !above.text.starts_with("/proc/${") {
            folded = fold(name, &proof);
        }
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
        // The two digits of a hash are a word of many arguments (`cd`), and never what they name. Dates were asked for as
        // a whole.
        let is_spread = name.len() <= 2 && folded.as_ref().is_some_and(|folded| folded.text == "${HASH}");
        if folded.is_some() && !is_spread && !is_dated && self.is_named_in_arguments(name) {
            folded = None;
        }
        // What is left of a folded name is not searched: a secret in it has to go before anything folds.
        if folded.is_some() && !self.secrets_in(name).is_empty() {
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
            self.plain_into(name, &mut place.text);
            return place;
        };
        place.text.push_str(&folded.text);
        for rule in &folded.rules {
            add_rule(&mut place.rules, *rule);
        }
        if let Some(target) = target
            && moves > 0
        {
            let to = self.place(self.bytes(target), Some(target), moves - 1);
            for rule in &to.rules {
                add_rule(&mut place.rules, *rule);
            }
            add_rule(&mut place.rules, FoldRule::TempRename);
            place.own = Some(std::mem::replace(&mut place.text, to.text.clone()));
        }
        place
    }
}

fn add_rule(rules: &mut Vec<FoldRule>, rule: FoldRule) {
    if !rules.contains(&rule) {
        rules.push(rule);
    }
}
