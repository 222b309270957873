//! The files that a policy is read from, taken along: read by the client with its rights, and used as bytes by the worker.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::enforce::files::HostFiles;
use crate::policy::{Context, Files, load};

/// What was read of a file, or why it could not be.
pub type Content = Result<Vec<u8>, String>;

/// Files by the path that they are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyFiles {
    files: BTreeMap<Vec<u8>, Content>,
}

impl PolicyFiles {
    /// Those that the policy in this file consists of, this one first; whether they make one is not asked here.
    pub fn gather(path: &[u8], context: &Context) -> Self {
        let gatherer = Gatherer::default();
        drop(load(path, context, &gatherer));
        Self { files: gatherer.files.into_inner() }
    }

    /// Files that came from somewhere.
    pub fn of(files: BTreeMap<Vec<u8>, Content>) -> Self {
        Self { files }
    }

    /// Path and content of each.
    pub fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Content)> {
        self.files.iter()
    }
}

impl Files for PolicyFiles {
    fn read(&self, path: &[u8]) -> Content {
        self.files.get(path).cloned().unwrap_or_else(|| Err("it is not there".into()))
    }

    fn real(&self, path: &[u8]) -> Option<Vec<u8>> {
        HostFiles.real(path)
    }

    fn exists(&self, path: &[u8]) -> Option<bool> {
        HostFiles.exists(path)
    }
}

/// Remembers what was read.
#[derive(Debug, Default)]
struct Gatherer {
    files: RefCell<BTreeMap<Vec<u8>, Content>>,
}

impl Files for Gatherer {
    fn read(&self, path: &[u8]) -> Content {
        let content = HostFiles.read(path);
        self.files.borrow_mut().insert(path.to_vec(), content.clone());
        content
    }

    fn real(&self, path: &[u8]) -> Option<Vec<u8>> {
        HostFiles.real(path)
    }

    fn exists(&self, path: &[u8]) -> Option<bool> {
        HostFiles.exists(path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_policy_is_read_from_what_was_taken_along() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name).as_os_str().as_bytes().to_vec();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("a.yaml", "api_version: assay/v1\nextends: [./b.yaml, ./none.yaml]\n");
        write("b.yaml", "api_version: assay/v1\nexec: {deny: [/usr/bin/sudo]}\n");
        let files = PolicyFiles::gather(&file("a.yaml"), &Context::symbolic());
        assert_eq!(files.iter().count(), 3);
        let context = Context::symbolic();
        let here = load(&file("a.yaml"), &context, &HostFiles).unwrap_err();
        // The files are not asked any more.
        std::fs::remove_file(directory.path().join("b.yaml")).unwrap();
        assert_eq!(load(&file("a.yaml"), &context, &files).unwrap_err(), here);
        write("c.yaml", "api_version: assay/v1\nexec: {deny: [/usr/bin/sudo]}\n");
        let files = PolicyFiles::gather(&file("c.yaml"), &Context::symbolic());
        let here = load(&file("c.yaml"), &context, &HostFiles).unwrap();
        std::fs::remove_file(directory.path().join("c.yaml")).unwrap();
        assert_eq!(load(&file("c.yaml"), &context, &files).unwrap().digest, here.digest);
    }
}
