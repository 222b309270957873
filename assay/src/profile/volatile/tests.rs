use super::*;

const NOBODY: &dyn Fn(usize, u32) -> bool = &|_, _| false;
/// 2026-11-29 19:11:41 UTC.
const NOW: u64 = 1_795_979_501;

fn proof() -> Proof<'static> {
    Proof {
        is_made: true,
        is_gone: true,
        is_in_temp: false,
        is_made_private: false,
        drawn_alike: None,
        is_drawn_by_maker: false,
        is_in_tmp: false,
        is_numbered: false,
        is_directory: false,
        is_moved: false,
        is_in_git: false,
        is_actor: &|_, id| id == 1234,
        templates: &[],
        clock: Some((NOW, NOW + 60)),
        user: None,
        is_user_id: None,
        hostname: Some(b"box"),
    }
}

fn check(name: &str, want: &str) {
    let got = fold(name.as_bytes(), &proof()).map_or(name.to_owned(), |folded| folded.text);
    assert_eq!(got, want, "{name}");
}

#[test]
fn known_forms_fold_whatever_letters_chance_gave() {
    check("ccabcdef.s", "cc${RANDOM}.s");
    check("ccabcdef.ltrans0.ltrans.o", "cc${RANDOM}.ltrans0.ltrans.o");
    check("tmp.abcdefghij", "tmp.${RANDOM}");
    check("tmpabcdefgh", "tmp${RANDOM}");
    check("tmpab_defgh.json", "tmp${RANDOM}.json");
    check("sedabcdef", "sed${RANDOM}");
    check("tmp_obj_abcdef", "tmp_obj_${RANDOM}");
    check("pip-build-env-abcdefgh", "pip-build-env-${RANDOM}");
    check("cmTC_abcde.dir", "cmTC_${RANDOM}.dir");
    check("s-homfcykaw6-0jvmn47-working", "s-${RANDOM}-working");
    check("s-homfcykaw6-0jvmn47.lock", "s-${RANDOM}.lock");
    check("s-homfcykaw6-0jvmn47-5k2j3h4k5j6h7k8j9h0kabcde", "s-${RANDOM}-${HASH}");
    check(
        "app-1a2b3c4d5e6f7a8b.5k2j3h4k5j6h7k8j9h0kabcde.10rlgbm.rcgu.o",
        "app-${HASH}.${HASH}.${RANDOM}.rcgu.o",
    );
    check("app.tmpeaacbf9", "app.${RANDOM}");
    check("app-1a2b3c4d5e6f7a8b.tmpabcdefa", "app-${HASH}.${RANDOM}");
    check("libapp.so.tmp1234567", "libapp.so.${RANDOM}");
    check("main-abcdefab.o.tmp", "main-${RANDOM}.o.tmp");
    check("main-abcdef01.tmp", "main-${RANDOM}.tmp");
}

#[test]
fn the_names_of_people_and_programs_stay() {
    for name in [
        "build.log",
        "config",
        "secret",
        "main.rs",
        "README.md",
        "Makefile",
        "CMakeLists.txt",
        "libfoo.so.1.2.3",
        "worker12",
        "FooBar.java",
        "sqlite",
        "index.lock",
        "x86_64",
        "python3.11",
        "2to3",
        "ccache",
        "tmpfiles",
        "sedation",
        "test_parser",
        "part-00001",
        "3rdparty",
        "data.db-journal",
        "utf8",
        "HTTPServer",
    ] {
        check(name, name);
    }
}

#[test]
fn shapes_fold_only_with_proof() {
    let names = [
        ("a8Kd92.txt", "${RANDOM}.txt"),
        ("foo-aB3xY9", "foo-${RANDOM}"),
        ("log.1234", "log.${PID}"),
        ("x1234y.tmp", "x${PID}y.tmp"),
        ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6.cache", "${UUID}.cache"),
        ("d41d8cd98f00b204e9800998ecf8427e", "${HASH}"),
        ("libfoo-1a2b3c4d5e6f7a8b.rlib", "libfoo-${HASH}.rlib"),
        ("2026-11-29T19_11_41_123Z-debug-0.log", "${TIME}-debug-0.log"),
        ("s-cmuzpmzihkewd59pnusbukxxq", "s-${HASH}"),
        ("run-20261129-191141.txt", "run-${TIME}.txt"),
        ("backup20261129.sql", "backup${TIME}.sql"),
        ("Log20261129T191141Z", "Log${TIME}"),
        ("cache1795979510", "cache${TIME}"),
        ("run-20261129T191141Z.txt", "run-${TIME}.txt"),
        // What is drawn behind a time may begin with digits.
        (
            "rollout-2026-11-29T02-46-36-019ad3f2-7dec-71d0-a765-00a0c91e6bf6.jsonl",
            "rollout-${TIME}-${UUID}.jsonl",
        ),
        ("2026-11-29-1234ab3f90c2d14e5f.log", "${TIME}-${HASH}.log"),
        ("backup-1795979510", "backup-${TIME}"),
        (".#lk0x000055e0b1f0a0b0.box.1234", ".#lk${ADDRESS}.${HOSTNAME}.${PID}"),
        ("go-build384756", "go-build${RANDOM}"),
        ("out12-9383746", "out12-${RANDOM}"),
    ];
    for (name, want) in names {
        check(name, want);
        let unproved = Proof { is_made: false, hostname: None, ..proof() };
        assert_eq!(fold(name.as_bytes(), &unproved), None, "{name}");
    }
    let stays = Proof { is_gone: false, is_actor: NOBODY, ..proof() };
    for name in ["a8Kd92.txt", "foo-aB3xY9", "log.1234", "out12-9383746"] {
        assert_eq!(fold(name.as_bytes(), &stays), None, "{name}");
    }
}

#[test]
fn a_name_that_chance_made_of_words_folds_where_temporary_files_are_made() {
    let made = Proof { is_in_temp: true, is_made_private: true, ..proof() };
    for name in ["otuda68_", "ab_cdefg", "abcdef", "tif4_hDWXG"] {
        assert_eq!(fold(name.as_bytes(), &made).unwrap().text, "${RANDOM}", "{name}");
    }
    for (name, want) in [
        ("foo-XPMwhi", "foo-${RANDOM}"),
        ("foo-abcdef", "foo-${RANDOM}"),
        ("foo-ab_cdefg", "foo-${RANDOM}"),
        ("fooab_cdefg", "${RANDOM}"),
        ("fooabcdefgh", "${RANDOM}"),
        ("glueda1b2c3d4", "${RANDOM}"),
        ("foo_abcdefgh", "foo_${RANDOM}"),
        ("foo_a_cdefgh", "foo_${RANDOM}"),
        ("foo.abcdefghij", "foo.${RANDOM}"),
        ("foo-abcdef.tar.gz", "foo-${RANDOM}.tar.gz"),
        ("shm_1234", "shm_${PID}"),
        ("shared_memory_1234", "shared_memory_${PID}"),
        ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "${UUID}"),
        ("backup-1795979510", "backup-${TIME}"),
        (".abcdef", ".${RANDOM}"),
    ] {
        assert_eq!(fold(name.as_bytes(), &made).unwrap().text, want, "{name}");
    }
    let numbered = Proof { is_numbered: true, ..made };
    assert_eq!(fold(b"test_parser0", &numbered), None);
    let user = Proof { user: Some(b"edsger"), ..made };
    assert_eq!(fold(b"pytest-of-edsger", &user).unwrap().text, "pytest-of-${USER}");
    let cache = Proof { is_in_temp: false, is_in_tmp: true, ..made };
    assert_eq!(fold(b"ZJAYK5", &cache).unwrap().text, "${RANDOM}");
    // The same words stay where one of the proofs is missing.
    let others = [
        Proof { is_gone: false, is_actor: NOBODY, ..made },
        Proof { is_in_temp: false, is_actor: NOBODY, ..made },
        Proof { is_made_private: false, is_actor: NOBODY, ..made },
    ];
    for other in others {
        assert_eq!(fold(b"foo-abcdef.tar.gz", &other), None);
    }
    for name in ["a", "lock.db", "foo-ab.s"] {
        assert_eq!(fold(name.as_bytes(), &made), None, "{name}");
    }
    // What somebody called it stays, and so does each part that is a word behind a sign.
    for name in
        ["secrets", "config", "team-database", "shared_memory", "worker01", "app.settings.json", ".config"]
    {
        assert_eq!(fold(name.as_bytes(), &made), None, "{name}");
    }
    let folder = Proof { is_directory: true, ..made };
    for name in ["openpgp-revocs.d", "private-keys-v1.d", "crls.d", "abcdefgh.old"] {
        assert_eq!(fold(name.as_bytes(), &folder), None, "{name}");
    }
    for (name, want) in [("node-abcdef", "node-${RANDOM}"), ("foo-aB3xY9.d", "foo-${RANDOM}.d")] {
        assert_eq!(fold(name.as_bytes(), &folder).unwrap().text, want, "{name}");
    }
    let directory = Proof { is_made_private: false, ..made };
    assert_eq!(fold(b"tif4_hDWXG", &directory).unwrap().text, "${RANDOM}");
    for name in ["my_dir", "test_dir01", "abcdef", "settings"] {
        assert_eq!(fold(name.as_bytes(), &directory), None, "{name}");
    }
}

#[test]
fn a_name_that_only_looks_like_digits_of_a_hash_stays_whatever_became_of_it() {
    let long = "d".repeat(250);
    for name in [
        long.as_str(),
        "cafebabe",
        "deadbeef",
        "deadbeefdeadbeef",
        "c0ffee00c0ffee00c0ffee00c0ffee00",
        "00000000000000000000000000000000",
        "00000000-0000-0000-0000-000000000000",
    ] {
        let stays = Proof { is_gone: false, is_actor: NOBODY, ..proof() };
        assert_eq!(fold(name.as_bytes(), &stays), None, "{name}");
    }
    let stays = Proof { is_gone: false, is_actor: NOBODY, ..proof() };
    assert_eq!(fold(b"0xdeadbeef", &stays), None);
    for (name, want) in [
        ("libfoo-1a2b3c4d5e6f7a8b.rlib", "libfoo-${HASH}.rlib"),
        ("d41d8cd98f00b204e9800998ecf8427e", "${HASH}"),
        ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "${UUID}"),
    ] {
        assert_eq!(fold(name.as_bytes(), &stays).unwrap().text, want);
    }
}

#[test]
fn a_date_far_from_the_run_is_a_name() {
    check("2019-01-01.log", "2019-01-01.log");
    let unknown = Proof { clock: None, ..proof() };
    assert_eq!(fold(b"2026-11-29.log", &unknown).unwrap().text, "${TIME}.log");
}

#[test]
fn a_template_among_the_arguments_is_proof_of_its_form() {
    let template = Template::in_argument(b"--tmp=/x/foo-XXXX.d").unwrap();
    assert_eq!(template, Template { prefix: b"foo-".to_vec(), len: 4, suffix: b".d".to_vec() });
    assert_eq!(Template::in_argument(b"/x/fooXX"), None);
    let templates = [template];
    let proof = Proof { templates: &templates, is_gone: false, ..proof() };
    assert_eq!(fold(b"foo-abcd.d", &proof).unwrap().text, "foo-${RANDOM}.d");
    assert_eq!(fold(b"foo-abcde.d", &proof), None);
    // What a shell put in front of the X's is what it is elsewhere.
    let templates = [Template::in_argument(b"/tmp/of-edsger-1234.XXXXXX").unwrap()];
    let proof = Proof { templates: &templates, user: Some(b"edsger"), ..self::proof() };
    assert_eq!(fold(b"of-edsger-1234.abcdef", &proof).unwrap().text, "of-${USER}-${PID}.${RANDOM}");
    // And nothing else of it is drawn, wherever it lies.
    let templates = [Template::in_argument(b"/tmp/k3j2h1x9.XXXXXX").unwrap()];
    let proof = Proof { templates: &templates, is_in_temp: true, ..self::proof() };
    assert_eq!(fold(b"k3j2h1x9.abcdef", &proof).unwrap().text, "k3j2h1x9.${RANDOM}");
}

#[test]
fn a_name_derived_from_its_target_is_told_by_the_target() {
    let check = |temp: &str, target: &str, want: Option<&str>| {
        let got = is_derived(temp.as_bytes(), target.as_bytes()).map(|folded| folded.text);
        assert_eq!(got.as_deref(), want, "{temp}");
    };
    check(".data.txt.abcdef", "data.txt", Some(".data.txt.${RANDOM}"));
    check("m.cpython-311.pyc.139872345678", "m.cpython-311.pyc", Some("m.cpython-311.pyc.${RANDOM}"));
    check("data.txt.a1b2", "data.txt", Some("data.txt.${RANDOM}"));
    check(".3.AujIbf", "3", Some(".3.${RANDOM}"));
    check("RECORDwwc_cvs_.tmp", "RECORD", Some("RECORD${RANDOM}.tmp"));
    check("targetfsFydp", "target", Some("target${RANDOM}"));
    check("target.backup", "target", None);
    check("filebackup", "file", None);
    for word in
        ["data.txt.tmp", "data.txt.lock", "data.txt.new", "data.txt~", "data.txt.download", "other.abcdef"]
    {
        check(word, "data.txt", None);
    }
}

#[test]
fn what_mkstemp_drew_beside_the_target_folds_whatever_word_chance_made() {
    let moved = Proof { is_made: true, is_gone: true, is_made_private: true, is_moved: true, ..proof() };
    for (name, want) in [
        ("zilarAom", "zi${RANDOM}"),
        ("zij9g5jV", "zi${RANDOM}"),
        ("d.zip.aB3xY9", "d.zip.${RANDOM}"),
        ("1234aB3xY9", "1234${RANDOM}"),
        // Python's eight have underscores, and may be small letters alone.
        (".replaced.npuci_la", ".replaced.${RANDOM}"),
        (".own-abcdqfgh", ".own-${RANDOM}"),
        ("own_a1cd_f_h.json", "own_${RANDOM}.json"),
        ("_npuci__.tmp.1", "${RANDOM}.tmp.1"),
    ] {
        assert_eq!(fold(name.as_bytes(), &moved).unwrap().text, want, "{name}");
    }
    for name in [
        "settings.new",
        "configNew",
        "secrets",
        "SharedMemory",
        "worker01",
        "database.tmp",
        "own.settings",
        "own.my_notes.json",
        "own.abcdqfg",
        "own.abcdqfghi",
        "own.my_segment",
    ] {
        assert_eq!(fold(name.as_bytes(), &moved), None, "{name}");
    }
    // strip copies back what it wrote, and removes it. Of another program a name that looks so is its own.
    let removed = Proof { is_moved: false, is_drawn_by_maker: true, ..moved };
    let of_another = Proof { is_moved: false, ..moved };
    for name in ["stnaywrq", "strategy", "stations"] {
        assert_eq!(fold(name.as_bytes(), &removed).unwrap().text, "st${RANDOM}");
        assert_eq!(fold(name.as_bytes(), &of_another), None);
    }
    assert_eq!(fold(b"zigzag01", &of_another), None);
    for other in [Proof { is_made_private: false, ..moved }, Proof { is_directory: true, ..moved }] {
        assert_eq!(fold(b"zilarAom", &other), None);
    }
}

/// Names of the pieces that rules look for, and what a record could prove of each.
fn for_many_names(check: impl Fn(&[u8], &Proof<'_>)) {
    let pieces: [&[u8]; 19] = [
        b"zi",
        b"st",
        b"tmp",
        b"pip-",
        b".",
        b"-",
        b"_",
        b"1234",
        b"box",
        b"user",
        b"aB3xY9",
        b"\xff/",
        b"secrets",
        b"3f2b8c9d-1a4e-4c7b-9f21-0a1b2c3d4e5f",
        b"0123456789abcdef",
        b"2026-11-29",
        b"19_11_41",
        b"191141",
        b".rcgu.o",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    for _ in 0..60_000 {
        let name: Vec<u8> = (0..=draw(5)).flat_map(|_| pieces[draw(pieces.len())].to_vec()).collect();
        let mut is = || draw(4) > 0;
        let proof = Proof {
            is_made: is(),
            is_gone: is(),
            is_in_temp: is(),
            is_made_private: is(),
            is_drawn_by_maker: !is(),
            is_directory: !is(),
            is_moved: is(),
            is_in_tmp: is(),
            user: Some(b"user"),
            ..proof()
        };
        check(&name, &proof);
    }
}

#[test]
fn no_name_ends_the_folding() {
    for_many_names(|name, proof| {
        let folded = fold(name, proof);
        assert!(folded.is_none_or(|folded| !folded.rules.is_empty() && !folded.text.is_empty()));
    });
}

/// A date, a uuid or a name that begins before what was drawn ends there: else the drawn part would stand in the name.
#[test]
fn what_was_drawn_folds_whatever_stands_before_it() {
    check("pip-2026-11-29_19_11", "pip-2026-11-${RANDOM}");
    check("pip-box-2026-11-29-191141-29_19_11", "pip-${HOSTNAME}-${TIME}-${RANDOM}");
    check("2026-11-29.191141.rcgu.o", "${TIME}.${RANDOM}.rcgu.o");
    let dashed = Proof { user: Some(b"box-abcdefgh"), ..proof() };
    assert_eq!(fold(b"pip-box-abcdefgh", &dashed).unwrap().text, "pip-${HOSTNAME}-${RANDOM}");
    for_many_names(|name, proof| {
        if proof.is_made && known_form(name, proof).is_some() {
            let folded = fold(name, proof).unwrap();
            assert!(folded.rules.contains(&FoldRule::TempName), "{name:?}: {folded:?}");
        } else if let Some((start, end)) = drawn_part(name, proof).filter(|_| proof.is_made) {
            // Nothing of it is left, unless the record knows better.
            let folded = fold(name, proof);
            let is_gone = folded.as_ref().is_some_and(|folded| folded.rules.contains(&FoldRule::Random));
            assert!(is_gone || is_told_otherwise(name, proof), "{name:?} {start}..{end}: {folded:?}");
        }
    });
}

/// Where ids are small again after they wrapped, one stands in every other hash.
#[test]
fn a_number_in_a_hash_or_an_address_is_no_id() {
    check("addcfa56d1ac3bafa1234be661316dac6b1d791", "${HASH}");
    check("1234cfa56d1ac3bafabe661316dac6b1d79112ab", "${HASH}");
    check("pack-764900821decefd7871f1234af9961de43ae6a61.pack", "pack-${HASH}.pack");
    check("5k2j1234k5j6h7k8j9h0kabcd", "${HASH}");
    check("0x7f1234b00c2d", "${ADDRESS}");
    check("x1234y", "x${PID}y");
    check("a1234.d41d8cd98f001234e9800998ecf8427e", "a${PID}.${HASH}");
}
