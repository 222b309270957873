//! Writes `docs/formats/schema` anew, from the formats as the program has them.

use anyhow::Result;

use crate::step::{command, run};

/// Where the schemas stand.
const DIRECTORY: &str = "docs/formats/schema";

/// Writes it.
pub fn execute() -> Result<()> {
    run(command("cargo").args(["run", "--quiet", "--package", "assay", "--", "schemas", DIRECTORY]))
}
