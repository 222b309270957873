//! Asks the kernel for its Landlock ABI version: one system call that the landlock crate keeps to itself.
//!
//! Restricts nothing. The version is for telling; which rights there are is asked right by right in `probe`.

/// The version, or why there is none.
#[expect(unsafe_code, reason = "neither libc's wrappers nor the landlock crate offer this call")]
pub fn landlock_abi() -> Result<u32, std::io::Error> {
    /// `LANDLOCK_CREATE_RULESET_VERSION`
    const VERSION: libc::c_ulong = 1;
    let null = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel takes a null attribute of size 0 and reads no memory of ours.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, null, 0usize, VERSION) };
    u32::try_from(answer).map_err(|_| std::io::Error::last_os_error())
}
