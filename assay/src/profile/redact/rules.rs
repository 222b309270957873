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
    key(b"r8_", 36, b""),
    key(b"pplx-", 40, b""),
    key(b"lsv2_pt_", 30, b"_"),
    key(b"lsv2_sk_", 30, b"_"),
    key(b"HRKU-", 30, b"-_"),
    key(b"ATBB", 24, b""),
    key(b"ATCTT3", 20, b"-_="),
    key(b"LTAI", 16, b""),
    key(b"dp.st.", 30, b"-_."),
    key(b"dp.ct.", 30, b""),
    key(b"dp.sa.", 30, b""),
    key(b"sgp_", 36, b"_"),
    key(b"CFPAT-", 40, b"-_"),
    key(b"ops_eyJ", 40, b"-_="),
    key(b"lin_oauth_", 30, b""),
    // Private keys in base 64: of PEM, and of what OpenSSH has inside.
    key(b"LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBL", 20, b"+/="),
    key(b"LS0tLS1CRUdJTiBQUklWQVRFIEtF", 20, b"+/="),
    key(b"LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtF", 20, b"+/="),
    key(b"LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZ", 20, b"+/="),
    key(b"LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFURSBL", 20, b"+/="),
    key(b"LS0tLS1CRUdJTiBEU0EgUFJJVkFURSBL", 20, b"+/="),
    key(b"b3BlbnNzaC1rZXktdjEA", 40, b"+/="),
];

/// Ends of the names of flags whose value is a secret, where a word stands before them: `--s3-secret-access-key`.
pub const FLAG_ENDS: &[&str] = &[
    "token",
    "secret",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "accountkey",
    "signingkey",
    "encryptionkey",
];

/// Ends that say it without a mark before them: `--tlspassword`.
pub const LONG_ENDS: &[&str] = &["password", "passwd", "passphrase"];

/// The same, of a word that means something else at the end of others (`bypass`, `opt-pass`).
pub const PASS_ENDS: &[&str] = &[
    "dbpass",
    "databasepass",
    "userpass",
    "kspass",
    "keypass",
    "storepass",
    "proxypass",
    "smtppass",
    "mailpass",
    "emailpass",
    "ftppass",
    "httppass",
    "mysqlpass",
    "pgpass",
    "postgrespass",
    "sqlpass",
    "redispass",
    "mongopass",
    "adminpass",
    "rootpass",
    "loginpass",
    "authpass",
    "ldappass",
    "sshpass",
    "becomepass",
    "sudopass",
    "vaultpass",
    "apppass",
    "serverpass",
    "clientpass",
    "bindpass",
    "rpcpass",
    "wifipass",
    "rabbitmqpass",
    "basicpass",
    "imappass",
    "servicepass",
    "certpass",
    "requirepass",
    "masterauth",
    "registrypass",
    "dockerpass",
    "gitpass",
    "encryptionpass",
    "backuppass",
    "storepasswd",
];

/// Words before such an end that make a flag say something else: `--no-token`, `--max-token`, `--eos-token`.
pub const FLAG_OTHERS: &[&str] = &[
    "no", "with", "without", "use", "skip", "max", "min", "stop", "eos", "bos", "pad", "cls", "sep", "unk",
    "mask", "special", "show", "print", "ask", "prompt", "require", "has", "is", "ignore", "verify", "allow",
];

/// Words after which a name of a secret has it as its next word: `aws configure set aws_secret_access_key …`.
pub const SETTINGS: &[&[u8]] = &[b"config:set", b"set", b"config", b"configure", b"setx", b"setenv", b"put"];

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
    "srckeypass",
    "destkeypass",
    "upw",
    "opw",
];

/// A flag that is a secret's only with these programs: the same letter means something else elsewhere.
pub struct ProgramFlag {
    /// The programs, without their directory.
    pub programs: &'static [&'static [u8]],
    /// The flag, dashes included; without one a word that has the secret as its next.
    pub flag: &'static [u8],
    /// Whether the value may be glued to it: `-pSECRET`, `--user=me:pass`.
    pub is_glued: bool,
    /// Whether the value may be the next argument.
    pub is_next: bool,
    /// Words of which one must have come before, if any must: `docker login -p`, but not `docker run -p`.
    pub after: Option<&'static [&'static [u8]]>,
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

const fn after(
    programs: &'static [&'static [u8]],
    words: &'static [&'static [u8]],
    flag: &'static [u8],
    rule: &'static str,
) -> ProgramFlag {
    ProgramFlag { programs, flag, is_glued: true, is_next: true, after: Some(words), rule }
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

const LOGIN: &[&[u8]] = &[b"docker", b"podman", b"nerdctl", b"buildah", b"skopeo", b"helm", b"oras", b"az"];
const KEYGEN: &[&[u8]] = &[b"ssh-keygen"];
const MOSQUITTO: &[&[u8]] = &[b"mosquitto_pub", b"mosquitto_sub", b"mosquitto_rr"];

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
    after(LOGIN, &[b"login"], b"-p", "secret-flag"),
    after(&[b"twine", b"poetry", b"flit", b"hatch"], &[b"upload", b"publish"], b"-p", "secret-flag"),
    after(&[b"kubectl", b"oc"], &[b"secret"], b"--from-literal", "literal-flag"),
    of(KEYGEN, b"-N", NEXT, "secret-flag"),
    of(KEYGEN, b"-P", NEXT, "secret-flag"),
    of(MOSQUITTO, b"-P", NEXT, "secret-flag"),
    of(&[b"ipmitool"], b"-P", NEXT, "secret-flag"),
    of(&[b"rar", b"unrar"], b"-p", GLUED, "secret-flag"),
    of(&[b"rar", b"unrar"], b"-hp", GLUED, "secret-flag"),
    of(&[b"lftp"], b"-u", BOTH, "credential-flag"),
    of(&[b"pdftotext", b"pdftoppm", b"pdfinfo", b"pdftohtml", b"pdfimages"], b"-upw", NEXT, "secret-flag"),
    of(&[b"pdftotext", b"pdftoppm", b"pdfinfo", b"pdftohtml", b"pdfimages"], b"-opw", NEXT, "secret-flag"),
    of(&[b"codecov"], b"-t", NEXT, "secret-flag"),
    of(&[b"netlify"], b"--auth", BOTH, "secret-flag"),
    of(&[b"cqlsh"], b"-p", NEXT, "secret-flag"),
    after(&[b"dotnet"], &[b"nuget"], b"-k", "secret-flag"),
    of(CURL, b"-x", BOTH, "proxy-flag"),
    of(CURL, b"--proxy", BOTH, "proxy-flag"),
    of(CURL, b"--preproxy", BOTH, "proxy-flag"),
    of(CURL, b"-E", BOTH, "certificate-flag"),
    of(CURL, b"--cert", BOTH, "certificate-flag"),
    of(CURL, b"--proxy-cert", BOTH, "certificate-flag"),
    // Words, and no flags.
    of(&[b"cargo", b"vault"], b"login", NEXT, "secret-flag"),
    of(&[b"nmcli", b"mysqladmin"], b"password", NEXT, "secret-flag"),
    of(&[b"rclone"], b"obscure", NEXT, "secret-flag"),
    of(&[b"pdftk"], b"input_pw", NEXT, "secret-flag"),
    of(&[b"pdftk"], b"user_pw", NEXT, "secret-flag"),
    of(&[b"pdftk"], b"owner_pw", NEXT, "secret-flag"),
];

/// Of a program that takes a secret as one of its words: the letters that its flags must have, and which word it is.
pub type Places = [(&'static [u8], usize)];

/// The programs that do.
pub const PLACES: &[(&[u8], &Places)] =
    &[(b"wpa_passphrase", &[(b"", 2)]), (b"htpasswd", &[(b"b", 3), (b"nb", 2)])];

/// Where an address has its secret in its path: from there to the next `?`, `#` or its end, of a bot to the next slash.
pub const SECRET_PATHS: &[(&[u8], bool)] = &[
    (b"hooks.slack.com/services/", false),
    (b"hooks.slack.com/workflows/", false),
    (b"hooks.slack.com/triggers/", false),
    (b"discord.com/api/webhooks/", false),
    (b"discordapp.com/api/webhooks/", false),
    (b"hooks.zapier.com/hooks/catch/", false),
    (b"maker.ifttt.com/use/", false),
    (b"api.telegram.org/bot", true),
    (b"api.telegram.org/file/bot", true),
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
    "x-auth-key",
    "x-rapidapi-key",
    "x-functions-key",
    "x-master-key",
    "x-admin-key",
    "x-app-key",
    "x-registry-auth",
    "ocp-apim-subscription-key",
    "dd-application-key",
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
    "secretkeybase",
    "basicauth",
    "httpauth",
    "proxyauth",
    "configauth",
    "ghpat",
    "githubpat",
    "gitlabpat",
    "azurepat",
    "devopspat",
    "crpat",
    "deploypat",
];

/// Whole names, without separators and case.
pub const EXACT_NAMES: &[&[u8]] = &[b"pass", b"pw"];

/// Whole names of parameters, behind `?` and `&`.
pub const EXACT_PARAMETERS: &[&[u8]] = &[b"key", b"sig", b"auth", b"pass"];

/// Names of places, which end as some of secrets do.
pub const PLACE_NAMES: &[&[u8]] = &[b"PWD", b"OLDPWD"];

/// Words in a name that make it say something else: `MAX_TOKEN`, `ALLOW_EMPTY_PASSWORD`.
pub const NAME_OTHERS: &[&str] =
    &["max", "min", "eos", "bos", "pad", "cls", "unk", "allow", "is", "has", "use", "require"];

/// Words before `_KEY` that make it a key to find something by, or one to show.
pub const KEY_OTHERS: &[&[u8]] = &[
    b"PUBLIC",
    b"PRIMARY",
    b"FOREIGN",
    b"SORT",
    b"CACHE",
    b"PARTITION",
    b"UNIQUE",
    b"ROUTING",
    b"GROUP",
    b"RANGE",
    b"INDEX",
    b"MAP",
    b"SHORTCUT",
    b"LOOKUP",
    b"SEARCH",
    b"OBJECT",
    b"REGISTRY",
    b"FILTER",
    b"IDEMPOTENCY",
    b"SURROGATE",
    b"DEDUP",
    b"HOT",
    b"HKEY",
];

/// Values of a line that are no secret.
pub const PLAIN_VALUES: &[&str] =
    &["none", "null", "nil", "true", "false", "yes", "no", "string", "required", "optional"];
