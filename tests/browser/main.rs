//! The HTML report in a real browser: `cargo xtask browser` runs these, and says what it takes.

mod chromium;
mod page;
mod pictures;
mod report;
