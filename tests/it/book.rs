//! The pages make a book: the summary lists each, and no link leads nowhere. What mdbook would complain of, without it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::blocks::{pages, root};

/// The targets of a page's links, outside of code.
fn links(page: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        // Every second part is between backticks.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        links.extend(targets.map(ToOwned::to_owned));
    }
    links
}

/// `a/b/../c` is `a/c`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
        plain
    })
}

/// How a heading is named in a link, as on the forges and in mdbook.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let is_kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_';
    text.chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = include_str!("../../docs/SUMMARY.md");
    let listed: Vec<String> = links(summary).iter().map(|target| format!("docs/{target}")).collect();
    let once: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    let pages = pages();
    let there: BTreeSet<&String> = pages
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("docs/") && *name != "docs/SUMMARY.md")
        .collect();
    assert_eq!(once, there, "docs/SUMMARY.md lists, and the pages there are");
}

#[test]
fn no_link_leads_nowhere() {
    let pages = pages();
    let mut count = 0;
    for (name, page) in &pages {
        for link in links(page).iter().filter(|link| !link.contains("://")) {
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let folder = Path::new(name).parent().expect("a folder");
            let target = if file.is_empty() { PathBuf::from(name) } else { plain(&folder.join(file)) };
            assert!(root().join(&target).exists(), "{name} links to {link}, which is not there");
            // A book has nothing outside its folder.
            assert!(
                name == "README.md" || target.starts_with("docs"),
                "{name} links to {link}, out of the book"
            );
            if !part.is_empty() {
                let text = std::fs::read_to_string(root().join(&target)).expect("a page");
                let has = text.lines().any(|line| line.starts_with('#') && anchor(line) == part);
                assert!(has, "{name} links to {link}, and there is no such heading");
            }
            count += 1;
        }
    }
    assert!(count > 40, "only {count} links");
}
