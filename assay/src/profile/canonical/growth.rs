//! No run, however it is made, costs more than in proportion to what it did. By counted work, not by a clock.

use std::fmt::Write as _;

use super::tests::{Run, canonicalize, context};
use super::*;
use crate::observe::observation::FileOp;
use crate::profile::effort::counting::check_growth_from;

/// So many acts, and four times as many.
const ACTS: usize = 1 << 9;

/// Letters and digits that look drawn, another eight for each number.
fn drawn(number: usize) -> String {
    let mut state = number as u64;
    (0..8)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[(state >> 33) as usize % 36])
        })
        .collect()
}

/// A directory at this depth, another one from the top for each number.
fn deep(number: usize, depth: usize) -> String {
    let mut path = format!("/srv/{number}");
    for at in 0..depth {
        let _ = write!(path, "/d{at}");
    }
    path
}

fn temporary(run: &mut Run, path: &str) {
    run.file(FileOp::Open, path, &[Access::Read, Access::Write, Access::Create], 0);
}

/// Does it so many times.
type Acts = fn(&mut Run, usize);

/// What a run can do many times.
const RUNS: &[(&str, Acts)] = &[
    ("many acts on few names", |run, acts| {
        for at in 0..acts {
            run.read(&format!("/srv/{}", at % 20)).create("/srv/log").delete("/srv/log");
        }
    }),
    ("many names in one directory", |run, acts| {
        for at in 0..acts {
            run.read(&format!("/srv/data/{at}")).create(&format!("/home/u/w/out-{at}.o"));
        }
    }),
    ("many directories", |run, acts| {
        for at in 0..acts {
            run.read(&format!("/srv/{at}/lib/index.js")).create(&format!("/home/u/w/{at}/a/b/c"));
        }
    }),
    ("deep trees", |run, acts| {
        for at in 0..acts {
            run.read(&format!("{}/file", deep(at, 40)));
        }
    }),
    ("a directory made in a directory made", |run, acts| {
        for at in 0..acts {
            run.file(FileOp::Mkdir, &deep(at / 32, at % 32), &[], 0);
        }
    }),
    ("files replaced in deep trees", |run, acts| {
        for at in 0..acts {
            let place = deep(at % 8, 40);
            run.rename(&format!("{place}/new-{at}"), &format!("{place}/old-{at}"));
        }
    }),
    ("a file that goes from name to name", |run, acts| {
        temporary(run, "/srv/t.tmp0");
        for at in 0..acts {
            run.rename(&format!("/srv/t.tmp{at}"), &format!("/srv/t.tmp{}", at + 1));
        }
    }),
    ("a deep tree that goes from name to name", |run, acts| {
        run.file(FileOp::Mkdir, "/srv/0", &[], 0);
        for at in 0..acts {
            run.rename(&format!("/srv/{at}"), &format!("/srv/{}", at + 1));
            run.rename(&format!("{}/a", deep(at + 1, 40)), &format!("{}/b", deep(at + 1, 40)));
        }
    }),
    ("directories under temporary names in such directories", |run, acts| {
        let mut place = String::from("/tmp");
        for at in 0..acts {
            if at % 16 == 0 {
                place = String::from("/tmp");
            }
            let (temporary, target) = (format!("{place}/tmp.{}", drawn(at)), format!("{place}/target{at}"));
            run.file(FileOp::Mkdir, &temporary, &[], 0).rename(&temporary, &target);
            place = temporary;
        }
    }),
    ("many renames onto a target", |run, acts| {
        for at in 0..acts {
            let temporary_name = format!("/home/u/w/target.{}", drawn(at));
            temporary(run, &temporary_name);
            run.rename(&temporary_name, "/home/u/w/target");
        }
    }),
    ("many temporary names", |run, acts| {
        for at in 0..acts {
            for name in [format!("/tmp/tmp{}", drawn(at)), format!("/tmp/{}-{at}", drawn(acts + at))] {
                temporary(run, &name);
                run.delete(&name);
            }
        }
    }),
    ("names with the ids of their makers, and numbers beside them", |run, acts| {
        for at in 0..acts as u32 {
            run.fork(5_000 + at);
            let parent = std::mem::replace(&mut run.pid, 5_000 + at);
            run.create(&format!("/tmp/lock.{}", 5_000 + at)).create(&format!("/tmp/part{}.{at}", at / 7));
            run.pid = parent;
        }
    }),
    ("each process the child of the one before", |run, acts| {
        for at in 0..acts as u32 {
            run.fork(5_000 + at);
            run.pid = 5_000 + at;
            run.create(&format!("/tmp/lock.{at}"));
        }
    }),
    ("links to names beside them", |run, acts| {
        for at in 0..acts {
            run.create(&format!("/srv/lib/{at}.so")).pair(
                PairOp::Symlink,
                &format!("/srv/lib/l{at}"),
                &format!("{at}.so"),
                0,
            );
        }
    }),
    ("stores of what is named by its hash", |run, acts| {
        for at in 0..acts {
            let hash = format!("{:02x}/{}{:032x}", at % 256, drawn(at).replace(|c| c > 'f', "0"), at);
            run.create(&format!("/srv/cache/{hash}"));
        }
    }),
];

#[test]
fn the_work_grows_no_faster_than_the_run() {
    for (name, acts) in RUNS {
        check_growth_from(ACTS, name, |count| {
            let mut run = Run::new(4_242);
            acts(&mut run, count);
            canonicalize(context(&["make"], 4_242), &run.observations);
        });
    }
}

/// A command with many arguments, none of which is the name of one of the many files that it makes.
#[test]
fn the_work_grows_no_faster_than_the_names_and_the_arguments_together() {
    let words: [(&str, &dyn Fn(usize) -> String); 3] = [
        ("a word each", &|at| format!("--input={at}")),
        ("the same word", &|_| "tmp".into()),
        ("a beginning of each name", &|_| "tmp.a".into()),
    ];
    for (name, word) in words {
        check_growth_from(ACTS, name, |count| {
            let command: Vec<String> = (0..count).map(word).collect();
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            let mut run = Run::new(4_242);
            run.exec("/bin/cat", None, &command);
            for at in 0..count {
                let path = format!("/tmp/tmp.{}{at}", drawn(at));
                temporary(&mut run, &path);
                run.delete(&path);
            }
            canonicalize(context(&command, 4_242), &run.observations);
        });
    }
}

/// A path four times as deep costs four times as much while the run is read. (When names are made of it, it costs more, up
/// to the longest path there can be.)
#[test]
fn the_work_of_an_act_grows_no_faster_than_its_path_is_deep() {
    type Act = fn(&mut Run, &str, &str);
    let acts: [(&str, Act); 4] = [
        ("read", |run, path, _| {
            run.read(path);
        }),
        ("made", |run, path, _| {
            run.create(path);
        }),
        ("renamed", |run, path, to| {
            run.rename(path, to);
        }),
        ("renamed in a tree that was made elsewhere", |run, path, to| {
            run.file(FileOp::Mkdir, path.rsplit_once('/').expect("a path").0, &[], 0).rename(path, to);
        }),
    ];
    for (name, act) in acts {
        check_growth_from(1 << 6, name, |depth| {
            let mut run = Run::new(4_242);
            for at in 0..4 {
                let place = deep(at, depth);
                act(&mut run, &format!("{place}/a"), &format!("{place}/b"));
            }
            let mut canonicalizer = Canonicalizer::new(context(&["make"], 4_242));
            run.observations.iter().for_each(|observation| canonicalizer.observe(observation));
        });
    }
}
