//! The observer's maps, made by a thread of their own while the rest of a run is prepared: they take as long as reading the
//! policy does, and know nothing of either.

use std::panic::resume_unwind;
use std::thread::{Builder, JoinHandle};

use crate::observe::kernel::begun::Begun;
use crate::observe::kernel::programs::ProgramsError;

/// An observer that is being begun.
#[derive(Debug)]
pub struct Beginning {
    thread: Option<JoinHandle<Result<Begun, ProgramsError>>>,
    wants_second_witness: bool,
}

impl Beginning {
    /// Begins. The thread starts no process and is gone when it was waited for; a run that is refused before does not wait.
    pub fn of(wants_second_witness: bool) -> Self {
        let thread = Builder::new().spawn(move || Begun::for_one(wants_second_witness)).ok();
        Self { thread, wants_second_witness }
    }

    /// What was begun.
    pub fn wait(self) -> Result<Begun, ProgramsError> {
        match self.thread {
            Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // There was no thread to be had.
            None => Begun::for_one(self.wants_second_witness),
        }
    }
}
