//! What a policy file holds, as data: its schema is made of it. Pure.
//!
//! The reader of policies tells every problem with its line, and what addresses and patterns mean; it has its own
//! code, and a test holds both to the same files.

use super::parse::API_VERSION;
use super::rule::Access;
use crate::canon::shape::{Members, Shape, always, list, map, or_null, sometimes};

/// A policy.
pub fn policy() -> Shape {
    let paths = || {
        let access =
            Shape::List(Box::new(Shape::Word(Access::ALL.map(Access::as_str).into())), Members::Some);
        list(Shape::OneOf(vec![
            Shape::Filled,
            Shape::Object(vec![
                always("path", Shape::Filled, "the name, and all beneath it"),
                sometimes("access", access, "what is meant; without it, what a bare path means"),
            ]),
        ]))
    };
    let names = || list(Shape::Filled);
    let fs = Shape::Object(vec![
        sometimes("allow", paths(), "a bare path: read and execute beneath"),
        sometimes("deny", paths(), "a bare path: every access; wins over every allow"),
    ]);
    let net = Shape::Object(vec![
        sometimes("allow", names(), "`HOST:PORT`, `ADDRESS/BITS:PORT`, `unix:PATH`; `*` is any port"),
        sometimes("deny", names(), "the same, port optional; wins over every allow"),
    ]);
    let exec = Shape::Object(vec![
        sometimes("allow", names(), "only these may run; without it the execute access of `fs` decides"),
        sometimes("deny", names(), "these may not; wins over every allow"),
    ]);
    let ignored = Shape::Object(vec![
        always("rule", Shape::Text, "the rule whose findings are ignored"),
        sometimes("subject", Shape::Text, "only of these; `*` is any text"),
        always("reason", Shape::Filled, "why they were accepted"),
    ]);
    let lint = Shape::Object(vec![
        sometimes("levels", or_null(map(Shape::Word(vec!["error", "warn", "info", "off"]))), "by rule"),
        sometimes("ignore", or_null(list(ignored)), "findings that were looked at and accepted"),
    ]);
    Shape::Object(vec![
        always("api_version", Shape::Word(vec![API_VERSION]), "the version of the policy language"),
        sometimes(
            "base",
            Shape::Word(vec!["system", "none"]),
            "what any program needs is added, or nothing is",
        ),
        sometimes("extends", names(), "policies that this one adds to"),
        sometimes("fs", fs, "files"),
        sometimes("net", net, "endpoints; without it no network is allowed"),
        sometimes("exec", exec, "programs"),
        sometimes(
            "env",
            Shape::Object(vec![sometimes("allow", names(), "names or patterns")]),
            "variables that are kept",
        ),
        sometimes("lint", or_null(lint), "what `assay evidence lint` makes of its findings"),
        sometimes("notes", list(Shape::Text), "for whoever reads it; nothing follows from them"),
    ])
}
