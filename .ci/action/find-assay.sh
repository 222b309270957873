#!/usr/bin/env bash
# Finds the program, or builds it from the checkout this file lies in, and says where it is.
#
# In: ASSAY_PROGRAM, a path, or empty. Out: `program` in GITHUB_OUTPUT, and on stdout.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=words.sh
. "$here/words.sh"

program=${ASSAY_PROGRAM:-}
if [ -z "$program" ]; then
  program=$(command -v assay || true)
fi
if [ -z "$program" ]; then
  command -v cargo > /dev/null ||
    stop "no assay on PATH, and no cargo to build it with: name a program, or install Rust first"
  source=$(cd "$here/../.." && pwd)
  cargo build --locked --release --package assay --manifest-path "$source/Cargo.toml" >&2
  program=${CARGO_TARGET_DIR:-$source/target}/release/assay
fi
if ! [ -f "$program" ] || ! [ -x "$program" ]; then
  stop "$program is no program that can be run"
fi
program=$(realpath -- "$program")
version=$("$program" --version) || stop "$program does not tell its version"
note "$version"
tell program "$program"
printf '%s\n' "$program"
