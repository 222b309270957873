//! The search for a program along `PATH` and the call that starts it, as `execvp` does both.
//!
//! Not std's: it would reset the signal mask and SIGPIPE, and it cannot pass on an environment byte for byte.
#![expect(unsafe_code, reason = "execve has no safe wrapper")]

use std::ffi::{CStr, CString};

/// Where a shell without `PATH` looks.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";
/// What runs a file that is executable and has no format the kernel knows.
const SHELL: &CStr = c"/bin/sh";

/// Replaces this process; returns the errno when it could not.
pub fn execute(argv: &[CString], envp: &[CString]) -> i32 {
    let Some(program) = argv.first() else { return libc::ENOENT };
    let path = envp.iter().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
    let mut is_refused = false;
    let mut errno = libc::ENOENT;
    for candidate in candidates(program.to_bytes(), path) {
        errno = start(&candidate, argv, envp);
        match errno {
            libc::EACCES => is_refused = true,
            libc::ENOENT | libc::ESTALE | libc::ENOTDIR | libc::ENODEV | libc::ETIMEDOUT => {}
            other => return other,
        }
    }
    if is_refused { libc::EACCES } else { errno }
}

/// The files to try, in order.
pub fn candidates(program: &[u8], path: Option<&[u8]>) -> Vec<CString> {
    if program.is_empty() {
        return Vec::new();
    }
    if program.contains(&b'/') {
        return vec![CString::new(program).expect("it came from a C string")];
    }
    path.unwrap_or(DEFAULT_PATH)
        .split(|byte| *byte == b':')
        .map(|directory| {
            let mut file = directory.to_vec();
            if !file.is_empty() {
                file.push(b'/');
            }
            file.extend_from_slice(program);
            CString::new(file).expect("it came from C strings")
        })
        .collect()
}

fn start(file: &CStr, argv: &[CString], envp: &[CString]) -> i32 {
    let errno = execve(file, &argv.iter().map(CString::as_c_str).collect::<Vec<_>>(), envp);
    if errno != libc::ENOEXEC {
        return errno;
    }
    let mut script = vec![SHELL, file];
    script.extend(argv.iter().skip(1).map(CString::as_c_str));
    execve(SHELL, &script, envp)
}

fn execve(file: &CStr, argv: &[&CStr], envp: &[CString]) -> i32 {
    let ended = |pointers: Vec<*const libc::c_char>| {
        pointers.into_iter().chain([std::ptr::null()]).collect::<Vec<*const libc::c_char>>()
    };
    let argv = ended(argv.iter().map(|text| text.as_ptr()).collect());
    let envp = ended(envp.iter().map(|text| text.as_ptr()).collect());
    // SAFETY: all three point to C strings that outlive the call, both arrays end in null.
    unsafe { libc::execve(file.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &str, path: Option<&str>, expect: &[&str]) {
        let found = candidates(program.as_bytes(), path.map(str::as_bytes));
        let found: Vec<&str> = found.iter().map(|file| file.to_str().unwrap()).collect();
        assert_eq!(found, expect, "{program:?} along {path:?}");
    }

    #[test]
    fn the_search_is_that_of_execvp() {
        check("ls", Some("/a:/b"), &["/a/ls", "/b/ls"]);
        check("ls", Some(":/b:"), &["ls", "/b/ls", "ls"]);
        check("ls", Some(""), &["ls"]);
        check("ls", None, &["/bin/ls", "/usr/bin/ls"]);
        check("./ls", Some("/a"), &["./ls"]);
        check("a/b", Some("/a"), &["a/b"]);
        check("", Some("/a"), &[]);
    }
}
