//! The policies of `docs/guides/policies`, with real work under each, and an attack in each.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 4] = [Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(4)];

/// A home with a key in it, and a work directory.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(test: &str, program: &'static str) -> Option<Self> {
        let needs = [&NEEDS[..], &[Need::Program(program)]].concat();
        if !are_met(&format!("recipes::{test}"), &needs) {
            return None;
        }
        let place = Self { folder: tempfile::tempdir_in("/var/tmp").expect("a folder") };
        for (name, content) in
            [("home/.ssh/id_ed25519", "key\n"), ("home/.aws/credentials", "key\n"), ("home/.bashrc", "\n")]
        {
            place.file(name, content);
        }
        fs::create_dir(place.path("w")).expect("a folder");
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    /// Runs a script in the work directory under a policy that extends the recipe by `more`; the verdict, and what was
    /// said of it.
    fn run(&self, recipe: &str, more: &str, script: &str) -> (String, String) {
        let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/policies");
        let recipe = guides.join(recipe).canonicalize().expect("the recipe");
        self.file(
            "policy.yaml",
            &format!("api_version: assay/v1\nextends: ['{}']\n{more}", recipe.display()),
        );
        let (policy, status) = (self.path("policy.yaml"), self.path("status"));
        let [policy, status] = [&policy, &status].map(|path| path.to_str().expect("a plain name"));
        let options = ["--enforce", "--policy", policy, "--status-file", status];
        let mut assay = Command::new(ASSAY);
        assay.arg("sandbox").args(options).args(["--", "sh", "-ec", script]).stdin(Stdio::null());
        assay.env_remove("SUDO_UID").env_remove("SUDO_GID");
        assay.env("HOME", self.path("home"));
        assay.env_remove("CARGO_HOME").env_remove("RUSTUP_HOME").env_remove("XDG_CONFIG_HOME");
        let output = assay.current_dir(self.path("w")).output().expect("assay runs");
        let told = text(&output.stdout) + &text(&output.stderr);
        let status: Value =
            serde_json::from_slice(&fs::read(self.path("status")).expect("a status file")).expect("JSON");
        (format!("{} {}", status["exit_code"], status["verdict"].as_str().expect("a verdict")), told)
    }

    /// Work that goes through without a denial.
    fn works(&self, recipe: &str, script: &str) {
        let (outcome, told) = self.run(recipe, "", script);
        assert_eq!(outcome, "0 ok", "{script}: {told}");
    }

    /// An attack whose every line fails, while the script goes on.
    fn stops(&self, recipe: &str, script: &str) {
        let (outcome, told) = self.run(recipe, "", script);
        assert_eq!(outcome, "0 denied", "{script}: {told}");
        assert!(!told.contains("PASSED"), "{script}: {told}");
        assert_eq!(fs::read_to_string(self.path("home/.bashrc")).expect("a file"), "\n");
        let stolen = fs::read_to_string(self.path("w/stolen")).unwrap_or_default();
        assert!(!stolen.contains("key"), "{stolen}");
    }
}

#[test]
fn git_work_goes_on_and_a_hook_cannot_be_planted() {
    let Some(place) = Place::new("git_work_goes_on_and_a_hook_cannot_be_planted", "git") else { return };
    place.file("w/.github/workflows/ci.yml", "on: push\n");
    place.file("home/.gitconfig", "[user]\nname=a\nemail=a@example.org\n[init]\ndefaultBranch=main\n");
    let prepared = Command::new("sh")
        .args(["-ec", "git init -q; echo 1 > f; git add f; git commit -qm one"])
        .current_dir(place.path("w"))
        .env("HOME", place.path("home"))
        .output()
        .expect("git runs");
    assert!(prepared.status.success(), "{}", text(&prepared.stderr));
    place.works(
        "git.yaml",
        "echo 2 > f; git add f; git commit -qm two; git branch b; git checkout -q b; echo 3 > g; git add g; git commit -qm three; \
         git checkout -q main; git merge -q b; echo 4 > f; git stash -q; git stash pop -q; git commit -qam four; git tag v1; \
         git rebase -q b; git log --oneline > log; git diff HEAD~1 > d; git gc -q; git worktree add -q inner; cd inner; echo 5 > h; \
         git add h; git commit -qm five",
    );
    place.stops(
        "git.yaml",
        "(echo evil > .git/hooks/post-checkout) 2>/dev/null && echo PASSED
         (git config core.hooksPath /tmp) 2>/dev/null && echo PASSED
         (echo evil > .github/workflows/x.yml) 2>/dev/null && echo PASSED
         (echo evil >> .github/workflows/ci.yml) 2>/dev/null && echo PASSED
         (git -c core.sshCommand='cat ~/.ssh/id_ed25519 >stolen; true' fetch ssh://x.invalid/y) 2>/dev/null && echo PASSED
         (echo evil >> ~/.gitconfig) 2>/dev/null && echo PASSED
         exit 0",
    );
}

#[test]
fn a_node_project_builds_and_an_install_script_steals_nothing() {
    let Some(place) = Place::new("a_node_project_builds_and_an_install_script_steals_nothing", "npm") else {
        return;
    };
    place.file(
        "w/package.json",
        r#"{"name":"app","version":"1.0.0","scripts":{"test":"node --test","build":"node build.js"}}"#,
    );
    place.file("w/build.js", "require('fs').writeFileSync('out.js', '1');\n");
    place.file(
        "w/a.test.js",
        "const test = require('node:test'), http = require('http');
test('serves', (t, done) => {
  const server = http.createServer((q, s) => s.end('x')).listen(0, '127.0.0.1', () =>
    http.get({ port: server.address().port, host: '127.0.0.1' }, r => { r.resume(); r.on('end', () => { server.close(); done(); }); }));
});\n",
    );
    place.file("w/dep/package.json", r#"{"name":"dep","version":"1.0.0"}"#);
    place.file(
        "w/evil/package.json",
        r#"{"name":"evil","version":"1.0.0","scripts":{"postinstall":"cat ~/.ssh/id_ed25519 > ../../stolen || true; echo evil >> ~/.bashrc || true; node -e \"require('net').connect(443,'192.0.2.1').on('error',()=>{})\" || true"}}"#,
    );
    fs::create_dir_all(place.path("home/.npm")).expect("a folder");
    fs::create_dir_all(place.path("home/.cache/node")).expect("a folder");
    place.works(
        "node.yaml",
        "npm install --no-update-notifier --offline --no-audit --no-fund ./dep; npm run --no-update-notifier build; node --test; test -e out.js",
    );
    place.stops(
        "node.yaml",
        "npm install --no-update-notifier --offline --no-audit --no-fund --foreground-scripts ./evil",
    );
}

#[test]
fn a_python_project_is_tested_and_a_test_reads_no_credentials() {
    let Some(place) =
        Place::new("a_python_project_is_tested_and_a_test_reads_no_credentials", "/usr/bin/python3")
    else {
        return;
    };
    place.file(
        "w/test_x.py",
        "import multiprocessing, sqlite3, tempfile, unittest
def double(x): return x * 2
class T(unittest.TestCase):
    def test(self):
        with multiprocessing.Pool(2) as pool: self.assertEqual(pool.map(double, [1, 2]), [2, 4])
        with tempfile.TemporaryDirectory() as d: sqlite3.connect(d + '/x.db').execute('create table t(a)')
",
    );
    place.file(
        "w/test_evil.py",
        "import os, socket
def try_it(act):
    try: act(); print('PASSED')
    except OSError: pass
home = os.environ['HOME']
try_it(lambda: open('stolen', 'w').write(open(home + '/.aws/credentials').read()))
try_it(lambda: open(home + '/.bashrc', 'a').write('evil'))
try_it(lambda: socket.create_connection(('192.0.2.1', 443), 2))
try_it(lambda: os.kill(1, 0))
",
    );
    fs::create_dir_all(place.path("home/.cache/pip")).expect("a folder");
    place.works(
        "python.yaml",
        "/usr/bin/python3 -m venv --without-pip v; v/bin/python -m unittest -q test_x; v/bin/python -m compileall -q test_x.py",
    );
    place.stops("python.yaml", "/usr/bin/python3 test_evil.py");
}

#[test]
fn a_rust_project_builds_and_a_build_script_plants_nothing() {
    let Some(place) = Place::new("a_rust_project_builds_and_a_build_script_plants_nothing", "cargo") else {
        return;
    };
    let home = std::env::var_os("HOME").map(PathBuf::from).expect("a home");
    for (name, variable) in [(".cargo", "CARGO_HOME"), (".rustup", "RUSTUP_HOME")] {
        let real = std::env::var_os(variable).map_or_else(|| home.join(name), PathBuf::from);
        // A home whose parts lie elsewhere.
        symlink(real, place.path("home").join(name)).expect("a link");
    }
    place.file("w/Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    place.file("w/src/main.rs", "fn main() {}\n#[test]\nfn it_works() { assert_eq!(1, 1); }\n");
    place.works("rust.yaml", "cargo build --offline -q; cargo test --offline -q; cargo fmt --check || true");
    place.file(
        "w/build.rs",
        "use std::fs;
fn main() {
    let home = std::env::var(\"HOME\").unwrap();
    let key = fs::read_to_string(home.clone() + \"/.ssh/id_ed25519\");
    let found = [
        key.is_ok(),
        fs::write(home + \"/.bashrc\", \"evil\").is_ok(),
        fs::write(\".git/hooks/pre-commit\", \"evil\").is_ok(),
        std::net::TcpStream::connect(\"192.0.2.1:443\").is_ok(),
        fs::read(\"/etc/shadow\").is_ok(),
    ];
    if found.contains(&true) { fs::write(\"stolen\", format!(\"key {found:?}\")).unwrap(); }
}\n",
    );
    place.file("w/.git/hooks/pre-commit.sample", "");
    place.stops("rust.yaml", "cargo build --offline -q");
}
