//! Which process a writer is, and whether it is still there: asked of `/proc`.

use std::io;

use super::begun::Writer;

impl Writer {
    /// This process.
    pub fn ourselves() -> io::Result<Self> {
        let pid = std::process::id();
        let started = start_of(pid)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { pid, started, boot: boot()? })
    }

    /// Whether it is still there. What could not be asked is taken for a yes: a run is not closed on a guess.
    pub fn is_alive(&self) -> bool {
        let is_this_boot = boot().map(|boot| boot == self.boot);
        match (is_this_boot, start_of(self.pid)) {
            (Ok(false), _) | (Ok(true), Ok(None)) => false,
            (Ok(true), Ok(Some(started))) => started == self.started,
            (Err(_), _) | (_, Err(_)) => true,
        }
    }
}

fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// When a process was started, in clock ticks since the boot; nothing when it is not there, or ended and was not yet
/// waited for.
fn start_of(pid: u32) -> io::Result<Option<u64>> {
    let stat = match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // It ended while it was asked about.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let unreadable = || io::Error::from(io::ErrorKind::InvalidData);
    // The second field is the name in parentheses, and may hold anything, parentheses too.
    let behind_name = stat.iter().rposition(|byte| *byte == b')').ok_or_else(unreadable)?;
    let fields = std::str::from_utf8(&stat[behind_name + 1..]).map_err(|_| unreadable())?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next().ok_or_else(unreadable)?;
    if matches!(state, "Z" | "X" | "x") {
        return Ok(None);
    }
    // proc(5): the start is field 22, and the state was field 3.
    fields.nth(18).and_then(|field| field.parse().ok()).map(Some).ok_or_else(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_alive_and_who_had_our_number_before_is_not() {
        let ourselves = Writer::ourselves().unwrap();
        assert!(ourselves.is_alive());
        assert!(!Writer { started: ourselves.started + 1, ..ourselves.clone() }.is_alive());
        assert!(!Writer { boot: "another".into(), ..ourselves.clone() }.is_alive());
    }

    #[test]
    fn who_ended_is_not_alive_even_before_anybody_waited() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let started = start_of(pid).unwrap_or(None).unwrap_or(1);
        let writer = Writer { pid, started, ..Writer::ourselves().unwrap() };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while writer.is_alive() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(!writer.is_alive());
        child.wait().unwrap();
        assert!(!writer.is_alive());
    }
}
