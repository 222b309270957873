//! Descriptor numbers that a daemon keeps free, so that those of a client's command can have the numbers they have there.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

use rustix::io::{dup, dup2, fcntl_dupfd_cloexec};

/// The first number that is not kept free.
const END: RawFd = 64;

/// Numbers from 3 on, each taken by something of no use.
#[derive(Debug, Default)]
pub struct Reserve {
    taken: Vec<OwnedFd>,
}

impl Reserve {
    /// Takes those that are free now. To be called before anything is opened that stays.
    pub fn take() -> io::Result<Self> {
        let null = File::open("/dev/null")?;
        let mut taken = Vec::new();
        loop {
            let fd = fcntl_dupfd_cloexec(&null, 3)?;
            if fd.as_raw_fd() >= END {
                return Ok(Self { taken });
            }
            taken.push(fd);
        }
    }

    /// Puts descriptors in the places of these numbers, open for whatever is executed; those above stderr, by the numbers
    /// they have now. One whose number is not free gets another.
    pub fn adopt(mut self, numbers: &[RawFd], fds: Vec<OwnedFd>) -> io::Result<Vec<RawFd>> {
        let mut passed_on = Vec::new();
        let null = File::options().read(true).write(true).open("/dev/null")?;
        for number in 0..3 {
            // One that is closed there must not be ours here.
            let given = numbers.iter().position(|known| *known == number).and_then(|at| fds.get(at));
            match (number, given) {
                (0, Some(fd)) => rustix::stdio::dup2_stdin(fd)?,
                (0, None) => rustix::stdio::dup2_stdin(&null)?,
                (1, Some(fd)) => rustix::stdio::dup2_stdout(fd)?,
                (1, None) => rustix::stdio::dup2_stdout(&null)?,
                (_, Some(fd)) => rustix::stdio::dup2_stderr(fd)?,
                (_, None) => rustix::stdio::dup2_stderr(&null)?,
            }
        }
        for (number, fd) in numbers.iter().zip(fds).filter(|(number, _)| **number > 2) {
            let place = self.taken.iter().position(|taken| taken.as_raw_fd() == *number);
            let fd = match place.map(|at| self.taken.swap_remove(at)) {
                Some(mut place) => {
                    dup2(&fd, &mut place)?;
                    place
                }
                None => dup(&fd)?,
            };
            // From here on it is the command's, closed with the others of its kind.
            passed_on.push(fd.into_raw_fd());
        }
        Ok(passed_on)
    }
}
