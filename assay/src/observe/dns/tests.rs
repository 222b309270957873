use super::*;

/// A message under construction, byte by byte: what we did not write has to be read.
struct Bytes(Vec<u8>);

const QUERY: u16 = 0x0100;
const ANSWER: u16 = 0x8180;
const A_TYPE: u16 = 1;
const CNAME_TYPE: u16 = 5;
const AAAA_TYPE: u16 = 28;

impl Bytes {
    fn message(flags: u16, question: &str, answers: u16) -> Self {
        let mut bytes = Self(Vec::new());
        for word in [7, flags, 1, answers, 0, 0] {
            bytes.word(word);
        }
        bytes.name(question).word(A_TYPE).word(1);
        bytes
    }

    fn word(&mut self, word: u16) -> &mut Self {
        self.0.extend(word.to_be_bytes());
        self
    }

    fn name(&mut self, name: &str) -> &mut Self {
        for label in name.split('.').filter(|label| !label.is_empty()) {
            self.0.push(label.len() as u8);
            self.0.extend(label.as_bytes());
        }
        self.0.push(0);
        self
    }

    /// A record whose owner is a pointer.
    fn at(&mut self, pointer: u16, rtype: u16, data: &[u8]) -> &mut Self {
        self.word(0xc000 | pointer).rest(rtype, data)
    }

    fn named(&mut self, owner: &str, rtype: u16, data: &[u8]) -> &mut Self {
        self.name(owner).rest(rtype, data)
    }

    fn rest(&mut self, rtype: u16, data: &[u8]) -> &mut Self {
        self.word(rtype).word(1).word(0).word(60).word(data.len() as u16);
        self.0.extend(data);
        self
    }
}

fn addresses(list: &[&str]) -> BTreeSet<IpAddr> {
    list.iter().map(|address| address.parse().unwrap()).collect()
}

fn wire(name: &str) -> Vec<u8> {
    let mut bytes = Bytes(Vec::new());
    bytes.name(name);
    bytes.0
}

#[test]
fn a_name_has_the_addresses_of_its_answer() {
    let mut message = Bytes::message(ANSWER, "API.Example.test", 3);
    message.at(12, A_TYPE, &[10, 0, 0, 1]).at(12, A_TYPE, &[10, 0, 0, 2]);
    message.at(12, AAAA_TYPE, &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let answer = read_answer(&message.0).unwrap();
    assert_eq!(answer.host, "api.example.test");
    assert_eq!(answer.addresses, addresses(&["10.0.0.1", "10.0.0.2", "fd00::9"]));
}

#[test]
fn other_names_are_followed_and_strangers_are_not() {
    let mut message = Bytes::message(ANSWER, "a.test", 4);
    message.named("c.test", A_TYPE, &[10, 0, 0, 3]);
    message.named("b.test", CNAME_TYPE, &wire("C.TEST")).at(12, CNAME_TYPE, &wire("b.test"));
    message.named("stranger.test", A_TYPE, &[10, 6, 6, 6]);
    let answer = read_answer(&message.0).unwrap();
    assert_eq!((answer.host.as_str(), answer.addresses), ("a.test", addresses(&["10.0.0.3"])));
}

#[test]
fn what_is_no_answer_gives_nothing() {
    let address = [10, 0, 0, 1];
    let refused = |flags| {
        let mut message = Bytes::message(flags, "a.test", 1);
        message.at(12, A_TYPE, &address);
        read_answer(&message.0)
    };
    assert!(refused(ANSWER).is_ok());
    assert_eq!(refused(QUERY), Err(NoAnswer::Other));
    assert_eq!(refused(ANSWER | 3), Err(NoAnswer::Other), "a name that is not there");
    assert_eq!(refused(ANSWER | 0x2800), Err(NoAnswer::Other), "an update");
    // An address of three bytes, another class, a loop of names.
    let mut message = Bytes::message(ANSWER, "a.test", 1);
    message.at(12, A_TYPE, &address[..3]);
    assert!(read_answer(&message.0).is_err());
    let mut message = Bytes::message(ANSWER, "a.test", 2);
    message.at(12, CNAME_TYPE, &wire("b.test")).named("b.test", CNAME_TYPE, &wire("a.test"));
    assert_eq!(read_answer(&message.0), Err(NoAnswer::Other));
    let mut message = Bytes::message(ANSWER, "a.test", 1);
    // A pointer to itself.
    let own = message.0.len() as u16;
    message.at(own, A_TYPE, &address);
    assert_eq!(read_answer(&message.0), Err(NoAnswer::Malformed));
}

#[test]
fn bytes_that_no_host_has_are_written_out() {
    let mut message = Bytes(Vec::new());
    for word in [7, ANSWER, 1, 1, 0, 0] {
        message.word(word);
    }
    message.0.extend(b"\x05a.b,\n\x04test\0");
    message.word(A_TYPE).word(1).at(12, A_TYPE, &[10, 0, 0, 1]);
    assert_eq!(read_answer(&message.0).unwrap().host, r"a\x2eb\x2c\x0a.test");
}

#[test]
fn damaged_answers_never_panic_and_never_grow() {
    let mut message = Bytes::message(ANSWER, "a.test", 3);
    message.at(12, CNAME_TYPE, &wire("b.test")).named("b.test", A_TYPE, &[10, 0, 0, 1]);
    message.named("b.test", AAAA_TYPE, &[7; 16]);
    let whole = message.0;
    for end in 0..whole.len() {
        assert!(read_answer(&whole[..end]).is_err(), "{end} bytes");
        for value in [0, 0x3f, 0xc0, 0xff, whole[end] ^ 1] {
            let mut bytes = whole.clone();
            bytes[end] = value;
            if let Ok(answer) = read_answer(&bytes) {
                assert!(answer.addresses.len() <= 2 && answer.host.len() <= 4 * 255, "{answer:?}");
            }
        }
    }
}
