//! Where a walk down a path stands: what it is called so far, and what the run proved of it. Pure.

use super::fold_rule::FoldRule;
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
