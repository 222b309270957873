//! The caller's environment → the child's: secrets out, what was allowed in. Pure: names and values are bytes.
//!
//! A secret pattern beats the safe list, an explicit allow beats every pattern. Values are never changed, and
//! only the names of what was removed leave this module.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// What `--env-safe-path` sets.
const SAFE_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How the child's environment is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvironmentRequest {
    /// Nothing is removed or set.
    Passthrough,
    /// Secrets are removed, and what else was asked.
    Scrub(Scrubbing),
}

/// What is removed besides secrets, and what is not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbing {
    /// Keep only the safe list and what is allowed.
    pub is_strict: bool,
    /// Remove what makes programs load code.
    pub strips_exec: bool,
    /// Set a fixed `PATH`.
    pub has_safe_path: bool,
    /// Names, or patterns with `*`, that stay whatever else is said.
    pub allow: Vec<OsString>,
}

/// The child's environment and the names that are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// Entries as `execve` takes them, in the caller's order.
    pub entries: Vec<Vec<u8>>,
    /// Names that were removed; sorted, each once.
    pub removed: Vec<Vec<u8>>,
}

impl Environment {
    /// Makes the child's environment from the caller's entries.
    pub fn scrub(entries: Vec<Vec<u8>>, request: &EnvironmentRequest) -> Self {
        let scrubbing = match request {
            EnvironmentRequest::Passthrough => return Self { entries, removed: Vec::new() },
            EnvironmentRequest::Scrub(scrubbing) => scrubbing,
        };
        let (kept, removed): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| is_kept(name_of(entry), scrubbing));
        let mut removed: Vec<Vec<u8>> = removed.iter().map(|entry| name_of(entry).to_vec()).collect();
        removed.sort_unstable();
        removed.dedup();
        let mut environment = Self { entries: kept, removed };
        if scrubbing.has_safe_path {
            environment.set(b"PATH", SAFE_PATH);
        }
        environment
    }

    /// Sets a variable, in the place of the first of that name; further ones go.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        let entry = [name, b"=", value].concat();
        match self.entries.iter().position(|entry| name_of(entry) == name) {
            None => self.entries.push(entry),
            Some(first) => {
                self.entries[first] = entry;
                let mut index = 0;
                self.entries.retain(|entry| {
                    index += 1;
                    index - 1 <= first || name_of(entry) != name
                });
            }
        }
    }

    /// The value of the first variable of that name.
    pub fn value(&self, name: &[u8]) -> Option<OsString> {
        let entry = self.entries.iter().find(|entry| name_of(entry) == name)?;
        entry.get(name.len() + 1..).map(|value| OsString::from_vec(value.to_vec()))
    }
}

/// The name of an entry: what is before the first `=`; an entry may also begin with one, or have none.
fn name_of(entry: &[u8]) -> &[u8] {
    let end = entry.iter().skip(1).position(|byte| *byte == b'=').map_or(entry.len(), |at| at + 1);
    &entry[..end]
}

fn is_kept(name: &[u8], scrubbing: &Scrubbing) -> bool {
    if scrubbing.allow.iter().any(|pattern| matches(pattern.as_bytes(), name, Case::Exact)) {
        return true;
    }
    if SECRETS.iter().any(|pattern| matches(pattern.as_bytes(), name, Case::Any)) {
        return false;
    }
    if scrubbing.strips_exec
        && LOADS_CODE.iter().any(|pattern| matches(pattern.as_bytes(), name, Case::Exact))
    {
        return false;
    }
    !scrubbing.is_strict || SAFE.iter().any(|pattern| matches(pattern.as_bytes(), name, Case::Exact))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Exact,
    Any,
}

/// Whether `name` matches `pattern`, in which `*` stands for any bytes.
fn matches(pattern: &[u8], name: &[u8], case: Case) -> bool {
    let is_same = |a: u8, b: u8| a == b || case == Case::Any && a.eq_ignore_ascii_case(&b);
    let (mut at, mut next) = (0, 0);
    let mut last_star = None;
    while next < name.len() {
        if pattern.get(at) == Some(&b'*') {
            last_star = Some((at, next));
            at += 1;
        } else if pattern.get(at).is_some_and(|byte| is_same(*byte, name[next])) {
            at += 1;
            next += 1;
        } else if let Some((star, from)) = last_star {
            // Let the last star take one byte more.
            last_star = Some((star, from + 1));
            at = star + 1;
            next = from + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Names that hold secrets, in any case.
#[rustfmt::skip]
const SECRETS: &[&str] = &[
    // By the last word.
    "*_TOKEN", "*_TOKENS", "*_SECRET", "*_SECRETS", "*_KEY", "*_KEYS", "*_PASSWORD", "*_PASSWORDS", "*_PASSWD", "*_PASSPHRASE",
    "*_PASS", "*_PWD", "*_PAT", "*_CREDENTIAL", "*_CREDENTIALS", "*_CREDS", "*_APIKEY", "*_AUTH", "*_AUTHTOKEN", "*_JWT",
    "*_COOKIE", "*_COOKIES", "*_PRIVATE_KEY*", "*_ACCESS_KEY*", "*_SECRET_*", "*_TOKEN_*", "*_PASSWORD_*", "*_API_KEY_*",
    "*_DSN", "*_CONNECTION_STRING", "*_WEBHOOK", "*_WEBHOOK_URL", "*_NETRC",
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "API_KEY", "CREDENTIALS", "NETRC",
    // What gives access without being a secret itself.
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "KRB5CCNAME", "KRB5_*", "KUBECONFIG",
    // Clouds.
    "AWS_*", "AZURE_*", "ARM_CLIENT_*", "ARM_TENANT_*", "ARM_SUBSCRIPTION_*", "GOOGLE_*", "GCP_*", "GCLOUD_*", "CLOUDSDK_*",
    "ALIBABA_*", "ALICLOUD_*", "ALIYUN_*", "DIGITALOCEAN_*", "HCLOUD_*", "HETZNER_*", "LINODE_*", "OCI_*", "OVH_*", "SCW_*", "VULTR_*",
    "CLOUDFLARE_*", "CF_API_*", "FASTLY_*", "HEROKU_*", "VERCEL_*", "NETLIFY_*", "FLY_*", "RAILWAY_*", "RENDER_*", "SUPABASE_*",
    "IBMCLOUD_*", "TENCENTCLOUD_*", "OS_AUTH_*", "OS_PASSWORD*", "OS_TOKEN*", "OS_APPLICATION_*", "ECS_CONTAINER_*", "IDENTITY_*", "MSI_*",
    // CI.
    "CI_*", "GITHUB_*", "GH_*", "GITLAB_*", "GITEA_*", "ACTIONS_*", "RUNNER_*", "CIRCLE_*", "CIRCLECI_*", "BUILDKITE_*", "JENKINS_*",
    "TRAVIS_*", "DRONE_*", "WOODPECKER_*", "BITBUCKET_*", "APPVEYOR_*", "TEAMCITY_*", "SYSTEM_ACCESSTOKEN", "SYSTEM_OIDC*", "BUILD_*_TOKEN",
    "CODECOV_*", "COVERALLS_*", "SONAR_*", "SNYK_*",
    // Databases and queues.
    "DATABASE_*", "DB_*", "PG*", "POSTGRES_*", "POSTGRESQL_*", "MYSQL_*", "MARIADB_*", "MONGO_*", "MONGODB_*", "REDIS_*", "REDISCLI_*",
    "CASSANDRA_*", "CLICKHOUSE_*", "ELASTIC_*", "ELASTICSEARCH_*", "INFLUX_*", "NEO4J_*", "SNOWFLAKE_*", "ORACLE_*", "MSSQL_*",
    "SQLALCHEMY_*", "RABBITMQ_*", "AMQP_*", "KAFKA_*", "NATS_*", "*_DATABASE_URL", "*_DB_URL",
    // Package managers and registries.
    "NPM_*", "NODE_AUTH_*", "YARN_NPM_*", "YARN_*AUTH*", "PNPM_*AUTH*", "PIP_*", "PYPI_*", "TWINE_*", "POETRY_*", "UV_*INDEX*", "UV_PUBLISH_*",
    "CARGO_REGISTRY_*", "CARGO_REGISTRIES_*", "GEM_HOST_*", "RUBYGEMS_*", "BUNDLE_*", "NUGET_*", "MAVEN_*", "GRADLE_*", "ORG_GRADLE_*",
    "SONATYPE_*", "OSSRH_*", "COMPOSER_AUTH*", "CONAN_*", "CONDA_*TOKEN*", "ANACONDA_*", "HEX_*", "GOPRIVATE", "GOPROXY", "GONOSUMDB", "HOMEBREW_GITHUB_*",
    "ARTIFACTORY_*", "JFROG_*", "NEXUS_*", "DOCKER_*", "REGISTRY_*", "CR_PAT", "QUAY_*", "HELM_*", "COSIGN_*",
    // Services.
    "OPENAI_*", "ANTHROPIC_*", "CLAUDE_*", "GEMINI_*", "MISTRAL_*", "COHERE_*", "GROQ_*", "DEEPSEEK_*", "XAI_*", "TOGETHER_*", "PERPLEXITY_*",
    "OPENROUTER_*", "REPLICATE_*", "HF_*", "HUGGINGFACE_*", "HUGGING_FACE_*", "WANDB_*", "LANGSMITH_*", "LANGCHAIN_*", "CURSOR_*", "COPILOT_*", "CODEX_*",
    "SLACK_*", "DISCORD_*", "TELEGRAM_*", "TWILIO_*", "SENDGRID_*", "MAILGUN_*", "MAILCHIMP_*", "POSTMARK_*", "SMTP_*", "STRIPE_*", "PAYPAL_*",
    "BRAINTREE_*", "SQUARE_*", "PLAID_*", "SHOPIFY_*", "SENTRY_*", "DATADOG_*", "DD_*", "NEW_RELIC_*", "NEWRELIC_*", "HONEYCOMB_*", "GRAFANA_*",
    "SPLUNK_*", "LOGDNA_*", "ROLLBAR_*", "BUGSNAG_*", "PAGERDUTY_*", "OPSGENIE_*", "AUTH0_*", "OKTA_*", "FIREBASE_*", "ALGOLIA_*", "MAPBOX_*",
    "JIRA_*", "CONFLUENCE_*", "ATLASSIAN_*", "LINEAR_*", "NOTION_*", "FIGMA_*", "ZENDESK_*", "HUBSPOT_*", "SALESFORCE_*", "DROPBOX_*",
    "VAULT_*", "CONSUL_*", "NOMAD_*", "TF_TOKEN_*", "TF_VAR_*", "TFE_*", "PULUMI_*", "TERRAFORM_*", "ANSIBLE_*", "SOPS_*", "OP_*", "BW_*", "DOPPLER_*",
    "INFISICAL_*", "KEYCHAIN_*", "TAILSCALE_*", "TS_AUTH*", "NGROK_*",
];

/// Names that make a program load code it was not asked to.
#[rustfmt::skip]
const LOADS_CODE: &[&str] = &[
    // The loader and the C library.
    "LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "MALLOC_TRACE", "NSS_*", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES",
    "SSLKEYLOGFILE", "GIO_MODULE_DIR", "GIO_EXTRA_MODULES", "GTK_MODULES", "GTK_PATH", "QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH", "XTABLES_LIBDIR",
    "SASL_PATH", "KRB5_CONFIG", "GST_PLUGIN_*", "VK_*LAYER*", "LIBGL_DRIVERS_PATH", "CUPS_SERVERBIN",
    // Shells.
    "BASH_ENV", "ENV", "BASH_FUNC_*", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS0", "PS4", "ZDOTDIR", "FPATH", "CDPATH", "GLOBIGNORE", "IFS",
    // Languages.
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PYTHONPLATLIBDIR", "PYTHONWARNINGS",
    "PYTHONEXECUTABLE", "PYTHONPYCACHEPREFIX", "PYTEST_PLUGINS", "PYTEST_ADDOPTS", "PERL5LIB", "PERLLIB", "PERL5OPT", "PERL5DB", "PERL5SHELL", "PERL_*_OPT",
    "RUBYOPT", "RUBYLIB", "RUBYSHELL", "GEM_HOME", "GEM_PATH", "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "NODE_EXTRA_CA_CERTS", "ELECTRON_RUN_AS_NODE",
    "DENO_*", "BUN_*", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "CLASSPATH", "ANT_OPTS", "SBT_OPTS", "JAVA_HOME",
    "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE*", "R_ENVIRON*", "R_LIBS*", "R_HOME", "JULIA_LOAD_PATH", "JULIA_DEPOT_PATH",
    "GUILE_LOAD_*", "GUILE_SYSTEM_*", "EMACSLOADPATH", "OCAMLPATH", "CAML_LD_LIBRARY_PATH", "ERL_*FLAGS", "ERL_LIBS", "ELIXIR_ERL_OPTIONS", "TCLLIBPATH", "TCL_LIBRARY", "AWKPATH", "AWKLIBPATH",
    "DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_*PROFILER*", "CORECLR_*", "COR_*", "COMPlus_*", "MONO_PATH",
    // Builds.
    "RUSTC", "RUSTDOC", "RUSTFMT", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "RUSTDOCFLAGS", "CARGO_BUILD_RUSTC*", "CARGO_BUILD_RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_*_RUNNER", "CARGO_TARGET_*_LINKER", "CARGO_TARGET_*_RUSTFLAGS", "CARGO_ALIAS_*", "RUSTUP_TOOLCHAIN", "GOFLAGS", "GOROOT", "GOTOOLDIR", "GOTOOLCHAIN", "CGO_*",
    "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MAKE", "GCC_EXEC_PREFIX", "COMPILER_PATH", "CMAKE_TOOLCHAIN_FILE", "CMAKE_PREFIX_PATH", "CMAKE_*_LAUNCHER", "CCACHE_PREFIX*", "PKG_CONFIG",
    // Programs that run other programs.
    "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_CONFIG*", "GIT_EXTERNAL_DIFF", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_ASKPASS",
    "GIT_PROXY_COMMAND", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SUDO_ASKPASS", "SUDO_EDITOR", "EDITOR", "VISUAL", "FCEDIT", "HGEDITOR", "SVN_EDITOR", "SVN_SSH", "CVS_RSH",
    "RSYNC_RSH", "RSH", "PAGER", "MANPAGER", "SYSTEMD_PAGER", "BAT_PAGER", "DELTA_PAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "LESSKEY*", "VIMINIT", "EXINIT", "GVIMINIT", "MYVIMRC", "VIM", "VIMRUNTIME",
    "XDG_CONFIG_DIRS", "XDG_DATA_DIRS", "TAR_OPTIONS", "ZIPOPT", "UNZIP", "GREP_OPTIONS", "FZF_DEFAULT_COMMAND", "FZF_DEFAULT_OPTS", "GDBHISTFILE", "STARSHIP_CONFIG", "DIRENV_*", "PYENV_*HOOK*",
];

/// What `--env-strict` keeps.
#[rustfmt::skip]
const SAFE: &[&str] = &[
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "TMPDIR", "TMP", "TEMP",
    "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERMINFO", "TERMINFO_DIRS", "COLUMNS", "LINES", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "LS_COLORS",
    "LANG", "LANGUAGE", "LC_*", "TZ", "CHARSET", "SOURCE_DATE_EPOCH", "CI",
    "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "EDITOR", "VISUAL", "PAGER", "MAKEFLAGS", "CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOCACHE", "JAVA_HOME", "VIRTUAL_ENV",
];

#[cfg(test)]
mod tests;
