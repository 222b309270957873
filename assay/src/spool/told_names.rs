//! A bundle → the names that runs are looked for by: paths with programs, and hosts. Pure; nothing counts before the whole
//! bundle was found good.

use std::collections::BTreeSet;
use std::io::Read;

use crate::evidence::integrity::{Failure, Limits};
use crate::evidence::verify::verify;
use crate::evidence::view::{Content, View};

/// So many names of one run are kept: a run chooses how many it has.
pub const MOST: usize = 200_000;

/// The names of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToldNames {
    /// Of files and programs, as the bundle writes them.
    pub paths: BTreeSet<String>,
    /// Of the other ends: names and addresses.
    pub hosts: BTreeSet<String>,
    /// There were more.
    pub is_cut: bool,
}

impl ToldNames {
    /// Those of a bundle, where it is good.
    pub fn of(bundle: impl Read) -> Result<Self, Failure> {
        let mut told = Self::default();
        verify(bundle, Limits::FORMAT, |_, event| {
            let view = View::new(event);
            match view.content {
                Content::Fs { path, to, .. } => {
                    // The text of a symbolic link is none of its own names, but where it leads.
                    told.add(path, Which::Path);
                    if let Some(to) = to {
                        told.add(to, Which::Path);
                    }
                }
                Content::Exec { path } => told.add(path, Which::Path),
                Content::Net { host, address, .. } => {
                    host.into_iter().chain(address).for_each(|name| told.add(name, Which::Host));
                    view.asked().for_each(|name| told.add(name, Which::Host));
                    view.addresses().iter().for_each(|address| told.add(&address.to_string(), Which::Host));
                }
                Content::Started
                | Content::Degraded { .. }
                | Content::Summary
                | Content::Finished
                | Content::Unknown => {}
            }
        })?;
        Ok(told)
    }

    fn add(&mut self, name: &str, which: Which) {
        let is_full = self.paths.len() + self.hosts.len() >= MOST;
        let names = match which {
            Which::Path => &mut self.paths,
            Which::Host => &mut self.hosts,
        };
        if names.contains(name) {
            return;
        }
        if is_full {
            self.is_cut = true;
        } else {
            names.insert(name.to_owned());
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Path,
    Host,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::samples;
    use crate::profile::effect::{EffectResult, FsOp};

    #[test]
    fn the_names_of_a_good_bundle_are_told_and_of_another_none() {
        let effects = vec![
            samples::fs(FsOp::Rename, "/a", Some("/b"), EffectResult::Ok),
            samples::exec("/usr/bin/make"),
            samples::connect("tcp", "10.0.0.1", Some(5)),
        ];
        let mut bundle = samples::bundle(&samples::evidence(effects, vec![]));
        let told = ToldNames::of(bundle.as_slice()).unwrap();
        assert_eq!(told.paths.iter().map(String::as_str).collect::<Vec<_>>(), ["/a", "/b", "/usr/bin/make"]);
        assert_eq!(told.hosts.iter().map(String::as_str).collect::<Vec<_>>(), ["10.0.0.1"]);
        assert!(!told.is_cut);
        let last = bundle.len() - 1;
        bundle.truncate(last);
        assert!(ToldNames::of(bundle.as_slice()).is_err());
    }

    #[test]
    fn of_too_many_names_it_says_so() {
        let mut told = ToldNames::default();
        for number in 0..=MOST {
            told.add(&number.to_string(), Which::Path);
        }
        assert_eq!((told.paths.len(), told.is_cut), (MOST, true));
        told.add("0", Which::Path);
        assert_eq!(told.paths.len(), MOST);
    }
}
