use super::*;

const NOBODY: &dyn Fn(u32) -> bool = &|_| false;
/// 2026-11-29 19:11:41 UTC.
const NOW: u64 = 1_795_979_501;

fn proof() -> Proof<'static> {
    Proof {
        is_made: true,
        is_gone: true,
        is_in_temp: false,
        is_made_read_write: false,
        is_actor: &|id| id == 1234,
        templates: &[],
        clock: Some((NOW, NOW + 60)),
        user: None,
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
        ("run-20261129-191141.txt", "run-${TIME}.txt"),
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
    let made = Proof { is_in_temp: true, is_made_read_write: true, ..proof() };
    for name in ["otuda68_", "ab_cdefg", "abcdef", "tif4_hDWXG"] {
        assert_eq!(fold(name.as_bytes(), &made).unwrap().text, "${RANDOM}", "{name}");
    }
    let directory = Proof { is_made_read_write: false, ..made };
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
