//! Bytes and connections through the loopback: by a client that nobody observes and by one that is, in turns.
//!
//! The server is a thread of this process, outside every run. The client times itself, so that no start of anything is in its
//! figures: by the clock, and by its own processor time, in which the kernel's work for it is. On a busy machine the second
//! says more.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

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
}

/// What the client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Work {
    /// One connection, writes of 64 KiB.
    Bytes,
    /// Connections of a byte each way.
    Connections,
}

/// The measured process.
#[derive(Debug, clap::Args)]
pub struct Client {
    work: Work,
    times: u32,
    server: SocketAddr,
}

/// Does the work and prints its nanoseconds by the clock and of processor time.
pub fn client(client: &Client) -> Result<()> {
    let (clock, processor) = (Instant::now(), processor_time()?);
    match client.work {
        Work::Bytes => {
            let mut stream = TcpStream::connect(client.server)?;
            let chunk = vec![0x5a; 64 << 10];
            for _ in 0..client.times {
                stream.write_all(&chunk)?;
            }
        }
        Work::Connections => {
            for _ in 0..client.times {
                let mut stream = TcpStream::connect(client.server)?;
                stream.write_all(b"x")?;
                stream.read_exact(&mut [0])?;
            }
        }
    }
    println!("{} {}", clock.elapsed().as_nanos(), processor_time()?.saturating_sub(processor).as_nanos());
    Ok(())
}

/// Of this process, user and system.
fn processor_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds = stat.split(' ').next().context("schedstat is empty")?.parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Measures and prints the table.
pub fn execute(options: &Options) -> Result<()> {
    run(command("cargo").args(["build", "--quiet", "--release", "--package", "assay"]))?;
    let server = serve()?;
    println!("| what | unit | bare | observed | cost |\n| --- | --- | --- | --- | --- |");
    for (work, times) in [(Work::Bytes, options.writes), (Work::Connections, options.connections)] {
        // By the clock, then by processor time; bare, then observed.
        let mut figures: [[Vec<f64>; 2]; 2] = Default::default();
        let mut costs: [Vec<f64>; 2] = Default::default();
        for round in 0..=options.rounds {
            let bare = once(work, times, server, false)?;
            let observed = once(work, times, server, true)?;
            // One round that does not count fills the caches.
            if round == 0 {
                continue;
            }
            for (at, (bare, observed)) in bare.into_iter().zip(observed).enumerate() {
                figures[at][0].push(bare);
                figures[at][1].push(observed);
                costs[at].push((observed / bare - 1.0) * 100.0);
            }
        }
        let unit = match work {
            Work::Bytes => "ns for 64 KiB",
            Work::Connections => "ns for a connection",
        };
        for (by, (figures, costs)) in ["the clock", "processor time"].iter().zip(figures.iter().zip(&costs)) {
            let spread = |values: &[f64]| Spread::of(values).context("no rounds");
            let [bare, observed] = figures;
            println!(
                "| {unit} | {by} | {:.0} | {:.0} | {:.1} % |",
                spread(bare)?,
                spread(observed)?,
                spread(costs)?
            );
        }
    }
    Ok(())
}

/// One turn: nanoseconds for one write or connection, by the clock and of processor time.
fn once(work: Work, times: u32, server: SocketAddr, is_observed: bool) -> Result<[f64; 2]> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let own = std::env::current_exe()?;
    let mut command = if is_observed {
        let mut command = Command::new(target.join("release/assay"));
        command.args(["sandbox", "--quiet", "--dry-run", "--"]).arg(own);
        command
    } else {
        Command::new(own)
    };
    let name = match work {
        Work::Bytes => "bytes",
        Work::Connections => "connections",
    };
    command.args(["bench", "network-client", name, &times.to_string(), &server.to_string()]);
    let output = command.output()?;
    // A dry run that saw something its policy does not authorise ends with 4.
    if !matches!(output.status.code(), Some(0 | 4)) {
        bail!("the client ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let said = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> = said.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [clock, processor] = figures[..] else { bail!("the client said {said:?}") };
    Ok([clock / f64::from(times), processor / f64::from(times)])
}

/// Takes whatever comes, and answers the first byte of each connection.
fn serve() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
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
