#!/usr/bin/env bash
# How the scripts beside this one talk to the service: outputs, the log, the end. Sourced, not run.

# One output of the step. The value may hold anything but its own end, which nobody can guess.
tell() {
  local mark
  mark="end-$(random)"
  printf '%s<<%s\n%s\n%s\n' "$1" "$mark" "$2" "$mark" >> "${GITHUB_OUTPUT:-/dev/null}"
}

# A line of the log, on stderr. Whatever is in it, it is one line, and none that a service takes for a command.
note() {
  printf 'assay: %s' "$1" | LC_ALL=C tr '[:cntrl:]' '?' | sed 's/##/# #/g' >&2
  printf '\n' >&2
}

stop() {
  note "$1"
  exit 2
}

random() {
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}
