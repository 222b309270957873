//! A verified event → what it says, as far as it says it. Pure.
//!
//! Events may come from another program: what a known type should hold and does not is told by
//! [`View::is_well_formed`], never guessed. Strict readers use [`strict_effect`].

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::canon::value::{Object, Value};
use crate::evidence::events::kind;
use crate::evidence::identity::{self, IdentityError};
use crate::evidence::verify::Event;
use crate::evidence::{Degradation, Outcome, Peer, peer};
use crate::profile::effect::Effect;

/// An event, seen as what its type says it is.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// The event.
    pub event: &'a Event,
    /// What it says.
    pub content: Content<'a>,
    strict: OnceCell<Result<Option<Effect>, IdentityError>>,
}

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// What was run.
    Started,
    /// An effect on files.
    Fs {
        /// The operation.
        op: &'a str,
        /// The name.
        path: &'a str,
        /// The second name.
        to: Option<&'a str>,
    },
    /// A program.
    Exec {
        /// Its name.
        path: &'a str,
    },
    /// An effect on the network.
    Net {
        /// The operation.
        op: &'a str,
        /// The protocol, empty when it is not said.
        proto: &'a str,
        /// The name of the other end.
        host: Option<&'a str>,
        /// Its address.
        address: Option<&'a str>,
        /// Its port.
        port: Option<u64>,
    },
    /// A degradation.
    Degraded {
        /// What it concerns.
        component: &'a str,
        /// Why.
        reason: &'a str,
        /// The part that is not held; without it all of the component is not.
        detail: Option<&'a str>,
    },
    /// How it ended.
    Summary,
    /// The last.
    Finished,
    /// A type that is not known here.
    Unknown,
}

impl<'a> View<'a> {
    /// Sees an event.
    pub fn new(event: &'a Event) -> Self {
        let field = |key: &str| event.data().and_then(|data| data.str(key));
        let subject = event.subject().unwrap_or_default();
        let content = match event.kind() {
            kind::STARTED => Content::Started,
            kind::FS => Content::Fs {
                op: field("op").unwrap_or_default(),
                path: field("path").unwrap_or(subject),
                to: field("to"),
            },
            kind::EXEC => Content::Exec { path: field("path").unwrap_or(subject) },
            kind::NET => net(event, subject),
            kind::DEGRADED => Content::Degraded {
                component: field("component").unwrap_or_default(),
                reason: field("reason").unwrap_or_default(),
                detail: field("detail"),
            },
            kind::SUMMARY => Content::Summary,
            kind::FINISHED => Content::Finished,
            _ => Content::Unknown,
        };
        Self { event, content, strict: OnceCell::new() }
    }

    /// What [`strict_effect`] says, read once.
    pub fn strict_effect(&self) -> Result<Option<&Effect>, &IdentityError> {
        self.strict.get_or_init(|| strict_effect(self.event)).as_ref().map(Option::as_ref)
    }

    /// The same, to keep.
    pub fn into_strict_effect(self) -> Result<Option<Effect>, IdentityError> {
        self.strict.into_inner().unwrap_or_else(|| strict_effect(self.event))
    }

    /// Whether the act was refused.
    pub fn is_denied(&self) -> bool {
        self.event.data().and_then(|data| data.str("result")) == Some("denied")
    }

    /// Who refused it, when it says so.
    pub fn denied_by(&self) -> Option<&'a str> {
        self.event.object.str("assaydeniedby")
    }

    /// The addresses that the host's name stands for, as far as the event says them.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let text = self.event.object.str("assayaddresses").unwrap_or_default();
        text.split(' ').filter_map(|address| address.parse().ok()).collect()
    }

    /// The names that clients asked for there, other than those it is told by.
    pub fn asked(&self) -> impl Iterator<Item = &'a str> {
        self.event.object.str("assayasked").unwrap_or_default().split_ascii_whitespace()
    }

    /// Who answered at the UNIX socket, as far as the event says it.
    pub fn peers(&self) -> Vec<Peer> {
        self.event.object.str("assaypeers").map(peer::from_text).unwrap_or_default()
    }

    /// Whether an event of a known type holds all that its type has, and nothing else.
    pub fn is_well_formed(&self) -> bool {
        let outcome = || self.event.data().and_then(|data| data.get("outcome")).and_then(Value::as_object);
        match self.content {
            Content::Started => command(self.event).is_some(),
            Content::Fs { .. } | Content::Exec { .. } | Content::Net { .. } => self.strict_effect().is_ok(),
            Content::Degraded { .. } => strict_degradation(self.event).is_ok(),
            Content::Summary | Content::Finished => {
                outcome().is_some_and(|outcome| identity::outcome(outcome, "outcome").is_ok())
            }
            Content::Unknown => true,
        }
    }
}

fn net<'a>(event: &'a Event, subject: &'a str) -> Content<'a> {
    let field = |key: &str| event.data().and_then(|data| data.str(key));
    let (mut address, mut port) = (field("address"), None);
    if let Some(data) = event.data() {
        port = data.get("port").and_then(Value::as_count);
    }
    if address.is_none() && field("host").is_none() && field("proto").is_none() {
        // Only the subject says where it went.
        let (place, number) = subject.rsplit_once(':').unwrap_or((subject, ""));
        address = Some(match subject.strip_prefix("unix:") {
            Some(path) => path,
            None => place.trim_start_matches('[').trim_end_matches(']'),
        });
        port = port.or_else(|| number.parse().ok());
    }
    Content::Net {
        op: field("op").unwrap_or("connect"),
        proto: field("proto").unwrap_or_default(),
        host: field("host"),
        address,
        port,
    }
}

/// The words of the command, when the event holds them.
pub fn command(event: &Event) -> Option<Vec<&str>> {
    event.data()?.get("command")?.as_array()?.iter().map(Value::as_str).collect()
}

/// The effect of an event, `None` for an event that holds none, an error when it should hold one and does not.
pub fn strict_effect(event: &Event) -> Result<Option<Effect>, IdentityError> {
    let read = |data: &Object| match event.kind() {
        kind::FS => identity::fs_effect(data, "").map(Effect::Fs),
        kind::EXEC => identity::exec_effect_with_digest(data, "").map(Effect::Exec),
        _ => identity::net_effect(data, "").map(Effect::net),
    };
    if !matches!(event.kind(), kind::FS | kind::EXEC | kind::NET) {
        return Ok(None);
    }
    let problem = || IdentityError { place: String::new(), problem: "data is not an object".into() };
    let effect = event.data().ok_or_else(problem).and_then(read);
    // The place is only made when there is something to say of it.
    effect
        .map(Some)
        .map_err(|error| IdentityError { place: format!("event {}{}", event.sequence, error.place), ..error })
}

/// The degradation of an event.
pub fn strict_degradation(event: &Event) -> Result<Degradation, IdentityError> {
    let place = format!("event {}", event.sequence);
    match event.data() {
        Some(data) => identity::degradation(data, &place),
        None => Err(IdentityError { place, problem: "data is not an object".into() }),
    }
}

/// The outcome of a summary or last event.
pub fn outcome(event: &Event) -> Option<Outcome> {
    identity::outcome(event.data()?.get("outcome")?.as_object()?, "outcome").ok()
}
