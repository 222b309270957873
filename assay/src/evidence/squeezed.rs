//! A text that is only added to and then read once, kept deflated meanwhile: the names of a large run are mostly alike.
//! Pure.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// How much is gathered before it is deflated; a text that stays shorter never is.
const PORTION: usize = 1 << 15;

/// Such a text.
#[derive(Debug, Default)]
pub struct Squeezed {
    packed: Option<DeflateEncoder<Vec<u8>>>,
    pending: String,
}

impl Squeezed {
    /// Whether nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.packed.is_none() && self.pending.is_empty()
    }

    /// Lets `add` add to the end of it.
    pub fn add(&mut self, add: impl FnOnce(&mut String)) {
        add(&mut self.pending);
        if self.pending.len() >= PORTION {
            // The fastest: a tenth is left of names that are alike, and more effort saves little of that.
            let packed =
                self.packed.get_or_insert_with(|| DeflateEncoder::new(Vec::new(), Compression::fast()));
            packed.write_all(self.pending.as_bytes()).expect("writing to a Vec cannot fail");
            self.pending.clear();
        }
    }

    /// All of it, piece by piece.
    pub fn pour(self, mut visit: impl FnMut(&[u8])) {
        if let Some(packed) = self.packed {
            let packed = packed.finish().expect("writing to a Vec cannot fail");
            let mut text = DeflateDecoder::new(packed.as_slice());
            let mut piece = vec![0; PORTION];
            loop {
                match text.read(&mut piece).expect("it was deflated here") {
                    0 => break,
                    length => visit(&piece[..length]),
                }
            }
        }
        visit(self.pending.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_comes_out() {
        for count in [0, 1, 1_000, 100_000] {
            let (mut squeezed, mut whole) = (Squeezed::default(), String::new());
            for n in 0..count {
                let word = format!("${{WORKDIR}}/\u{e4}/{n},");
                squeezed.add(|text| text.push_str(&word));
                whole += &word;
            }
            assert_eq!(squeezed.is_empty(), whole.is_empty());
            let kept =
                squeezed.pending.capacity() + squeezed.packed.as_ref().map_or(0, |one| one.get_ref().len());
            assert!(kept <= whole.len() / 4 + 4 * PORTION, "{kept} of {}", whole.len());
            let mut out = Vec::new();
            squeezed.pour(|piece| out.extend_from_slice(piece));
            assert!(out == whole.as_bytes(), "{count}");
        }
    }
}
