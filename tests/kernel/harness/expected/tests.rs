//! Listings as strace writes them, and what a trace must hold for them.

use super::super::strace::events;
use super::*;

fn check(listing: &str, expect: &[&str]) {
    let events = events(listing).expect("a listing");
    let all = expected(&events, b"/not-there").expect("calls that are understood");
    let told: Vec<String> = all.iter().map(tell).collect();
    assert_eq!(told, expect);
}

fn tell(one: &Expected) -> String {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let mut words = vec![one.tid.to_string(), one.op.to_owned()];
    words.extend(one.path.first().map(|path| text(path)));
    words.extend(one.to.first().map(|path| format!("-> {}", text(path))));
    words.extend(one.proto.clone());
    words.extend(match &one.endpoint {
        Endpoint::Any => None,
        Endpoint::Inet(address) => Some(address.to_string()),
        Endpoint::Path(paths) => Some(text(&paths[0])),
        Endpoint::Abstract(name) => Some(format!("@{}", text(name))),
    });
    words.extend(one.access.iter().flatten().map(ToString::to_string));
    words.push(one.result.clone());
    words.join(" ")
}

#[test]
fn an_open_goes_where_the_descriptor_leads() {
    check(
        "7 openat(AT_FDCWD</not-there>, \"a\", O_RDWR|O_CREAT|O_APPEND, 0666) = 3</real/a>\n\
         7 openat(AT_FDCWD</not-there>, \"../b\", O_RDONLY) = -1 ENOENT (No such file or directory)\n\
         7 openat(AT_FDCWD</not-there>, \"c\", O_PATH|O_CLOEXEC) = 4</not-there/c>\n\
         7 openat2(3</x>, \"d\", {flags=O_WRONLY|O_TRUNC, mode=0}, 24) = 5</x/d>\n",
        &[
            "7 open /real/a append read write ok",
            "7 open /b ENOENT",
            "7 open /not-there/c ok",
            "7 open /x/d truncate write ok",
        ],
    );
}

#[test]
fn a_relative_name_starts_where_its_process_stands() {
    check(
        "7 chdir(\"sub\") = 0\n\
         7 unlink(\"a\") = 0\n\
         8 mkdir(\"b\", 0777) = 0\n\
         7 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 8\n\
         7 chdir(\"/elsewhere\") = 0\n\
         8 rmdir(\"b\") = 0\n\
         7 rmdir(\"c\") = -1 ENOENT (No such file or directory)\n",
        &[
            "7 chdir /not-there/sub ok",
            "7 unlink /not-there/sub/a ok",
            "8 mkdir /not-there/sub/b ok",
            "7 chdir /elsewhere ok",
            "8 rmdir /not-there/sub/b ok",
            "7 rmdir /elsewhere/c ENOENT",
        ],
    );
}

#[test]
fn threads_share_where_they_stand() {
    check(
        "7 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, exit_signal=0} => {parent_tid=[8]}, 88) = 8\n\
         8 chdir(\"/x\") = 0\n\
         7 unlink(\"a\") = 0\n",
        &["8 chdir /x ok", "7 unlink /x/a ok"],
    );
}

#[test]
fn two_names_and_descriptors() {
    check(
        "7 renameat2(AT_FDCWD</w>, \"q\", 5</v>, \"r\", RENAME_NOREPLACE) = 0\n\
         7 linkat(AT_FDCWD</w>, \"a\", AT_FDCWD</w>, \"b\", 0) = -1 EEXIST (File exists)\n\
         7 symlinkat(\"some/text\", AT_FDCWD</w>, \"l\") = 0\n\
         7 ftruncate(3</w/f>, 0) = 0\n\
         7 utimensat(3</w/f>, NULL, NULL, 0) = 0\n\
         7 unlinkat(4</w/d>, \"e\", AT_REMOVEDIR) = 0\n\
         7 fchownat(4</w/d>, \"\", 0, 0, AT_EMPTY_PATH) = 0\n",
        &[
            "7 rename /w/q -> /v/r ok",
            "7 link /w/a -> /w/b EEXIST",
            "7 symlink /w/l -> some/text ok",
            "7 truncate /w/f ok",
            "7 utimens /w/f ok",
            "7 rmdir /w/d/e ok",
            "7 chown /w/d ok",
        ],
    );
}

#[test]
fn sockets_are_told_by_what_they_are() {
    check(
        "7 socket(AF_INET6, SOCK_DGRAM|SOCK_CLOEXEC, IPPROTO_IP) = 3<socket:[40]>\n\
         7 sendto(3<socket:[40]>, \"x\", 1, 0, {sa_family=AF_INET6, sin6_port=htons(99), sin6_flowinfo=htonl(0), \
         inet_pton(AF_INET6, \"::ffff:127.0.0.1\", &sin6_addr), sin6_scope_id=0}, 28) = 1\n\
         7 sendto(3<socket:[40]>, \"x\", 1, 0, NULL, 0) = 1\n\
         7 socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 4<socket:[41]>\n\
         7 connect(4<socket:[41]>, {sa_family=AF_INET, sin_port=htons(1), sin_addr=inet_addr(\"127.0.0.1\")}, 16) = -1 \
         ECONNREFUSED (Connection refused)\n\
         7 socket(AF_UNIX, SOCK_STREAM, 0) = 5<socket:[42]>\n\
         7 bind(5<socket:[42]>, {sa_family=AF_UNIX, sun_path=\"s\"}, 110) = 0\n\
         7 listen(5<socket:[42]>, 5) = 0\n\
         7 connect(6<socket:[43]>, {sa_family=AF_UNIX, sun_path=@\"abc\"}, 6) = 0\n\
         7 socket(AF_NETLINK, SOCK_RAW|SOCK_CLOEXEC, NETLINK_ROUTE) = 7<socket:[44]>\n\
         7 sendmsg(7<socket:[44]>, {msg_name={sa_family=AF_NETLINK, nl_pid=0}, msg_namelen=12}, 0) = 1\n\
         7 sendmsg(4<socket:[41]>, {msg_name=NULL, msg_namelen=0}, 0) = 1\n",
        &[
            "7 send udp 127.0.0.1:99 ok",
            "7 connect tcp 127.0.0.1:1 ECONNREFUSED",
            "7 bind unix /not-there/s ok",
            "7 listen unix /not-there/s ok",
            "7 connect @abc ok",
            "7 socket netlink ok",
            "7 send netlink ok",
        ],
    );
}

#[test]
fn a_call_that_is_not_known_is_an_error() {
    let events = events("7 swapon(\"/x\", 0) = 0").expect("a listing");
    assert!(expected(&events, b"/").is_err());
}
