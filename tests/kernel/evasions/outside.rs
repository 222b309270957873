//! Those outside the run that a case tries to use: one who hands over descriptors, and one who is only there.

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Hands a descriptor to everyone who connects to `file.giver`, `tcp.giver`, `pair.giver` or `unix.giver`.
pub struct Giver;

impl Giver {
    /// Begins to. What it holds open is opened here, outside the run; it ends with the test.
    pub fn start(place: &Path) -> Self {
        let files = ["file", "file2", "file3"];
        for name in files {
            let path = place.join(format!("handed-{name}"));
            std::fs::write(&path, "content").expect("a file");
            let file = File::options().read(true).write(true).open(&path).expect("the file");
            serve(place, name, move |to| give(to, file.as_fd()));
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let connected = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        serve(place, "tcp", move |to| {
            let _ = &listener;
            give(to, connected.as_fd());
        });
        let (one, other) = UnixStream::pair().expect("a pair");
        serve(place, "pair", move |to| {
            let _ = &other;
            give(to, one.as_fd());
        });
        let engine = UnixListener::bind(place.join("far.sock")).expect("a listener");
        let connected = UnixStream::connect(place.join("far.sock")).expect("a connection");
        serve(place, "unix", move |to| {
            let _ = &engine;
            give(to, connected.as_fd());
        });
        Self
    }
}

fn serve(place: &Path, name: &str, give: impl Fn(&UnixStream) + Send + 'static) {
    let listener = UnixListener::bind(place.join(format!("{name}.giver"))).expect("a listener");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            give(&stream);
            // Whoever has it may be slow to look; the other end closes it.
            std::mem::forget(stream);
        }
    });
}

fn give(to: &UnixStream, what: BorrowedFd<'_>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let list = [what];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&list)));
    sendmsg(to, &[IoSlice::new(b"m")], &mut ancillary, SendFlags::empty()).expect("to hand it over");
}

/// A process outside the run, with a file of its own open at descriptor 9.
pub struct Victim(Child);

impl Victim {
    /// Starts it.
    pub fn start() -> Self {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("sleep");
        Self(child)
    }

    /// Its process id.
    pub fn pid(&self) -> i64 {
        i64::from(self.0.id())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It is ours; one that is gone already is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
