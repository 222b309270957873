//! What is counted in the kernel and not sent comes to the same as what is sent each time: the same command, once with a
//! trace, for which every act is sent, and once without.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::sandbox::{sandbox, text};
use crate::needs::{Need, are_met};

/// What a run's evidence says that must not depend on how it came about.
#[derive(Debug, PartialEq)]
struct Said {
    run_id: String,
    identity: Value,
    coverage: Value,
    /// Effects with their hits.
    effects: Vec<String>,
    /// Acts, failures by errno, acts without an effect.
    counters: BTreeMap<String, u64>,
}

/// The evidence of one run, and how many of its acts were counted and not sent.
fn record(work: &Path, name: &str, options: &[&str], script: &str) -> (Said, u64) {
    fs::create_dir(work).expect("a folder to work in");
    let profile = work.with_file_name(format!("{name}.json"));
    let mut all = vec!["--profile-format", "json", "--profile"];
    let profile_text = profile.to_string_lossy();
    all.push(&profile_text);
    all.extend(options);
    let output = sandbox(&all, &["python3", "-c", script]).current_dir(work).output().expect("assay runs");
    // A mount is never authorised, and in a dry run only told.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}: {}", output.status, text(&output.stderr));
    let evidence = fs::read(profile.with_extension("evidence.json")).expect("evidence");
    let evidence: Value = serde_json::from_slice(&evidence).expect("JSON");
    let observed = &evidence["observed"];
    assert_eq!(observed["lost"], serde_json::json!({}));
    let list = observed["effects"].as_object().expect("kinds");
    let effects = list.values().flat_map(|kind| kind.as_array().expect("effects"));
    // Who did it first has process ids.
    let without_actor = |effect: &Value| {
        let mut effect = effect.clone();
        effect.as_object_mut().expect("an effect").remove("by");
        effect.to_string()
    };
    let counters = observed["counters"].as_object().expect("counters").iter();
    let counter = |(name, count): (&String, &Value)| (name.clone(), count.as_u64().unwrap_or(0));
    let counters: BTreeMap<String, u64> = counters.map(counter).collect();
    let counted = counters.get("counted").copied().unwrap_or(0);
    let is_fixed = |name: &str| {
        name.starts_with("failed.") || name == "observations" || name == "without_effect" || name == "denied"
    };
    let said = Said {
        run_id: evidence["run_id"].as_str().expect("a run id").to_owned(),
        identity: evidence["identity"].clone(),
        coverage: evidence["coverage"].clone(),
        effects: effects.map(without_actor).collect(),
        counters: counters.into_iter().filter(|(name, _)| is_fixed(name)).collect(),
    };
    (said, counted)
}

/// Runs the script with and without a trace; without, at least `counted` acts are not sent.
fn check(name: &str, options: &[&str], counted: u64, script: &str) {
    let needs = [Need::Root, Need::Btf, Need::CgroupV2, Need::Program("python3")];
    if !are_met(&format!("again::{name}"), &needs) {
        return;
    }
    // Nothing that Python keeps for next time.
    let script = format!(
        "import os, sys\nsys.dont_write_bytecode = True\n\
         def read(path, times=20, **more):\n  for _ in range(times): os.close(os.open(path, os.O_RDONLY, **more))\n\
         def make(path): os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))\n{script}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace").to_string_lossy().into_owned();
    let mut traced = options.to_vec();
    traced.extend(["--trace", &trace]);
    // Each in a place of its own with one name, so that not even lengths differ.
    let place = |name: &str| {
        let place = folder.path().join(name);
        fs::create_dir(&place).expect("a folder");
        place.join("work")
    };
    let (sent, none) = record(&place("a"), "sent", &traced, &script);
    let (said, some) = record(&place("b"), "counted", options, &script);
    assert_eq!(none, 0, "with a trace every act is sent");
    assert!(some >= counted, "only {some} acts were counted");
    assert_eq!(said, sent);
}

#[test]
fn opens_of_one_file_by_every_way() {
    check(
        "opens_of_one_file_by_every_way",
        &["--dry-run"],
        4_000,
        "os.makedirs('a/b'); make('a/b/f'); os.symlink('a/b', 'l'); os.mkfifo('p')
here = os.open('a', os.O_RDONLY)
for _ in range(1000): read('a/b/f', 1); read('l/f', 1); read('b/f', 1, dir_fd=here); read('a/../a/./b/f', 1)
for _ in range(100): os.close(os.open('a/b', os.O_RDONLY | os.O_DIRECTORY)); os.close(os.open('a/b', os.O_RDONLY))
for _ in range(100): os.close(os.open('a/b/f', os.O_RDWR)); os.close(os.open('a/b/f', os.O_WRONLY | os.O_APPEND))
for _ in range(100): os.close(os.open('a/b/f', os.O_PATH)); os.close(os.open('l', os.O_PATH | os.O_NOFOLLOW))
for _ in range(100): os.close(os.open('a/b/f', os.O_RDONLY | os.O_TRUNC)); os.close(os.open('a/b/f', os.O_RDONLY | os.O_CREAT))
for _ in range(100): os.close(os.open('p', os.O_RDONLY | os.O_NONBLOCK))
for _ in range(100): read('/dev/null', 1); read('/proc/self/stat', 1); read('/', 1); read('/proc', 1)
for number in range(5):
  child = os.fork()
  if child == 0: read('a/b/f', 100); os._exit(0)
  os.waitpid(child, 0)
",
    );
}

#[test]
fn names_that_move_are_told_by_each_name() {
    check(
        "names_that_move_are_told_by_each_name",
        &["--dry-run"],
        500,
        "os.makedirs('top/mid'); make('top/mid/f'); read('top/mid/f')
os.rename('top', 'moved'); read('moved/mid/f')
os.rename('moved', 'top'); read('top/mid/f')
os.rename('top/mid', 'mid'); read('mid/f')
os.link('mid/f', 'g'); read('g'); read('mid/f')
os.rename('mid/f', 'mid/h'); read('mid/h'); os.rename('mid/h', 'mid/f'); read('mid/f')
os.unlink('mid/f'); read('g'); make('mid/f'); read('mid/f')
held = os.open('g', os.O_RDONLY); os.unlink('g'); read('/proc/self/fd/%d' % held)
make('x'); make('y'); read('x'); read('y'); os.replace('x', 'y'); read('y')
os.mkdir('one'); os.mkdir('two'); make('one/f'); make('two/f'); read('one/f'); read('two/f')
import ctypes; ctypes.CDLL(None).renameat2(-100, b'one', -100, b'two', 2)
read('one/f'); read('two/f')
inside = os.open('one', os.O_RDONLY); os.rename('one', 'three'); read('f', dir_fd=inside)
os.chdir('three'); read('f'); os.rename('../three', '../four'); read('f'); os.chdir('..')
",
    );
}

/// Directories and files that come and go give their memory and their numbers to those that come after them.
#[test]
fn names_that_take_the_place_of_others_are_told() {
    check(
        "names_that_take_the_place_of_others_are_told",
        &["--dry-run"],
        2_000,
        "make('kept')
for number in range(400):
  folder = 'folder-%s' % ('abcdefghijklmnopqrst'[number % 20] * (number // 20 + 1))
  os.mkdir(folder); os.link('kept', folder + '/x'); read(folder + '/x', 4)
  os.unlink(folder + '/x'); os.rmdir(folder)
for number in range(400):
  name = 'file-%s' % ('abcdefghijklmnopqrst'[number % 20] * (number // 20 + 1))
  make(name); read(name, 4); os.unlink(name)
",
    );
}

/// More files than there are places to count in: they take turns.
#[test]
fn more_files_than_places_add_up() {
    check(
        "more_files_than_places_add_up",
        &["--dry-run"],
        1_000,
        "names = ['%s%s' % (a, b) for a in 'abcdefghijklmnopqrstuvwxyz' for b in range(400)]
for name in names: make(name)
for _ in range(3):
  for name in names: read(name, 2)
",
    );
}

#[test]
fn what_is_not_there_is_counted_by_its_errno() {
    check(
        "what_is_not_there_is_counted_by_its_errno",
        &["--dry-run"],
        900,
        "make('f')
def fails(call, *arguments):
  for _ in range(100):
    try: call(*arguments)
    except OSError: continue
    raise SystemExit('it did not fail')
fails(os.open, 'none', os.O_RDONLY); fails(os.open, 'f/x', os.O_RDONLY); fails(os.open, 'none/x', os.O_WRONLY | os.O_CREAT)
fails(os.open, 'none', os.O_PATH); fails(os.unlink, 'none'); fails(os.rmdir, 'none'); fails(os.rename, 'none', 'f')
fails(os.mkdir, 'none/x'); fails(os.mkdir, 'f'); fails(os.chmod, 'none', 0o600); fails(os.truncate, 'f/x', 0)
fails(os.execv, 'none', ['none']); fails(os.link, 'none', 'x'); fails(os.symlink, 'x', 'none/x'); fails(os.chdir, 'none')
",
    );
}

/// Under enforcement a failure beneath a mask is an effect, so failures are sent; repeats are counted all the same.
#[test]
fn enforced_runs_come_to_the_same() {
    check(
        "enforced_runs_come_to_the_same",
        &["--enforce"],
        900,
        "make('f'); read('f', 1000)
for _ in range(100):
  try: os.open('none', os.O_RDONLY)
  except OSError: pass
",
    );
}

/// A mount changes what a name leads to, and what it is called by.
#[test]
fn mounts_are_told_by_where_they_lead() {
    check(
        "mounts_are_told_by_where_they_lead",
        &["--dry-run", "--keep-caps", "SYS_ADMIN"],
        200,
        "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def must(result):
  if result != 0: raise OSError(ctypes.get_errno(), 'refused')
must(libc.unshare(0x20000)); must(libc.mount(b'none', b'/', None, 0x44000, None))
os.mkdir('a'); os.mkdir('b'); os.mkdir('c'); make('a/f'); make('b/f'); read('a/f'); read('b/f')
must(libc.mount(b'a', b'b', None, 4096, None)); read('b/f'); read('a/f')
must(libc.mount(b'b', b'c', None, 0x2000, None)); read('c/f'); read('a/f'); read('b/f')
must(libc.umount2(b'c', 2)); read('a/f'); read('b/f')
",
    );
}
