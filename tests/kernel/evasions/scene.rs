//! Where the cases act: a folder with what they need, and the others they try to reach.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::outside::{Giver, Victim};
use super::{Setting, given};
use crate::stage::{Stage, tiny_program};

/// A folder, and the world around it.
pub struct Scene {
    /// The stage.
    pub stage: Stage,
    place: PathBuf,
    /// Who listens.
    pub tcp: SocketAddr,
    /// Who receives.
    pub udp: SocketAddr,
    /// Ports where nobody is.
    pub free: [u16; 4],
    /// Processes that are not the run's, one for each way to reach into one.
    pub victim: Victim,
    pub other: Victim,
    pub mapped: Victim,
    pub read: Victim,
    _giver: Giver,
    _held: (TcpListener, UdpSocket, Vec<UnixListener>),
}

impl Scene {
    /// For a run in this setting, whose cases act in the work directory.
    pub fn new(test: &str, setting: Setting) -> Option<Self> {
        let shell = [crate::needs::Need::Program("bash")];
        if setting == Setting::Given && !crate::needs::are_met(test, &shell) {
            return None;
        }
        let stage = Stage::new(test)?;
        let place = stage.path("door");
        fill(&place);
        let stage = match setting {
            Setting::Plain => stage,
            Setting::Given => given::open_before(stage),
            Setting::Caps(names) => stage.option(&["--keep-caps", names]),
        };
        Some(Self::around(stage, place))
    }

    /// For a run under enforcement, whose cases act where its policy allows nothing.
    pub fn closed(test: &str) -> Option<Self> {
        let needs = [crate::needs::Need::LandlockAbi(3)];
        if !crate::needs::are_met(test, &needs) {
            return None;
        }
        let stage = Stage::new(test)?;
        let place = stage.path("").parent().expect("a folder above").join("closed");
        fill(&place);
        let program = crate::stage::program();
        let policy = format!(
            "api_version: assay/v1\nfs:\n  allow:\n    - {{path: \"${{WORKDIR}}\", access: [read, write, execute]}}\n    - {{path: {program}, access: [read, execute]}}\nnet:\n  allow: [\"127.0.0.1:*\"]\n"
        );
        fs::write(stage.path("policy.yaml"), policy).expect("a policy");
        Some(Self::around(stage, place))
    }

    fn around(stage: Stage, place: PathBuf) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a receiver");
        let names = ["docker.sock", "bus", "agent"];
        let unix =
            names.iter().map(|name| UnixListener::bind(place.join(name)).expect("a listener")).collect();
        let giver = Giver::start(&place);
        Self {
            tcp: tcp.local_addr().expect("its address"),
            udp: udp.local_addr().expect("its address"),
            free: std::array::from_fn(|_| crate::network::free_port()),
            victim: Victim::start(),
            other: Victim::start(),
            mapped: Victim::start(),
            read: Victim::start(),
            _giver: giver,
            _held: (tcp, udp, unix),
            stage,
            place,
        }
    }

    /// A path where the cases act.
    pub fn at(&self, name: &str) -> String {
        self.place.join(name).to_str().expect("a plain name").to_owned()
    }

    /// A line of the trace, `@` for where the cases act.
    pub fn line(&self, text: &str) -> String {
        text.replace('@', "$/door")
    }

    /// A path of the record as the cases have it.
    pub fn placed(&self, path: &str) -> String {
        let place = self.place.to_str().expect("a plain name");
        path.replace("${WORKDIR}/door", "@").replace(place, "@")
    }

    /// Whether an effect is about what the cases do: where they act, or on the network.
    #[expect(clippy::unused_self, reason = "it is the scene that knows")]
    pub fn is_about(&self, effect: &str) -> bool {
        let op = effect.split(' ').next().unwrap_or_default();
        effect.contains('@')
            || effect.contains(" memfd:")
            || effect.contains(" handle:")
            || ["connect", "bind", "listen", "send"].contains(&op)
    }

    /// Options of a run under enforcement.
    pub fn options(&self) -> Vec<&'static str> {
        let artifact = |name: &str| {
            &*Box::leak(self.stage.artifact(name).to_string_lossy().into_owned().into_boxed_str())
        };
        let policy = &*Box::leak(self.stage.at("policy.yaml").into_boxed_str());
        let mut options = vec!["--enforce", "--policy", policy, "--profile-format", "json"];
        for (option, name) in [
            ("--trace", "trace"),
            ("--bundle", "bundle.tar.gz"),
            ("--profile", "run.profile.json"),
            ("--status-file", "status"),
        ] {
            options.extend([option, artifact(name)]);
        }
        options
    }

    /// All that lies where the cases act: names, kinds, modes, sizes, links and contents.
    pub fn tree(&self) -> BTreeMap<PathBuf, (u32, u64, u64, Vec<u8>)> {
        let mut tree = BTreeMap::new();
        walk(&self.place, &mut tree);
        tree
    }
}

fn walk(folder: &Path, tree: &mut BTreeMap<PathBuf, (u32, u64, u64, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let meta = fs::symlink_metadata(&path).expect("its facts");
        let content = if meta.is_file() { fs::read(&path).expect("its content") } else { Vec::new() };
        // Attributes are not governed; see the limits.
        tree.insert(path.clone(), (meta.mode() & 0o170_000, meta.len(), meta.nlink(), content));
        if meta.is_dir() {
            walk(&path, tree);
        }
    }
}

/// What every case finds.
fn fill(place: &Path) {
    fs::create_dir_all(place.join("d")).expect("a folder");
    let files = [
        "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y",
        "z", "ring-a", "ring-b", "ring-c", "ring-d", "old-a", "old-b", "old-c", "ex-a", "ex-b",
    ];
    for name in files {
        fs::write(place.join(name), "content").expect("a file");
    }
    symlink("f", place.join("link")).expect("a link");
    for name in ["tiny", "gone", "thread", "spawned", "script-by"] {
        fs::write(place.join(name), tiny_program()).expect("a program");
        fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    let script = format!("#!{}\n", place.join("script-by").display());
    fs::write(place.join("script"), script).expect("a script");
    let outer = format!("#!{}\n", place.join("script").display());
    fs::write(place.join("outer"), outer).expect("a script");
    for name in ["script", "outer"] {
        fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    fs::write(place.join("name"), format!("{}\0", place.join("by-name").display())).expect("a file");
}
