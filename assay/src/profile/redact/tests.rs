use super::*;
use crate::profile::effort::counting::check_growth;
use crate::profile::secrets::Secrets;

fn argv(input: &[&str], want: &[&str]) {
    let argv: Vec<Vec<u8>> = input.iter().map(|text| text.as_bytes().to_vec()).collect();
    let found = find_in_argv(&argv);
    let mut secrets = Secrets::default();
    let marked: Vec<String> = argv
        .iter()
        .zip(&found)
        .map(|(text, spans)| {
            secrets.learn(text, spans);
            let mut out = String::new();
            secrets.mark(text, spans, &mut out, |plain, out| {
                out.push_str(std::str::from_utf8(plain).unwrap());
            });
            out
        })
        .collect();
    let got: Vec<String> = marked.iter().map(|text| secrets.write(text)).collect();
    assert_eq!(got, want);
}

#[test]
fn flags_and_their_values() {
    argv(&["x", "--password", "hunter2"], &["x", "--password", "${REDACTED:1}"]);
    argv(
        &["x", "--api-key=abc", "--token", "abc"],
        &["x", "--api-key=${REDACTED:1}", "--token", "${REDACTED:1}"],
    );
    argv(&["curl", "-u", "me:pw", "-uyou:pw2"], &["curl", "-u", "me:${REDACTED:1}", "-uyou:${REDACTED:2}"]);
    argv(&["/usr/bin/mysql", "-psecret", "db"], &["/usr/bin/mysql", "-p${REDACTED:1}", "db"]);
    argv(&["x", "--password", "--token", "t", "-"], &["x", "--password", "--token", "${REDACTED:1}", "-"]);
    argv(&["x", "--password", "pass:pw"], &["x", "--password", "pass:${REDACTED:1}"]);
    argv(&["x", "--password", "pass:$PW"], &["x", "--password", "pass:$PW"]);
    argv(&["curl", "-u", "me:$PW"], &["curl", "-u", "me:$PW"]);
    argv(&["curl", "-u/${PW:x}/:pw"], &["curl", "-u/${PW:x}/:${REDACTED:1}"]);
    argv(&["curl", "-u ${PW:x}"], &["curl", "-u ${PW:x}"]);
    argv(&["sshpass", "-p", "pw", "ssh"], &["sshpass", "-p", "${REDACTED:1}", "ssh"]);
    let stays = [
        "x",
        "--password-file",
        "/p",
        "--token",
        "$TOKEN",
        "--password",
        "@file",
        "-u",
        "root",
        "-p",
        "8080",
    ];
    argv(&stays, &stays);
}

#[test]
fn urls_keep_all_but_the_secret() {
    argv(
        &["git", "clone", "https://me:p%40w@host/x.git"],
        &["git", "clone", "https://me:${REDACTED:1}@host/x.git"],
    );
    argv(&["x", "postgres://u:a@b@db:5432/n"], &["x", "postgres://u:${REDACTED:1}@db:5432/n"]);
    argv(
        &["x", "https://h/p?a=1&access_token=zz&b=2#f"],
        &["x", "https://h/p?a=1&access_token=${REDACTED:1}&b=2#f"],
    );
    argv(&["git", "ssh://git@host/x"], &["git", "ssh://git@host/x"]);
    argv(&["git", "https://abcdefghij0123456789@host/x"], &["git", "https://${REDACTED:1}@host/x"]);
}

#[test]
fn headers_and_assignments_and_json() {
    argv(
        &["curl", "-H", "Authorization: Bearer abc.def"],
        &["curl", "-H", "Authorization: Bearer ${REDACTED:1}"],
    );
    argv(&["curl", "-HX-Api-Key: k1"], &["curl", "-HX-Api-Key: ${REDACTED:1}"]);
    argv(
        &["sh", "-c", "FOO_TOKEN=abc curl -H 'Cookie: s=1' x"],
        &["sh", "-c", "FOO_TOKEN=${REDACTED:1} curl -H 'Cookie: ${REDACTED:2}' x"],
    );
    argv(&["x", r#"{"password": "p w", "a": 1}"#], &["x", r#"{"password": "${REDACTED:1}", "a": 1}"#]);
    let stays = ["x", "FOO_TOKEN=$FOO", "the password: none", "TOKEN=", "Content-Type: text/plain"];
    argv(&stays, &stays);
}

#[test]
fn keys_of_known_shape_wherever_they_stand() {
    let key = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    argv(&["x", &format!("a={key},b")], &["x", "a=${REDACTED:1},b"]);
    argv(&["x", "AKIAIOSFODNN7EXAMPLE", key, key], &["x", "${REDACTED:1}", "${REDACTED:2}", "${REDACTED:2}"]);
    argv(
        &["x", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"],
        &["x", "${REDACTED:1}\n"],
    );
    let stays = ["sk-learn", "npm_config_cache", "task-0123456789012345678901234567890", "hf_hub", "eyJabc"];
    argv(&stays, &stays);
}

#[test]
fn what_was_learned_is_found_elsewhere() {
    let mut secrets = Secrets::default();
    secrets.learn(b"correct-horse", &[Secret { range: 0..13, rule: "secret-flag" }]);
    let mut spans = Vec::new();
    secrets.add_learned(b"/tmp/correct-horse.txt", &mut spans);
    assert_eq!(spans, [Secret { range: 5..18, rule: "learned" }]);
}

#[test]
fn every_rule_has_what_it_finds_and_what_it_leaves() {
    // A secret stands between « and »; what has none stays as it is.
    let table: &[&[&str]] = &[
        &["curl", "-u", "me:«passw0rd1»", "h"],
        &["curl", "-u", "me:$PW", "h"],
        &["wget", "-U", "me:agent"],
        &["curl", "-sSu", "me:«p»", "h"],
        &["curl", "-ou", "me:name"],
        &["curl", "--user", "me:«p»"],
        &["curl", "--user=me:«p»"],
        &["curl", "--user-agent", "me:agent"],
        &["id", "-u", "me:name"],
        &["docker", "run", "--user", "me:group", "-p", "80:80"],
        &["env", "A=b", "timeout", "5", "/usr/bin/curl", "-u", "me:«p»"],
        &["http", "-a", "me:«p»", "h"],
        &["curl", "-a", "me:p"],
        &["mysql", "-p«SECRET»", "db"],
        &["mysql", "-p", "db"],
        &["tar", "-pSECRET"],
        &["sshpass", "-p", "«SECRET»", "ssh", "-p", "22"],
        &["docker", "login", "-u", "me", "-p", "«SECRET»"],
        &["podman", "run", "-p", "8080:80"],
        &["unzip", "-P", "«SECRET»", "a.zip"],
        &["redis-cli", "-a", "«SECRET»"],
        &["ls", "-a", "directory"],
        &["mongosh", "-u", "me", "-p", "«SECRET»"],
        &["ldapsearch", "-w", "«SECRET»"],
        &["x", "--password", "«X»"],
        &["x", "--password-file", "X"],
        &["curl", "-H", "Authorization: Bearer «abc.def»"],
        &["curl", "--header", "authorization:«abc.def»"],
        &["curl", "-H", "Accept: text/html"],
        &["git", "clone", "https://me:«p»@h/x"],
        &["git", "clone", "ssh://me@h:22/x"],
        &["x", "«AKIAIOSFODNN7EXAMPLE»", "AKIASHORT"],
        &["x", "AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»", "AWS_REGION=eu-west-1"],
        &["x", "«ghp_0123456789abcdefghijABCDEFGHIJ012345»", "ghp_short"],
        &["x", "«gho_0123456789abcdefghijABCDEFGHIJ012345»", "gho_short"],
        &["x", "«sk-ant-api03-0123456789abcdefghij»", "sk-learn"],
        &["x", "«xoxb-1234567890-abcdef»", "«xoxe-1234567890-abcdef»", "xox-1234567890-abcdef"],
        &[
            "x",
            "«-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----»",
            "-----BEGIN CERTIFICATE-----",
        ],
        // Inside a script.
        &["sh", "-c", "cd x && curl -fsu me:«p» h; id -u me:name"],
        &["sh", "-c", "curl -u 'me:«p w»' h | mysql -p«SECRET» db"],
        &["sh", "-c", "x --password \"«p w»\" --token='«t t»' --token=«u» --token $T"],
        &["sh", "-c", "docker run -p 80:80; it's -p 1"],
    ];
    for row in table {
        let plain: Vec<Vec<u8>> = row.iter().map(|text| text.replace(['«', '»'], "").into_bytes()).collect();
        let marked: Vec<String> = plain
            .iter()
            .zip(find_in_argv(&plain))
            .map(|(text, secrets)| {
                let mut out = text.clone();
                for secret in secrets.iter().rev() {
                    out.splice(secret.range.end..secret.range.end, "»".bytes());
                    out.splice(secret.range.start..secret.range.start, "«".bytes());
                }
                String::from_utf8(out).unwrap()
            })
            .collect();
        assert_eq!(&marked, row);
    }
}

/// Every piece that makes a search start, over and over: none makes it look at the rest of the text each time.
#[test]
fn the_search_takes_no_longer_than_the_text() {
    let pieces = [
        "a://",
        "a://b?",
        "a://b?token=",
        "a://b?token=1&",
        "a://u:p@h/",
        "cookie:",
        "cookie: a\n",
        "token=",
        "\"token\":",
        "\"token\": \"",
        "'token':'",
        "token='",
        "token=1 ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "ghp_",
        "sk-",
        "sk-a1",
        "eyJ",
        "eyJ-.",
        "curl ",
        "curl -u ",
        "-u a:b ",
        "- ",
        "--token ",
        "--token='",
        "--token=a ",
        "\"",
        "'",
        ":",
        "=",
        "/",
        "a/",
        "/home/u",
        "-/",
        "xoxb-1234567890 ",
        "echo hello\n",
        "curl -u me:secret https://a:b@c/?token=d\n",
        "a",
        " ",
        ";",
        "&?=",
        "://?",
        "login -p ",
        "file:///",
        "password = \"",
        "password = b'a\\'",
        "\\\"password\\\": \\\"",
        "\\\\\\\"token\\\": \\\"",
        "token: a\n",
        "- token: a",
        "CREATE USER a IDENTIFIED BY '",
        "user PASSWORD \"",
        "user password   '",
        "a://b:c/d",
        "a://b:c/@",
        "a://hooks.slack.com/services/",
        "a://api.telegram.org/bot",
        "x-a-token: ",
        "x-a-token:\"",
        "\\\n",
        "mysql -p'",
        "htpasswd -b a b c ",
        "environ[\"token\"] = ",
        "-Dtoken=",
        "A_KEY=",
        "a-",
    ];
    let roots = crate::profile::roots::RootTable::new(&crate::profile::roots::Roots {
        home: vec![b"/home/u".to_vec()],
        ..Default::default()
    });
    for piece in pieces {
        for lead in ["", "curl a://b?"] {
            check_growth(&format!("{lead}{piece}"), |len| {
                let text = format!("{lead}{}", piece.repeat(len / piece.len())).into_bytes();
                let argv = [b"sh".to_vec(), b"-c".to_vec(), text];
                assert_eq!(find_in_argv(&argv).len(), 3);
                roots.substitute_into(&argv[2], &mut String::new());
            });
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_taken_apart_without_loss(text: Vec<u8>) {
        let spans = find_in_text(&text);
        let mut plain = Vec::new();
        let mut out = String::new();
        Secrets::default().mark(&text, &spans, &mut out, |bytes, _| plain.extend_from_slice(bytes));
        let hidden: usize = spans.iter().map(|span| span.range.len()).sum();
        proptest::prop_assert_eq!(plain.len() + hidden, text.len());
    }
}
