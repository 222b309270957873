//! A hash of small numbers that nobody outside chooses: quick, and good enough for those. Pure.

use std::hash::Hasher;

/// Mixes each number by a multiplication.
#[derive(Debug, Clone, Copy, Default)]
pub struct NumberHasher(u64);

/// 2⁶⁴ divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(FACTOR);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}
