//! What an act leaves unseen. Pure.

use super::beyond::kinds_of;
use super::loss::Kind;
use super::observation::{Act, CallResult, Endpoint, NamespaceAct, NamespaceOp, NetAct, PathRef, PathState};

/// What an act leaves unseen. Acts that failed for want of their object did nothing; but where a link that one met was gone
/// when it was looked at, what it led to may be something that was hidden.
pub fn gaps(act: &Act, result: CallResult) -> Vec<(Kind, &'static str, String)> {
    const EPERM: i32 = 1;
    const EACCES: i32 = 13;
    const EROFS: i32 = 30;
    const EBUSY: i32 = 16;
    const EXDEV: i32 = 18;
    let has_failed = match result {
        CallResult::Ok | CallResult::Errno(EPERM | EACCES | EROFS) => false,
        CallResult::Errno(EBUSY | EXDEV) => return Vec::new(),
        CallResult::Errno(_) => true,
    };
    let mut gaps = Vec::new();
    let mut path = |kind, path: &PathRef| {
        let reason = match path.state {
            _ if has_failed && path.state != PathState::Unverified => return,
            PathState::Cut => "path-cut",
            PathState::Unreadable => "path-unreadable",
            PathState::Unverified => "path-unverified",
            // Where it lies in the host's tree is not to be seen from there.
            PathState::Nameless if path.bytes.starts_with(b"(detached)") => "detached-mount",
            PathState::Resolved
            | PathState::LookedUpLate
            | PathState::Lexical
            | PathState::Nameless
            | PathState::Literal => return,
        };
        gaps.push((kind, reason, String::from_utf8_lossy(&path.bytes).into_owned()));
    };
    match act {
        Act::File(file) => path(Kind::Fs, &file.path),
        Act::Pair(pair) => {
            path(Kind::Fs, &pair.path);
            path(Kind::Fs, &pair.to);
        }
        Act::Exec(exec) => {
            path(Kind::Exec, &exec.path);
            if let Some(interpreter) = &exec.interpreter {
                path(Kind::Exec, interpreter);
            }
        }
        Act::Net(NetAct { endpoint: Endpoint::UnixPath(socket), .. }) => path(Kind::Net, socket),
        Act::Net(NetAct { endpoint: Endpoint::Unreadable, proto, .. }) if !has_failed => {
            gaps.push((Kind::Net, "address-unreadable", (*proto).to_owned()));
        }
        Act::Blind { means, detail } if result == CallResult::Ok => {
            let detail = String::from_utf8_lossy(detail).into_owned();
            for kind in kinds_of(means) {
                gaps.push((*kind, means, detail.clone()));
            }
        }
        // What lies where in it was decided by others.
        Act::Namespaces(NamespaceAct { op: NamespaceOp::Setns, kinds }) if result == CallResult::Ok => {
            for kind in Kind::ALL {
                gaps.push((kind, "other-namespace", kinds.join(" ")));
            }
        }
        Act::Net(_)
        | Act::Blind { .. }
        | Act::Namespaces(_)
        | Act::Fork { .. }
        | Act::Exit { .. }
        | Act::Named(_) => {}
    }
    gaps
}
