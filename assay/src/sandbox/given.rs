//! What a command is given open: which files it may write by that, and whether it has a directory. Reads our own
//! descriptors, before any of ours are the command's.

use std::path::{Path, PathBuf};

/// Regular files that the command inherits open for writing, by path.
pub fn files() -> Vec<Vec<u8>> {
    let is_writable = |flags: i32| matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR);
    kept()
        .filter(|(link, flags)| is_writable(*flags) && link.is_file())
        .filter_map(|(link, _)| std::fs::read_link(link).ok())
        .map(|path| path.into_os_string().into_encoded_bytes())
        .collect()
}

/// The files that standard output and standard error are, if they are files.
pub fn output_files() -> Vec<Vec<u8>> {
    [1, 2]
        .into_iter()
        .filter_map(|number| {
            let link = format!("/proc/self/fd/{number}");
            let is_file = std::fs::metadata(&link).is_ok_and(|meta| meta.is_file());
            let path = std::fs::read_link(&link).ok().filter(|_| is_file)?;
            Some(path.into_os_string().into_encoded_bytes())
        })
        .collect()
}

/// Whether the command inherits a directory, by whatever descriptor.
pub fn has_directory() -> bool {
    kept().any(|(link, _)| link.is_dir())
}

/// The descriptors that stay open for the command: the link in `/proc` that leads where each does, and its flags.
fn kept() -> impl Iterator<Item = (PathBuf, i32)> {
    let links = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten().map(|entry| entry.path());
    links.filter_map(|link| {
        let info = std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(link.file_name()?)).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
        (flags & libc::O_CLOEXEC == 0).then_some((link, flags))
    })
}
