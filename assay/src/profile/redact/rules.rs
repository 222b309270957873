//! What secrets in arguments look like, and where they stand. Data alone: the search is in [`super`].

/// A known shape of a key: how it begins, what follows, how many of it at least.
pub struct KeyShape {
    /// How it begins.
    pub prefix: &'static [u8],
    /// How many characters follow at least.
    pub least: usize,
    /// Which may be among them besides letters and digits.
    pub extra: &'static [u8],
}

const fn key(prefix: &'static [u8], least: usize, extra: &'static [u8]) -> KeyShape {
    KeyShape { prefix, least, extra }
}

/// Shapes that services give their keys so that they can be recognised.
pub const KEY_SHAPES: &[KeyShape] = &[
    key(b"ghp_", 30, b""),
    key(b"gho_", 30, b""),
    key(b"ghu_", 30, b""),
    key(b"ghs_", 30, b""),
    key(b"ghr_", 30, b""),
    key(b"github_pat_", 22, b"_"),
    key(b"glpat-", 16, b"-_"),
    key(b"glsa_", 20, b"_"),
    key(b"sk-", 20, b"-_"),
    key(b"sk_live_", 16, b""),
    key(b"sk_test_", 16, b""),
    key(b"rk_live_", 16, b""),
    key(b"AKIA", 16, b""),
    key(b"ASIA", 16, b""),
    key(b"xoxb-", 10, b"-"),
    key(b"xoxp-", 10, b"-"),
    key(b"xoxa-", 10, b"-"),
    key(b"xoxs-", 10, b"-"),
    key(b"xoxe-", 10, b"-"),
    key(b"xoxe.", 10, b"-."),
    key(b"xoxr-", 10, b"-"),
    key(b"xoxd-", 10, b"-%"),
    key(b"xapp-", 10, b"-"),
    key(b"AIza", 30, b"-_"),
    key(b"ya29.", 20, b"-_."),
    key(b"npm_", 30, b""),
    key(b"pypi-", 30, b"-_"),
    key(b"hf_", 30, b""),
    key(b"dckr_pat_", 20, b"-_"),
    key(b"dop_v1_", 30, b""),
    key(b"hvs.", 20, b"-_"),
    key(b"SG.", 30, b"-_."),
    key(b"shpat_", 20, b""),
    key(b"sntrys_", 20, b"-_=+/"),
    key(b"lin_api_", 20, b""),
    key(b"ATATT3", 20, b"-_="),
    key(b"AGE-SECRET-KEY-1", 20, b""),
    key(b"eyJ", 30, b"-_."),
    key(b"ABIA", 16, b""),
    key(b"ACCA", 16, b""),
    key(b"GOCSPX-", 20, b"-_"),
    key(b"glptt-", 16, b"-_"),
    key(b"gldt-", 16, b"-_"),
    key(b"glrt-", 16, b"-_"),
    key(b"glcbt-", 16, b"-_"),
    key(b"glft-", 16, b"-_"),
    key(b"glimt-", 16, b"-_"),
    key(b"glagent-", 16, b"-_"),
    key(b"gloas-", 16, b"-_"),
    key(b"glsoat-", 16, b"-_"),
    key(b"glc_", 30, b"=+/"),
    key(b"rk_test_", 16, b""),
    key(b"whsec_", 24, b"+/="),
    key(b"xwfp-", 10, b"-"),
    key(b"dckr_oat_", 20, b"-_"),
    key(b"doo_v1_", 30, b""),
    key(b"dor_v1_", 30, b""),
    key(b"hvb.", 20, b"-_"),
    key(b"hvr.", 20, b"-_"),
    key(b"shpss_", 20, b""),
    key(b"shpca_", 20, b""),
    key(b"shppa_", 20, b""),
    key(b"sntryu_", 20, b""),
    key(b"rubygems_", 40, b""),
    key(b"cio", 32, b""),
    key(b"NRAK-", 20, b""),
    key(b"sq0atp-", 20, b"-_"),
    key(b"sq0csp-", 20, b"-_"),
    key(b"sbp_", 30, b""),
    key(b"nfp_", 30, b""),
    key(b"ntn_", 30, b""),
    key(b"figd_", 20, b"-_"),
    key(b"PMAK-", 20, b"-"),
    key(b"pscale_tkn_", 20, b"-_."),
    key(b"pscale_pw_", 20, b"-_."),
    key(b"gsk_", 30, b""),
    key(b"xai-", 30, b""),
    key(b"tskey-", 20, b"-"),
    key(b"dapi", 32, b""),
    key(b"dp.pt.", 30, b""),
    key(b"pul-", 30, b""),
    key(b"EAAAE", 40, b"-_"),
];

/// Ends of the names of long flags whose value is a secret, where more stands before them: `--s3-secret-access-key`.
pub const FLAG_ENDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
];

/// Words before such an end that make a flag say something else: `--no-token`, `--max-token`, `--eos-token`.
pub const FLAG_OTHERS: &[&str] = &[
    "no", "with", "without", "use", "skip", "max", "min", "stop", "eos", "bos", "pad", "cls", "sep", "unk",
    "mask", "special", "show", "print", "ask", "prompt", "require", "has", "is", "ignore", "verify", "allow",
];

/// Words after which a name of a secret has it as its next word: `aws configure set aws_secret_access_key …`.
pub const SETTINGS: &[&[u8]] = &[b"set", b"config", b"configure", b"setx", b"setenv", b"put"];

/// Flags whose value, after `=` or as the next argument, is a secret. Compared without dashes and case.
pub const FLAGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pass",
    "token",
    "secret",
    "apikey",
    "authtoken",
    "accesstoken",
    "secretkey",
    "clientsecret",
    "privatetoken",
    "jobtoken",
    "oauth2bearer",
    "secretaccesskey",
    "sessiontoken",
    "bearertoken",
    "accesskey",
    "githubtoken",
    "npmtoken",
    "registrytoken",
    "personalaccesstoken",
    "dbpassword",
    "proxypassword",
    "httppassword",
    "ftppassword",
    "encryptionkey",
    "apitoken",
    "refreshtoken",
    "idtoken",
    "webhooksecret",
];

/// A flag that is a secret's only with these programs: the same letter means something else elsewhere.
pub struct ProgramFlag {
    /// The programs, without their directory.
    pub programs: &'static [&'static [u8]],
    /// The flag, dashes included.
    pub flag: &'static [u8],
    /// Whether the value may be glued to it: `-pSECRET`, `--user=me:pass`.
    pub is_glued: bool,
    /// Whether the value may be the next argument.
    pub is_next: bool,
    /// A word that must have come before: `docker login -p`, but not `docker run -p`.
    pub after: Option<&'static [u8]>,
    /// The rule it is counted under; of a `credential-flag` the part before the colon stays.
    pub rule: &'static str,
}

const fn of(
    programs: &'static [&'static [u8]],
    flag: &'static [u8],
    (is_glued, is_next): (bool, bool),
    rule: &'static str,
) -> ProgramFlag {
    ProgramFlag { programs, flag, is_glued, is_next, after: None, rule }
}

const fn login(flag: &'static [u8]) -> ProgramFlag {
    let programs: &[&[u8]] =
        &[b"docker", b"podman", b"nerdctl", b"buildah", b"skopeo", b"helm", b"oras", b"az"];
    ProgramFlag { programs, flag, is_glued: false, is_next: true, after: Some(b"login"), rule: "secret-flag" }
}

const BOTH: (bool, bool) = (true, true);
const GLUED: (bool, bool) = (true, false);
const NEXT: (bool, bool) = (false, true);
const CURL: &[&[u8]] = &[b"curl"];
const HTTPIE: &[&[u8]] = &[b"http", b"https", b"xh", b"xhs", b"httpie"];
const MYSQL: &[&[u8]] = &[
    b"mysql",
    b"mysqldump",
    b"mysqladmin",
    b"mysqlimport",
    b"mysqlshow",
    b"mysqlcheck",
    b"mysqlsh",
    b"mariadb",
    b"mariadb-dump",
    b"mariadb-admin",
];
const MONGO: &[&[u8]] =
    &[b"mongo", b"mongosh", b"mongodump", b"mongorestore", b"mongoexport", b"mongoimport"];
const LDAP: &[&[u8]] =
    &[b"ldapsearch", b"ldapadd", b"ldapmodify", b"ldapdelete", b"ldappasswd", b"ldapwhoami"];

/// The flags of single programs.
pub const PROGRAM_FLAGS: &[ProgramFlag] = &[
    of(CURL, b"-u", BOTH, "credential-flag"),
    of(CURL, b"-U", BOTH, "credential-flag"),
    of(CURL, b"--user", BOTH, "credential-flag"),
    of(CURL, b"--proxy-user", BOTH, "credential-flag"),
    of(HTTPIE, b"-a", BOTH, "credential-flag"),
    of(HTTPIE, b"--auth", BOTH, "credential-flag"),
    of(MYSQL, b"-p", GLUED, "secret-flag"),
    of(&[b"sshpass"], b"-p", BOTH, "secret-flag"),
    of(&[b"7z", b"7za", b"7zr"], b"-p", GLUED, "secret-flag"),
    of(&[b"zip", b"unzip", b"sqlcmd"], b"-P", BOTH, "secret-flag"),
    of(MONGO, b"-p", NEXT, "secret-flag"),
    of(LDAP, b"-w", BOTH, "secret-flag"),
    of(&[b"redis-cli"], b"-a", NEXT, "secret-flag"),
    of(CURL, b"-b", BOTH, "cookie-flag"),
    of(CURL, b"--cookie", BOTH, "cookie-flag"),
    of(&[b"openssl"], b"-pass", NEXT, "secret-flag"),
    of(&[b"openssl"], b"-passin", NEXT, "secret-flag"),
    of(&[b"openssl"], b"-passout", NEXT, "secret-flag"),
    of(&[b"openssl"], b"-k", NEXT, "secret-flag"),
    of(&[b"useradd", b"usermod", b"adduser"], b"-p", NEXT, "secret-flag"),
    of(&[b"doctl", b"flyctl", b"fly"], b"-t", NEXT, "secret-flag"),
    of(&[b"smbclient", b"rpcclient", b"smbget"], b"-U", BOTH, "credential-flag"),
    login(b"-p"),
];

/// The letters of curl that take no value and may stand before `-u` in one argument: `-sSu me:pass`.
pub const CURL_SWITCHES: &[u8] = b"fgijklnpqsvaBGILNOJRSV#0123456";

/// Headers whose value is a secret.
pub const HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
    "x-access-token",
    "private-token",
    "job-token",
    "x-amz-security-token",
    "x-vault-token",
    "x-github-token",
    "x-goog-api-key",
    "x-csrf-token",
    "dd-api-key",
    "circle-token",
];

/// Ends of the names of parameters and variables that hold secrets, without separators and case.
pub const NAME_ENDS: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "accountkey",
    "secretkey",
    "privatekey",
    "accesskeyid",
    "signature",
    "credential",
    "credentials",
    "authorization",
    "pwd",
    "clientsecret",
    "sharedkey",
    "encryptionkey",
    "signingkey",
    "sessionkey",
    "authkey",
    "bearer",
];
