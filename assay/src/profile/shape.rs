//! What a profile holds, as data: the reader checks it, the schema is made of it. Pure.

use super::wire::{API_VERSION, Grant};
use crate::canon::shape::{Members, Shape, always, list, set, sometimes};

/// A profile: a policy that only allows, and denies what the learned policy denies within that.
pub fn profile() -> Shape {
    let rule = || {
        let grants = Shape::Word(Grant::ALL.map(Grant::as_str).into());
        let words = Shape::List(Box::new(grants), Members::SomeDistinct);
        Shape::OneOf(vec![
            Shape::Text,
            Shape::Object(vec![
                always("path", Shape::Text, "the name, and all beneath it"),
                always("access", words, "what may be done there"),
            ]),
        ])
    };
    let texts = || Shape::Object(vec![always("allow", set(Shape::Text), "each as a policy writes it")]);
    let fs = Shape::Object(vec![
        always("allow", set(rule()), "a bare path: read and execute beneath"),
        sometimes("deny", set(rule()), "a bare path: every access"),
    ]);
    Shape::Object(vec![
        always("api_version", Shape::Word(vec![API_VERSION]), "the version of the policy language"),
        sometimes("fs", fs, "files"),
        sometimes("net", texts(), "endpoints"),
        sometimes("exec", texts(), "programs; without it the execute access of `fs` decides"),
        sometimes("notes", list(Shape::Text), "for whoever reads it; nothing follows from them"),
    ])
}
