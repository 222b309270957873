//! Names of files and sockets that matter to a reviewer, and how they are matched. Data, and one matcher. Pure.
//!
//! A pattern that begins with `/`, `~/` or `@` is anchored (`~` is `${HOME}`, `/root` and `/home/*`); any other may
//! begin at any component. One that ends in `/` holds for what lies beneath, any other for that name alone. `*`
//! stands for any text within a component.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use crate::profile::effort::looked_at;

/// Configuration that makes an agent, a repository or the system run code later.
pub static PROTECTED: Places = Places::new(|| {
    &[
        // Git hooks and what tools put in their place.
        ".git/hooks/",
        ".husky/",
        ".pre-commit-config.yaml",
        ".envrc",
        ".devcontainer/",
        ".devcontainer.json",
        // CI workflows.
        ".github/workflows/",
        ".github/actions/",
        ".gitea/workflows/",
        ".forgejo/workflows/",
        ".gitlab-ci.yml",
        ".circleci/",
        ".buildkite/",
        ".travis.yml",
        ".drone.yml",
        "azure-pipelines.yml",
        "bitbucket-pipelines.yml",
        "Jenkinsfile",
        // Agents.
        ".claude/settings*.json",
        ".claude/commands/",
        ".claude/agents/",
        ".claude/hooks/",
        ".claude/skills/",
        "CLAUDE.md",
        "AGENTS.md",
        "GEMINI.md",
        ".mcp.json",
        ".cursor/mcp.json",
        ".cursor/rules/",
        ".cursor/hooks.json",
        ".cursorrules",
        ".codex/config.toml",
        ".codex/prompts/",
        ".gemini/settings.json",
        ".windsurf/rules/",
        ".aider.conf.yml",
        ".opencode/",
        "opencode.json",
        ".github/copilot-instructions.md",
        // This program.
        "assay.yaml",
        // Editors.
        ".vscode/settings.json",
        ".vscode/tasks.json",
        ".vscode/launch.json",
        ".vscode/extensions.json",
        ".idea/",
        ".zed/",
        ".exrc",
        ".nvim.lua",
        "~/.vimrc",
        "~/.vim/",
        "~/.emacs",
        "~/.emacs.d/",
        "~/.config/nvim/",
        "~/.config/Code/User/*.json",
        // Shells and sessions.
        "~/.bashrc",
        "~/.bash_profile",
        "~/.bash_login",
        "~/.bash_logout",
        "~/.bash_aliases",
        "~/.profile",
        "~/.zshrc",
        "~/.zshenv",
        "~/.zprofile",
        "~/.zlogin",
        "~/.zlogout",
        "~/.inputrc",
        "~/.config/fish/",
        "~/.config/systemd/",
        "~/.config/autostart/",
        "~/.config/environment.d/",
        "~/.local/bin/",
        "~/.gitconfig",
        "~/.config/git/",
        "~/.cargo/config.toml",
        "~/.cargo/env",
        "~/.ssh/authorized_keys",
        "~/.ssh/config",
        "~/.ssh/rc",
        // The system.
        "/etc/profile",
        "/etc/profile.d/",
        "/etc/bash.bashrc",
        "/etc/zsh/",
        "/etc/environment",
        "/etc/passwd",
        "/etc/shadow",
        "/etc/group",
        "/etc/sudoers",
        "/etc/sudoers.d/",
        "/etc/pam.d/",
        "/etc/ld.so.preload",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d/",
        "/etc/crontab",
        "/etc/cron.*/",
        "/etc/init.d/",
        "/etc/rc.local",
        "/etc/systemd/",
        "/etc/udev/rules.d/",
        "/usr/lib/systemd/",
        "/var/spool/cron/",
    ]
});

/// A repository's own configuration, which can name programs.
pub static GIT_CONFIG: Places = Places::new(|| &[".git/config", ".git/modules/*/config", ".gitmodules"]);

/// Files that hold private keys, credentials of clouds, registries and forges, or a browser's store.
pub static CREDENTIALS: Places = Places::new(|| {
    &[
        "~/.ssh/",
        "~/.gnupg/private-keys-v1.d/",
        "~/.gnupg/secring.gpg",
        "~/.password-store/",
        "~/.local/share/keyrings/",
        "~/.config/op/",
        "~/.config/sops/",
        "~/.config/age/",
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/gshadow",
        "/etc/gshadow-",
        "/etc/ssl/private/",
        "/etc/ssh/ssh_host_*_key",
        "~/.aws/",
        "~/.azure/",
        "~/.config/gcloud/",
        "~/.config/doctl/",
        "~/.oci/",
        "~/.kube/config",
        "~/.terraform.d/credentials.tfrc.json",
        "~/.vault-token",
        "~/.config/hcloud/",
        "~/.fly/config.yml",
        "~/.docker/config.json",
        "~/.config/containers/auth.json",
        "~/.npmrc",
        "~/.yarnrc.yml",
        "~/.pypirc",
        "~/.netrc",
        "~/.git-credentials",
        "~/.config/git/credentials",
        "~/.cargo/credentials",
        "~/.cargo/credentials.toml",
        "~/.gem/credentials",
        "~/.m2/settings.xml",
        "~/.m2/settings-security.xml",
        "~/.gradle/gradle.properties",
        "~/.config/gh/hosts.yml",
        "~/.config/hub",
        "~/.config/glab-cli/config.yml",
        "~/.pgpass",
        "~/.my.cnf",
        "~/.mozilla/firefox/*/logins.json",
        "~/.mozilla/firefox/*/key4.db",
        "~/.mozilla/firefox/*/cookies.sqlite",
        "~/.thunderbird/*/logins.json",
        "~/.config/google-chrome/*/Login Data",
        "~/.config/google-chrome/*/Cookies",
        "~/.config/chromium/*/Login Data",
        "~/.config/chromium/*/Cookies",
        "~/.config/BraveSoftware/*/*/Login Data",
        "~/.config/BraveSoftware/*/*/Cookies",
        "~/.config/microsoft-edge/*/Login Data",
        "~/.config/microsoft-edge/*/Cookies",
        "/var/run/secrets/",
        "/run/secrets/",
        "*.kdbx",
        "*.keystore",
        "*.jks",
        "*.p12",
        "*.pfx",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
    ]
});

/// What lies among credentials and holds none.
pub static NO_CREDENTIALS: Places = Places::new(|| {
    &["~/.ssh/known_hosts*", "~/.ssh/config", "~/.ssh/*.pub", "~/.ssh/authorized_keys", "*.pub"]
});

/// Files that often hold secrets, and are often read for good reasons.
pub static MAY_HOLD_SECRETS: Places = Places::new(|| {
    &[
        ".env",
        ".env.*",
        ".npmrc",
        ".claude/.credentials.json",
        ".codex/auth.json",
        ".local/share/opencode/auth.json",
        ".gemini/oauth_creds.json",
        "/proc/*/environ",
        "/proc/*/mem",
    ]
});

/// Where anybody, or any run, may put a program.
pub static TEMPORARY: Places = Places::new(|| {
    &[
        "/tmp/",
        "/var/tmp/",
        "/dev/shm/",
        "/run/user/",
        "${TMPDIR}/",
        "${CALLER_TMPDIR}/",
        "${RUNTIME_DIR}/",
        "~/Downloads/",
    ]
});

/// Where the run itself works.
pub static WRITABLE: Places = Places::new(|| &["${WORKDIR}/"]);

/// Programs that run with more rights than their caller.
pub const SET_ID: &[&str] = &[
    "sudo",
    "sudoedit",
    "su",
    "doas",
    "pkexec",
    "mount",
    "umount",
    "fusermount",
    "fusermount3",
    "passwd",
    "chsh",
    "chfn",
    "chage",
    "expiry",
    "newgrp",
    "gpasswd",
    "newuidmap",
    "newgidmap",
    "crontab",
    "at",
    "ssh-keysign",
    "unix_chkpwd",
    "dbus-daemon-launch-helper",
    "polkit-agent-helper-1",
    "snap-confine",
    "bwrap",
];

/// Sockets whose other end acts for whoever connects: container engines, system and user buses, key agents.
pub static ROOT_SOCKETS: Places = Places::new(|| {
    &[
        "docker.sock",
        "containerd.sock",
        "podman.sock",
        "crio.sock",
        "cri-dockerd.sock",
        "buildkitd.sock",
        "dockershim.sock",
        "system_bus_socket",
        "/run/user/*/bus",
        "/run/user/*/systemd/private",
        "${RUNTIME_DIR}/bus",
        "${RUNTIME_DIR}/systemd/private",
        "/run/systemd/private",
        "/run/systemd/io.system.ManagedOOM",
        "/run/snapd.socket",
        "snapd.socket",
        "/var/snap/lxd/common/lxd/unix.socket",
        "/var/lib/lxd/unix.socket",
        "/var/lib/incus/unix.socket",
        "libvirt-sock",
        "virtqemud-sock",
        "S.gpg-agent*",
        "ssh-*/agent.*",
        "keyring/ssh",
        "keyring/control",
        "@/tmp/dbus-*",
        "acpid.socket",
    ]
});

/// Addresses where clouds hand out the machine's credentials.
pub const METADATA: &[&str] = &[
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd20:ce::254",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
];

/// Patterns, found by their first component: a path is held against those few that can hold for it.
pub struct Places {
    list: fn() -> &'static [&'static str],
    index: OnceLock<Index>,
}

#[derive(Debug)]
struct Index {
    by_first: HashMap<&'static str, Vec<&'static str>>,
    /// By the first byte of a first component, a bit for each length: most components are none, and that is told by one
    /// look.
    lengths: [u64; 256],
    /// Those whose first component has a star, which are always tried.
    starred: Vec<&'static str>,
}

impl Places {
    const fn new(list: fn() -> &'static [&'static str]) -> Self {
        Self { list, index: OnceLock::new() }
    }

    /// The patterns.
    pub fn patterns(&self) -> &'static [&'static str] {
        (self.list)()
    }

    /// Whether one of the patterns holds for `path`.
    pub fn has(&self, path: &str) -> bool {
        looked_at(path.len());
        let path = folded(path);
        let index = self.index.get_or_init(|| Index::of(self.patterns()));
        if index.starred.iter().any(|pattern| matches(pattern, &path)) {
            return true;
        }
        // Each pattern is tried once, however often its first component occurs.
        let mut tried: Vec<&str> = Vec::new();
        let components = path.as_bytes().split(|byte| *byte == b'/');
        let known = components.filter(|component| index.may_begin(component));
        let known = known.filter_map(|component| index.by_first.get(std::str::from_utf8(component).ok()?));
        for pattern in known.flatten() {
            if !tried.contains(pattern) {
                if matches(pattern, &path) {
                    return true;
                }
                tried.push(pattern);
            }
        }
        false
    }
}

impl Index {
    fn of(patterns: &[&'static str]) -> Self {
        let mut index = Self { by_first: HashMap::new(), lengths: [0; 256], starred: Vec::new() };
        for pattern in patterns {
            let rest = pattern.strip_prefix("~/").unwrap_or(pattern);
            let first = rest.trim_start_matches('/').split('/').next().unwrap_or_default();
            if first.contains('*') || first.starts_with('@') {
                index.starred.push(pattern);
            } else {
                index.by_first.entry(first).or_default().push(pattern);
                if let Some(byte) = first.bytes().next() {
                    index.lengths[usize::from(byte)] |= length_bit(first.len());
                }
            }
        }
        index
    }

    fn may_begin(&self, component: &[u8]) -> bool {
        component
            .first()
            .is_some_and(|byte| self.lengths[usize::from(*byte)] & length_bit(component.len()) != 0)
    }
}

/// Long ones share the last bit.
fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}

/// A name without `//`, `.` and `..`, which a recorder never writes and somebody who wants to pass unseen might.
fn folded(path: &str) -> Cow<'_, str> {
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    // Most have nothing that could be odd, which takes one look.
    let may_be_odd = |pair: &[u8]| pair[0] == b'/' && matches!(pair[1], b'/' | b'.');
    if path.len() > 1 && !path.starts_with('.') && !path.as_bytes().windows(2).any(may_be_odd) {
        return Cow::Borrowed(path);
    }
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if !inner.split('/').any(is_odd) {
        return Cow::Borrowed(path);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in inner.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    let end = if path.ends_with('/') && !parts.is_empty() { "/" } else { "" };
    Cow::Owned(format!("{root}{}{end}", parts.join("/")))
}

/// Whether a pattern holds for `path`.
pub fn matches(pattern: &str, path: &str) -> bool {
    if let Some(beneath) = pattern.strip_prefix("~/") {
        let home = [path.strip_prefix("${HOME}/"), path.strip_prefix("/root/"), home_of_somebody(path)];
        return home.into_iter().flatten().any(|rest| anchored(beneath, rest));
    }
    if pattern.starts_with(['/', '@', '$']) {
        return anchored(pattern, path);
    }
    if !pattern.ends_with('/') {
        // It can only be the end of a name, before or behind its last slash, so that few components are tried.
        let components = pattern.bytes().filter(|byte| *byte == b'/').count() + 1;
        let starts = memchr::memrchr_iter(b'/', path.as_bytes()).map(|at| at + 1).chain([0]);
        return starts.skip(components - 1).take(2).any(|start| anchored(pattern, &path[start..]));
    }
    let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    starts.into_iter().any(|start| anchored(pattern, &path[start..]))
}

fn home_of_somebody(path: &str) -> Option<&str> {
    path.strip_prefix("/home/")?.split_once('/').map(|(_, rest)| rest)
}

/// Component by component from the start.
fn anchored(pattern: &str, path: &str) -> bool {
    let (is_beneath, pattern) = match pattern.strip_suffix('/') {
        Some(pattern) => (true, pattern),
        None => (false, pattern),
    };
    looked_at(1);
    let mut path_parts = path.split('/');
    for part in pattern.split('/') {
        match path_parts.next() {
            Some(name) if glob(part.as_bytes(), name.as_bytes()) => {}
            _ => return false,
        }
    }
    match path_parts.next() {
        // `dir/` names the directory itself.
        None | Some("") => !is_beneath,
        Some(_) => is_beneath,
    }
}

/// `*` is any text, also none. The last star is the only one that has to be tried again.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        looked_at(1);
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((after, from)) = retry {
            retry = Some((after, from + 1));
            (p, t) = (after, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(places: &Places, yes: &[&str], no: &[&str]) {
        for path in yes {
            assert!(places.has(path), "{path}");
        }
        for path in no {
            assert!(!places.has(path), "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_index_leaves_nothing_out(path in "(/|~/|\\$\\{HOME\\}/|@|)([a.*]|\\.git|hooks|etc|passwd|id_rsa|x\\.p12|proc|1|environ|/){0,8}") {
            for places in [&PROTECTED, &CREDENTIALS, &MAY_HOLD_SECRETS, &ROOT_SOCKETS, &TEMPORARY] {
                let one_by_one = places.patterns().iter().any(|pattern| matches(pattern, &folded(&path)));
                proptest::prop_assert_eq!(places.has(&path), one_by_one);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_pattern_that_begins_anywhere_is_found_wherever_it_begins(
            pattern in "(\\*?[ab]\\*?){1,2}(/(\\*|[ab]{1,2})){0,2}/?",
            path in "/?([ab.]{1,3}/){0,4}[ab.]{0,3}/?",
        ) {
            let path = folded(&path);
            let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
            let expected = starts.into_iter().any(|start| anchored(&pattern, &path[start..]));
            proptest::prop_assert_eq!(matches(&pattern, &path), expected);
        }
    }

    #[test]
    fn patterns_hold_at_component_boundaries() {
        check(
            &PROTECTED,
            &[
                "${WORKDIR}/.git/hooks/pre-commit",
                "/srv/repo/.git/hooks/x/y",
                "${WORKDIR}/sub/CLAUDE.md",
                "${HOME}/.bashrc",
                "/root/.bashrc",
                "/home/u/.bashrc",
                "/etc/cron.d/x",
                "${WORKDIR}/.claude/settings.local.json",
                "${WORKDIR}/.git//hooks/./x",
                "${WORKDIR}/.git/x/../hooks/y",
                "/etc/../etc/passwd",
            ],
            &[
                "${WORKDIR}/.git/hooks/",
                "${WORKDIR}/x.git/hooks/pre-commit",
                "${WORKDIR}/.git/hooksx/y",
                "${WORKDIR}/notCLAUDE.md",
                "${WORKDIR}/.bashrc",
                "/home/.bashrc",
                "/srv/etc/passwd",
                "${HOME}/.claude/projects/x.jsonl",
            ],
        );
        check(
            &CREDENTIALS,
            &["${HOME}/.ssh/id_rsa", "/etc/shadow", "/etc/ssh/ssh_host_rsa_key", "${WORKDIR}/keys/store.p12"],
            &["/etc/ssh/ssh_host_rsa_key.pub", "${HOME}/.sshx/id", "${HOME}/.ssh/"],
        );
        check(
            &ROOT_SOCKETS,
            &["/var/run/docker.sock", "/run/user/1000/bus"],
            &["/run/user/1000/x/bus", "/x/docker.socket"],
        );
    }

    #[test]
    fn stars_stay_within_a_component() {
        assert!(glob(b"a*b*c", b"aXbYbc"));
        assert!(!glob(b"a*b*c", b"aXbYb"));
        assert!(glob(b"*", b""));
        assert!(!matches("/proc/*/environ", "/proc/1/2/environ"));
    }
}
