//! What can be done to the archive: its bytes, its members, what stands around them, and what it claims.

use super::{
    ANY, EVENTS, MANIFEST, OF_EVENTS, OF_MANIFEST, OF_TAR, Put, gzip, lines, member, of_line, pack, plain,
    replaced, tar,
};

/// Every byte of the tar, and every byte of the gzip around it.
pub fn flipped(put: &mut Put<'_>) {
    let good = tar(&[plain("manifest.json", MANIFEST), plain("events.ndjson", EVENTS)]);
    let events_header = 512 + MANIFEST.len().next_multiple_of(512);
    let (events, end) = (events_header + 512, events_header + 512 + EVENTS.len());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        let codes = match at {
            // The sum has more than one spelling: a space for its leading zero, and two ways to end.
            _ if [148, 154, 155].contains(&(at % events_header)) && at <= events => continue,
            _ if at < 512 || (events_header..events).contains(&at) => OF_TAR,
            _ if at < 512 + MANIFEST.len() => OF_MANIFEST,
            _ if at < events_header => &["trailing"],
            _ if at < end => OF_EVENTS,
            _ => &["trailing", "member-order"],
        };
        put(format!("byte {at} of the tar flipped"), gzip(&bad), codes);
    }
    let good = gzip(&good);
    for at in (0..good.len()).filter(|at| !(3..10).contains(at)) {
        let mut bad = good.clone();
        // All bits: a single one may only choose another spelling of the same bytes.
        bad[at] ^= 0xff;
        let codes: &[&str] = if at < 10 || at + 8 >= good.len() { &["gzip"] } else { ANY };
        put(format!("byte {at} of the gzip flipped"), bad, codes);
    }
    // Reserved flags, and flags that announce what is not there.
    for bit in [1, 2, 3, 4, 5, 6, 7] {
        let mut bad = good.clone();
        bad[3] |= 1 << bit;
        put(format!("flag {bit} of the gzip set"), bad, ANY);
    }
}

pub fn cut(put: &mut Put<'_>) {
    let tar = tar(&[plain("manifest.json", MANIFEST), plain("events.ndjson", EVENTS)]);
    let whole = gzip(&tar);
    for length in 0..whole.len() {
        put(format!("the gzip cut at {length}"), whole[..length].to_vec(), &["gzip"]);
    }
    for length in (0..tar.len()).step_by(13) {
        put(format!("the tar cut at {length}"), gzip(&tar[..length]), OF_TAR);
    }
}

pub fn members(put: &mut Put<'_>) {
    let manifest = || plain("manifest.json", MANIFEST);
    let events = || plain("events.ndjson", EVENTS);
    let mut both = |what: &str, members: &[Vec<u8>], codes| put(what.to_owned(), gzip(&tar(members)), codes);
    both("no member", &[], &["member-order"]);
    both("no events", &[manifest()], &["member-order"]);
    both("no manifest", &[events()], &["member-order"]);
    both("swapped", &[events(), manifest()], &["member-order"]);
    both("manifest twice", &[manifest(), manifest(), events()], &["member-order"]);
    both("events twice", &[manifest(), events(), events()], &["member-order"]);
    both("both twice", &[manifest(), events(), manifest(), events()], &["member-order"]);
    both("one more behind", &[manifest(), events(), plain("x", b"x")], &["member-order"]);
    both("one more between", &[manifest(), plain("x", b"x"), events()], &["member-name"]);
    both("one more before", &[plain("x", b"x"), manifest(), events()], &["member-name"]);
    let long = "a/".repeat(49);
    for name in [
        "",
        ".",
        "..",
        "/",
        "./manifest.json",
        "/manifest.json",
        "//manifest.json",
        "../manifest.json",
        "a/../manifest.json",
        "manifest.json/",
        "manifest.json/.",
        "a/manifest.json",
        "Manifest.json",
        "MANIFEST.JSON",
        "manifest.jso",
        "manifest.json ",
        " manifest.json",
        "manifest.json\n",
        "manifest.json\0x",
        "manifest.json\\",
        "C:\\manifest.json",
        "\\\\host\\manifest.json",
        "/etc/passwd",
        "../../../../etc/passwd",
        "manifest\u{2024}json",
        "manifest.json\u{202e}",
        "\u{1b}[2J",
        &long,
    ] {
        both(&format!("manifest named {name:?}"), &[plain(name, MANIFEST), events()], &["member-name"]);
        let name = name.replace("manifest", "events").replace("json", "ndjson");
        both(&format!("events named {name:?}"), &[manifest(), plain(&name, EVENTS)], &["member-name"]);
    }
    for prefix in ["x", "/", "..", "/etc", "./"] {
        let prefixed = |name: &[u8], bytes: &[u8]| {
            member(name, bytes, |header| header[345..345 + prefix.len()].copy_from_slice(prefix.as_bytes()))
        };
        let name = |text: &str| format!("a prefix {prefix:?} before the {text}");
        both(&name("manifest"), &[prefixed(b"manifest.json", MANIFEST), events()], &["member-name"]);
        both(&name("events"), &[manifest(), prefixed(b"events.ndjson", EVENTS)], &["member-name"]);
    }
    for target in ["x", "/etc/passwd", "manifest.json"] {
        for kind in [b'0', b'1', b'2'] {
            let link = |name: &[u8], bytes: &[u8]| {
                member(name, bytes, |header| {
                    header[156] = kind;
                    header[157..157 + target.len()].copy_from_slice(target.as_bytes());
                })
            };
            let what = format!("of type {} and linked to {target}", char::from(kind));
            both(&what, &[link(b"manifest.json", MANIFEST), events()], &["member-type"]);
            both(&what, &[link(b"manifest.json", b""), events()], &["member-type"]);
            both(&what, &[manifest(), link(b"events.ndjson", EVENTS)], &["member-type"]);
            both(&what, &[manifest(), events(), link(b"events.ndjson", b"")], &["member-order"]);
        }
    }
}

pub fn sizes(put: &mut Put<'_>) {
    let manifest = || plain("manifest.json", MANIFEST);
    let events = || plain("events.ndjson", EVENTS);
    let mut both = |what: &str, members: &[Vec<u8>], codes| put(what.to_owned(), gzip(&tar(members)), codes);
    for size in [
        "77777777777\0",
        "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}",
        "-0000000001\0",
        "0000000000x\0",
        "00000004574,",
        " 0000004574\0",
        "0x000000974\0",
        "+0000004574\0",
        "00000000000\0",
        "00000004573\0",
        "00000004575\0",
        "00000010000\0",
        "00010000000\0",
        "10000000001\0",
        "7777777777777",
    ] {
        let sized = |name: &[u8], bytes: &[u8]| {
            member(name, bytes, |header| header[124..136].copy_from_slice(&size.as_bytes()[..12]))
        };
        both(&format!("manifest of size {size:?}"), &[sized(b"manifest.json", MANIFEST), events()], ANY);
        if size.trim_matches(['\0', ' ']) != "0000004574" {
            both(&format!("events of size {size:?}"), &[manifest(), sized(b"events.ndjson", EVENTS)], ANY);
        }
    }
    let binary = |high: u8, low: u8| {
        member(b"events.ndjson", EVENTS, |header| {
            header[124..136].fill(high);
            header[124] = 0x80 | (high & 0x7f);
            header[134..136].copy_from_slice(&[9, low]);
        })
    };
    both("a size in GNU's binary form", &[manifest(), binary(0, 0x7c)], OF_TAR);
    both("a negative size in GNU's binary form", &[manifest(), binary(0xff, 0x7c)], OF_TAR);
}

/// Extended headers, which other readers of tar believe: long names, other paths, other sizes, holes.
pub fn extended(put: &mut Put<'_>) {
    let manifest = || plain("manifest.json", MANIFEST);
    let events = || plain("events.ndjson", EVENTS);
    let pax = |record: &str| {
        let mut length = record.len() + 3;
        length += usize::from(length > 9) + usize::from(length > 98);
        format!("{length} {record}\n")
    };
    let of_type =
        |kind: u8, name: &str, bytes: &[u8]| member(name.as_bytes(), bytes, |header| header[156] = kind);
    for record in [
        "path=manifest.json",
        "path=../../etc/passwd",
        "path=/etc/passwd",
        "linkpath=/etc/passwd",
        "size=0",
        "size=1",
        "size=9223372036854775807",
        "size=-1",
        "GNU.sparse.major=1",
        "GNU.sparse.minor=0",
        "GNU.sparse.name=events.ndjson",
        "GNU.sparse.realsize=1099511627776",
        "GNU.sparse.map=0,1,1048576,1",
        "GNU.sparse.numblocks=1",
        "SCHILY.xattr.security.capability=x",
        "hdrcharset=BINARY",
        "charset=ISO-IR 8859 1",
        "comment=x",
        "mtime=1",
        "x=\n9 y=1",
    ] {
        for kind in *b"xgX" {
            let header = || of_type(kind, "PaxHeaders/x", pax(record).as_bytes());
            let what = |place: &str| format!("a pax header {} {place}: {record}", char::from(kind));
            put(what("before"), gzip(&tar(&[header(), manifest(), events()])), &["member-type"]);
            put(what("between"), gzip(&tar(&[manifest(), header(), events()])), &["member-type"]);
            put(what("behind"), gzip(&tar(&[manifest(), events(), header()])), &["member-order"]);
        }
    }
    for kind in *b"LK" {
        for name in ["manifest.json\0", "../../x\0", &("x/".repeat(5000) + "\0")] {
            let long = || of_type(kind, "././@LongLink", name.as_bytes());
            let what = format!("a long name {} of {} bytes", char::from(kind), name.len());
            put(what.clone(), gzip(&tar(&[long(), plain("x", MANIFEST), events()])), &["member-type"]);
            put(what, gzip(&tar(&[manifest(), long(), plain("x", EVENTS)])), &["member-type"]);
        }
    }
    for kind in (0..=255u8).filter(|kind| !matches!(kind, 0 | b'0')) {
        put(
            format!("manifest of type {kind}"),
            gzip(&tar(&[of_type(kind, "manifest.json", MANIFEST), events()])),
            &["member-type"],
        );
        put(
            format!("events of type {kind}"),
            gzip(&tar(&[manifest(), of_type(kind, "events.ndjson", EVENTS)])),
            &["member-type"],
        );
    }
    // A file with holes as old GNU tar writes it, whose map claims a terabyte.
    let sparse = member(b"events.ndjson", EVENTS, |header| {
        header[156] = b'S';
        header[257..265].copy_from_slice(b"ustar  \0");
        header[386..398].copy_from_slice(b"00000000000\0");
        header[398..410].copy_from_slice(b"00000004574\0");
        header[483..495].copy_from_slice(b"77777777777\0");
    });
    put("a file with holes".into(), gzip(&tar(&[manifest(), sparse])), &["member-type"]);
}

/// What may stand around, before and behind the one gzip member.
pub fn streams(put: &mut Put<'_>) {
    let tar = tar(&[plain("manifest.json", MANIFEST), plain("events.ndjson", EVENTS)]);
    let good = gzip(&tar);
    for (what, behind) in [
        ("a byte", &b"x"[..]),
        ("a zero", b"\0"),
        ("a record of zeros", &[0; 10240]),
        ("a line feed", b"\n"),
        ("itself", &good),
        ("an empty gzip", &gzip(b"")),
        ("a gzip of zeros", &gzip(&[0; 1024])),
        ("half a header", b"\x1f\x8b"),
    ] {
        put(format!("{what} behind the gzip"), [&good[..], behind].concat(), &["trailing"]);
        put(
            format!("{what} before the gzip"),
            [behind, &good[..]].concat(),
            &["gzip", "tar", "trailing", "member-order"],
        );
    }
    for at in (1..tar.len()).step_by(512) {
        put(
            format!("two gzip members, from {at} on"),
            [gzip(&tar[..at]), gzip(&tar[at..])].concat(),
            &["tar", "trailing"],
        );
    }
    for (what, behind) in [
        ("a byte", &b"x"[..]),
        ("a zero", b"\0"),
        ("a member", &plain("x", b"x")),
        ("half a block of zeros", &[0; 256]),
    ] {
        put(format!("{what} behind the tar"), gzip(&[&tar[..], behind].concat()), &["trailing"]);
    }
    put("no gzip".into(), tar.clone(), &["gzip"]);
    put("JSON".into(), MANIFEST.to_vec(), &["gzip"]);
    put("zlib".into(), [b"\x78\x9c", &good[10..good.len() - 8]].concat(), &["gzip"]);
    put("bare deflate".into(), good[10..good.len() - 8].to_vec(), &["gzip"]);
    for (what, magic) in [
        ("zip", &b"PK\x03\x04"[..]),
        ("zstd", b"\x28\xb5\x2f\xfd"),
        ("xz", b"\xfd7zXZ\0"),
        ("bzip2", b"BZh9"),
        ("lz4", b"\x04\x22\x4d\x18"),
    ] {
        put(format!("the magic of {what}"), [magic, &good[..]].concat(), &["gzip"]);
    }
    // A name or a comment that never ends, and an extra field longer than the file.
    for (flag, byte) in [(0x08, b'n'), (0x10, b'c'), (0x04, 0xff)] {
        let mut endless = good[..10].to_vec();
        endless[3] = flag;
        endless.resize(1 << 20, byte);
        put(format!("a header of flag {flag:#x} that does not end"), endless, &["gzip"]);
    }
}

pub fn bombs(put: &mut Put<'_>) {
    let header = |size: u64| {
        let mut tar = plain("manifest.json", MANIFEST);
        tar.extend(member(b"events.ndjson", b"", |header| {
            header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
        }));
        tar
    };
    for byte in [0, b' ', b'[', b'{', b'"', b'x', 0xff] {
        let mut tar = header(64 << 20);
        tar.resize(tar.len() + (2 << 20), byte);
        put(format!("a line of 2 MiB of {byte:#x}"), gzip(&tar), &["line-limit"]);
        let mut tar = header((1 << 30) + 1);
        tar.resize(tar.len() + 4096, byte);
        put(format!("a size beyond 1 GiB, {byte:#x}"), gzip(&tar), &["decoded-limit"]);
    }
    let mut tar = header(64 << 20);
    tar.resize(tar.len() + (2 << 20), b'\n');
    put("two million empty lines".into(), gzip(&tar), &["json-syntax"]);
    for (what, manifest) in [("spaces", vec![b' '; (1 << 20) + 1]), ("brackets", vec![b'['; 2 << 20])] {
        put(format!("a manifest of too many {what}"), pack(&manifest, EVENTS), &["line-limit"]);
    }
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        for depth in [64, 65, 100, 1000, 100_000] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let codes: &[&str] = &["json-depth"];
            let line = replaced(&lines()[1], "\"data\":", &format!("\"data\":{deep},\"deta\":"));
            put(format!("{depth} times {open}"), of_line(1, line), codes);
            if depth > 64 {
                put(format!("a manifest of {depth} times {open}"), pack(deep.as_bytes(), EVENTS), codes);
            }
            put(
                format!("{depth} times {open}, open"),
                of_line(1, open.repeat(depth + 1).into_bytes()),
                codes,
            );
        }
    }
    // A line of very many keys, in the worst order, the first one again at the end.
    let keys: Vec<String> = (0..40_000).rev().map(|n| format!("\"k{n:05}\":0")).collect();
    let line = replaced(&lines()[1], "\"data\":{", &format!("\"data\":{{{},\"k39999\":0,", keys.join(",")));
    put("forty thousand keys".into(), of_line(1, line), &["json-duplicate-key"]);
    put(
        "a count of events beyond the limit".into(),
        pack(&replaced(MANIFEST, "\"event_count\":5", "\"event_count\":2000001"), EVENTS),
        &["event-limit"],
    );
}
