//! The process that becomes the command: joins the run's group, gives up what the command must not have,
//! restricts itself, and starts it.
//!
//! One thread, from the first instruction: what it does to itself holds for all of the command. What it leaves
//! untouched, the command gets as our caller gave it to us.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::{Gid, Uid};
use rustix::thread::CapabilitySet;

use super::spec::{Answer, Ids, LaunchSpec, Stage, Unheld};
use super::{capabilities, descriptors, exec, namespace, signals};
use crate::enforce::Confinement;
use crate::enforce::confine::{self, ConfineError};
use crate::enforce::observer_guard::{self, watchers};
use crate::host::mountinfo::{self, Mount};

/// Says "start"; the id of the heir follows, or 0.
pub const GO: u8 = b'g';

/// `CGROUP2_SUPER_MAGIC` and `CGROUP_SUPER_MAGIC` in `include/uapi/linux/magic.h`.
const CGROUP_MAGIC: [u64; 2] = [0x6367_7270, 0x0027_e0eb];

/// What could not be done.
#[derive(Debug)]
pub struct Failure {
    stage: Stage,
    errno: i32,
    detail: Option<String>,
}

/// The same, in namespaces of its own: with them it has the rights to confine itself that its user lacks outside.
pub fn run_apart(mut stream: UnixStream) -> ExitCode {
    let is_done = namespace::unshare_user_and_mounts().is_ok();
    if (Answer::Apart { is_done }).send(&mut stream).is_err() {
        return ExitCode::FAILURE;
    }
    run(stream)
}

/// Runs this process as the launcher. Returns only when the command could not be started.
pub fn run(mut stream: UnixStream) -> ExitCode {
    let Err(failure) = launch(&mut stream) else { return ExitCode::FAILURE };
    let answer = Answer::Failed { stage: failure.stage, errno: failure.errno, detail: failure.detail };
    // Who is not there to read it has died, and we end as well.
    drop(answer.send(&mut stream));
    ExitCode::FAILURE
}

/// Comes back with `Ok` when nobody waits for the command any more.
fn launch(stream: &mut UnixStream) -> Result<(), Failure> {
    let spec = LaunchSpec::receive(stream).map_err(|error| at(Stage::Spec, &error))?;
    let argv = spec.argv().map_err(|error| at(Stage::Spec, &error))?;
    let envp = spec.envp().map_err(|error| at(Stage::Spec, &error))?;

    if let Some(file) = &spec.procs_file {
        std::fs::write(file, "0").map_err(|error| at(Stage::Group, &error))?;
    }
    // In a dry run the policy refuses nothing, and nothing else does. Looked for while they can be seen.
    let watchers = spec.settings.ruleset.as_ref().map(|_| watchers());
    let unheld = give_up(&spec)?;
    if let Some(directory) = &spec.workdir {
        std::env::set_current_dir(directory).map_err(|error| at(Stage::Workdir, &error))?;
    }

    Answer::Ready { unheld }.send(stream).map_err(|error| at(Stage::Spec, &error))?;
    let mut word = [0u8; 5];
    if stream.read_exact(&mut word).is_err() || word[0] != GO {
        return Ok(());
    }
    if let Some(watchers) = watchers {
        let [_, heir @ ..] = word;
        // Who came into being since then.
        let watchers = match u32::from_le_bytes(heir) {
            0 => watchers,
            heir => observer_guard::with(watchers, heir),
        };
        confine::guard(&watchers).map_err(|error| refused(&error))?;
    }

    signals::restore(&spec.settings.inherited).map_err(|error| at(Stage::Signals, &error))?;
    Answer::Starting.send(stream).and_then(|()| stream.flush()).map_err(|error| at(Stage::Spec, &error))?;
    descriptors::close_what_was_closed(&spec.settings.inherited);
    let errno = exec::execute(&argv, &envp);
    Err(Failure { stage: Stage::Exec, errno, detail: None })
}

/// Everything the command must not have, in the one order in which the kernel lets it go.
fn give_up(spec: &LaunchSpec) -> Result<Vec<Unheld>, Failure> {
    let mut unheld = Vec::new();
    let settings = &spec.settings;
    // Landlock and capabilities are a thread's: another one would go on without.
    if settings.ruleset.is_some() && !is_single_threaded() {
        let detail = Some("the launcher has more than one thread".to_owned());
        return Err(Failure { stage: Stage::Ruleset, errno: libc::EBUSY, detail });
    }
    let confinement = settings.ruleset.as_deref().map(Confinement::from_bytes).transpose();
    let confinement = confinement.map_err(|error| refused(&error))?.unwrap_or_default();
    if !settings.is_served {
        unheld.extend(make_mounts(&confinement, spec.procs_file.is_some(), namespace::unshare_mounts)?);
    } else if let Ok(here) = std::env::current_dir() {
        // As in `mounts::hold`: going there by name leads onto the mounts that were made for us.
        std::env::set_current_dir(here).map_err(|error| at(Stage::Workdir, &error))?;
    }
    let dropped = CapabilitySet::from_bits_retain(settings.dropped);
    if !capabilities::drop_bounding(dropped) && !settings.has_no_new_privs {
        unheld.push(Unheld::BoundingSetKept);
    }
    if let Some(ids) = &settings.ids {
        take_on(ids).map_err(|errno| from(Stage::Ids, errno))?;
    }
    capabilities::drop_held(dropped).map_err(|error| at(Stage::Privileges, &error))?;
    if settings.has_no_new_privs {
        rustix::thread::set_no_new_privs(true).map_err(|errno| from(Stage::Privileges, errno))?;
    }
    confinement.restrict().map_err(|error| refused(&error))?;
    Ok(unheld)
}

/// The mounts: what the policy holds by them, control groups that cannot be written, a `/proc` of its own.
///
/// `stand_apart` sees to it that they are the command's alone, where they are not yet.
pub fn make_mounts(
    confinement: &Confinement,
    has_group: bool,
    stand_apart: impl Fn() -> Result<(), Errno>,
) -> Result<Vec<Unheld>, Failure> {
    let mut unheld = Vec::new();
    if has_group && !close_control_groups(&stand_apart) {
        unheld.push(Unheld::CgroupWritable);
    }
    if !confinement.holds.is_empty() || !confinement.placeholders.is_empty() {
        stand_apart().map_err(|errno| from(Stage::Ruleset, errno))?;
        confinement.hold_mounts().map_err(|error| refused(&error))?;
    }
    if confinement.is_proc_own && (stand_apart().is_err() || confinement.show_only_own_processes().is_err()) {
        unheld.push(Unheld::OtherProcessesVisible);
    }
    Ok(unheld)
}

/// Makes every control group read-only, in a mount namespace of the command's own. True when all are.
fn close_control_groups(stand_apart: impl Fn() -> Result<(), Errno>) -> bool {
    if !capabilities::has(CapabilitySet::SYS_ADMIN) || stand_apart().is_err() {
        return false;
    }
    // What the host mounts later still arrives here; nothing we do arrives there.
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    if rustix::mount::mount_change("/", propagation).is_err() {
        return false;
    }
    let Ok(text) = std::fs::read("/proc/self/mountinfo") else { return false };
    mountinfo::read_mounts(&text)
        .iter()
        .filter(|mount| mount.is_cgroup())
        .all(|mount| make_read_only(mount).is_ok())
}

fn make_read_only(mount: &Mount) -> Result<(), Errno> {
    // A remount sets all options of the mount at once, so those it has are said again.
    let flags = mount.options.iter().fold(MountFlags::BIND | MountFlags::RDONLY, |flags, option| {
        flags
            | match option.as_str() {
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                _ => MountFlags::empty(),
            }
    });
    match rustix::mount::mount_remount(&mount.point, flags, c"") {
        // Another mount lies over it: nobody reaches it by that path.
        Err(Errno::INVAL | Errno::NOENT) if !is_mounted_at(&mount.point) => Ok(()),
        other => other,
    }
}

fn is_mounted_at(point: &Path) -> bool {
    rustix::fs::statfs(point).is_ok_and(|fs| CGROUP_MAGIC.contains(&(fs.f_type as u64)))
}

fn take_on(ids: &Ids) -> Result<(), Errno> {
    let groups: Vec<Gid> = ids.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (uid, gid) = (Uid::from_raw(ids.uid), Gid::from_raw(ids.gid));
    // The user last: after it there is no right to change the groups.
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

fn refused(error: &ConfineError) -> Failure {
    Failure { stage: Stage::Ruleset, errno: libc::EPERM, detail: Some(error.to_string()) }
}

fn at(stage: Stage, error: &std::io::Error) -> Failure {
    let detail = error.raw_os_error().is_none().then(|| error.to_string());
    Failure { stage, errno: error.raw_os_error().unwrap_or(libc::EIO), detail }
}

fn from(stage: Stage, errno: Errno) -> Failure {
    Failure { stage, errno: errno.raw_os_error(), detail: None }
}
