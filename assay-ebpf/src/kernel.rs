//! The few checked reads through kernel and user pointers, and field offsets.
//!
//! Every read goes through a helper that fails instead of faulting; a failed read of a pointer is 0, and reading
//! through 0 fails again, so a chain of reads ends in 0.
//!
//! Some functions here and elsewhere are `no_mangle`, take and return numbers only, and find the scratch by themselves:
//! the verifier goes through such a function once for each program, not once for each way that leads to it. Its time is
//! most of what a run's start costs.

use aya_ebpf::helpers::bpf_get_current_task;
use aya_ebpf::helpers::generated::{bpf_loop, bpf_probe_read_kernel, bpf_probe_read_user};
use core::ffi::c_void;
use core::mem::MaybeUninit;

use crate::maps::Scratch;

/// A field's offset on this kernel.
macro_rules! off {
    ($field:ident) => {
        // SAFETY: a static of plain numbers that nobody writes once the program is loaded; volatile, because userspace
        // replaces its bytes between compilation and loading.
        u64::from(unsafe { core::ptr::read_volatile(&raw const crate::maps::OFFSETS.$field) })
    };
}
/// A setting of this load.
macro_rules! setting {
    ($field:ident) => {
        // SAFETY: as for `off!`.
        unsafe { core::ptr::read_volatile(&raw const crate::maps::SETTINGS.$field) }
    };
}
pub(crate) use {off, setting};

/// Reads a value from kernel memory; 0 where it cannot be read.
#[inline(always)]
pub fn read<T: Copy>(address: u64) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the helper fills `size_of::<T>()` bytes of `value`, with zeros when it fails. All `T` used here are integers,
    // for which any bytes, and zero, are values.
    unsafe {
        bpf_probe_read_kernel(value.as_mut_ptr().cast(), size_of::<T>() as u32, address as *const _);
        value.assume_init()
    }
}

/// The same, to a place that is not on the stack.
#[inline(always)]
pub fn read_into<T: Copy>(value: &mut T, address: u64) {
    // SAFETY: as for `read`.
    unsafe { bpf_probe_read_kernel((&raw mut *value).cast(), size_of::<T>() as u32, address as *const _) };
}

/// Reads a value from user memory.
#[inline(always)]
pub fn read_user<T: Copy>(address: u64) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: as for `read`.
    unsafe {
        let failed =
            bpf_probe_read_user(value.as_mut_ptr().cast(), size_of::<T>() as u32, address as *const _);
        if failed == 0 { Some(value.assume_init()) } else { None }
    }
}

/// The current task's `task_struct`.
#[inline(always)]
pub fn current_task() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_current_task() }
}

/// The current task's `struct file` behind a descriptor, or 0.
#[inline(always)]
pub fn file_of(fd: i32) -> u64 {
    let files: u64 = read(current_task() + off!(task_files));
    let fdt: u64 = read(files + off!(files_fdt));
    let max: u32 = read(fdt + off!(fdt_max));
    if fd < 0 || fd as u32 >= max {
        return 0;
    }
    let table: u64 = read(fdt + off!(fdt_fd));
    read(table + fd as u64 * 8)
}

/// A file's place: (dentry, mount).
#[inline(always)]
pub fn place_of(file: u64) -> (u64, u64) {
    let path = file + off!(file_path);
    (read(path + off!(path_dentry)), read(path + off!(path_mnt)))
}

/// The current task's working directory: (dentry, mount).
#[inline(always)]
pub fn working_directory() -> (u64, u64) {
    let fs: u64 = read(current_task() + off!(task_fs));
    let path = fs + off!(fs_pwd);
    (read(path + off!(path_dentry)), read(path + off!(path_mnt)))
}

/// The current task's root directory: (dentry, mount).
#[inline(always)]
pub fn root_directory() -> (u64, u64) {
    let fs: u64 = read(current_task() + off!(task_fs));
    let path = fs + off!(fs_root);
    (read(path + off!(path_dentry)), read(path + off!(path_mnt)))
}

/// What a loop's callback is given: the verifier wants it on the stack, and all else is behind it.
#[repr(C)]
pub struct Context {
    /// The record under construction and the state of what is being done.
    pub scratch: *mut Scratch,
}

/// Calls `step` up to `times` times, until it returns 1.
#[inline(always)]
pub fn each(scratch: &mut Scratch, times: u32, step: unsafe extern "C" fn(u32, *mut Context) -> i64) {
    let mut context = Context { scratch };
    // SAFETY: the callback is given this context and nothing else; the loop ends before this frame does.
    unsafe { bpf_loop(times, step as *mut c_void, (&raw mut context).cast(), 0) };
}

/// The smaller of `len` and `MAX`, a power of two, in a way that leaves the bound for the verifier to see: the
/// compiler would find the mask superfluous.
#[inline(always)]
pub fn at_most<const MAX: usize>(len: u64) -> u32 {
    let len = if len > MAX as u64 { MAX as u64 } else { len };
    core::hint::black_box(len) as u32 & (MAX as u32 * 2 - 1)
}
