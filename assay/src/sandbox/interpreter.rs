//! The files that a command's name may mean, and the interpreters that scripts among them need. Looks at files, starts none.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::recorder::Places;
use super::request::SandboxRequest;
use crate::enforce::files::HostFiles;
use crate::policy::Files as _;
use crate::profile::name::Name;

/// The files that the launcher will try, links followed.
pub fn find_programs(program: &[u8], path: Option<&[u8]>, places: &Places) -> Vec<Vec<u8>> {
    let workdir = places.workdir.as_deref().unwrap_or_else(|| Path::new("/"));
    super::exec::candidates(program, path)
        .into_iter()
        .map(|candidate| workdir.join(OsStr::from_bytes(candidate.to_bytes())))
        .filter(|file| is_program(file))
        .filter_map(|file: PathBuf| HostFiles.real(file.as_os_str().as_bytes()))
        .collect()
}

/// As many interpreters of interpreters the kernel follows.
const MAX_INTERPRETERS: usize = 5;
/// As much of a script's first line the kernel reads.
const FIRST_LINE: u64 = 256;

/// The interpreter that the first line of a script names, links followed.
fn interpreter(script: &[u8]) -> Option<Vec<u8>> {
    HostFiles.real(&interpreter_word(script)?)
}

/// A program and the interpreters it is started by, one by the other: a script's, and that one's where it is a script too.
pub fn with_interpreters(program: Vec<u8>) -> impl Iterator<Item = Vec<u8>> {
    std::iter::successors(Some(program), |file| interpreter(file)).take(MAX_INTERPRETERS)
}

/// The interpreter of the command where the command is a script and that is not there.
pub fn missing_interpreter(
    request: &SandboxRequest,
    environment: &Environment,
    places: &Places,
) -> Option<Name> {
    let path = environment.value(b"PATH").map(|path| path.as_bytes().to_vec());
    let program = request.command.first()?.as_bytes();
    let script = find_programs(program, path.as_deref(), places).into_iter().next()?;
    let workdir = places.workdir.as_deref().unwrap_or_else(|| Path::new("/"));
    let at = |word: &[u8]| workdir.join(OsStr::from_bytes(word));
    let next = |word: &Vec<u8>| interpreter_word(at(word).as_os_str().as_bytes());
    let mut words = std::iter::successors(interpreter_word(&script), next).take(MAX_INTERPRETERS);
    words.find(|word| !at(word).exists()).map(|word| Name::from_bytes(&word))
}

/// The interpreter that the first line of a script names. A script names what it likes: a pipe must not keep us waiting.
fn interpreter_word(script: &[u8]) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut head = Vec::new();
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(OsStr::from_bytes(script)).ok()?;
    file.take(FIRST_LINE).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.next().map(<[u8]>::to_vec)
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_that_is_a_pipe_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, script) = (folder.path().join("pipe"), folder.path().join("script"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        std::fs::write(&script, [b"#! ", pipe.as_os_str().as_bytes(), b" x\n"].concat()).unwrap();
        let all: Vec<Vec<u8>> = with_interpreters(script.as_os_str().as_bytes().to_vec()).collect();
        let pipe = std::fs::canonicalize(pipe).unwrap();
        assert_eq!(all[1..], [pipe.as_os_str().as_bytes().to_vec()]);
    }
}
