//! The pages as a book, by mdbook: a developer's tool that neither the build nor the tests take.

use anyhow::{Result, bail};

use crate::step::{self, command, run};

/// Makes `target/book`, or says how mdbook is installed.
pub fn execute() -> Result<()> {
    if step::find("mdbook").is_none() {
        bail!(
            "find mdbook: install it with\n  cargo install mdbook --locked --version 0.5.4 --no-default-features --features search"
        );
    }
    run(command("mdbook").arg("build"))
}
