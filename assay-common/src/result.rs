//! What a call returned, as both halves judge it.

/// Whether a call that ended so went where its path leads, or was refused there.
#[inline(always)]
pub fn is_told_by_result(ret: i64) -> bool {
    const EPERM: i64 = -1;
    const EACCES: i64 = -13;
    const EROFS: i64 = -30;
    const EXDEV: i64 = -18;
    const EBUSY: i64 = -16;
    // EXDEV and EBUSY are how Landlock and mounts refuse; connect's own errors come after the socket was found.
    ret >= 0 || ret == EPERM || ret == EACCES || ret == EROFS || ret == EXDEV || ret == EBUSY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_by_their_result_and_what_was_not_found_is_not() {
        for ret in [0, 3, -1, -13, -16, -18, -30] {
            assert!(is_told_by_result(ret), "{ret}");
        }
        // ENOENT, ENOTDIR, ELOOP.
        for ret in [-2, -20, -40] {
            assert!(!is_told_by_result(ret), "{ret}");
        }
    }
}
