use proptest::prelude::*;

use super::wide::{is_deep, is_read};
use super::*;
use crate::policy::check::judge_effect;
use crate::policy::load::{Context, NoFiles, load_bytes};
use crate::profile::effect::{ExecEffect, NetEffect};
use crate::profile::wire::Format;

mod every_deny;

fn fs(op: FsOp, path: &str, to: Option<&str>) -> Effect {
    Effect::Fs(FsEffect {
        op,
        path: Name::from_canonical(path),
        to: to.map(Name::from_canonical),
        result: EffectResult::Ok,
    })
}

fn exec(path: &str) -> Effect {
    Effect::Exec(ExecEffect { path: Name::from_canonical(path), result: EffectResult::Ok })
}

fn net(op: NetEffectOp, proto: &str, address: Option<&str>, port: Option<Port>) -> Effect {
    Effect::net(NetEffect {
        op,
        proto: proto.into(),
        host: None,
        host_from: None,
        address: address.map(Name::from_canonical),
        port,
        result: EffectResult::Ok,
    })
}

/// What a policy written for `effects` says about `asked`, as its own reader and judge see it.
fn is_allowed(effects: &[Effect], asked: &Effect) -> bool {
    let profile = suggest(effects, &[], &[]);
    for format in [Format::Yaml, Format::Json] {
        let text = profile.write(&comments(&profile, &["x\n".into()], "sandbox_0", effects), format);
        let context = Context::symbolic();
        let policy = load_bytes(b"p.yaml", text.as_bytes(), &context, &NoFiles)
            .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        let roots: Vec<(String, Vec<u8>)> = [
            ("WORKDIR", &context.workdir),
            ("TMPDIR", &context.tmpdir),
            ("CALLER_TMPDIR", &context.caller_tmpdir),
            ("RUNTIME_DIR", &context.runtime_dir),
        ]
        .into_iter()
        .chain(context.home.as_ref().map(|home| ("HOME", home)))
        .map(|(name, path)| (name.to_owned(), path.clone()))
        .collect();
        if !judge_effect(&policy, asked, &roots).is_allowed() {
            return false;
        }
    }
    true
}

fn check(effects: &[Effect], fs: &[(&str, &str)]) {
    let profile = suggest(effects, &[], &[]);
    let got: Vec<(String, String)> = profile
        .fs
        .iter()
        .map(|(path, grants)| (path.clone(), grants.iter().map(Grant::as_str).collect::<Vec<_>>().join(" ")))
        .collect();
    let want: Vec<(String, String)> =
        fs.iter().map(|(path, words)| ((*path).into(), (*words).into())).collect();
    assert_eq!(got, want);
    for effect in effects {
        assert!(is_allowed(effects, effect), "{effect:?}");
    }
}

#[test]
fn system_directories_by_directory_and_the_rest_as_it_is() {
    check(
        &[
            fs(FsOp::Read, "/usr/lib/x.so", None),
            fs(FsOp::List, "/usr/share", None),
            fs(FsOp::Read, "/etc/hosts", None),
            fs(FsOp::Read, "/etc/passwd", None),
            fs(FsOp::List, "/etc", None),
            fs(FsOp::Read, "${WORKDIR}/a", None),
            fs(FsOp::Write, "${HOME}/.log", None),
            fs(FsOp::Write, "/dev/null", None),
            fs(FsOp::Read, "/proc/${PID}/maps", None),
            exec("/usr/bin/x"),
        ],
        &[
            ("${HOME}/.log", "write"),
            ("${WORKDIR}", "read"),
            ("/etc", "list"),
            ("/etc/hosts", "read"),
            ("/etc/passwd", "read"),
            ("/usr", "read execute"),
        ],
    );
}

#[test]
fn names_are_granted_where_they_are_made_above_what_the_run_made() {
    check(
        &[
            fs(FsOp::Create, "${WORKDIR}/dst/", None),
            fs(FsOp::Create, "${WORKDIR}/dst/.git/", None),
            fs(FsOp::Create, "${WORKDIR}/dst/.git/config", None),
            fs(FsOp::Read, "${WORKDIR}/dst/.git/config", None),
            fs(FsOp::Write, "${WORKDIR}/dst/.git/config", None),
            fs(FsOp::Rename, "/srv/a/x", Some("/srv/b/y")),
            fs(FsOp::Delete, "${HOME}/.cache/t/${HASH}", None),
            exec("${WORKDIR}/dst/run"),
        ],
        &[
            ("${HOME}/.cache/t", "read write"),
            ("${WORKDIR}", "read write"),
            ("/srv/a", "read write"),
            ("/srv/b", "read write"),
        ],
    );
}

#[test]
fn a_rename_onto_the_target_needs_the_directory() {
    let fold = |to: &str| Fold {
        rule: "temp-name+temp-rename".into(),
        from: "/w/sedabcdef".into(),
        to: Name::from_canonical(to),
    };
    let folded = [fold("${WORKDIR}/sed${RANDOM}"), fold("${WORKDIR}/data.txt")];
    let profile = suggest(&[fs(FsOp::Write, "${WORKDIR}/data.txt", None)], &folded, &[]);
    assert_eq!(profile.fs, BTreeMap::from([("${WORKDIR}".into(), [Grant::Read, Grant::Write].into())]));
}

#[test]
fn what_a_rule_stands_for_is_said_beside_it() {
    let effects = [
        fs(FsOp::Read, "/usr/lib/a", None),
        fs(FsOp::Read, "/usr/lib/b", None),
        fs(FsOp::Read, "/etc/passwd", None),
        fs(FsOp::Create, "${WORKDIR}/out/x", None),
        fs(FsOp::Create, "${WORKDIR}/out/", None),
        exec("/usr/bin/cc"),
    ];
    let profile = suggest(&effects, &[], &[]);
    let text = profile.write(&comments(&profile, &[], "sandbox_0", &effects), Format::Yaml);
    let rules: Vec<&str> = text.lines().filter(|line| line.starts_with("    - ")).map(str::trim).collect();
    assert_eq!(
        rules,
        [
            "- {path: \"${WORKDIR}\", access: [read, write]}  # stands for 2 names used",
            "- {path: /etc/passwd, access: [read]}",
            "- /usr  # stands for 2 names used",
            "- /usr/bin/cc",
        ]
    );
}

#[test]
fn four_reads_in_etc_do_not_open_the_shadow_file() {
    let effects: Vec<Effect> = ["hosts", "passwd", "group", "os-release"]
        .iter()
        .map(|name| fs(FsOp::Read, &format!("/etc/{name}"), None))
        .collect();
    assert!(!is_allowed(&effects, &fs(FsOp::Read, "/etc/shadow", None)));
    let listing = [fs(FsOp::List, "/etc", None), fs(FsOp::List, "/", None), fs(FsOp::List, "${HOME}", None)];
    check(&listing, &[("${HOME}", "list"), ("/", "list")]);
    assert!(!is_allowed(&listing, &fs(FsOp::Read, "/etc/shadow", None)));
    assert!(!is_allowed(&listing, &fs(FsOp::Read, "${HOME}/.ssh/id_rsa", None)));
}

#[test]
fn many_files_deep_down_are_one_directory() {
    let effects: Vec<Effect> =
        (0..40).map(|n| fs(FsOp::Read, &format!("${{HOME}}/.cargo/registry/src/c/f{n}"), None)).collect();
    check(&effects, &[("${HOME}/.cargo/registry/src/c", "read")]);
    let keys: Vec<Effect> =
        (0..40).map(|n| fs(FsOp::Read, &format!("/etc/ssl/private/f{n}"), None)).collect();
    assert_eq!(suggest(&keys, &[], &[]).fs.len(), 40);
    let top: Vec<Effect> = (0..40).map(|n| fs(FsOp::Read, &format!("${{HOME}}/f{n}"), None)).collect();
    assert_eq!(suggest(&top, &[], &[]).fs.len(), 40);
}

/// Wide directories as the rule reads: look at all of them, again and again, until none is left.
fn collapse_again_and_again(rules: &mut BTreeMap<String, GrantSet>, many: usize) {
    loop {
        let mut children: BTreeMap<String, usize> = BTreeMap::new();
        for (path, _) in rules.iter().filter(|(path, grants)| is_read(**grants) && is_deep(parent(path))) {
            *children.entry(parent(path).to_owned()).or_default() += 1;
        }
        let wide: Vec<String> =
            children.into_iter().filter(|(_, count)| *count > many).map(|(path, _)| path).collect();
        if wide.is_empty() {
            return;
        }
        for directory in wide {
            rules.retain(|path, grants| !(is_read(*grants) && is_beneath(path.as_str(), &directory)));
            rules.entry(directory).or_default().insert(Grant::Read);
        }
    }
}

proptest! {
    #[test]
    fn what_is_read_in_wide_directories_is_granted_by_directory(
        paths in prop::collection::vec(("(/h)?(/[abc]){1,7}", prop::sample::subsequence(Grant::ALL.to_vec(), 1..3)), 0..120),
        many in 1_usize..4,
    ) {
        let rules: BTreeMap<String, GrantSet> =
            paths.into_iter().map(|(path, grants)| (path.replace("/h/", "${HOME}/"), grants.into_iter().collect())).collect();
        let (mut got, mut want) = (rules.clone(), rules);
        collapse(&mut got, many, &Touched::by(&Used::by(&[]), &[]));
        collapse_again_and_again(&mut want, many);
        prop_assert_eq!(without_covered(&got), without_covered(&want));
    }
}

#[test]
fn endpoints_are_rules_and_nothing_more_is_open() {
    let effects = [
        net(NetEffectOp::Connect, "tcp", Some("192.0.2.1"), Some(Port::Number(443))),
        net(NetEffectOp::Bind, "tcp", Some("127.0.0.1"), Some(Port::Ephemeral)),
        net(NetEffectOp::Listen, "tcp", Some("::"), Some(Port::Number(8080))),
        net(NetEffectOp::Connect, "unix", Some("/run/x y.sock"), None),
        net(NetEffectOp::Connect, "unix", Some("@tmp-${PID}-x"), None),
        net(NetEffectOp::Use, "netlink", None, None),
    ];
    let profile = suggest(&effects, &[], &[]);
    let rules: Vec<&str> = profile.net.iter().map(String::as_str).collect();
    assert_eq!(rules, ["127.0.0.1:*", "192.0.2.1:443", "[::]:8080", "unix:/run/x y.sock", "unix:@tmp-*"]);
    for effect in &effects {
        assert!(is_allowed(&effects, effect), "{effect:?}");
    }
    for other in [
        net(NetEffectOp::Connect, "tcp", Some("192.0.2.1"), Some(Port::Number(444))),
        net(NetEffectOp::Connect, "tcp", Some("192.0.2.2"), Some(Port::Number(443))),
        net(NetEffectOp::Connect, "unix", Some("/run/y.sock"), None),
    ] {
        assert!(!is_allowed(&effects, &other), "{other:?}");
    }
}

/// Wherever `XDG_RUNTIME_DIR` lies: beneath `/run/user` or not.
#[test]
fn the_runtime_directory_is_granted_by_its_variable_and_nobody_elses_is() {
    let effects = [
        fs(FsOp::Read, "${RUNTIME_DIR}/app/settings", None),
        fs(FsOp::Create, "${RUNTIME_DIR}/app.sock", None),
        net(NetEffectOp::Bind, "unix", Some("${RUNTIME_DIR}/app.sock"), None),
        net(NetEffectOp::Connect, "unix", Some("${RUNTIME_DIR}/bus"), None),
    ];
    check(&effects, &[("${RUNTIME_DIR}", "read write")]);
    let profile = suggest(&effects, &[], &[]);
    let rules: Vec<&str> = profile.net.iter().map(String::as_str).collect();
    assert_eq!(rules, ["unix:${RUNTIME_DIR}/app.sock", "unix:${RUNTIME_DIR}/bus"]);
    for other in [
        fs(FsOp::Read, "/run/user/1000/app/settings", None),
        fs(FsOp::Read, "/run/user/1000", None),
        net(NetEffectOp::Connect, "unix", Some("/run/user/1000/bus"), None),
    ] {
        assert!(!is_allowed(&effects, &other), "{other:?}");
    }
    // Where names are made in it, its sockets are as well; where not, only those that were used.
    let other = net(NetEffectOp::Connect, "unix", Some("${RUNTIME_DIR}/other"), None);
    assert!(is_allowed(&effects, &other) && !is_allowed(&effects[3..], &other));
}

#[test]
fn a_program_that_was_not_run_may_not_run() {
    let effects = [exec("/usr/bin/git"), fs(FsOp::Read, "/usr/lib/x", None)];
    assert!(is_allowed(&effects, &effects[0]));
    assert!(!is_allowed(&effects, &exec("/usr/bin/curl")));
    let nameless = [exec("memfd:x"), exec("/srv/tool"), fs(FsOp::Read, "/usr/lib/x", None)];
    assert!(is_allowed(&nameless, &nameless[0]) && is_allowed(&nameless, &nameless[1]));
    assert!(!is_allowed(&nameless, &exec("/srv/other")));
}

#[test]
fn files_without_a_name_are_granted_by_their_directory_and_deleted_ones_by_the_name_they_had() {
    let effects = [
        fs(FsOp::Write, "unnamed:/srv/w/", None),
        fs(FsOp::Link, "unnamed:/srv/w/", Some("/srv/w/x")),
        fs(FsOp::Read, "deleted:/srv/q", None),
        fs(FsOp::Write, "unnamed:${WORKDIR}/", None),
        exec("deleted:/srv/tool"),
    ];
    for effect in &effects {
        assert!(is_allowed(&effects, effect), "{effect:?}");
    }
    for other in [fs(FsOp::Write, "unnamed:/srv/v/", None), fs(FsOp::Read, "deleted:/srv/p", None)] {
        assert!(!is_allowed(&effects, &other), "{other:?}");
    }
}

fn name() -> impl Strategy<Value = String> {
    let component = prop_oneof![
        prop::collection::vec(1u8.., 1..12).prop_map(|bytes| {
            let bytes: Vec<u8> = bytes.into_iter().filter(|byte| *byte != b'/').collect();
            let name =
                if bytes.is_empty() || bytes == b"." || bytes == b".." { b"x".to_vec() } else { bytes };
            Name::from_bytes(&name).as_str().to_owned()
        }),
        "[a-z]{1,3}",
        Just("cc${RANDOM}.s".to_owned()),
        Just("${UUID}${TIME}".to_owned()),
        Just("*.c".to_owned()),
    ];
    let root = prop::sample::select(vec![
        "",
        "/usr",
        "/etc",
        "${WORKDIR}",
        "${HOME}",
        "${TMPDIR}",
        "${RUNTIME_DIR}",
        "/tmp",
        "/proc/${PID}",
    ]);
    (root, prop::collection::vec(component, 1..5))
        .prop_map(|(root, names)| format!("{root}/{}", names.join("/")))
}

fn effect() -> impl Strategy<Value = Effect> {
    let op =
        prop::sample::select(FsOp::ALL.iter().copied().filter(|op| *op != FsOp::Mount).collect::<Vec<_>>());
    let files = (op, name(), name()).prop_map(|(op, path, to)| {
        let to = matches!(op, FsOp::Rename | FsOp::Link | FsOp::Symlink).then_some(to);
        fs(op, &path, to.as_deref())
    });
    prop_oneof![8 => files, 1 => name().prop_map(|path| exec(&path))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_profile_allows_every_effect_it_was_written_for(effects in prop::collection::vec(effect(), 1..20)) {
        for effect in &effects {
            prop_assert!(is_allowed(&effects, effect), "{:?}\n{:#?}", effect, suggest(&effects, &[], &[]));
        }
    }

    #[test]
    fn the_same_effects_in_any_order_are_the_same_bytes(effects in prop::collection::vec(effect(), 1..20)) {
        let write = |effects: &[Effect]| suggest(effects, &[], &[]).write(&Comments::default(), Format::Yaml);
        let mut turned = effects.clone();
        turned.reverse();
        prop_assert_eq!(write(&effects), write(&turned));
    }
}
