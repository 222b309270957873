//! Joins the two halves of a request to an `io_uring`: what was asked, and what came of it. Pure.
//!
//! The kernel names a request by the memory it lies in, which is used again. A request that takes the place of one that
//! was never completed shows that the earlier one had been told not to report success.

use std::collections::BTreeMap;

use super::event::{Call, Event, EventKind};

/// Requests that wait for their completion.
#[derive(Debug, Clone, Default)]
pub struct UringTable {
    waiting: BTreeMap<u64, Event>,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joined {
    /// A whole event: not of a ring, or a request with its completion.
    Event(Box<Event>),
    /// The first half of one.
    Waits,
    /// The first half of one, in the place of an earlier one that was not completed and is presumed done.
    Presumed(Box<Event>),
    /// A completion of a request that was submitted before the record began.
    Unpaired,
}

impl UringTable {
    /// Takes one event.
    pub fn join(&mut self, event: Event) -> Joined {
        let Event { kind, .. } = &event;
        match kind {
            EventKind::UringSubmit { request, .. } => match self.waiting.insert(*request, event) {
                Some(earlier) => Joined::Presumed(Box::new(to_call(earlier, None))),
                None => Joined::Waits,
            },
            EventKind::UringComplete { request, call } => match self.waiting.remove(request) {
                Some(submitted) => Joined::Event(Box::new(to_call(submitted, Some(call)))),
                None => Joined::Unpaired,
            },
            EventKind::Call(_)
            | EventKind::Exec(_)
            | EventKind::Fork { .. }
            | EventKind::Exit { .. }
            | EventKind::Leave { .. }
            | EventKind::Witness(_)
            | EventKind::Packet(_)
            | EventKind::Sources { .. } => Joined::Event(Box::new(event)),
        }
    }

    /// Those that still wait, each as if it had been done.
    pub fn take_rest(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.waiting).into_values().map(|event| to_call(event, None)).collect()
    }
}

/// The call that a request stands for, with its result.
fn to_call(submitted: Event, completed: Option<&Call>) -> Event {
    let EventKind::UringSubmit { mut call, .. } = submitted.kind else {
        // Only submissions are kept.
        return submitted;
    };
    // The last argument was the request's identity.
    call.args[5] = 0;
    call.ret = 0;
    if let Some(done) = completed {
        call.ret = done.ret;
        call.file = done.file;
        call.socket = done.socket;
        call.unix_name.clone_from(&done.unix_name);
        // The kernel's own, where the other half has what stood in the program's memory.
        if done.address.is_some() {
            call.address.clone_from(&done.address);
        }
        call.peer = done.peer;
        call.peer_image.clone_from(&done.peer_image);
        if done.a.chain.is_some() {
            // Where the descriptor leads is better than where the name seemed to.
            call.a.chain.clone_from(&done.a.chain);
            call.a.rest = None;
            call.a.late = None;
            call.a.followed = None;
        }
    }
    Event { kind: EventKind::Call(call), ..submitted }
}
