use super::*;

/// The message of RFC 9001, A.2, in its frame: it asks for `example.com`.
const FRAME: &str = "\
     060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302\
     010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d001700180010000700050461\
     6c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e9\
     94ec74d748002b0003020304000d0010000e0403050306030203080408050806002d00020101001c000240010039003204\
     08ffffffffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff";
/// The id of all examples.
const ID: &str = "8394c8f03e515708";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The frames of the example, padded as there.
fn example() -> Vec<u8> {
    let mut plain = bytes(FRAME);
    plain.resize(1162, 0);
    plain
}

/// A packet of a client with these frames, its number in four bytes.
fn seal(version: &Version, id: &[u8], number: u32, plain: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc3 | version.initial];
    packet.extend((version.number as u32).to_be_bytes());
    packet.push(id.len() as u8);
    packet.extend(id);
    packet.extend([0, 0]);
    packet.extend((0x4000 | (plain.len() + 4 + 16) as u16).to_be_bytes());
    let at = packet.len();
    packet.extend(number.to_be_bytes());
    let secret = client_secret(version, id);
    let mut nonce: [u8; 12] = expand(&secret, version.iv);
    nonce[8..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, with)| *byte ^= with);
    let key = Aes128Gcm::new(&expand::<16>(&secret, version.key).into());
    let sealed = key.encrypt(&nonce.into(), Payload { msg: plain, aad: &packet }).unwrap();
    packet.extend(sealed);
    let mut mask = <[u8; 16]>::try_from(&packet[at + 4..at + 20]).unwrap().into();
    Aes128::new(&expand::<16>(&secret, version.header).into()).encrypt_block(&mut mask);
    packet[0] ^= mask[0] & 0x0f;
    packet[at..at + 4].iter_mut().zip(&mask[1..]).for_each(|(byte, with)| *byte ^= with);
    packet
}

fn remote() -> SocketAddr {
    "203.0.113.1:443".parse().unwrap()
}

fn read(datagrams: &[Vec<u8>]) -> Vec<Option<String>> {
    let mut hellos = Hellos::default();
    datagrams.iter().map(|datagram| hellos.read(1, remote(), datagram)).collect()
}

/// A frame with a part of the example's message.
fn part(from: usize, to: usize) -> Vec<u8> {
    let message = &bytes(FRAME)[4..];
    let mut frame = vec![6];
    for number in [from, to - from] {
        frame.extend((0x4000 | number as u16).to_be_bytes());
    }
    frame.extend(&message[from..to]);
    frame
}

fn padded(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut plain = frames.concat();
    plain.resize(1162, 0);
    plain
}

#[test]
fn keys_are_those_of_the_standards_examples() {
    // RFC 9001, A.1, and RFC 9369, A.1.
    for (version, key, iv, header) in [
        (
            &VERSIONS[0],
            "1f369613dd76d5467730efcbe3b1a22d",
            "fa044b2f42a3fd3b46fb255c",
            "9f50449e04a0e810283a1e9933adedd2",
        ),
        (
            &VERSIONS[1],
            "8b1a0bc121284290a29e0971b5cd045d",
            "91f73e2351d8fa91660e909f",
            "45b95e15235d6f45a6b19cbcb0294ba9",
        ),
    ] {
        let secret = client_secret(version, &bytes(ID));
        assert_eq!(expand::<16>(&secret, version.key).to_vec(), bytes(key));
        assert_eq!(expand::<12>(&secret, version.iv).to_vec(), bytes(iv));
        assert_eq!(expand::<16>(&secret, version.header).to_vec(), bytes(header));
    }
}

#[test]
fn the_standards_examples_are_read() {
    // RFC 9001, A.2, and RFC 9369, A.2: what the packets begin with, and the tag over all of it, which they end with.
    for (version, begin, end) in [
        (
            &VERSIONS[0],
            "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
            "e221af44860018ab0856972e194cd934",
        ),
        (
            &VERSIONS[1],
            "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485",
            "a18b2faa745b6fe189cf772a9f84cbfc",
        ),
    ] {
        let packet = seal(version, &bytes(ID), 2, &example());
        assert_eq!(packet.len(), 1200);
        assert!(packet.starts_with(&bytes(begin)) && packet.ends_with(&bytes(end)));
        assert_eq!(read(&[packet]), [Some("example.com".into())]);
    }
}

#[test]
fn a_message_in_pieces_is_read_in_any_order_once_it_is_whole() {
    let version = &VERSIONS[0];
    let id = bytes(ID);
    let one = padded(&[part(100, 180), vec![1], part(0, 30), part(170, 200)]);
    let two = padded(&[part(30, 110), vec![2, 0, 0, 1, 0, 5, 5], part(199, 241)]);
    let packets = |order: [&Vec<u8>; 2]| {
        let numbers = 0..;
        order
            .into_iter()
            .zip(numbers)
            .map(|(plain, number)| seal(version, &id, number, plain))
            .collect::<Vec<_>>()
    };
    for order in [[&one, &two], [&two, &one]] {
        assert_eq!(read(&packets(order)), [None, Some("example.com".into())]);
        // In one datagram, too.
        assert_eq!(read(&[packets(order).concat()]), [Some("example.com".into())]);
    }
    // Sent again, nothing more is known.
    assert_eq!(read(&packets([&one, &one])), [None, None]);
    // The halves of two connections, or of two sockets, are no whole.
    let other = seal(version, &[7; 8], 0, &two);
    assert_eq!(read(&[seal(version, &id, 0, &one), other]), [None, None]);
    let mut hellos = Hellos::default();
    assert_eq!(hellos.read(1, remote(), &seal(version, &id, 0, &one)), None);
    assert_eq!(hellos.read(2, remote(), &seal(version, &id, 0, &two)), None);
}

#[test]
fn what_is_no_whole_packet_of_a_client_names_nothing() {
    let packet = seal(&VERSIONS[0], &bytes(ID), 2, &example());
    for at in 0..packet.len() {
        let mut changed = packet.clone();
        changed[at] ^= 1;
        assert_eq!(read(&[changed]), [None], "{at}");
        assert_eq!(read(&[packet[..at].to_vec()]), [None], "{at}");
    }
    // A frame that does not belong there: nobody knows what the server makes of it.
    let mut plain = example();
    plain[500] = 0x08;
    assert_eq!(read(&[seal(&VERSIONS[0], &bytes(ID), 2, &plain)]), [None]);
    // A message beyond any length.
    let far = [vec![6, 0x80, 0, 0x40, 0, 0x40, 1, 9], vec![0; 20]].concat();
    assert_eq!(read(&[seal(&VERSIONS[0], &bytes(ID), 2, &far)]), [None]);
}

#[test]
fn what_is_never_whole_is_forgotten() {
    let mut hellos = Hellos::default();
    for id in 0..10 * MAX_WAITING as u32 {
        assert_eq!(hellos.read_frames(1, remote(), &id.to_be_bytes(), &part(0, 30)), None);
        assert!(hellos.waiting.len() <= MAX_WAITING);
    }
    for at in 1..2000 {
        assert_eq!(
            hellos.read_frames(1, remote(), b"one", &part(at % 200 + 1, at % 200 + 2 + at % 40)),
            None
        );
    }
    let held: usize = hellos.waiting.values().flatten().map(|piece| piece.bytes.len()).sum();
    assert!(held <= MAX_WAITING * 30 + MAX_HELLO, "{held}");
    let plain = example();
    assert_eq!(hellos.read_frames(1, remote(), b"another", &plain), Some("example.com".into()));
}
