//! Flags → attest: a signed statement about a bundle; and its check, for verify.

use std::path::{Path, PathBuf};

use super::input::{Input, read_small, stdin_more_than_once, write_file, write_result};
use crate::cli::output::Output;
use crate::evidence::dsse::{self, Envelope, IN_TOTO, Signature};
use crate::evidence::signature::{KeyError, PublicKey, SigningKey};
use crate::evidence::statement::{self, Draft};
use crate::evidence::verify::Verified;
use crate::exit::Exit;

/// Flags of `assay evidence attest`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("how").required(true).args(["key", "unsigned"]))]
pub struct Args {
    /// The bundle; `-` is stdin.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The private key: ed25519 or ECDSA P-256, in PEM.
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// Write the statement alone, for another program to sign.
    #[arg(long)]
    unsigned: bool,
    /// Where to write; without it, to stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Keys and envelopes are small; more is something else.
const MOST_BYTES: u64 = 16 << 20;

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    if stdin_more_than_once(args.key.as_deref().into_iter().chain([&*args.bundle]), out) {
        return Exit::Refused;
    }
    let key = match args.key.as_deref().map(|path| read_key(path, SigningKey::from_pem)).transpose() {
        Ok(key) => key,
        Err(error) => {
            out.error(&format!("attest: {error}"));
            if error.contains("encrypted") {
                out.hint("decrypt it first, for example with `openssl pkey -in KEY -out PLAIN`, or use `--unsigned` and let cosign sign");
            }
            return Exit::Refused;
        }
    };
    let mut draft = Draft::default();
    let verified = match Input::open_once(&args.bundle)
        .and_then(|mut input| input.verify(|_, event| draft.add(event)))
    {
        Ok(verified) => verified,
        Err(error) => {
            out.error(&format!("attest {error}"));
            return Exit::Refused;
        }
    };
    let name = args.bundle.file_name().map_or_else(|| "bundle".into(), |name| name.to_string_lossy());
    let payload = draft.finish(&verified, if name == "-" { "stdin" } else { &name });
    let mut bytes = match key {
        None => payload,
        Some(key) => {
            let signed = dsse::pre_authentication_encoding(IN_TOTO, &payload);
            let signature = Signature { key_id: Some(key.public().key_id()), bytes: key.sign(&signed) };
            let envelope =
                Envelope { payload_type: IN_TOTO.to_owned(), payload, signatures: vec![signature] };
            dsse::to_json(&envelope).into_bytes()
        }
    };
    bytes.push(b'\n');
    let is_written = match &args.output {
        None => write_result(out, &bytes),
        Some(path) => write_file(out, path, |file| file.write_all(&bytes)),
    };
    if is_written { Exit::Success } else { Exit::Refused }
}

/// Whether an attestation vouches for this bundle: signed by one of the keys, and about it.
pub fn check(attestation: &Path, keys: &[PathBuf], verified: &Verified) -> Result<String, String> {
    let trusted =
        keys.iter().map(|path| read_key(path, PublicKey::from_pem)).collect::<Result<Vec<_>, _>>()?;
    let bytes = read_small(attestation, MOST_BYTES).map_err(|error| error.to_string())?;
    let envelope = dsse::from_json(&bytes).map_err(|error| error.to_string())?;
    let payload = dsse::check(&envelope, &trusted, 1, &[IN_TOTO]).map_err(|error| error.to_string())?;
    statement::check(payload, verified).map_err(|error| error.to_string())?;
    let signed = dsse::pre_authentication_encoding(&envelope.payload_type, &envelope.payload);
    let trusted_one = trusted
        .iter()
        .find(|key| envelope.signatures.iter().any(|signature| key.verifies(&signed, &signature.bytes)));
    Ok(trusted_one.expect("one of them signed it").key_id())
}

/// Reads a key in PEM.
pub fn read_key<K>(path: &Path, parse: impl Fn(&str) -> Result<K, KeyError>) -> Result<K, String> {
    let bytes = read_small(path, MOST_BYTES).map_err(|error| error.to_string())?;
    parse(&String::from_utf8_lossy(&bytes)).map_err(|error| format!("{}: {error}", path.display()))
}
