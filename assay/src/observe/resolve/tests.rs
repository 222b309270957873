//! What becomes of calls whose record does not say all by itself.

use super::*;
use crate::observe::event::{Late, LateWorth};
use crate::observe::observation::FileKind;

/// What an `openat` for writing, with `O_CREAT`, was refused, where a look from userspace found this.
fn refused(there: Option<u32>) -> FileAct {
    let mut call = Call { nr: 257, ..Call::bare(Op::Open, -i64::from(libc::EACCES)) };
    call.args[2] = 0o101;
    call.a.late = Some(Late { bytes: b"/w/f".to_vec(), worth: LateWorth::Found, there });
    let Act::File(act) = open(&call) else { panic!("an act on a file") };
    act
}

#[test]
fn a_file_that_is_there_was_not_to_be_made_whoever_found_it() {
    let act = refused(Some(libc::S_IFREG));
    assert_eq!((act.access, act.kind), ([Access::Write].into(), FileKind::Regular));
    let act = refused(Some(libc::S_IFDIR));
    assert_eq!((act.access, act.kind), ([Access::Write].into(), FileKind::Directory));
    let act = refused(None);
    assert_eq!((act.access, act.kind), ([Access::Write, Access::Create].into(), FileKind::Unknown));
}
