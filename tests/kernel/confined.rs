//! A command held to a policy by the means of `enforce` alone, without the rest of a run: what holds, holds by itself.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use assay::enforce::files::HostFiles;
use assay::enforce::{Confinement, Means, Plan, cgroup, plan, survey};
use assay::host::probe::probe;
use assay::policy::{Context, Policy, load_builtin};
use assay::sandbox::capabilities;
use rustix::thread::CapabilitySet;

/// A scene: a work directory, a home and a private temporary directory that are gone afterwards.
pub struct Scene {
    root: tempfile::TempDir,
}

/// The run's cgroup, removed when dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mount = probe().cgroup2.known().cloned().flatten().expect("the test needs cgroup v2");
        let name = format!("assay-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(&mount).join(name);
        fs::create_dir(&path).expect("make a cgroup");
        Self(path)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(fs::write(self.0.join("cgroup.kill"), "1"));
        // The last process may still be on its way out.
        for _ in 0..1_000 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::yield_now();
        }
    }
}

/// What this kernel would be told.
pub fn plan_of(policy: &Policy) -> Plan {
    let host = probe();
    plan(policy, &host.landlock, &survey(policy, true), Means { names: false, ..Means::probe(&host) })
}

impl Scene {
    pub fn new() -> Self {
        let scene = Self { root: tempfile::Builder::new().prefix("assay-scene-").tempdir().unwrap() };
        for name in ["w", "home", "tmp"] {
            fs::create_dir(scene.path(name)).unwrap();
        }
        scene
    }

    /// A path in the scene.
    pub fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(name)
    }

    /// Writes a file, and the directories above it.
    pub fn file(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn context(&self) -> Context {
        let bytes = |name| self.path(name).into_os_string().into_encoded_bytes();
        Context {
            home: Some(bytes("home")),
            workdir: bytes("w"),
            tmpdir: bytes("tmp"),
            caller_tmpdir: b"/tmp".to_vec(),
            runtime_dir: bytes("run"),
            nameservers: Vec::new(),
        }
    }

    /// A policy of this text, without its first line.
    pub fn policy(&self, yaml: &str) -> Policy {
        let text = format!("api_version: assay/v1\n{yaml}");
        assay::policy::load::load_bytes(b"policy.yaml", text.as_bytes(), &self.context(), &HostFiles)
            .unwrap_or_else(|problems| panic!("{yaml}: {problems:?}"))
    }

    pub fn builtin(&self) -> Policy {
        load_builtin(&self.context(), &HostFiles).expect("the built-in policy is valid")
    }

    /// Runs a shell script in the work directory under the policy, and what the plan was.
    pub fn run(&self, policy: &Policy, script: &str) -> (Output, Plan) {
        self.run_program(policy, &["sh", "-c", script])
    }

    pub fn run_program(&self, policy: &Policy, argv: &[&str]) -> (Output, Plan) {
        let plan = plan_of(policy);
        (self.run_planned(&plan, argv), plan)
    }

    /// Runs a program under a plan.
    pub fn run_planned(&self, plan: &Plan, argv: &[&str]) -> Output {
        self.try_planned(plan, argv).expect("start the command")
    }

    /// As [`run_planned`](Self::run_planned); an error is one of confining it.
    #[expect(unsafe_code, reason = "what the launcher does to itself is done between fork and exec here")]
    pub fn try_planned(&self, plan: &Plan, argv: &[&str]) -> std::io::Result<Output> {
        let group = Group::new();
        let table = plan.net.clone().expect("this kernel takes cgroup programs");
        let directory = File::open(&group.0).unwrap();
        let held = cgroup::hold(&table, directory.as_fd(), None).expect("hold the network rules");
        let confinement = Confinement::from_bytes(&Confinement::of(plan, b"").to_bytes()).unwrap();
        let procs = group.0.join("cgroup.procs");
        let mut command = Command::new(argv[0]);
        command.args(&argv[1..]).current_dir(self.path("w")).env("HOME", self.path("home"));
        command.env("TMPDIR", self.path("tmp")).env("LC_ALL", "C");
        // SAFETY: the child of this fork is single-threaded; what it takes from the parent is memory it owns.
        unsafe {
            command.pre_exec(move || {
                fs::write(&procs, "0")?;
                rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS)?;
                confinement.hold_mounts().map_err(std::io::Error::other)?;
                let dropped = capabilities::to_drop(CapabilitySet::empty());
                capabilities::drop_bounding(dropped);
                capabilities::drop_held(dropped)?;
                rustix::thread::set_no_new_privs(true)?;
                confinement.restrict().map_err(std::io::Error::other)?;
                Ok(())
            });
        }
        let output = command.output();
        drop(held);
        output
    }

    /// What the script prints, errors included, in lines.
    pub fn lines(&self, policy: &Policy, script: &str) -> Vec<String> {
        let (output, _) = self.run(policy, &format!("exec 2>&1; {script}"));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }
}

/// Whether nothing outside the scene's own namespace shows a mount of ours.
pub fn mounts_outside(scene: &Scene) -> usize {
    let text = fs::read("/proc/self/mountinfo").unwrap();
    let root = scene.path("").into_os_string().into_encoded_bytes();
    let root = root.strip_suffix(b"/").unwrap_or(&root).to_vec();
    text.windows(root.len()).filter(|window| *window == root.as_slice()).count()
}
