//! Holds every artifact of a run against the schema of its format: `docs/formats/schema`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

#[path = "../it/schema.rs"]
mod schema;

/// The formats of a run's artifacts.
#[derive(Debug, Clone, Copy)]
pub enum Format {
    Evidence,
    Profile,
    Policy,
    TraceLine,
    Status,
    Manifest,
    Event,
}

impl Format {
    fn schema(self) -> &'static Value {
        static SCHEMAS: OnceLock<[Value; 7]> = OnceLock::new();
        let schemas = SCHEMAS.get_or_init(|| {
            [
                include_str!("../../docs/formats/schema/evidence-profile.v1.schema.json"),
                include_str!("../../docs/formats/schema/profile.v1.schema.json"),
                include_str!("../../docs/formats/schema/policy.v1.schema.json"),
                include_str!("../../docs/formats/schema/trace-line.v1.schema.json"),
                include_str!("../../docs/formats/schema/status-file.v1.schema.json"),
                include_str!("../../docs/formats/schema/bundle-manifest.v1.schema.json"),
                include_str!("../../docs/formats/schema/bundle-event.v1.schema.json"),
            ]
            .map(|text| serde_json::from_str(text).expect("a schema"))
        });
        &schemas[self as usize]
    }

    /// The value must be of this format.
    pub fn check(self, value: &Value) {
        let complaints = schema::complaints(self.schema(), value);
        assert!(complaints.is_empty(), "{self:?}: {complaints:?}\n{value}");
    }
}

/// The lines of a trace must be: of each kind of act with each result the first, as there may be very many.
pub fn check_lines(trace: &str) {
    let text = std::fs::read_to_string(trace).expect("a trace");
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let keys: Vec<String> = line.as_object().expect("an object").keys().cloned().collect();
        if seen.insert((line["op"].to_string(), line["result"].to_string(), keys)) {
            Format::TraceLine.check(&line);
        }
    }
}

/// The manifest of a bundle, read with what is on every machine.
pub fn manifest(bundle: &Path) -> Value {
    let output = Command::new("tar").arg("-xzOf").arg(bundle).arg("manifest.json").output().expect("tar");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
