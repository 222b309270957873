//! The tests of the HTML report, in a headless Chromium, and the pictures of it in the documentation.
//!
//! In: filters. Out: the tests' own output, or what is missing to run them.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::step::{command, find, root, run};

/// What to run.
#[derive(Debug, Default, clap::Args)]
pub struct Options {
    /// Make the pictures in docs/images of a run of its own, which takes root, instead of running the tests.
    #[arg(long)]
    pictures: bool,
    /// Only tests whose names hold one of these.
    filters: Vec<String>,
}

/// Where the packages that pip installs for these tests lie.
const PLACE: &str = "target/browser";
/// What they are, with their hashes.
const REQUIREMENTS: &str = "tests/browser/requirements.txt";

/// Runs the tests, or makes the pictures.
pub fn execute(options: &Options) -> Result<()> {
    if let Some(missing) = missing() {
        bail!("{missing}; `cargo xtask setup` installs it");
    }
    if options.pictures {
        return pictures();
    }
    let mut tests = command("cargo");
    tests.args(["test", "--package", "assay", "--test", "browser", "--"]).args(&options.filters);
    run(tests.env("ASSAY_AXE", axe().context("axe is there")?))
}

/// What these tests need and this machine lacks.
pub fn missing() -> Option<&'static str> {
    if find("chromium-headless-shell").is_none() {
        Some("chromium-headless-shell is not installed")
    } else if axe().is_none() {
        Some("axe, which checks accessibility, is not in target/browser")
    } else {
        None
    }
}

/// axe as a package of Python has it: one file of script.
fn axe() -> Option<PathBuf> {
    let libraries = std::fs::read_dir(root().join(PLACE).join("lib")).ok()?;
    let scripts = libraries
        .flatten()
        .map(|library| library.path().join("site-packages/axe_playwright_python/axe.min.js"));
    scripts.into_iter().find(|script| script.is_file())
}

/// Installs axe where it is missing. Where it cannot be had, these tests are counted as not run.
pub fn setup() {
    if axe().is_none()
        && let Err(error) = install()
    {
        println!("not installed: the packages of {REQUIREMENTS}: {error:#}");
    }
}

fn install() -> Result<()> {
    run(command("/usr/bin/python3").args(["-m", "venv", PLACE]))?;
    let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--requirement"];
    run(command(root().join(PLACE).join("bin/python")).args(pip).arg(REQUIREMENTS))
}

/// A run worth a picture, and the pictures of its report.
fn pictures() -> Result<()> {
    run(command("cargo").args(["build", "--quiet", "--package", "assay"]))?;
    let place = std::env::temp_dir().join(format!("assay-pictured-{}", std::process::id()));
    let report = place.join("project/run.html");
    let outcome = run(command("sh")
        .arg("tests/browser/pictured.sh")
        .arg(&place)
        .arg(root().join("target/debug/assay")))
    .and_then(|()| {
        let mut tests = command("cargo");
        tests.args(["test", "--package", "assay", "--test", "browser", "--", "pictures::"]);
        run(tests.env("ASSAY_PICTURE_OF", &report))
    });
    // What the run left is of no use to anybody.
    drop(std::fs::remove_dir_all(&place));
    outcome?;
    run(command("optipng").args([
        "-quiet",
        "-o5",
        "docs/images/report-light.png",
        "docs/images/report-dark.png",
    ]))
}
