//! Installs real coding agents beside the build, runs the tests that are about them, and writes the table of
//! `docs/agents.md`.
//!
//! In: `tests/agents/versions.txt`, and which of them. Out: `target/agents/NAME-VERSION`, or the reason why it is not there.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;

use crate::kernel;
use crate::step::{command, find, output, root, run};

const VERSIONS: &str = "tests/agents/versions.txt";
const PAGE: &str = "docs/agents.md";
/// What stands above the rows of the table.
const HEAD: &str = "| --- | --- | ---: |";

/// Run real coding agents.
#[derive(Debug, Args)]
pub struct Options {
    /// Only these; all when there is none.
    names: Vec<String>,
    /// Install them, and run nothing.
    #[arg(long)]
    install: bool,
}

/// A row of the list.
struct Agent {
    name: String,
    installer: String,
    package: String,
    version: String,
}

fn agents() -> Result<Vec<Agent>> {
    let list = fs::read_to_string(root().join(VERSIONS)).with_context(|| format!("read {VERSIONS}"))?;
    list.lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, installer, package, version] = words[..] else {
                bail!("{VERSIONS}: not NAME INSTALLER PACKAGE VERSION: {line}");
            };
            let [name, installer, package, version] = [name, installer, package, version].map(str::to_owned);
            Ok(Agent { name, installer, package, version })
        })
        .collect()
}

/// Runs them and writes the page; a row that was not made anew stays.
pub fn execute(options: &Options) -> Result<()> {
    let known = agents()?;
    for name in &options.names {
        if !known.iter().any(|agent| agent.name == *name) {
            let names: Vec<&str> = known.iter().map(|agent| agent.name.as_str()).collect();
            bail!("there is no agent `{name}`; there are {}", names.join(", "));
        }
    }
    let is_asked = |agent: &&Agent| options.names.is_empty() || options.names.contains(&agent.name);
    let asked: Vec<&Agent> = known.iter().filter(is_asked).collect();
    for agent in &asked {
        install(agent)?;
    }
    if options.install {
        return Ok(());
    }
    let rows = root().join("target/agents-rows");
    if rows.exists() {
        fs::remove_dir_all(&rows).with_context(|| format!("empty {}", rows.display()))?;
    }
    fs::create_dir_all(&rows).with_context(|| format!("make {}", rows.display()))?;
    let filters: Vec<String> =
        asked.iter().map(|agent| format!("agents::{}_does", agent.name.replace('-', "_"))).collect();
    let settings = [("ASSAY_AGENTS_RUNS", "10"), ("ASSAY_AGENTS_ROWS", &rows.to_string_lossy())];
    let outcome = kernel::execute(&filters, &settings);
    let mut made = BTreeMap::new();
    for entry in fs::read_dir(&rows)? {
        let row = fs::read_to_string(entry?.path())?;
        made.insert(name_of(&row).to_owned(), row.trim_end().to_owned());
    }
    let page = fs::read_to_string(root().join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let page = with_rows(&page, made).ok_or_else(|| anyhow!("{PAGE} has no table that begins {HEAD}"))?;
    fs::write(root().join(PAGE), page).with_context(|| format!("write {PAGE}"))?;
    outcome.map(drop)
}

/// What a row is about.
fn name_of(row: &str) -> &str {
    row.trim_start_matches("| ").split(" |").next().unwrap_or_default()
}

/// The page with these rows in the place of those of the same name.
fn with_rows(page: &str, mut made: BTreeMap<String, String>) -> Option<String> {
    let mut out = Vec::new();
    let mut lines = page.lines();
    out.extend(lines.by_ref().take_while(|line| !line.starts_with(HEAD)).map(str::to_owned));
    let head = page.lines().nth(out.len())?;
    let rest: Vec<&str> = lines.collect();
    let is_row = |line: &&&str| line.starts_with("| ");
    for row in rest.iter().take_while(is_row) {
        made.entry(name_of(row).to_owned()).or_insert_with(|| (*row).to_owned());
    }
    out.push(head.to_owned());
    out.extend(made.into_values());
    out.extend(rest.iter().skip_while(is_row).map(|line| (*line).to_owned()));
    Some(out.join("\n") + "\n")
}

/// The one that CI runs, too: the others by the command. Where it cannot be had, its test is counted as not run, with what
/// is said here.
pub fn install_for_ci() -> Result<()> {
    for agent in agents()?.iter().filter(|agent| agent.name == "claude-code") {
        if let Err(error) = install(agent) {
            println!("not installed: {}: {error:#}", agent.name);
        }
    }
    Ok(())
}

fn folder(agent: &Agent) -> PathBuf {
    root().join("target/agents").join(format!("{}-{}", agent.name, agent.version))
}

/// Installs it, unless it is there. Why it cannot be is left beside it, for the test to tell.
fn install(agent: &Agent) -> Result<()> {
    let folder = folder(agent);
    let (done, why) = (folder.join("installed"), folder.join("why"));
    if done.exists() {
        return Ok(());
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    match install_into(agent, &folder) {
        Ok(()) => {
            // What an earlier attempt said; mostly there is nothing.
            drop(fs::remove_file(&why));
            fs::write(&done, "").with_context(|| format!("write {}", done.display()))
        }
        Err(error) => {
            fs::write(&why, format!("{error:#}\n")).with_context(|| format!("write {}", why.display()))?;
            Err(error)
        }
    }
}

fn install_into(agent: &Agent, folder: &std::path::Path) -> Result<()> {
    match agent.installer.as_str() {
        "npm" => {
            if find("npm").is_none() {
                bail!("there is no npm on PATH");
            }
            let what = format!("{}@{}", agent.package, agent.version);
            let options = ["--no-audit", "--no-fund", "--no-save", "--silent", "--no-update-notifier"];
            output(command("npm").args(["install", "--prefix"]).arg(folder).args(options).arg(what)).map(drop)
        }
        "pip" => {
            run(command("/usr/bin/python3").args(["-m", "venv"]).arg(folder))?;
            let what = format!("{}=={}", agent.package, agent.version);
            let options = ["install", "--quiet", "--disable-pip-version-check"];
            output(command(folder.join("bin/pip")).args(options).arg(what)).map(drop)
        }
        other => bail!("{VERSIONS}: nothing is installed by `{other}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_not_made_anew_stay() {
        let page =
            "# Agents\n\n| agent | version |\n| --- | --- | ---: |\n| a | 1 |\n| c | 1 |\n\nThe end.\n";
        let made = [("b", "| b | 2 |"), ("c", "| c | 2 |")].map(|(name, row)| (name.into(), row.into()));
        let page = with_rows(page, made.into()).unwrap();
        assert_eq!(
            page,
            "# Agents\n\n| agent | version |\n| --- | --- | ---: |\n| a | 1 |\n| b | 2 |\n| c | 2 |\n\nThe end.\n"
        );
        assert_eq!(with_rows("# Agents\n", BTreeMap::new()), None);
    }

    #[test]
    fn every_agent_of_the_list_can_be_installed() {
        let agents = agents().unwrap();
        assert!(agents.len() >= 2);
        assert!(agents.iter().all(|agent| ["npm", "pip"].contains(&agent.installer.as_str())));
    }
}
