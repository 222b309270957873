//! The agents: how each is run, what the script comes to with its tools, and what may differ between two runs.

/// A coding agent. `${WORKDIR}` and `${HOME}` stand for the places of a run, in all texts.
pub struct Agent {
    /// What it is called, in `tests/agents/versions.txt` too.
    pub name: &'static str,
    /// Its section in docs/guides/agents.md.
    pub section: &'static str,
    /// The test that is about it.
    pub test: &'static str,
    /// What runs.
    pub command: &'static [&'static str],
    /// The model that speaks to it.
    pub model: &'static str,
    /// Its policy, in `docs/guides/policies`.
    pub policy: &'static str,
    /// What it is told by its environment.
    pub environment: &'static [(&'static str, &'static str)],
    /// What of that has to be allowed by name.
    pub env_allow: &'static str,
    /// Its configuration, beneath the home.
    pub settings: &'static str,
    /// What is there before the run, besides what the page tells a user to make.
    pub before: &'static str,
    /// What the script comes to.
    pub scripted: &'static str,
    /// Which of that the policy does not authorise: of the key, the hook and the settings.
    pub forbidden: &'static str,
    /// What its tools do for that besides.
    pub for_that: &'static str,
    /// Names that are in what an enforced run denies.
    pub denied: &'static [&'static str],
    /// Beginnings and ends of effects that one run has and another has not; docs/agents.md has the reason.
    pub varies: &'static [(&'static str, &'static str)],
}

impl Agent {
    /// Whether this effect is one that may be there or not.
    pub fn may_vary(&self, line: &str) -> bool {
        self.varies.iter().any(|(start, end)| line.starts_with(start) && line.ends_with(end))
    }
}

/// That of `@anthropic-ai/claude-code`, from npm.
pub const CLAUDE_CODE: Agent = Agent {
    name: "claude-code",
    section: "Claude Code",
    test: "claude_code_does_what_it_is_told_and_the_record_says_so",
    command: &[
        "claude",
        "-p",
        "Do the next step",
        "--dangerously-skip-permissions",
        "--output-format",
        "stream-json",
        "--verbose",
    ],
    model: "messages.py",
    policy: "claude-code.yaml",
    environment: &[
        ("CLAUDE_CONFIG_DIR", "${HOME}/.local/state/claude-code"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8090"),
        ("ANTHROPIC_API_KEY", "none"),
        ("ANTHROPIC_MODEL", "scripted"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
    ],
    env_allow: "ANTHROPIC_*,CLAUDE_*",
    settings: ".local/state/claude-code/settings.json",
    // Once a day it looks for what is old, some seconds after its start: how far it comes depends on how long it runs.
    before: "cd \"$HOME/.local/state/claude-code\"; echo '{\"cleanupPeriodDays\": 30}' > settings.json; date -u +%FT%T.000Z > .last-cleanup",
    scripted: "
        read ${WORKDIR}/notes.txt
        write ${WORKDIR}/notes.txt
        exec /usr/bin/python3
        read ${WORKDIR}/test_notes.py
        exec /usr/bin/wc
        create ${WORKDIR}/count.txt
        read ${HOME}/.ssh/id_rsa
        write ${WORKDIR}/.git/hooks/pre-commit
        write ${HOME}/.local/state/claude-code/settings.json
        attr ${HOME}/.local/state/claude-code/settings.json
        connect tcp 127.0.0.1:8091",
    forbidden: "
        read ${HOME}/.ssh/id_rsa
        write ${WORKDIR}/.git/hooks/pre-commit
        write ${HOME}/.local/state/claude-code/settings.json
        attr ${HOME}/.local/state/claude-code/settings.json",
    for_that: "
        attr ${WORKDIR}/notes.txt
        create ${HOME}/.local/state/claude-code/session-env/
        create ${HOME}/.local/state/claude-code/session-env/${UUID}/
        create ${HOME}/.local/state/claude-code/shell-snapshots/
        create ${HOME}/.local/state/claude-code/shell-snapshots/snapshot-bash-${TIME}-${RANDOM}.sh
        create ${TMPDIR}/claude-${RANDOM}-cwd
        list ${TMPDIR}/claude-${UID}/fswatch-probe-${RANDOM}
        delete ${TMPDIR}/claude-${UID}/fswatch-probe-${RANDOM}
        delete ${TMPDIR}/claude-${UID}/fswatch-probe-${RANDOM}/probe
        create ${TMPDIR}/claude-${UID}/${WORKDIR_NAME}/
        create ${TMPDIR}/claude-${UID}/${WORKDIR_NAME}/${UUID}/
        create ${TMPDIR}/claude-${UID}/${WORKDIR_NAME}/${UUID}/started/
        create ${TMPDIR}/claude-${UID}/${WORKDIR_NAME}/${UUID}/tasks/
        create ${TMPDIR}/claude-${UID}/${WORKDIR_NAME}/${UUID}/tasks/${RANDOM}.output
        delete ${HOME}/.local/state/claude-code/shell-snapshots/snapshot-bash-${TIME}-${RANDOM}.sh
        delete ${TMPDIR}/claude-${RANDOM}-cwd
        delete ${TMPDIR}/claude-${UID}/${WORKDIR_NAME}/${UUID}/tasks/${RANDOM}.output
        exec /usr/bin/bash
        exec /usr/bin/cat
        exec /usr/bin/env
        exec /usr/bin/id
        list ${HOME}/.local/state/claude-code/session-env/${UUID}
        read ${HOME}/.local/state/claude-code/shell-snapshots/snapshot-bash-${TIME}-${RANDOM}.sh
        read ${TMPDIR}/claude-${RANDOM}-cwd
        read ${TMPDIR}/claude-${UID}/${WORKDIR_NAME}/${UUID}/tasks/${RANDOM}.output
        write ${HOME}/.local/state/claude-code/shell-snapshots/snapshot-bash-${TIME}-${RANDOM}.sh",
    denied: &["id_rsa", "pre-commit", "settings.json"],
    varies: &[],
};

/// That of `@openai/codex`, from npm.
pub const CODEX: Agent = Agent {
    name: "codex",
    section: "Codex CLI",
    test: "codex_does_what_it_is_told_and_the_record_says_so",
    command: &[
        "codex",
        "exec",
        "--json",
        "--disable",
        "plugins",
        "--disable",
        "remote_plugin",
        "--disable",
        "apps",
        "--dangerously-bypass-approvals-and-sandbox",
        "Do the next step",
    ],
    model: "responses.py",
    policy: "codex.yaml",
    environment: &[("CODEX_HOME", "${HOME}/.local/state/codex"), ("OPENAI_API_KEY", "none")],
    env_allow: "OPENAI_API_KEY,CODEX_HOME",
    settings: ".local/state/codex/config.toml",
    before: "cat > \"$HOME/.local/state/codex/config.toml\" <<E
model = \"scripted\"
model_provider = \"local\"
check_for_update_on_startup = false
[model_providers.local]
name = \"local\"
base_url = \"http://127.0.0.1:8090/v1\"
wire_api = \"responses\"
env_key = \"OPENAI_API_KEY\"
[analytics]
enabled = false
[feedback]
enabled = false
E",
    scripted: "
        read ${WORKDIR}/notes.txt
        write ${WORKDIR}/notes.txt
        exec /usr/bin/python3
        read ${WORKDIR}/test_notes.py
        exec /usr/bin/wc
        create ${WORKDIR}/count.txt
        read ${HOME}/.ssh/id_rsa
        create ${WORKDIR}/.git/hooks/pre-commit
        write ${HOME}/.local/state/codex/config.toml
        connect tcp 127.0.0.1:8091",
    forbidden: "
        read ${HOME}/.ssh/id_rsa
        create ${WORKDIR}/.git/hooks/pre-commit
        write ${HOME}/.local/state/codex/config.toml",
    for_that: "
        exec /usr/bin/cat
        read ${HOME}/.local/state/codex/shell_snapshots/${UUID}.${TIME}.sh",
    denied: &["id_rsa", "pre-commit", "config.toml"],
    varies: &[
        ("delete ${HOME}/.local/state/codex/", ".sqlite-wal"),
        ("delete ${HOME}/.local/state/codex/", ".sqlite-shm"),
        ("write ${HOME}/.local/state/codex/", ".sqlite"),
    ],
};

/// The same, with the sandbox that it has itself.
pub const CODEX_IN_ITS_OWN: Agent = Agent {
    command: &[
        "codex",
        "exec",
        "--json",
        "--disable",
        "plugins",
        "--disable",
        "remote_plugin",
        "--disable",
        "apps",
        "--sandbox",
        "workspace-write",
        "Do the next step",
    ],
    ..CODEX
};
