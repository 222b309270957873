//! What a person sees and does in the report of a run, and what a hostile run cannot do there.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use assay::evidence::Evidence;
use assay::profile::effect::{Effect, EffectResult, FsOp};
use assay::profile::name::harmless;
use serde_json::{Value, json};

use crate::chromium::Browser;
use crate::page::{evidence, file, fs};

/// Names that would do something where text became markup, a script, a style or an address.
const HOSTILE: &[&str] = &[
    "/a/<script>window.pwned=1</script>",
    "/a/</script><script>window.pwned=1</script>",
    "/a/<!--<script>",
    "/a/--><img src=x onerror=window.pwned=1>",
    "/a/\"><img src=x onerror=window.pwned=1>",
    "/a/'><svg onload=window.pwned=1>",
    "/a/</style><style>*{display:none}</style>",
    "/a/</code></td></tr></table><h1>All is well</h1>",
    "/a/</textarea></title><iframe srcdoc='<script>top.pwned=1</script>'>",
    "/a/<base href=http://192.0.2.1/>",
    "/a/<meta http-equiv=refresh content=0;url=http://192.0.2.1/>",
    "/a/<form action=http://192.0.2.1/><input name=q>",
    "/a/<a href=javascript:window.pwned=1>x</a>",
    "javascript:window.pwned=1",
    "/a/${`${window.pwned=1}`}",
    "/a/{{constructor.constructor('window.pwned=1')()}}",
    "/a/&lt;script&gt;&amp;&#60;b&#62;",
    "/a/line\nfeed\r\tand\u{2028}\u{2029}",
    "/a/\u{202e}txt.exe\u{2066}\u{200f}",
    "/a/\u{0}\u{1b}[2J\u{9b}",
    "/a/__proto__/constructor/toString",
    "__proto__",
    "/a/\\u003cscript\\u003e\\x3c",
];

fn names(evidence: &Evidence) -> BTreeSet<(String, String)> {
    let told = |effect: &Effect| match effect {
        Effect::Fs(fs) => (fs.op.as_str().to_owned(), fs.path.to_string()),
        Effect::Exec(exec) => ("execute".to_owned(), exec.path.to_string()),
        Effect::Net(net) => (net.op.as_str().to_owned(), assay::evidence::events::endpoint(net)),
    };
    evidence.identity.effects.iter().map(told).map(|(op, name)| (op, harmless(&name).into_owned())).collect()
}

/// The rows of the table of effects: operation and name.
fn rows(browser: &mut Browser) -> Vec<(String, String)> {
    let rows = browser.eval(
        "[...document.querySelectorAll('#rows tr')].map((row) => [row.cells[0].textContent, row.querySelector('code').textContent])",
    );
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    rows.as_array().expect("rows").iter().map(|row| (text(&row[0]), text(&row[1]))).collect()
}

fn show_all(browser: &mut Browser) {
    browser.eval("while (!document.getElementById('more').hidden) document.getElementById('more').click()");
}

fn found(browser: &mut Browser) -> String {
    browser.eval("document.getElementById('found').textContent").as_str().expect("text").to_owned()
}

fn set(browser: &mut Browser, field: &str, value: &str) {
    let value = json!(value);
    browser.eval(&format!(
        "{{ const field = document.getElementById('{field}'); field.value = {value}; field.dispatchEvent(new Event('input', {{bubbles: true}})); }}"
    ));
}

#[test]
fn no_name_of_a_run_does_anything_and_every_effect_is_there() {
    let evidence = evidence(HOSTILE, Vec::new());
    let (_directory, path) = file(&evidence);
    let mut browser = Browser::start();
    browser.open(&path, "");
    show_all(&mut browser);
    // Everything that can be opened is, so that what is made late is made.
    browser.eval(
        "(async () => { for (let turn = 0; turn < 8; turn += 1) { for (const one of document.querySelectorAll('details')) one.open = true; \
         await new Promise((done) => setTimeout(done)); } })()",
    );
    assert_eq!(browser.eval("typeof window.pwned"), "undefined");
    let told: Vec<_> = rows(&mut browser);
    assert_eq!(told.len(), evidence.identity.effects.len());
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), names(&evidence));
    assert_eq!(browser.eval("document.scripts.length"), 2);
    let foreign = "img, iframe, object, embed, base, link, textarea, form:not(#filter), meta[http-equiv=refresh], style + style, h1 + h1, \
                   a:not([href^='#'])";
    assert_eq!(browser.eval(&format!("document.querySelectorAll(\"{foreign}\").length")), 0);
    let attributes = "[...document.querySelectorAll('*')].flatMap((one) => [...one.attributes]).filter((one) => one.name.startsWith('on') || one.name === 'style').length";
    assert_eq!(browser.eval(attributes), 0);
    // No character that would move what is beside it.
    let moved = "/[\\u202a-\\u202e\\u2066-\\u2069\\u200e\\u200f\\u2028\\u2029\\u0000\\u001b]/.test(document.body.textContent)";
    assert_eq!(browser.eval(moved), false);
    for event in
        ["Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening", "Page.windowOpen"]
    {
        assert!(browser.events_of(event).is_empty(), "{event}: {:?}", browser.events_of(event));
    }
    let asked: Vec<String> = browser
        .events_of("Network.requestWillBeSent")
        .iter()
        .map(|event| event["params"]["request"]["url"].to_string())
        .collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
}

/// The test above would say nothing if the page let scripts run: what gets into it by another way is stopped, too.
#[test]
fn the_page_stops_scripts_styles_and_markup_that_are_not_its_own() {
    let (_directory, path) = file(&evidence(&[], Vec::new()));
    let mut browser = Browser::start();
    browser.open(&path, "");
    let is_refused = |browser: &mut Browser, what: &str| {
        browser.eval(&format!("(() => {{ try {{ {what}; return false }} catch (error) {{ return error instanceof TypeError }} }})()"))
    };
    assert_eq!(is_refused(&mut browser, "document.body.innerHTML = '<b>x</b>'"), true);
    assert_eq!(is_refused(&mut browser, "document.createElement('script').text = 'window.pwned = 1'"), true);
    browser.eval(
        "(async () => { const image = document.createElement('b'); const script = document.createElement('script'); \
         script.append('window.pwned = 1'); const style = document.createElement('style'); style.append('main { display: none }'); \
         const picture = document.createElement('img'); picture.src = 'http://192.0.2.1/x.png'; \
         document.body.append(image, script, style, picture); await new Promise((done) => setTimeout(done, 50)); })()",
    );
    assert_eq!(browser.eval("typeof window.pwned"), "undefined");
    assert_eq!(browser.eval("getComputedStyle(document.querySelector('main')).display"), "grid");
    let failed = browser.events_of("Network.loadingFailed");
    assert!(failed.iter().all(|event| event["params"]["blockedReason"] == "csp"), "{failed:?}");
    assert!(!browser.events_of("Log.entryAdded").is_empty(), "a refusal is told");
}

#[test]
fn a_filter_finds_what_it_says_and_stands_in_the_address() {
    let (_directory, path) = file(&evidence(&[], Vec::new()));
    let mut browser = Browser::start();
    browser.open(&path, "");
    let check = |browser: &mut Browser, want: &[(&str, &str)], said: &str| {
        let want: BTreeSet<_> =
            want.iter().map(|(op, name)| ((*op).to_owned(), (*name).to_owned())).collect();
        assert_eq!(rows(browser).into_iter().collect::<BTreeSet<_>>(), want, "{said}");
        assert_eq!(found(browser), said);
    };
    assert_eq!(found(&mut browser), "7 effects.");
    set(&mut browser, "q", "EXAMPLE api");
    check(&mut browser, &[("connect", "api.example.test:443")], "1 of 7 effects.");
    assert_eq!(browser.eval("location.hash"), "#q=EXAMPLE+api");
    set(&mut browser, "q", "");
    set(&mut browser, "result", "denied");
    check(
        &mut browser,
        &[("write", "${HOME}/.bashrc"), ("connect", "collect.example.test:443")],
        "2 of 7 effects.",
    );
    set(&mut browser, "kind", "network");
    check(&mut browser, &[("connect", "collect.example.test:443")], "1 of 7 effects.");
    assert_eq!(browser.eval("location.hash"), "#kind=network&result=denied");
    // Who is sent the address sees the same.
    browser.open(&path, "#op=changed&q=out");
    check(&mut browser, &[("create", "${WORKDIR}/out/a.o"), ("create", "/srv/outside")], "2 of 7 effects.");
    assert_eq!(browser.eval("document.getElementById('q').value"), "out");
    // A link within the page, and what is no filter or holds nonsense.
    browser.eval("new Promise((done) => { addEventListener('hashchange', () => setTimeout(done)); location.hash = '#result=protected' })");
    check(&mut browser, &[("write", "${HOME}/.bashrc")], "1 of 7 effects.");
    browser.eval("document.getElementById('clear').click()");
    assert_eq!(found(&mut browser), "7 effects.");
    browser.open(&path, "#kind=__proto__&op=%F0%28&result=toString&q=");
    assert!(browser.events_of("Runtime.exceptionThrown").is_empty());
    assert_eq!(found(&mut browser), "7 effects.");
    browser.open(&path, "#network");
    assert_eq!(found(&mut browser), "7 effects.");
}

#[test]
fn ten_thousand_effects_take_no_more_work_at_once_than_two_hundred() {
    let of = |n: usize| fs(FsOp::Read, &format!("/usr/share/d{}/f{n}", n % 400), EffectResult::Ok);
    let evidence = evidence(&[], (0..10_000).map(of).collect());
    let (_directory, path) = file(&evidence);
    let mut browser = Browser::start();
    browser.open(&path, "");
    let elements = browser.eval("document.querySelectorAll('*').length").as_u64().expect("a number");
    assert!(elements < 5000, "{elements} elements");
    assert_eq!(rows(&mut browser).len(), 200);
    assert_eq!(found(&mut browser), "10007 effects.");
    // What is made when a filter is typed, letter by letter, is counted.
    browser.eval(
        "window.made = 0; new MutationObserver((all) => { for (const one of all) for (const node of one.addedNodes) \
         window.made += node.nodeType === 1 ? 1 + node.querySelectorAll('*').length : 0 }).observe(document.body, {childList: true, subtree: true})",
    );
    for (typed, said) in [("/f", "10000"), ("/f9", "1111"), ("/f99", "111"), ("/f999", "11"), ("/f9999", "1")]
    {
        browser.eval("window.made = 0");
        set(&mut browser, "q", typed);
        browser.eval("new Promise((done) => setTimeout(done))");
        assert!(found(&mut browser).starts_with(&format!("{said} of ")), "{typed}: {}", found(&mut browser));
        let made = browser.eval("window.made").as_u64().expect("a number");
        assert!(made <= 200 * 8, "{typed}: {made} elements were made");
    }
    set(&mut browser, "q", "");
    show_all(&mut browser);
    assert_eq!(rows(&mut browser).into_iter().collect::<BTreeSet<_>>(), names(&evidence));
    // A directory of many is opened in pieces, too.
    let open = "(async () => { for (const name of ['/', 'usr/share/']) { \
        const folder = [...document.querySelectorAll('#tree details')].find((one) => one.querySelector('summary code').textContent === name); \
        if (folder) { folder.open = true; await new Promise((done) => setTimeout(done, 20)); } } \
        return document.querySelectorAll('#tree li').length })()";
    let items = browser.eval(open).as_u64().expect("a number");
    assert!((200..450).contains(&items), "{items} lines of the tree");
}

#[test]
fn light_and_dark_follow_the_system_until_a_person_chooses() {
    let (_directory, path) = file(&evidence(&[], Vec::new()));
    let mut browser = Browser::start();
    let background =
        |browser: &mut Browser| browser.eval("getComputedStyle(document.body).backgroundColor").to_string();
    let mut seen = Vec::new();
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", &features);
        browser.open(&path, "");
        seen.push(background(&mut browser));
    }
    assert_ne!(seen[0], seen[1]);
    let press = |browser: &mut Browser| {
        browser.eval("document.getElementById('theme').click(), document.getElementById('theme').textContent")
    };
    assert_eq!(press(&mut browser), "Theme: light");
    assert_eq!(background(&mut browser), seen[0]);
    assert_eq!(press(&mut browser), "Theme: dark");
    assert_eq!(background(&mut browser), seen[1]);
    assert_eq!(press(&mut browser), "Theme: system");
}

#[test]
fn the_keyboard_reaches_and_opens_everything() {
    let (_directory, path) = file(&evidence(&[], Vec::new()));
    let mut browser = Browser::start();
    browser.open(&path, "");
    let focused = "(document.activeElement.id || document.activeElement.className || document.activeElement.textContent.trim().slice(0, 40))";
    let mut order = Vec::new();
    for _ in 0..200 {
        browser.press("Tab", 9);
        let at = browser.eval(focused).as_str().expect("text").to_owned();
        let is_seen = browser.eval("getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement === document.body");
        assert_eq!(is_seen, true, "the focus on {at} is not seen");
        if order.first() == Some(&at) || browser.eval("document.activeElement === document.body") == true {
            break;
        }
        order.push(at);
    }
    assert_eq!(order[0], "skip");
    let place =
        |name: &str| order.iter().position(|at| at == name).unwrap_or_else(|| panic!("{name}: {order:?}"));
    let at = ["theme", "fold", "q", "kind", "op", "result", "clear"].map(place);
    assert!(at.is_sorted(), "{order:?}");
    // A directory and a process fold by the keyboard.
    browser.eval("document.querySelector('#tree details:not([open]) summary').focus()");
    browser.press("Enter", 13);
    assert_eq!(browser.eval("document.activeElement.parentElement.open"), true);
    let rows = "document.querySelectorAll('#process-rows tr').length";
    assert_eq!(browser.eval(rows), 3);
    browser.eval("document.querySelector('.fold').focus()");
    browser.press("Enter", 13);
    assert_eq!(browser.eval(rows), 1);
    assert_eq!(browser.eval("document.activeElement.getAttribute('aria-expanded')"), "false");
}

/// With everything open, in both themes, and of a run without anything in it.
#[test]
fn axe_finds_nothing_that_keeps_anybody_out() {
    let axe = std::env::var("ASSAY_AXE").expect("ASSAY_AXE: `cargo xtask browser` sets it");
    let axe = std::fs::read_to_string(&axe).unwrap_or_else(|error| panic!("{axe}: {error}"));
    let mut browser = Browser::start();
    // axe makes markup of its own, which the page would refuse.
    browser.call("Page.setBypassCSP", &json!({"enabled": true}));
    let mut empty = evidence(&[], Vec::new());
    (empty.identity.effects, empty.observed) = (Vec::new(), assay::evidence::Observed::default());
    for (evidence, scheme) in
        [(evidence(&[], Vec::new()), "light"), (evidence(&[], Vec::new()), "dark"), (empty, "light")]
    {
        let (_directory, path) = file(&evidence);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", &features);
        browser.open(&path, "");
        browser.eval("for (const one of document.querySelectorAll('details')) one.open = true; 1");
        browser.eval(&format!("{axe}; 1"));
        let found = browser.eval(
            "axe.run(document).then(({violations, passes}) => ({passes: passes.length, violations: violations.map(({id, help, nodes}) => \
             [id, help, nodes.slice(0, 5).map((node) => [node.html.slice(0, 200), node.failureSummary])])}))",
        );
        assert!(found["passes"].as_u64() > Some(20), "{found}");
        assert_eq!(found["violations"], json!([]), "{scheme}: {found:#}");
    }
}

#[test]
fn a_strict_parser_finds_no_error() {
    let (_directory, path) = file(&evidence(HOSTILE, Vec::new()));
    let program = "import sys, html5lib\n\
        parser = html5lib.HTMLParser(strict=False)\n\
        parser.parse(open(sys.argv[1], 'rb'), transport_encoding='utf-8')\n\
        print(parser.errors)\n";
    // Debian's own: a newer one elsewhere may be without the library.
    let output = Command::new("/usr/bin/python3")
        .args(["-c", program])
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: `cargo xtask setup`", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim(), "[]");
}

#[test]
fn without_a_script_the_essentials_are_seen() {
    let (_directory, path) = file(&evidence(&[], Vec::new()));
    let mut browser = Browser::start();
    browser.call("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    browser.open(&path, "");
    // What is shown, as the page is laid out.
    let tree = browser.call("Accessibility.getFullAXTree", &json!({}));
    let texts: Vec<&str> = tree["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .filter(|node| node["ignored"] == false)
        .filter_map(|node| node["name"]["value"].as_str())
        .collect();
    let has = |text: &str| texts.iter().any(|told| told.contains(text));
    for text in [
        "The policy stopped something.",
        "Network egress",
        "Configuration protection",
        "${HOME}/.bashrc",
        "api.example.test:443",
        "/usr/bin/make",
        "Search and the list of all effects need the script",
    ] {
        assert!(has(text), "{text}: {texts:?}");
    }
    assert!(!has("Theme: system"), "{texts:?}");
}
