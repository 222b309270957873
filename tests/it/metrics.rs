//! What the service tells of itself: the page is what others read, and the dashboard asks for what is on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use assay::daemon::metrics::FAMILIES;
use serde_json::Value;

/// The texts of all members of this name, at any depth.
fn texts(value: &Value, name: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if key == name => found.push(text.clone()),
                    other => texts(other, name, found),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| texts(element, name, found)),
        _ => {}
    }
}

/// The words of an expression of `PromQL`.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// What is between each of these two, which do not nest.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(open).skip(1).filter_map(move |rest| rest.split(close).next())
}

#[test]
fn the_dashboard_asks_for_what_is_told_and_for_all_of_it() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/grafana/assay.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(page).expect("a dashboard")).expect("JSON");
    let (mut asked, mut legends) = (Vec::new(), Vec::new());
    texts(&dashboard, "expr", &mut asked);
    texts(&dashboard["templating"], "query", &mut asked);
    texts(&dashboard, "legendFormat", &mut legends);
    let family_of = |word: &str| {
        FAMILIES.iter().find(|family| {
            family.kind.suffixes().iter().any(|suffix| word == format!("{}{suffix}", family.name))
        })
    };
    let mut used = BTreeSet::new();
    for (place, expression) in asked.iter().enumerate() {
        let families: Vec<_> = words(expression).filter(|word| word.starts_with("assay_")).collect();
        let Some(family) = families.first().and_then(|word| family_of(word)) else {
            assert!(families.is_empty() && !expression.contains("assay"), "no such metric: {expression}");
            continue;
        };
        assert_eq!(families.len(), 1, "{expression}");
        used.insert(family.name);
        // Prometheus itself adds the instance.
        let is_label = |label: &str| label == "instance" || family.labels.contains(&label);
        let selected = between(expression, "{", "}").flat_map(|inside| inside.split(','));
        let selected = selected.filter_map(|one| one.split(['=', '!']).next());
        let grouped = between(expression, "by (", ")").flat_map(|inside| inside.split(", "));
        for label in selected.chain(grouped) {
            assert!(is_label(label), "{expression}: no label {label}");
        }
        for label in legends.get(place).into_iter().flat_map(|legend| between(legend, "{{", "}}")) {
            assert!(is_label(label), "{expression}: no label {label} for its legend");
        }
    }
    let told: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
    assert_eq!(used, told, "what is told and shown");
}
