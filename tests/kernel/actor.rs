//! The test binary runs itself as the watched program: what it does is counted here, by nobody else.

use std::env;
use std::fs::File;
use std::process::Command;

/// What the actor is to do: `opens N FILE` or `starts N PROGRAM`.
const ACT: &str = "ASSAY_TEST_ACT";

/// The command line that does `act`; its environment must hold what [`environment`] says.
pub fn command() -> Vec<String> {
    let me = env::current_exe().expect("our own path").to_string_lossy().into_owned();
    vec![me, "--exact".into(), "actor::acts_when_told_to".into(), "--quiet".into()]
}

/// The variable that tells the actor what to do.
pub fn environment(act: &str) -> (&'static str, String) {
    (ACT, act.to_owned())
}

/// Acts, when it was told to; among the other tests it has nothing to do, and says that it knows its words.
#[test]
fn acts_when_told_to() {
    let Ok(act) = env::var(ACT) else {
        assert_eq!(perform("opens 2 /proc/self/stat"), 2);
        return;
    };
    perform(&act);
}

/// How often it was done.
fn perform(act: &str) -> u64 {
    let words: Vec<&str> = act.split(' ').collect();
    let [word, times, what] = words[..] else { panic!("not an act: {act}") };
    let times: u64 = times.parse().expect("a number");
    for _ in 0..times {
        match word {
            "opens" => drop(File::open(what).expect("the file is there")),
            "starts" => {
                let status = Command::new(what).status().expect("the program is there");
                assert!(status.success());
            }
            other => panic!("not an act: {other}"),
        }
    }
    times
}
