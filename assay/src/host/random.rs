//! A number that nobody can tell beforehand, and that no copy of this process gets again.

use std::hash::{BuildHasher as _, RandomState};

use rustix::rand::{GetRandomFlags, getrandom};

/// From the kernel. Keys that the standard library draws once for a thread are the same in all copies of a process.
pub fn number() -> u64 {
    let mut bytes = [0u8; 8];
    // So few bytes are never given in part.
    match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // Only where a filter refuses the call: then at least no copy has another one's.
        Ok(_) | Err(_) => RandomState::new().hash_one(std::process::id()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_number_comes_twice() {
        assert_eq!((0..1000).map(|_| number()).collect::<BTreeSet<u64>>().len(), 1000);
    }
}
