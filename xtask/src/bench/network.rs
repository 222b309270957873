//! Bytes and connections through the loopback: by a client that nobody observes, by one under programs that do nothing at the
//! places where the observer has its own, and by one that is observed, in turns.
//!
//! The server is a thread of this process, outside every run. The client times itself, so that no start of anything is in its
//! figures: by the clock, and by its own processor time, in which the kernel's work for it is. It does so in small batches, of
//! which the quickest says what a machine without others would do.

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use rustix::process::Pid;

use super::actor::{pin, thread_time};
use super::bpf::{self, Direction, Kind};
use super::group::Group;
use super::spread::Spread;
use crate::step::{command, root, run};

/// How much to measure.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Turns each way gets.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Writes of 64 KiB in each.
    #[arg(long, default_value_t = 20_000)]
    writes: u32,
    /// Connections in each.
    #[arg(long, default_value_t = 3_000)]
    connections: u32,
    /// The observer to measure, instead of one that is built here.
    #[arg(long)]
    observer: Option<std::path::PathBuf>,
}

/// What the client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Work {
    /// One connection, writes of 64 KiB.
    Bytes,
    /// Connections of a byte each way.
    Connections,
}

impl Work {
    fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Connections => "connections",
        }
    }

    /// How many are timed at once: as few as a clock can tell, and more than what the sockets have room for.
    fn batch(self) -> u32 {
        match self {
            Self::Bytes => 500,
            Self::Connections => 50,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Bytes => "64 KiB",
            Self::Connections => "a connection",
        }
    }
}

/// What hangs on the client meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing.
    Bare,
    /// A program of two instructions where every call returns.
    Calls,
    /// Such a program at its packets, each way.
    Packets,
    /// Both.
    CallsAndPackets,
    /// The observer.
    Observed,
}

impl Way {
    const ALL: [Self; 5] = [Self::Bare, Self::Calls, Self::Packets, Self::CallsAndPackets, Self::Observed];

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "nothing",
            Self::Calls => "an empty program where calls return",
            Self::Packets => "empty programs at packets",
            Self::CallsAndPackets => "both",
            Self::Observed => "the observer",
        }
    }
}

/// The measured process.
#[derive(Debug, clap::Args)]
pub struct Client {
    work: Work,
    times: u32,
    server: SocketAddr,
}

/// Waits for a line, does the work, and prints its nanoseconds for one: of all of it and of the quickest batch by the clock, and
/// the same of processor time.
pub fn client(client: &Client) -> Result<()> {
    pin(0)?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    let mut stream = match client.work {
        Work::Bytes => Some(TcpStream::connect(client.server)?),
        Work::Connections => None,
    };
    let chunk = vec![0x5a; 64 << 10];
    let (mut total, mut least) = ([0; 2], [u64::MAX; 2]);
    let batch = client.work.batch();
    let batches = client.times.div_ceil(batch);
    for _ in 0..batches {
        let (clock, processor) = (Instant::now(), thread_time());
        for _ in 0..batch {
            if let Some(stream) = &mut stream {
                stream.write_all(&chunk)?;
            } else {
                let mut stream = TcpStream::connect(client.server)?;
                stream.write_all(b"x")?;
                stream.read_exact(&mut [0])?;
            }
        }
        let took = [clock.elapsed().as_nanos() as u64, thread_time() - processor];
        for (at, took) in took.into_iter().enumerate() {
            total[at] += took;
            least[at] = least[at].min(took);
        }
    }
    let [clock, processor] = total.map(|total| total / u64::from(batches * batch));
    let [least_clock, least_processor] = least.map(|least| least / u64::from(batch));
    println!("{clock} {least_clock} {processor} {least_processor}");
    Ok(())
}

/// Measures and prints the table.
pub fn execute(options: &Options) -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let observer = options.observer.clone().unwrap_or_else(|| target.join("release/assay"));
    if options.observer.is_none() {
        run(command("cargo").args(["build", "--quiet", "--release", "--package", "assay"]))?;
    }
    let bench = Bench { observer, group: Group::new()?, server: serve()? };
    println!("| what hangs on it | by | least | median (middle half) | cost of the least |");
    println!("| --- | --- | --- | --- | --- |");
    for (work, times) in [(Work::Bytes, options.writes), (Work::Connections, options.connections)] {
        if times == 0 {
            continue;
        }
        // By the way; by the clock, then by processor time.
        let mut figures: Vec<[Figures; 2]> = Way::ALL.map(|_| Default::default()).into();
        for round in 0..=options.rounds {
            for (way, figures) in Way::ALL.into_iter().zip(&mut figures) {
                let took = bench.once(work, times, way)?;
                // One round that does not count fills the caches.
                if round != 0 {
                    for (figures, [average, least]) in figures.iter_mut().zip(took) {
                        figures.averages.push(average);
                        figures.least = figures.least.min(least);
                    }
                }
            }
        }
        let bare = figures[0].each_ref().map(|figures| figures.least);
        for (at, by) in ["the clock", "processor time"].into_iter().enumerate() {
            for (way, figures) in Way::ALL.into_iter().zip(&figures) {
                let Figures { averages, least } = &figures[at];
                let spread = Spread::of(averages).context("no rounds")?;
                let cost = (least / bare[at] - 1.0) * 100.0;
                let (way, unit) = (way.name(), work.unit());
                println!("| {way} | {by}, ns for {unit} | {least:.0} | {spread:.0} | {cost:.1} % |");
            }
        }
    }
    Ok(())
}

/// What was measured of one way.
#[derive(Debug)]
struct Figures {
    averages: Vec<f64>,
    least: f64,
}

impl Default for Figures {
    fn default() -> Self {
        Self { averages: Vec::new(), least: f64::INFINITY }
    }
}

struct Bench {
    observer: std::path::PathBuf,
    group: Group,
    server: SocketAddr,
}

impl Bench {
    /// One turn: nanoseconds for one write or connection, on average and of the quickest batch, by the clock and of processor
    /// time.
    fn once(&self, work: Work, times: u32, way: Way) -> Result<[[f64; 2]; 2]> {
        let own = std::env::current_exe()?;
        let mut command = if way == Way::Observed {
            let mut command = Command::new(&self.observer);
            command.args(["sandbox", "--quiet", "--dry-run", "--"]).arg(own);
            command
        } else {
            Command::new(own)
        };
        let arguments =
            ["bench", "network-client", work.word(), &times.to_string(), &self.server.to_string()];
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let attached = self.prepare(way, &child);
        // Where it could not be prepared, the client reads an end and goes all the same; nobody looks at what it says.
        drop(child.stdin.take());
        let output = child.wait_with_output()?;
        attached?;
        // A dry run that saw something its policy does not authorise ends with 4.
        if !matches!(output.status.code(), Some(0 | 4)) {
            bail!("the client ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        let said = String::from_utf8(output.stdout)?;
        let figures: Vec<f64> = said.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [clock, least_clock, processor, least_processor] = figures[..] else {
            bail!("the client said {said:?}")
        };
        Ok([[clock, least_clock], [processor, least_processor]])
    }

    /// Puts in place what hangs on the client, which waits. It is gone with what is returned.
    fn prepare(&self, way: Way, client: &Child) -> Result<Vec<OwnedFd>> {
        let mut links = Vec::new();
        if way == Way::Observed {
            return Ok(links);
        }
        let pid = Pid::from_raw(client.id().cast_signed()).context("a process has a number")?;
        self.group.admit(pid)?;
        if matches!(way, Way::Calls | Way::CallsAndPackets) {
            let program = bpf::load(Kind::Raw, &returns(0)).context("load a program")?;
            links.push(bpf::attach_raw(&program, Some(c"sys_exit")).context("attach it to calls")?);
        }
        if matches!(way, Way::Packets | Way::CallsAndPackets) {
            let group = self.group.open()?;
            for direction in [Direction::In, Direction::Out] {
                // 1 lets a packet pass.
                let program = bpf::load(Kind::Packets(direction), &returns(1)).context("load a program")?;
                links.push(bpf::attach_packets(&program, &group, direction).context("attach it to packets")?);
            }
        }
        Ok(links)
    }
}

/// A program that does nothing else.
fn returns(value: u32) -> [u64; 2] {
    const SET_R0: u64 = 0xb7;
    const EXIT: u64 = 0x95;
    [SET_R0 | u64::from(value) << 32, EXIT]
}

/// Takes whatever comes, and answers the first byte of each connection.
fn serve() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;

    std::thread::spawn(move || {
        // Without it the figures are only noisier.
        let _ = pin(0);
        let mut buffer = vec![0; 1 << 20];
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            if matches!(stream.read(&mut buffer), Ok(1..)) && stream.write_all(b"y").is_ok() {
                while matches!(stream.read(&mut buffer), Ok(1..)) {}
            }
        }
    });
    Ok(address)
}
