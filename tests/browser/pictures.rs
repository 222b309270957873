//! Pictures of a report, for the documentation: `cargo xtask browser --pictures REPORT` makes them.

use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding as _};
use serde_json::json;

use crate::chromium::Browser;
use crate::page::{evidence, file};

/// The pictures are of the report that this names, and lie in `docs/images`; without it, they are made and looked at.
const REPORT: &str = "ASSAY_PICTURE_OF";

#[test]
fn pictures_are_made_light_and_dark() {
    let (_directory, sample) = file(&evidence(&[], Vec::new()));
    let asked = std::env::var_os(REPORT).map(PathBuf::from);
    let path = asked.as_ref().map_or(sample, |path| path.canonicalize().expect("a report"));
    let mut browser = Browser::start();
    let mut sizes = Vec::new();
    // The first screen, and the files and processes further down.
    for (scheme, place) in [("light", "header"), ("dark", "#files")] {
        let still = json!({"name": "prefers-reduced-motion", "value": "reduce"});
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}, still]});
        browser.call("Emulation.setEmulatedMedia", &features);
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": 1180, "height": 1200, "deviceScaleFactor": 1, "mobile": false}),
        );
        browser.open(&path, "");
        browser.eval(&format!("document.querySelector('{place}').scrollIntoView()"));
        let picture =
            browser.call("Page.captureScreenshot", &json!({"format": "png", "optimizeForSpeed": false}));
        let bytes = Base64::decode_vec(picture["data"].as_str().expect("a picture")).expect("base64");
        assert!(bytes.starts_with(b"\x89PNG"));
        if asked.is_some() {
            let name = format!("../docs/images/report-{scheme}.png");
            let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            std::fs::create_dir_all(picture.parent().expect("a directory")).expect("a directory");
            std::fs::write(picture, &bytes).expect("a file");
        }
        sizes.push(bytes.len());
    }
    assert!(sizes.iter().all(|size| (10_000..200_000).contains(size)), "{sizes:?} bytes");
}
