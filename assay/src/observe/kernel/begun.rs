//! What of the kernel half can be made before anything is known of a run: its maps, and where this kernel keeps what.

use std::collections::HashMap as StdHashMap;

use assay_common::names;

use super::btf::Btf;
use super::btf_file::BtfFile;
use super::counted::repeat_places;
use super::object::Made;
use super::plan::{Plan, plan};
use super::programs::{Hooks, ProgramsError, object, possible_cpus};
use super::witness;
use crate::host::hook_programs;

/// Maps without programs. Dropped, they are gone.
pub struct Begun {
    pub(super) made: Made,
    pub(super) plan: Plan,
    pub(super) hooks: Hooks,
    /// Why there is no second witness; `None` when there can be one.
    pub(super) obstacle: Option<String>,
}

impl Begun {
    /// For one run.
    pub fn for_one(wants_second_witness: bool) -> Result<Self, ProgramsError> {
        let obstacle =
            if wants_second_witness { hook_programs::obstacle() } else { Some("not asked for".to_owned()) };
        Self::make(&[], obstacle)
    }

    /// With maps of these sizes.
    pub(super) fn make(
        more_sizes: &[(&'static str, u32)],
        obstacle: Option<String>,
    ) -> Result<Self, ProgramsError> {
        let processors = possible_cpus();
        // The first of a name counts.
        let mut sizes = more_sizes.to_vec();
        sizes.extend([
            (names::SCRATCH, processors),
            (names::COPY, processors),
            (names::REPEATS, processors * repeat_places(processors)),
        ]);
        sizes.extend(witness::sizes(obstacle.is_none(), processors));
        let functions = if obstacle.is_none() { witness::functions() } else { Vec::new() };
        // The maps are made while the kernel's BTF is read.
        let (made, planned) = std::thread::scope(|scope| {
            let planned = scope.spawn(|| read_plan(&functions));
            let made = Made::make(object(), &sizes, &[]);
            let plan = planned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (made, plan)
        });
        let (plan, hooks) = planned?;
        let obstacle = obstacle.or_else(|| witness::missing(&hooks));
        let hooks = if obstacle.is_none() { hooks } else { StdHashMap::new() };
        Ok(Self { made: made?, plan, hooks, obstacle })
    }
}

/// Where the fields are on this kernel, and which of these functions it has.
fn read_plan(functions: &[&'static str]) -> Result<(Plan, Hooks), ProgramsError> {
    let file = BtfFile::open().map_err(ProgramsError::BtfFile)?;
    let btf = Btf::parse(&file)?;
    let hooks = if functions.is_empty() { StdHashMap::new() } else { btf.functions(functions) };
    Ok((plan(btf.offsets())?, hooks))
}
