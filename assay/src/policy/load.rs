//! A policy file and all it extends → one resolved [`Policy`], or every problem of them all. Pure over [`Files`].

use std::collections::{BTreeMap, BTreeSet};

use super::builtin;
use super::net::Target;
use super::parse::{Document, parse};
pub use super::path::Context;
use super::path::{parse_path, parse_path_along};
use super::pattern::Pattern;
use super::problem::{Complaint, Place, Problem};
use super::rule::{Access, AccessSet, Base, PathRule, Policy, spell_bytes};
use super::yaml;
use crate::canon::digest::Digest;

/// How the loader reaches the file tree.
pub trait Files {
    /// The bytes of a file, at most [`yaml::MAX_BYTES`] and one more; the error as text.
    fn read(&self, path: &[u8]) -> Result<Vec<u8>, String>;
    /// Where `path` leads when links are followed as far as it exists; the rest is kept. `None`: could not tell.
    fn real(&self, path: &[u8]) -> Option<Vec<u8>>;
    /// Whether something is there. `None`: could not tell.
    fn exists(&self, path: &[u8]) -> Option<bool>;
}

/// No file tree at all: nothing to read, nothing to follow. For judging the record of another machine.
#[derive(Debug, Clone, Copy)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &[u8]) -> Result<Vec<u8>, String> {
        Err("there is no file tree to read from".into())
    }

    fn real(&self, _path: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn exists(&self, _path: &[u8]) -> Option<bool> {
        None
    }
}

/// The most files one policy may be made of.
const MAX_FILES: usize = 64;

/// Loads the policy at `path` and all it extends.
pub fn load(path: &[u8], context: &Context, files: &dyn Files) -> Result<Policy, Vec<Problem>> {
    let name = spell_bytes(path);
    let mut loader = Loader::new(context, files);
    let place = Place { file: name.clone(), line: 1, column: 1 };
    if path == b"-" {
        let message =
            "the policy of a run is not read from its standard input, which is the command's".into();
        let hint = Some("name a file; one that is called so is `./-`".into());
        return Err(vec![Problem { place, message, hint }]);
    }
    let base = loader.file(path, &place, None);
    loader.finish(&name, base)
}

/// Loads a policy from bytes that the caller has already read, under this name; `extends` is relative to it.
pub fn load_bytes(
    name: &[u8],
    bytes: &[u8],
    context: &Context,
    files: &dyn Files,
) -> Result<Policy, Vec<Problem>> {
    let shown = spell_bytes(name);
    let mut loader = Loader::new(context, files);
    let base = loader.bytes(name, bytes);
    loader.finish(&shown, base)
}

/// Loads the built-in minimal policy.
pub fn load_builtin(context: &Context, files: &dyn Files) -> Result<Policy, Vec<Problem>> {
    // Its rules about a home have nothing to bite on where there is none.
    let context =
        &Context { home: context.home.clone().or_else(|| Some(b"/nonexistent".to_vec())), ..context.clone() };
    let mut loader = Loader::new(context, files);
    let base = loader.bytes(builtin::MINIMAL_NAME.as_bytes(), builtin::MINIMAL.as_bytes());
    loader.finish(builtin::MINIMAL_NAME, base)
}

struct Loader<'a> {
    context: &'a Context,
    files: &'a dyn Files,
    problems: Vec<Problem>,
    /// Files being loaded, outermost first: a cycle comes back to one of them.
    open: Vec<Vec<u8>>,
    /// Files already in, by real path.
    done: BTreeSet<Vec<u8>>,
    rules: Document,
    digests: Vec<Digest>,
}

impl<'a> Loader<'a> {
    fn new(context: &'a Context, files: &'a dyn Files) -> Self {
        Self {
            context,
            files,
            problems: Vec::new(),
            open: Vec::new(),
            done: BTreeSet::new(),
            rules: Document::default(),
            digests: Vec::new(),
        }
    }

    /// Takes in one file; `asked_at` is where it was asked for. Returns the base it settles on.
    fn file(&mut self, path: &[u8], asked_at: &Place, text: Option<&str>) -> Option<Base> {
        let real = self.files.real(path).unwrap_or_else(|| path.to_vec());
        let mut complain = |message: String, hint: Option<&str>| {
            let hint = hint.map(Into::into);
            self.problems.push(Problem { place: asked_at.clone(), message, hint });
        };
        if self.open.contains(&real) {
            complain(
                format!("`{}` extends itself", text.unwrap_or("the policy")),
                Some("remove it from one of the two"),
            );
            return None;
        }
        if self.done.contains(&real) {
            return None;
        }
        if self.digests.len() >= MAX_FILES {
            complain(
                format!("the policy is made of more than {MAX_FILES} files"),
                Some("put their rules together"),
            );
            return None;
        }
        let bytes = match self.files.read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                match text {
                    Some(text) => complain(
                        format!("cannot extend `{text}`: {error}"),
                        Some("the path is relative to the file that names it"),
                    ),
                    None => complain(
                        format!("cannot read the policy: {error}"),
                        Some("`assay policy check --builtin` prints one to begin with"),
                    ),
                }
                return None;
            }
        };
        // Lines of a file that nobody meant as a policy are not for whoever reads our messages.
        if let Some(text) = text.filter(|_| !is_meant_as_policy(&bytes)) {
            complain(
                format!("`{text}` is no policy: it has no `api_version`"),
                Some("a policy begins with `api_version: assay/v1`"),
            );
            return None;
        }
        self.open.push(real.clone());
        let base = self.bytes(path, &bytes);
        self.open.pop();
        self.done.insert(real);
        base
    }

    fn bytes(&mut self, path: &[u8], bytes: &[u8]) -> Option<Base> {
        self.digests.push(Digest::of(bytes));
        let name = spell_bytes(path);
        let root = yaml::read(&name, bytes, &mut self.problems)?;
        let document = parse(&name, &root, self.context, &mut self.problems);
        let mut base = None;
        for (text, place) in &document.extends {
            let inherited = if let Some(builtin) = text.strip_prefix("builtin:") {
                self.builtin(builtin, place)
            } else {
                match self.extended_path(path, text) {
                    Ok(path) => self.file(&path, place, Some(text)),
                    Err((message, hint)) => {
                        self.problems.push(Problem { place: place.clone(), message, hint });
                        None
                    }
                }
            };
            base = inherited.or(base);
        }
        let all = &mut self.rules;
        all.fs_allow.extend(document.fs_allow);
        all.fs_deny.extend(document.fs_deny);
        all.net_allow.extend(document.net_allow);
        all.net_deny.extend(document.net_deny);
        all.exec_deny.extend(document.exec_deny);
        all.env_allow.extend(document.env_allow);
        if let Some(programs) = document.exec_allow {
            all.exec_allow.get_or_insert_default().extend(programs);
        }
        document.base.or(base)
    }

    fn builtin(&mut self, name: &str, place: &Place) -> Option<Base> {
        if name == "minimal" {
            if self.done.insert(builtin::MINIMAL_NAME.as_bytes().to_vec()) {
                return self.bytes(builtin::MINIMAL_NAME.as_bytes(), builtin::MINIMAL.as_bytes());
            }
            return None;
        }
        self.problems.push(Problem {
            place: place.clone(),
            message: format!("unknown built-in policy `{name}`"),
            hint: Some("there is `builtin:minimal`".into()),
        });
        None
    }

    /// The path an `extends` entry of the file at `from` means.
    fn extended_path(&self, from: &[u8], text: &str) -> Result<Vec<u8>, Complaint> {
        if text.starts_with(['/', '~']) || text.starts_with("${") {
            return parse_path(text, self.context)?
                .as_literal()
                .ok_or_else(|| (format!("bad path `{text}`"), Some("`extends` takes no `*`".into())));
        }
        let relative = crate::profile::name::unescape(text)
            .ok_or_else(|| (format!("bad path `{text}`"), Some(r"a backslash is written `\\`".to_owned())))?;
        let directory = from.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |at| &from[..=at]);
        Ok([directory, &relative].concat())
    }

    /// Resolves the rules, or tells every problem in the order of the files.
    fn finish(mut self, name: &str, base: Option<Base>) -> Result<Policy, Vec<Problem>> {
        if !self.problems.is_empty() {
            self.problems.sort();
            return Err(self.problems);
        }
        let base = base.unwrap_or(Base::System);
        let mut warnings = Vec::new();
        let mut rules = std::mem::take(&mut self.rules);
        let lists = [
            Some(&mut rules.fs_allow),
            Some(&mut rules.fs_deny),
            rules.exec_allow.as_mut(),
            Some(&mut rules.exec_deny),
        ];
        for rule in lists.into_iter().flatten().flatten() {
            self.follow(rule, Some(&mut warnings));
        }
        for rule in rules.net_allow.iter_mut().chain(&mut rules.net_deny) {
            if let (Target::UnixPath(patterns), Some(path)) =
                (&mut rule.target, rule.text.strip_prefix("unix:"))
            {
                self.go_up(path, patterns);
                self.follow_patterns(patterns);
            }
        }
        let mut fs_allow = Vec::new();
        if base == Base::System {
            let root = yaml::read(builtin::BASE_NAME, builtin::BASE.as_bytes(), &mut self.problems);
            if let Some(root) = root {
                fs_allow = parse(builtin::BASE_NAME, &root, self.context, &mut self.problems).fs_allow;
            }
            if !self.problems.is_empty() {
                return Err(self.problems);
            }
            for rule in &mut fs_allow {
                rule.is_base = true;
                self.follow(rule, None);
            }
        }
        warnings.extend(self.wide_work_directory(&rules.fs_allow));
        fs_allow.append(&mut rules.fs_allow);
        warnings.sort();
        let mut warnings = grouped(warnings);
        warnings.dedup_by(|a, b| a.message == b.message);
        let digest = match self.digests.as_slice() {
            [only] => *only,
            many => {
                let lines: Vec<_> = many.iter().map(ToString::to_string).collect();
                Digest::of(lines.join("\n").as_bytes())
            }
        };
        Ok(Policy {
            name: name.to_owned(),
            base,
            fs_allow,
            fs_deny: rules.fs_deny,
            net_allow: rules.net_allow,
            net_deny: rules.net_deny,
            exec_allow: rules.exec_allow,
            exec_deny: rules.exec_deny,
            env_allow: rules.env_allow,
            nameservers: self.context.nameservers.clone(),
            roots: roots(self.context),
            warnings,
            digest,
        })
    }

    /// Adds where the rule's paths really lead; says once what is not there.
    fn follow(&self, rule: &mut PathRule, warnings: Option<&mut Vec<Problem>>) {
        self.go_up(&rule.text, &mut rule.patterns);
        if let (Some(warnings), Some(pattern)) = (warnings, rule.patterns.first()) {
            let is_builtin = rule.place.file == builtin::MINIMAL_NAME;
            let sign = ["?", "["].into_iter().find(|sign| rule.text.contains(sign));
            let no_sign = || {
                let sign = sign?;
                Some(format!("`{sign}` is an ordinary character here; `*` and `**` are the only patterns"))
            };
            if let (None, Some(hint)) = (pattern.as_literal(), no_sign()) {
                let message = format!("`{}` has a `*`, and a sign that is none", rule.text);
                warnings.push(Problem { place: rule.place.clone(), message, hint: Some(hint) });
            }
            let path = pattern.as_literal().filter(|path| !path.starts_with(&self.context.tmpdir));
            if let (Some(path), false) = (path, is_builtin)
                && self.files.exists(&path) == Some(false)
            {
                // A program by its bare name is looked for along PATH by a shell, not by a policy.
                let is_bare = rule.access == AccessSet::of(Access::Execute) && !rule.text.contains('/');
                warnings.push(Problem {
                    place: rule.place.clone(),
                    message: format!("`{}`{MISSING}", rule.text),
                    hint: no_sign().or_else(|| {
                        is_bare.then(|| {
                        format!(
                            "it is relative to the work directory; a program is named as in `/usr/bin/{}`",
                            rule.text
                        )
                    })
                    }),
                });
            }
        }
        self.follow_patterns(&mut rule.patterns);
    }

    /// What is said when `${WORKDIR}` is granted and is all of the host, or all of a home.
    fn wide_work_directory(&self, allow: &[PathRule]) -> Option<Problem> {
        let workdir = self.context.workdir.as_slice();
        let real = self.files.real(workdir).unwrap_or_else(|| workdir.to_vec());
        let home = self.context.home.as_ref().filter(|home| {
            let home = self.files.real(home).unwrap_or_else(|| (*home).clone());
            home.len() > 1 && Pattern::literal(&real).covers(&home)
        });
        let what = match (real.as_slice(), home) {
            (b"/", _) => "the whole host".to_owned(),
            (_, Some(home)) => format!("the home {} and all in it", spell_bytes(home)),
            _ => return None,
        };
        let rule = allow.iter().find(|rule| rule.patterns.iter().any(|pattern| pattern.matches(workdir)))?;
        Some(Problem {
            place: rule.place.clone(),
            message: format!("`{}` grants {}: {what}", rule.text, rule.access.words()),
            hint: Some("start the command in a directory of its own (`--workdir`)".into()),
        })
    }

    /// Where a path goes up from a link, it goes up from where the link leads.
    fn go_up(&self, text: &str, patterns: &mut Vec<Pattern>) {
        if let Ok(pattern) = parse_path_along(text, self.context, &|path| self.files.real(path)) {
            *patterns = vec![pattern];
        }
    }

    fn follow_patterns(&self, patterns: &mut Vec<Pattern>) {
        let mut real: Vec<_> = patterns
            .iter()
            .filter_map(|pattern| Some(pattern.with_prefix(&self.files.real(&pattern.literal_prefix())?)))
            .collect();
        real.retain(|pattern| !patterns.contains(pattern));
        patterns.append(&mut real);
    }
}

/// Whether somebody wrote it as a policy: other files are not quoted.
fn is_meant_as_policy(bytes: &[u8]) -> bool {
    let word = b"api_version";
    bytes.windows(word.len()).any(|window| window == word)
}

/// Of many paths of one file that are not there, one warning names a few: a learnt profile denies dozens.
fn grouped(warnings: Vec<Problem>) -> Vec<Problem> {
    const FEW: usize = 6;
    let is_missing = |warning: &Problem| warning.hint.is_none() && warning.message.ends_with(MISSING);
    let mut counts = BTreeMap::<String, Vec<String>>::new();
    for warning in warnings.iter().filter(|warning| is_missing(warning)) {
        let name = warning.message.trim_end_matches(MISSING).to_owned();
        let names = counts.entry(warning.place.file.clone()).or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    counts.retain(|_, names| names.len() > FEW);
    let mut kept = Vec::new();
    for mut warning in warnings {
        if !is_missing(&warning) {
            kept.push(warning);
        } else if let Some(names) = counts.get_mut(&warning.place.file) {
            // The first of them speaks for all.
            if let [first, second, third, more @ ..] = names.as_slice() {
                warning.message =
                    format!("{} paths do not exist: {first}, {second}, {third} …", more.len() + 3);
                kept.push(warning);
                names.clear();
            }
        } else {
            kept.push(warning);
        }
    }
    kept
}

/// How the warning of a path that is not there ends.
const MISSING: &str = " does not exist";

/// The roots of a context, for spelling: the longest first, ties in the order WORKDIR, TMPDIR, HOME.
fn roots(context: &Context) -> Vec<(String, Vec<u8>)> {
    let mut roots = vec![
        ("${WORKDIR}".to_owned(), context.workdir.clone()),
        ("${TMPDIR}".to_owned(), context.tmpdir.clone()),
    ];
    roots.extend(context.home.clone().map(|home| ("${HOME}".to_owned(), home)));
    roots.sort_by_key(|(_, path)| std::cmp::Reverse(path.len()));
    roots
}
