//! A headless Chromium of a test's own, driven by the `DevTools` protocol over a pipe: no port, no library.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// One browser with one page.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// What happened that was not an answer, in order.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one, which shows an empty page.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        // The shell gives our two pipes the numbers that the browser reads commands from and writes answers to.
        let line = "exec chromium-headless-shell \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", line, "sh"])
            .args(["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--window-size=1280,900"])
            // Nothing is looked up, so nothing can be reached by name.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let commands = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let events = Vec::new();
        let mut browser =
            Self { child, commands, answers, session: None, last_id: 0, events, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached =
            browser.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().expect("a session").to_owned());
        for domain in ["Page", "Runtime", "Log", "Network", "DOM"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Calls a method, and waits for its answer.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let text = message.to_string() + "\0";
        self.commands.write_all(text.as_bytes()).expect("the browser reads");
        loop {
            let answer = self.next();
            if answer["id"] == self.last_id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn next(&mut self) -> Value {
        let mut text = Vec::new();
        self.answers.read_until(0, &mut text).expect("the browser answers");
        assert_eq!(
            text.pop(),
            Some(0),
            "the browser ended; is chromium-headless-shell installed? `cargo xtask setup`"
        );
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Waits for an event of this name, which may have come already.
    pub fn wait_for(&mut self, method: &str) {
        while !self.events.iter().any(|event| event["method"] == method) {
            let event = self.next();
            self.events.push(event);
        }
    }

    /// Opens a file, with a fragment, and waits until it is there.
    pub fn open(&mut self, path: &Path, fragment: &str) {
        // What the page before said is not of this one.
        self.events.clear();
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        self.wait_for("Page.loadEventFired");
        self.events.clear();
        self.call("Page.navigate", &json!({"url": format!("file://{}{fragment}", path.display())}));
        self.wait_for("Page.loadEventFired");
    }

    /// What an expression in the page comes to; promises are waited for.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The events of this name.
    pub fn events_of(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["method"] == method).collect()
    }

    /// Presses a key, as a person would.
    pub fn press(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let params =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", &params);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
