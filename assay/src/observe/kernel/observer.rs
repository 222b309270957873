//! The observer of one run: the kernel half in place and armed, its ring read, its losses told.

use std::io;

use super::late::LateLook;
use super::programs::{Counters, InheritedFile, Programs, ProgramsError};
use super::ring::Ring;

/// Records handed out before others get their turn.
const BATCH: usize = 4096;

/// What an observer is started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverConfig {
    /// The run's group: its id, which is the inode number of its directory.
    pub group_id: u64,
    /// Its depth below the root of the hierarchy, 1 for a child of the root.
    pub level: u32,
    /// Files the command inherits that it could write to.
    pub inherited: Vec<InheritedFile>,
}

/// The kernel half in place for one run. Dropping it detaches everything.
#[derive(Debug)]
pub struct Observer {
    programs: Programs,
    ring: Ring,
    late: Option<LateLook>,
    record: Vec<u8>,
}

impl Observer {
    /// Loads, attaches and arms. From here on what the group does is recorded.
    pub fn start(config: &ObserverConfig) -> Result<Self, ProgramsError> {
        let mut programs = Programs::load(config.level, &config.inherited)?;
        let ring = Ring::new(programs.take_ring()?);
        programs.arm(config.group_id, 1)?;
        Ok(Self { programs, ring, late: None, record: Vec::new() })
    }

    /// Names the process whose mount namespace late looks are made in. It must be alive.
    pub fn follow(&mut self, pid: u32) -> io::Result<()> {
        self.late = Some(LateLook::of_process(pid)?);
        Ok(())
    }

    /// Sleeps until it is worth looking for records.
    pub async fn wait(&mut self) {
        self.ring.wait().await;
    }

    /// Hands out records that wait, some thousands at most. How many there were; 0 means that none waits.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let (late, buffer) = (self.late.as_ref(), &mut self.record);
        self.ring.drain(BATCH, |record| match late {
            Some(late) if late.is_wanted(record) => {
                buffer.clear();
                buffer.extend_from_slice(record);
                late.annotate(buffer);
                each(buffer);
            }
            Some(_) | None => each(record),
        })
    }

    /// Whether requests to an `io_uring` are seen.
    pub fn sees_uring(&self) -> bool {
        self.programs.sees_uring()
    }

    /// Records delivered and lost, by hook.
    pub fn counters(&self) -> Result<Counters, ProgramsError> {
        self.programs.counters()
    }

    /// Fields this kernel does not have, and some records need.
    pub fn missing_fields(&self) -> &[String] {
        self.programs.missing_fields()
    }
}
