//! What the policy loader needs of this machine: its file tree, its name servers. Reads only.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use crate::policy::load::Files;
use crate::policy::yaml::MAX_BYTES;

/// The tree of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostFiles;

impl Files for HostFiles {
    fn read(&self, path: &[u8]) -> Result<Vec<u8>, String> {
        let path = Path::new(OsStr::from_bytes(path));
        let kind = std::fs::metadata(path).map_err(|error| reason(&error))?;
        if kind.is_dir() {
            return Err("it is a directory".into());
        }
        let file = std::fs::File::open(path).map_err(|error| reason(&error))?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| reason(&error))?;
        Ok(bytes)
    }

    fn real(&self, path: &[u8]) -> Option<Vec<u8>> {
        let path = Path::new(OsStr::from_bytes(path));
        let mut base = path;
        let mut missing: Vec<&OsStr> = Vec::new();
        loop {
            match std::fs::canonicalize(base) {
                Ok(real) => {
                    let mut real = real.into_os_string().into_vec();
                    for name in missing.iter().rev() {
                        if real.last() != Some(&b'/') {
                            real.push(b'/');
                        }
                        real.extend_from_slice(OsStr::as_bytes(name));
                    }
                    return Some(real);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    missing.push(base.file_name()?);
                    base = base.parent()?;
                    if base.as_os_str().is_empty() {
                        base = Path::new(".");
                    }
                }
                Err(_) => return None,
            }
        }
    }

    fn exists(&self, path: &[u8]) -> Option<bool> {
        match std::fs::symlink_metadata(OsStr::from_bytes(path)) {
            Ok(_) => Some(true),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                Some(false)
            }
            Err(_) => None,
        }
    }
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it is not there".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_as_far_as_the_path_exists() {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir(real.join("there")).unwrap();
        std::os::unix::fs::symlink("there", real.join("link")).unwrap();
        let ask = |tail: &str| HostFiles.real(real.join(tail).as_os_str().as_bytes());
        let want = |tail: &str| Some(real.join(tail).into_os_string().into_vec());
        assert_eq!(ask("link/a/b"), want("there/a/b"));
        assert_eq!(ask("there"), want("there"));
        assert_eq!(HostFiles.real(b"/"), Some(b"/".to_vec()));
        assert_eq!(HostFiles.exists(real.join("no").as_os_str().as_bytes()), Some(false));
    }
}
