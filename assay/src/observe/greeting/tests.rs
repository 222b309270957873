use super::*;

/// What OpenSSL 3 sends to `Registry.Example.org`.
const HELLO: &str = "\
     1603010200010001fc0303fb828d54778f0078134a88b887bdf83d0e19287ab04c1064ae6fbccd0680dd19209825a64f\
     6d4a81148fd8e5c4a567f80109c7cbb9735d5dae8befeb55ae4b84a50024130213031301c02cc030c02bc02fcca9cca8\
     c024c028c023c027009f009e006b006700ff0100018f00000019001700001452656769737472792e4578616d706c652e\
     6f7267000b000403000102000a00160014001d0017001e00190018010001010102010301040023000000160000001700\
     00000d002a0028040305030603080708080809080a080b08040805080604010501060103030301030204020502060200\
     2b00050403040303002d00020101003300260024001d002051939da1882d836d0673651e24e0d9bcfb81e32cc60ad047\
     1f0f6724ea94ab24001500d9000000000000000000000000000000000000000000000000000000000000000000000000\
     000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     00000000000000000000000000000000000000000000000000000000000000000000000000\
";

fn hello() -> Vec<u8> {
    (0..HELLO.len()).step_by(2).map(|at| u8::from_str_radix(&HELLO[at..at + 2], 16).unwrap()).collect()
}

fn check(bytes: &[u8], want: Option<(&str, NameSource)>) {
    let want = want.map(|(host, from)| (host.to_owned(), from));
    assert_eq!(read_greeting(bytes), want, "{}", bytes.escape_ascii());
}

fn tls(message: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = message;
    for len in cuts.iter().copied().chain([usize::MAX]) {
        let (part, behind) = rest.split_at(len.min(rest.len()));
        bytes.extend([HANDSHAKE, 3, 1]);
        bytes.extend((part.len() as u16).to_be_bytes());
        bytes.extend(part);
        rest = behind;
    }
    bytes
}

/// A hello with these extensions, each a kind and its bytes.
fn hello_with(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut all = Vec::new();
    for (kind, bytes) in extensions {
        all.extend(kind.to_be_bytes());
        all.extend((bytes.len() as u16).to_be_bytes());
        all.extend(bytes);
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend((all.len() as u16).to_be_bytes());
    body.extend(all);
    let mut message = vec![CLIENT_HELLO, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    message
}

fn names(entries: &[(u8, &[u8])]) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, name) in entries {
        list.push(*kind);
        list.extend((name.len() as u16).to_be_bytes());
        list.extend(*name);
    }
    let mut bytes = (list.len() as u16).to_be_bytes().to_vec();
    bytes.extend(list);
    bytes
}

#[test]
fn a_real_hello_however_it_is_cut_into_records() {
    let hello = hello();
    let want = Some(("registry.example.org", NameSource::Tls));
    check(&hello, want);
    for cut in [1, 4, 40, 100, 200] {
        check(&tls(&hello[5..], &[cut, 1, 0, 3]), want);
    }
    // What is missing gives nothing, and never another name.
    for len in 0..hello.len() {
        let read = read_greeting(&hello[..len]);
        assert!(read.is_none() || read == read_greeting(&hello), "{len}");
    }
}

#[test]
fn a_server_is_called_by_one_plain_name_or_not_at_all() {
    let of = |entries: &[(u8, &[u8])]| tls(&hello_with(&[(0, names(entries)), (43, vec![2, 3, 4])]), &[]);
    let tls_says = |name| Some((name, NameSource::Tls));
    check(&of(&[(0, b"a.test")]), tls_says("a.test"));
    check(&of(&[(0, b"A.Test.")]), tls_says("a.test"));
    check(&of(&[(0, b"xn--bcher-kva.test")]), tls_says("xn--bcher-kva.test"));
    check(&of(&[(0, b"")]), None);
    check(&of(&[(1, b"a.test")]), None);
    check(&of(&[(0, b"a.test"), (0, b"b.test")]), None);
    check(&of(&[(0, b"10.0.0.1")]), None);
    check(&of(&[(0, b"a..test")]), None);
    check(&of(&[(0, b"a.test\n")]), None);
    check(&of(&[(0, "b\u{fc}cher.test".as_bytes())]), None);
    check(&of(&[(0, &[b'a'; 300])]), None);
    let twice = [(0, names(&[(0, b"a.test")])), (0, names(&[(0, b"b.test")]))];
    check(&tls(&hello_with(&twice), &[]), None);
    let mut server = hello_with(&[(0, names(&[(0, b"a.test")]))]);
    server[0] = 2;
    check(&tls(&server, &[]), None);
}

#[test]
fn a_request_is_made_to_its_host_unless_a_proxy_is_asked() {
    let http_says = |name| Some((name, NameSource::Http));
    check(b"GET / HTTP/1.1\r\nhost: A.test:8080\r\n\r\n", http_says("a.test"));
    check(b"POST /x HTTP/1.1\r\nX: y\r\nHost:  a.test \r\n\r\nbody", http_says("a.test"));
    check(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", http_says("localhost"));
    check(b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", None);
    check(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", None);
    check(b"GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", None);
    check(b"GET / HTTP/1.1\r\nHost: a.test\r\n", None);
    check(b"GET / HTTP/1.1\r\nHost: 10.0.0.1:80\r\n\r\n", None);
    check(b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", None);
    check(b"GET / HTTP/1.1\r\nHost: a.test:x\r\n\r\n", None);
    check(b"GET / HTTP/1.0\r\n\r\n", None);
    check(b"SSH-2.0-x\r\n", None);
    check(b"HTTP/1.1 200 OK\r\nHost: a.test\r\n\r\n", None);
    check(b"", None);
}
