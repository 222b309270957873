//! Where a walk down a path stands: what it is called so far, and what the run proved of it. Pure.

use std::collections::HashMap;
use std::rc::Rc;

use super::fold_rule::FoldRule;
use super::roots::is_beneath;
use super::start::Start;

/// Where a walk begins, with its place made only when it is needed.
pub(super) struct Begin {
    pub(super) end: usize,
    pub(super) at: At,
}

pub(super) enum At {
    Start(Start),
    Mounted(Box<Place>),
}

impl Begin {
    pub(super) fn place(&self) -> Place {
        match &self.at {
            At::Start(start) => Place::at(start),
            At::Mounted(place) => place.as_ref().clone(),
        }
    }
}

impl Place {
    pub(super) fn at(start: &Start) -> Self {
        Self {
            text: start.text.as_ref().to_owned(),
            rules: start.rules.to_vec(),
            is_gone: start.is_gone,
            is_in_temp: start.is_in_temp,
            ..Self::default()
        }
    }
}

/// Where a walk down a path stands.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts, each asked for by name")]
pub(super) struct Place {
    pub(super) text: String,
    pub(super) rules: Vec<FoldRule>,
    pub(super) is_made: bool,
    pub(super) is_gone: bool,
    pub(super) is_in_temp: bool,
    pub(super) is_in_git: bool,
    pub(super) own: Option<String>,
}

/// A directory that was asked for.
pub(super) struct Last<'a> {
    /// By how many moves.
    pub(super) moves: u8,
    pub(super) path: &'a [u8],
    pub(super) place: Rc<Place>,
    /// Whether what lies in it begins where it does itself.
    pub(super) is_plain: bool,
}

impl Last<'_> {
    /// Its place and the name in it, when a path lies directly in it and begins where it does.
    pub(super) fn above<'p>(&self, moves: u8, path: &'p [u8]) -> Option<(Rc<Place>, &'p [u8])> {
        let name = path.strip_prefix(self.path)?.strip_prefix(b"/")?;
        let is_in_it = self.is_plain && self.moves == moves && !name.is_empty() && !name.contains(&b'/');
        is_in_it.then(|| (Rc::clone(&self.place), name))
    }
}

/// How many moves are followed: a temporary name of a temporary name.
pub(super) const MAX_MOVES: u8 = 8;

/// How many bytes of places are kept. A path of two thousand directories has as many places, megabytes of them, and a tree
/// that is moved has them anew under each of its names.
const MAX_PLACE_BYTES: usize = 64 << 20;

/// The places of directories, by how many moves may be followed from there. (Without those of fewer moves, directories
/// within directories that were all moved would each be walked to again from every one, as often as moves are followed.)
#[derive(Default)]
pub(super) struct Places<'a> {
    known: [HashMap<&'a [u8], Rc<Place>>; MAX_MOVES as usize + 1],
    bytes: usize,
}

impl<'a> Places<'a> {
    /// That of this directory, if it is known.
    pub(super) fn find(&self, moves: u8, directory: &[u8]) -> Option<Rc<Place>> {
        self.known[usize::from(moves)].get(directory).map(Rc::clone)
    }

    /// Keeps one. When all together have become too many, they are forgotten: each can be made again.
    pub(super) fn keep(&mut self, moves: u8, directory: &'a [u8], place: &Rc<Place>) {
        let own = place.own.as_ref().map_or(0, String::len);
        let bytes = size_of::<(&[u8], Place)>() + place.text.len() + own + size_of_val(&*place.rules);
        if self.bytes + bytes > MAX_PLACE_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.known[usize::from(moves)].insert(directory, Rc::clone(place));
    }
}

/// Places where a component is a user's name or id.
pub(super) fn is_user_place(path: &[u8]) -> bool {
    [&b"/run/user"[..], b"/var/mail", b"/var/spool/mail", b"/var/spool/cron", b"/run/sudo", b"/run/lock"]
        .iter()
        .any(|place| is_beneath(path, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_became_too_many_are_forgotten_and_the_last_is_there() {
        let names: Vec<Vec<u8>> = (0..200_u32).map(|number| number.to_string().into_bytes()).collect();
        let mut places = Places::default();
        let place = Rc::new(Place { text: "x".repeat(1 << 20), ..Place::default() });
        for (number, name) in names.iter().enumerate() {
            places.keep(number as u8 % (MAX_MOVES + 1), name, &Rc::new(place.as_ref().clone()));
            assert!(places.find(number as u8 % (MAX_MOVES + 1), name).is_some());
            let kept: usize = places.known.iter().flat_map(HashMap::values).map(|one| one.text.len()).sum();
            assert!(kept <= MAX_PLACE_BYTES, "{kept} after {number}");
            assert!(number > 60 || kept == (number + 1) << 20, "{kept} after {number}");
        }
    }
}
