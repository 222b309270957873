//! Damaged bundles by the thousand: each is refused, with the right class, without a panic.

use super::*;
use crate::evidence::events::RunRoot;
use crate::evidence::manifest;
use crate::evidence::verify::{Verified, verify};

const VECTOR_MANIFEST: &[u8] = include_bytes!("../../../../tests/fixtures/bundles/independent.manifest.json");
const VECTOR_EVENTS: &[u8] = include_bytes!("../../../../tests/fixtures/bundles/independent.events.ndjson");

fn check(bundle: &[u8]) -> Result<Verified, Failure> {
    verify(bundle, Limits::FORMAT, |_, _| {})
}

fn refused(bundle: &[u8]) -> Code {
    check(bundle).expect_err("a damaged bundle was taken for good").code
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::none());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// One member, as a test wants it.
fn member(name: &str, bytes: &[u8], edit: impl Fn(&mut Header)) -> Vec<u8> {
    let mut header = super::header("x", bytes.len() as u64);
    // Not `set_path`, which refuses what we want to try.
    header.as_old_mut().name = [0; 100];
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    edit(&mut header);
    header.set_cksum();
    let mut out = header.as_bytes().to_vec();
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

fn plain(name: &str, bytes: &[u8]) -> Vec<u8> {
    member(name, bytes, |_| {})
}

fn tar(members: &[Vec<u8>]) -> Vec<u8> {
    let mut out = members.concat();
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}

fn vector_tar() -> Vec<u8> {
    tar(&[plain(MANIFEST, VECTOR_MANIFEST), plain(EVENTS, VECTOR_EVENTS)])
}

#[test]
fn what_is_written_is_the_least_a_tar_can_be() {
    let mut decoded = Vec::new();
    let bundle =
        write(Vec::new(), VECTOR_MANIFEST, VECTOR_EVENTS.len() as u64, |out| out.write_all(VECTOR_EVENTS))
            .unwrap();
    GzDecoder::new(&*bundle).read_to_end(&mut decoded).unwrap();
    assert_eq!(decoded, vector_tar());
    let names: Vec<_> = tar::Archive::new(&*decoded)
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().into_owned())
        .collect();
    assert_eq!(names, [std::path::Path::new(MANIFEST), std::path::Path::new(EVENTS)]);
}

#[test]
fn events_of_another_length_than_announced_are_not_written() {
    assert!(write(Vec::new(), b"{}", 3, |out| out.write_all(b"{}")).is_err());
}

#[test]
fn a_bundle_packed_again_or_stamped_again_stays_good() {
    let stamp = |header: &mut Header| {
        header.set_mode(0o600);
        header.set_mtime(1_767_323_045);
        header.set_uid(1000);
        header.set_username("somebody").unwrap();
    };
    let mut bytes = tar(&[member(MANIFEST, VECTOR_MANIFEST, stamp), member(EVENTS, VECTOR_EVENTS, stamp)]);
    // GNU tar fills its last record of 10240 bytes.
    bytes.resize(bytes.len().next_multiple_of(10240), 0);
    let mut gzip = GzBuilder::new().filename("events.tar").mtime(1).write(Vec::new(), Compression::best());
    gzip.write_all(&bytes).unwrap();
    assert!(check(&gzip.finish().unwrap()).unwrap().archive.is_restamped);
    assert!(!check(&self::gzip(&vector_tar())).unwrap().archive.is_restamped);
}

#[test]
fn members_that_are_not_the_two_are_refused() {
    let manifest = || plain(MANIFEST, VECTOR_MANIFEST);
    let events = || plain(EVENTS, VECTOR_EVENTS);
    let refused = |members: &[Vec<u8>]| refused(&gzip(&tar(members)));
    assert_eq!(refused(&[]), Code::MemberOrder);
    assert_eq!(refused(&[manifest()]), Code::MemberOrder);
    assert_eq!(refused(&[events(), manifest()]), Code::MemberOrder);
    assert_eq!(refused(&[manifest(), manifest(), events()]), Code::MemberOrder);
    assert_eq!(refused(&[manifest(), events(), events()]), Code::MemberOrder);
    assert_eq!(refused(&[manifest(), events(), plain("README", b"x")]), Code::MemberOrder);
    assert_eq!(refused(&[plain("README", b"x"), manifest(), events()]), Code::MemberName);
    for name in [
        "./manifest.json",
        "/manifest.json",
        "../manifest.json",
        "a/../manifest.json",
        "manifest.json/",
        "Manifest.json",
        "manifest.json ",
        "manifest.json\0x",
        "",
    ] {
        assert_eq!(refused(&[plain(name, VECTOR_MANIFEST), events()]), Code::MemberName, "{name:?}");
    }
    let prefixed =
        member(MANIFEST, VECTOR_MANIFEST, |header| header.as_ustar_mut().unwrap().prefix[0] = b'x');
    assert_eq!(refused(&[prefixed, events()]), Code::MemberName);
}

#[test]
fn members_that_are_not_plain_files_are_refused() {
    // Links, devices, directories, contiguous and sparse files, both kinds of pax header, both GNU long names,
    // volume labels, and what nobody defined.
    for kind in b"123456 7SxgXLKVMDNAz\x01\xff" {
        let odd =
            |name: &str, bytes: &[u8]| member(name, bytes, |header| header.as_old_mut().linkflag = [*kind]);
        let bundle = gzip(&tar(&[odd(MANIFEST, VECTOR_MANIFEST), plain(EVENTS, VECTOR_EVENTS)]));
        assert_eq!(refused(&bundle), Code::MemberType, "{kind:?}");
        let bundle = gzip(&tar(&[plain(MANIFEST, VECTOR_MANIFEST), odd(EVENTS, VECTOR_EVENTS)]));
        assert_eq!(refused(&bundle), Code::MemberType, "{kind:?}");
        // An extended header before the member is a member of its own.
        let pax = odd("PaxHeaders/x", b"30 GNU.sparse.realsize=999999\n");
        let bundle = gzip(&tar(&[pax, plain(MANIFEST, VECTOR_MANIFEST), plain(EVENTS, VECTOR_EVENTS)]));
        assert_eq!(refused(&bundle), Code::MemberType, "{kind:?}");
    }
    let linked = member(MANIFEST, VECTOR_MANIFEST, |header| header.as_old_mut().linkname[0] = b'/');
    assert_eq!(refused(&gzip(&tar(&[linked, plain(EVENTS, VECTOR_EVENTS)]))), Code::MemberType);
}

#[test]
fn sizes_that_lie_are_refused() {
    let sized = |name: &str, bytes: &[u8], size: &[u8; 12]| {
        member(name, bytes, |header| header.as_old_mut().size = *size)
    };
    let refused_with = |size: &[u8; 12]| {
        refused(&gzip(&tar(&[plain(MANIFEST, VECTOR_MANIFEST), sized(EVENTS, VECTOR_EVENTS, size)])))
    };
    assert_eq!(refused_with(b"77777777777\0"), Code::DecodedLimit);
    assert_eq!(refused_with(b"\x80\0\0\0\0\0\0\0\0\0\x09\x7c"), Code::Tar, "the binary form");
    assert_eq!(refused_with(b"-0000000001\0"), Code::Tar);
    assert_eq!(refused_with(b"\0\0\0\0\0\0\0\0\0\0\0\0"), Code::Tar);
    assert_eq!(refused_with(b"00000006000\0"), Code::LineEnd, "it would read on into the end blocks");
    assert_eq!(refused_with(b"00000010000\0"), Code::Tar, "it would read on beyond them");
    let big = sized(MANIFEST, VECTOR_MANIFEST, b"00010000000\0");
    assert_eq!(refused(&gzip(&tar(&[big, plain(EVENTS, VECTOR_EVENTS)]))), Code::LineLimit);
}

#[test]
fn nothing_may_follow_or_hide() {
    let tar = vector_tar();
    let good = gzip(&tar);
    assert_eq!(refused(&[&good[..], b"x"].concat()), Code::Trailing);
    assert_eq!(refused(&[&good[..], b"\0"].concat()), Code::Trailing);
    assert_eq!(refused(&[&good[..], &good[..]].concat()), Code::Trailing);
    assert_eq!(refused(&[&good[..], &gzip(b"")[..]].concat()), Code::Trailing);
    assert_eq!(refused(&[&gzip(b"")[..], &good[..]].concat()), Code::Tar);
    assert_eq!(refused(&[&gzip(&tar[..512])[..], &gzip(&tar[512..])[..]].concat()), Code::Tar);
    assert_eq!(refused(&gzip(&[&tar[..], b"x"].concat())), Code::Trailing);
    let hidden = [&tar[..], &plain("README", b"x")[..]].concat();
    assert_eq!(refused(&gzip(&hidden)), Code::Trailing, "a member after the end");
    assert_eq!(refused(&gzip(&tar[..tar.len() - 1])), Code::Tar);
    assert_eq!(refused(&gzip(&tar[..tar.len() - BLOCK])), Code::Tar);
    assert_eq!(refused(b""), Code::Gzip);
    assert_eq!(refused(b"{}"), Code::Gzip);
    assert_eq!(refused(&tar), Code::Gzip);
    assert_eq!(refused(&gzip(b"")), Code::Tar);
    assert_eq!(refused(&gzip(&[0; 10240])), Code::MemberOrder);
}

#[test]
fn bombs_are_put_out_early() {
    // 64 MiB of zeros, spaces or brackets as one line, in some 64 kB.
    let bomb = |byte: u8, size: u64| {
        let mut gzip = GzBuilder::new().write(Vec::new(), Compression::fast());
        gzip.write_all(&plain(MANIFEST, VECTOR_MANIFEST)).unwrap();
        gzip.write_all(header(EVENTS, size).as_bytes()).unwrap();
        io::copy(&mut io::repeat(byte).take(4 << 20), &mut gzip).unwrap();
        gzip.finish().unwrap()
    };
    for byte in [0, b' ', b'['] {
        assert_eq!(refused(&bomb(byte, 64 << 20)), Code::LineLimit);
        assert_eq!(refused(&bomb(byte, (1 << 30) + 1)), Code::DecodedLimit);
    }
    assert_eq!(refused(&bomb(b'\n', 64 << 20)), Code::JsonSyntax);
}

#[test]
fn every_flip_of_the_compressed_bytes_is_refused() {
    let good =
        write(Vec::new(), VECTOR_MANIFEST, VECTOR_EVENTS.len() as u64, |out| out.write_all(VECTOR_EVENTS))
            .unwrap();
    let mut respelled = 0;
    for at in 0..good.len() {
        for mask in [0x01, 0x10, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= mask;
            // Time, level and system, and whether it is text, are no part of what is stored.
            let is_harmless = (4..10).contains(&at) || (at == 3 && mask == 0x01);
            if check(&bad).is_ok() && !is_harmless {
                // Deflate has more than one way to write the same bytes: then they are the same bytes.
                let mut decoded = Vec::new();
                GzDecoder::new(&*bad).read_to_end(&mut decoded).unwrap();
                assert_eq!(decoded, vector_tar(), "byte {at} ^ {mask:#x}");
                respelled += 1;
            }
            assert!(check(&bad).is_ok() || !is_harmless, "byte {at} ^ {mask:#x}: {:?}", check(&bad));
        }
    }
    for length in 0..good.len() {
        assert_eq!(refused(&good[..length]), Code::Gzip, "cut at {length}");
    }
    assert!(respelled < good.len() / 25, "{respelled}");
}

#[test]
fn every_flip_of_the_tar_is_refused_with_its_class() {
    let good = vector_tar();
    let manifest_at = BLOCK;
    let events_header_at = manifest_at + VECTOR_MANIFEST.len().next_multiple_of(BLOCK);
    let events_at = events_header_at + BLOCK;
    let events_end = events_at + VECTOR_EVENTS.len();
    let tail = events_at + VECTOR_EVENTS.len().next_multiple_of(BLOCK);
    for at in 0..good.len() {
        for mask in [0x01, 0x80] {
            let mut bad = good.clone();
            bad[at] ^= mask;
            // Digits of a header's sum have more than one way to end.
            let end_of_sum = [154, 155, events_header_at + 154, events_header_at + 155];
            if end_of_sum.contains(&at) && check(&gzip(&bad)).is_ok() {
                continue;
            }
            let code = refused(&gzip(&bad));
            let is_right = match at {
                _ if at < manifest_at || (events_header_at..events_at).contains(&at) => code == Code::Tar,
                _ if at < manifest_at + VECTOR_MANIFEST.len() => is_about_manifest(code),
                _ if (events_at..events_end).contains(&at) => is_about_events(code),
                _ if at < tail + BLOCK => matches!(code, Code::Trailing | Code::MemberOrder),
                _ => code == Code::Trailing,
            };
            assert!(is_right, "byte {at} ^ {mask:#x}: {code}");
        }
    }
    for length in 0..good.len() {
        let code = refused(&gzip(&good[..length]));
        assert_eq!(code, Code::Tar, "cut at {length}");
    }
}

fn is_json(code: Code) -> bool {
    (Code::JsonBom..=Code::JsonDepth).contains(&code)
}

fn is_about_manifest(code: Code) -> bool {
    let of_the_manifest =
        [Code::Version, Code::Manifest, Code::Algorithms, Code::BundleId, Code::RunId, Code::Producer];
    let of_what_it_promises =
        [Code::EventCount, Code::FileSize, Code::FileHash, Code::RunRoot, Code::EventLimit];
    is_json(code) || of_the_manifest.contains(&code) || of_what_it_promises.contains(&code)
}

fn is_about_events(code: Code) -> bool {
    let of_events = [
        Code::Event,
        Code::Producer,
        Code::RunId,
        Code::Sequence,
        Code::EventId,
        Code::ContentHash,
        Code::FileHash,
        Code::LineEnd,
    ];
    is_json(code) || of_events.contains(&code)
}

#[test]
fn every_flip_of_a_header_with_a_healed_sum_is_a_stamp_or_refused() {
    let good = vector_tar();
    for at in 0..BLOCK {
        for mask in [0x01, 0x04, 0x80] {
            let mut bad = good.clone();
            bad[at] ^= mask;
            let mut header = Header::new_old();
            header.as_mut_bytes().copy_from_slice(&bad[..BLOCK]);
            header.set_cksum();
            bad[..BLOCK].copy_from_slice(header.as_bytes());
            let result = check(&gzip(&bad)).map_err(|failure| failure.code);
            let is_right = match at {
                0..100 => matches!(result, Err(Code::MemberName | Code::MemberOrder)),
                // The size: another number of bytes, or no number.
                124..136 => result.is_err(),
                // The field of the sum was healed.
                148..156 => result.is_ok(),
                156..257 => result == Err(Code::MemberType),
                345..500 => result == Err(Code::MemberName),
                _ => result.is_ok_and(|verified| verified.archive.is_restamped),
            };
            assert!(is_right, "byte {at} ^ {mask:#x}: {:?}", check(&gzip(&bad)));
        }
    }
}

/// A bundle of these lines whose outer hashes are right.
fn healed(lines: &[Vec<u8>]) -> Vec<u8> {
    let (mut root, mut bytes) = (RunRoot::default(), Vec::new());
    for line in lines {
        // As another program would find it: the text between the quotes.
        let text = String::from_utf8_lossy(line);
        let hash = text.split("\"assaycontenthash\":\"").nth(1).map_or("", |rest| &rest[..71]);
        // Without one, nobody gets as far as the root.
        root.add(&hash.parse().unwrap_or(Digest::of(b"")));
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    let manifest = manifest::to_json(&manifest::Facts {
        producer: "ours",
        producer_version: "0.1.0",
        run_id: "sandbox_0123456789abcdef",
        event_count: lines.len() as u64,
        run_root: root.finish(),
        events_sha256: Digest::of(&bytes),
        events_bytes: bytes.len() as u64,
    });
    write(Vec::new(), &manifest, bytes.len() as u64, |out| out.write_all(&bytes)).unwrap()
}

fn vector_lines() -> Vec<Vec<u8>> {
    VECTOR_EVENTS.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

#[test]
fn json_that_readers_would_read_differently_is_refused() {
    assert!(check(&healed(&vector_lines())).is_ok());
    let refused_with = |from: &str, to: &[u8]| {
        let mut lines = vector_lines();
        let line = String::from_utf8(lines[1].clone()).unwrap();
        let at = line.find(from).expect(from);
        lines[1] = [&line.as_bytes()[..at], to, &line.as_bytes()[at + from.len()..]].concat();
        refused(&healed(&lines))
    };
    let nested = |inner: &str, depth: usize| {
        format!("\"data\":{}{inner}{},\"was\":{{", "[".repeat(depth), "]".repeat(depth)).into_bytes()
    };
    let data = "\"data\":{";
    for depth in 0..62 {
        assert_eq!(refused_with(data, &nested("{\"a\":1,\"b\":2,\"a\":1}", depth)), Code::JsonDuplicateKey);
        assert_eq!(refused_with(data, &nested("{\"\\u0061\":1,\"a\":1}", depth)), Code::JsonDuplicateKey);
        assert_eq!(refused_with(data, &nested("\"\\ud800\"", depth)), Code::JsonSurrogate);
        assert_eq!(refused_with(data, &nested("{\"\\udc00\":1}", depth)), Code::JsonSurrogate);
        for float in ["1.0", "1e2", "-0", "0.1E-9"] {
            assert_eq!(refused_with(data, &nested(float, depth)), Code::JsonFloat);
        }
        for huge in ["9007199254740992", "-9007199254740992", "1234567890123456789012345678901234567890"] {
            assert_eq!(refused_with(data, &nested(huge, depth)), Code::JsonInteger);
        }
        for broken in ["nul", "'a'", "01", "\"\t\"", "NaN", "Infinity", "0x10", "/**/1", "[,]", "{\"a\"}"] {
            assert_eq!(refused_with(data, &nested(broken, depth)), Code::JsonSyntax, "{broken}");
        }
    }
    for depth in 64..200 {
        assert_eq!(refused_with(data, &nested("", depth)), Code::JsonDepth);
        assert_eq!(refused_with(data, &nested(&"{\"a\":".repeat(depth), 0)), Code::JsonDepth);
    }
    assert_eq!(refused_with("{\"assaycontenthash\"", b"\xef\xbb\xbf{\"assaycontenthash\""), Code::JsonBom);
    assert_eq!(refused_with("/tmp/x", b"/tmp/\xff"), Code::JsonEncoding);
    assert_eq!(refused_with("/tmp/x", b"/tmp/\xed\xa0\x80"), Code::JsonEncoding);
    assert_eq!(
        refused_with("{\"assaycontenthash\"", b"\n{\"assaycontenthash\""),
        Code::JsonSyntax,
        "an empty line"
    );
    assert_eq!(refused_with("{\"assaycontenthash\"", b"{}{\"assaycontenthash\""), Code::JsonSyntax);
    assert_eq!(refused_with("\"assayseq\":1", b"\"assayseq\":1,\"assayseq\":1"), Code::JsonDuplicateKey);
    assert_eq!(refused_with("\"assayseq\":1", b"\"assayseq\":10"), Code::Sequence);
    assert_eq!(refused_with("\"assayseq\":1", b"\"assayseq\":-1"), Code::Sequence);
    assert_eq!(refused_with("\"assayrunid\":\"sandbox_0", b"\"assayrunid\":\"sandbox_1"), Code::RunId);
    assert_eq!(refused_with("\"id\":\"sandbox_0", b"\"id\":\"sandbox_1"), Code::EventId);
    assert_eq!(refused_with("sha256:f67b", b"sha256:f67c"), Code::ContentHash);
    assert_eq!(refused_with("sha256:f67b", b"sha256:F67B"), Code::ContentHash);
}

#[test]
fn lines_doubled_swapped_or_taken_out_are_refused() {
    let lines = vector_lines();
    for at in 0..lines.len() {
        let mut doubled = lines.clone();
        doubled.insert(at, lines[at].clone());
        assert_eq!(refused(&healed(&doubled)), Code::Sequence);
        for other in 0..at {
            let mut swapped = lines.clone();
            swapped.swap(at, other);
            assert_eq!(refused(&healed(&swapped)), Code::Sequence);
        }
        if at + 1 < lines.len() {
            let mut fewer = lines.clone();
            fewer.remove(at);
            assert_eq!(refused(&healed(&fewer)), Code::Sequence);
        }
    }
}

#[test]
fn a_last_line_without_an_end_is_refused() {
    let events = &VECTOR_EVENTS[..VECTOR_EVENTS.len() - 1];
    let bundle =
        write(Vec::new(), VECTOR_MANIFEST, events.len() as u64, |out| out.write_all(events)).unwrap();
    assert_eq!(refused(&bundle), Code::LineEnd);
}

#[test]
fn an_error_of_the_source_is_told_as_such() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk \x1b[31m is gone"))
        }
    }
    let failure = verify(Broken, Limits::FORMAT, |_, _| {}).unwrap_err();
    assert_eq!(failure.code, Code::Read);
    assert_eq!(failure.detail, "the disk \\x1b[31m is gone");
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        assert!(check(&bytes).is_err());
        assert!(check(&gzip(&bytes)).is_err());
        assert!(check(&gzip(&tar(&[plain(MANIFEST, &bytes), plain(EVENTS, VECTOR_EVENTS)]))).is_err());
        assert!(check(&gzip(&tar(&[plain(MANIFEST, VECTOR_MANIFEST), plain(EVENTS, &bytes)]))).is_err());
    }

    #[test]
    fn several_flips_are_refused_too(flips in proptest::collection::vec((0usize..5632, 1u8..), 1..8)) {
        let mut bad = vector_tar();
        for (at, mask) in flips {
            bad[at] ^= mask;
        }
        proptest::prop_assert!(bad == vector_tar() || check(&gzip(&bad)).is_err());
    }
}
