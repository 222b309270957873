//! Any bytes as a policy: a policy or problems with their places, never a panic; and what is valid can be judged by.
#![no_main]

use assay::policy::load::{Context, NoFiles, load_bytes};
use assay::policy::{Request, judge, rule::Access};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match load_bytes(b"fuzz.yaml", bytes, &Context::symbolic(), &NoFiles) {
        Ok(policy) => {
            judge(&policy, Request::File(Access::Write, b"/${WORKDIR}/a/b"));
            judge(&policy, Request::Move(b"/${WORKDIR}/a"));
            judge(&policy, Request::Exec(b"/usr/bin/true"));
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| problem.place.line > 0 && problem.place.column > 0));
        }
    }
});
