//! Evidence → one file of HTML that needs nothing else: no network, no other file. Pure.
//!
//! Names come from the run and may be hostile. Markup is made by maud, which escapes; data is a block that no text can
//! end; and a policy in the file itself lets run our own script and style, by their hashes, and nothing else. Without a
//! script the essentials are there as well, up to a limit.

mod data;
mod findings;
mod network;
mod page;
mod processes;

use std::io::{self, Write};

use base64ct::{Base64, Encoding as _};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::basis::Basis;
use crate::evidence::Evidence;
use crate::profile::name::harmless;

/// What the page looks like.
const STYLE: &str = include_str!("style.css");
/// What searches, folds and sorts in it.
const SCRIPT: &str = include_str!("script.js");

/// The most rows of a table that is there without a script.
const ROWS: usize = 200;

/// Writes the report.
pub fn write(out: &mut dyn Write, evidence: &Evidence, basis: Basis<'_>) -> io::Result<()> {
    let command = shortened(&evidence.identity.command.join(" "), 2000);
    write!(out, "{}\n<html lang=\"en\">\n{}\n<body>\n", DOCTYPE.into_string(), head(&command).into_string())?;
    out.write_all(page::body(evidence, basis, &command).into_string().as_bytes())?;
    out.write_all(b"\n<script type=\"application/json\" id=\"data\">")?;
    data::write(out, evidence, basis)?;
    let script = html! { script { (PreEscaped(SCRIPT)) } };
    write!(out, "</script>\n{}\n</body>\n</html>\n", script.into_string())
}

fn head(command: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy());
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="referrer" content="no-referrer";
            title { (shortened(command, 80)) " — assay run report" }
            style { (PreEscaped(STYLE)) }
        }
    }
}

/// Nothing is loaded, nothing is sent, and no markup is made of text. What may run is named by its hash.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", Base64::encode_string(&Sha256::digest(text.as_bytes())));
    format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

/// A name from the run, set apart from our words.
fn name(text: &str) -> Markup {
    html! { code { (shortened(text, 1000)) } }
}

/// Harmless to show, and not longer than this: names of 4095 bytes would push everything else off the page.
fn shortened(text: &str, most: usize) -> String {
    let text = harmless(text);
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into_owned(),
    }
}

/// What there is no room for.
fn more(all: usize, told: usize) -> Markup {
    html! { @if all > told { p.quiet { (all - told) " more are in the evidence." } } }
}

#[cfg(test)]
mod tests;
