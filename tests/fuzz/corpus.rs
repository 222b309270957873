//! The corpus that fuzzing left: a file a target, one input a line, escaped as in a Rust byte string, so that a diff shows
//! what came. Used by `cargo xtask fuzz` and by `tests/it/mutations.rs`.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// The inputs of a target; none when there is no file.
pub fn read(folder: &Path, target: &str) -> Result<Vec<Vec<u8>>> {
    let broken = || Error::new(ErrorKind::InvalidData, "a broken escape");
    match fs::read_to_string(folder.join(format!("{target}.txt"))) {
        Ok(text) => text.lines().map(|line| unescaped(line).ok_or_else(broken)).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Writes them.
pub fn write(folder: &Path, target: &str, inputs: &[Vec<u8>]) -> Result<()> {
    let lines: Vec<String> = inputs.iter().map(|input| format!("{}\n", input.escape_ascii())).collect();
    fs::write(folder.join(format!("{target}.txt")), lines.concat())
}

fn unescaped(line: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b't' => b'\t',
                b'r' => b'\r',
                b'n' => b'\n',
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                plain => plain,
            },
            plain => plain,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        let inputs: Vec<Vec<u8>> = vec![(0..=255).collect(), b"\\x41\n'\"".to_vec(), Vec::new()];
        let folder = std::env::temp_dir().join(format!("assay-corpus-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        write(&folder, "x", &inputs).unwrap();
        let again = read(&folder, "x");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(again.unwrap(), inputs);
        assert_eq!(unescaped("\\x4"), None);
    }
}
