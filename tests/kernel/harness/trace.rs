//! Reads a trace: NDJSON → [`Seen`].
//!
//! Pure and strict: a line that is no JSON object, or a trace without its last line, is an error.

use std::collections::BTreeSet;

use serde_json::Value;

/// A trace.
#[derive(Debug, Default)]
pub struct Trace {
    /// Its lines, but for the last.
    pub lines: Vec<Seen>,
    /// What the last line says was lost.
    pub lost: u64,
}

/// One line of a trace, as far as it can be compared with what strace tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub seq: u64,
    pub tid: u32,
    pub comm: String,
    pub op: String,
    pub path: Option<Vec<u8>>,
    pub to: Option<Vec<u8>>,
    pub requested: Option<Vec<u8>>,
    pub access: BTreeSet<String>,
    pub interpreter: Option<Vec<u8>>,
    pub proto: Option<String>,
    pub address: Option<Vec<u8>>,
    pub port: Option<u64>,
    pub result: String,
}

/// Reads a whole trace.
pub fn read(text: &str) -> Result<Trace, String> {
    let mut trace = Trace::default();
    let mut end = None;
    for (index, line) in text.lines().enumerate() {
        let fail = |why: &str| format!("line {} of the trace: {why}: {line}", index + 1);
        if end.is_some() {
            return Err(fail("it goes on after its end"));
        }
        let value: Value = serde_json::from_str(line).map_err(|error| fail(&error.to_string()))?;
        if value["end"] == Value::Bool(true) {
            let number = |key: &str| value[key].as_u64().ok_or_else(|| fail("no number"));
            end = Some(number("events")?);
            trace.lost = number("lost")?;
        } else {
            trace.lines.push(seen(&value).ok_or_else(|| fail("not an observation"))?);
        }
    }
    match end {
        None => Err("the trace has no last line".to_owned()),
        Some(events) if events != trace.lines.len() as u64 => {
            Err(format!("the trace says it has {events} lines, it has {}", trace.lines.len()))
        }
        Some(_) => Ok(trace),
    }
}

fn seen(value: &Value) -> Option<Seen> {
    let text = |key: &str| value[key].as_str().map(bytes);
    Some(Seen {
        seq: value["seq"].as_u64()?,
        tid: u32::try_from(value["tid"].as_u64()?).ok()?,
        comm: value["comm"].as_str()?.to_owned(),
        op: value["op"].as_str()?.to_owned(),
        path: text("path"),
        to: text("to"),
        requested: text("requested"),
        access: value["access"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|word| Some(word.as_str()?.into()))
            .collect(),
        interpreter: text("interpreter"),
        proto: value["proto"].as_str().map(str::to_owned),
        address: text("address"),
        port: value["port"].as_u64(),
        result: value["result"].as_str()?.to_owned(),
    })
}

/// Undoes `\xNN` and `\\`.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |at: usize| tail.get(at).and_then(|&digit| char::from(digit).to_digit(16));
        match (first, tail.first(), hex(1), hex(2)) {
            (b'\\', Some(b'x'), Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &tail[3..];
            }
            (b'\\', Some(b'\\'), ..) => {
                out.push(b'\\');
                rest = &tail[1..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bytes() {
        assert_eq!(bytes(r"/a\x0a\\x\xff\x24{"), b"/a\n\\x\xff${");
    }

    #[test]
    fn a_trace_must_end_and_add_up() {
        let line = r#"{"seq":0,"tid":7,"comm":"a","op":"open","path":"/x","access":["read"],"result":"ok"}"#;
        assert!(read(line).is_err());
        assert!(read(&format!("{line}\n{{\"end\":true,\"events\":2,\"lost\":0}}")).is_err());
        let trace = read(&format!("{line}\n{{\"end\":true,\"events\":1,\"lost\":3}}")).expect("a trace");
        assert_eq!((trace.lines.len(), trace.lost), (1, 3));
        assert_eq!(trace.lines[0].path.as_deref(), Some(&b"/x"[..]));
    }
}
