//! Denies inside an allow, held by the launched child's own mount namespace.
//!
//! Takes [`Hold`]s; changes nothing that anybody outside the child can see.

use crate::policy::rule::AccessSet;

/// One denied path that is to be held by a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The denied path, links resolved. It exists.
    pub path: Vec<u8>,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// What is denied there.
    pub denied: AccessSet,
    /// The writable tree it lies in: every directory from there down to it is pinned, so that none can be moved.
    pub pins_from: Option<Vec<u8>>,
}
