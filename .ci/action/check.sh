#!/usr/bin/env bash
# Runs a command in the sandbox, has its record looked at, and says whether the job may go on.
#
# In, all by the environment: ASSAY_PROGRAM, ASSAY_RUN (what to run, for bash), ASSAY_MODE (learn, enforce, fail-closed),
# ASSAY_POLICY, ASSAY_BASELINE, ASSAY_LINT_CONFIG (files, or empty), ASSAY_FAIL_ON (error, warn, info, none),
# ASSAY_OUTPUT (a directory). Out: files in that directory; outputs in GITHUB_OUTPUT; a page in GITHUB_STEP_SUMMARY.
# Ends with 0, with the command's own code, with 1 where the record does not pass, with 2 where there is none.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=words.sh
. "$here/words.sh"

program=${ASSAY_PROGRAM:?}
run=${ASSAY_RUN:-}
mode=${ASSAY_MODE:-learn}
policy=${ASSAY_POLICY:-}
baseline=${ASSAY_BASELINE:-}
lint_config=${ASSAY_LINT_CONFIG:-}
fail_on=${ASSAY_FAIL_ON:-error}
out=${ASSAY_OUTPUT:-assay-out}

[ -n "$run" ] || stop "there is no command to run"
case $mode in
  learn) options=(--dry-run) ;;
  enforce) options=(--enforce) ;;
  fail-closed) options=(--enforce --fail-closed) ;;
  *) stop "the mode is \`$mode\`; it may be learn, enforce or fail-closed" ;;
esac
case $fail_on in
  error | warn | info | none) ;;
  *) stop "fail-on is \`$fail_on\`; it may be error, warn, info or none" ;;
esac
# A name that begins with a dash would be read as an option.
case $out in
  /*) ;;
  *) out=./$out ;;
esac
mkdir -p -- "$out"
bundle=$out/run.tar.gz
# What is there from an earlier run must not be taken for this one's.
rm -f -- "$bundle" "$out/status.json" "$out/run.profile.yaml" "$out/run.profile.evidence.yaml" "$out/run.report.md" \
  "$out/lint.sarif" "$out/diff.md" "$out/gate.json" "$out/comment.md"
[ -z "$policy" ] || options+=("--policy=$policy")

# Observing needs root; the command runs as who called sudo.
as_root=()
if [ "$(id -u)" != 0 ] && sudo -n true 2> /dev/null; then
  as_root=(sudo -n -E env "PATH=$PATH")
fi

# The command must not speak to the service: not by the files that later steps read, and not by its output.
quiet=
if [ -n "${GITHUB_ACTIONS:-}" ]; then
  quiet=$(random)
  printf '::stop-commands::%s\n' "$quiet"
fi
code=0
env -u GITHUB_ENV -u GITHUB_PATH -u GITHUB_OUTPUT -u GITHUB_STATE -u GITHUB_STEP_SUMMARY -u ASSAY_RUN \
  "${as_root[@]}" "$program" sandbox "${options[@]}" \
  --profile "$out/run.profile.yaml" --profile-report "$out/run.report.md" --bundle "$bundle" \
  --status-file "$out/status.json" -- bash -eo pipefail -c "$run" || code=$?
if [ -n "$quiet" ]; then
  printf '\n::%s::\n' "$quiet"
fi

[ -f "$bundle" ] || stop "there is no record of the command (assay ended with $code); see above"
"$program" evidence verify "$bundle" > /dev/null || stop "the record is not whole"
# Both stand once in what assay writes, and no text in it can hold a quote that is not escaped.
verdict=$(sed -n 's/.*"verdict":"\([a-z]*\)".*/\1/p' "$out/status.json")
child=$(sed -n 's/.*"child":{"exit_code":\([0-9]*\)}.*/\1/p' "$out/status.json")

found=0
lint=(--no-config)
[ -z "$lint_config" ] || lint=("--config=$lint_config")
"$program" evidence lint "${lint[@]}" --format sarif --fail-on "$fail_on" -- "$bundle" > "$out/lint.sarif" || found=$?
[ "$found" -le 1 ] || stop "the record could not be looked at"

differs=none
if [ -n "$baseline" ]; then
  differs=0
  "$program" evidence diff --format markdown -- "$baseline" "$bundle" > "$out/diff.md" || differs=$?
  [ "$differs" -le 1 ] || stop "the record could not be compared with $baseline"
fi

gate=none
if [ -n "$policy$baseline" ]; then
  terms=()
  [ -z "$policy" ] || terms+=("--policy=$policy")
  [ -z "$baseline" ] || terms+=("--baseline=$baseline")
  judged=0
  "$program" evidence gate "${terms[@]}" --format json -- "$bundle" > "$out/gate.json" || judged=$?
  case $judged in
    0) gate=pass ;;
    1) gate=fail ;;
    *) stop "the record could not be judged" ;;
  esac
fi

reasons=()
[ "$gate" != fail ] || reasons+=("the gate does not pass (gate.json says why)")
[ "$found" = 0 ] || reasons+=("lint found something at or above $fail_on (lint.sarif)")
case $mode/$verdict in
  */ok | learn/unauthorised | learn/denied) ;;
  *) reasons+=("the verdict is ${verdict:-not said}") ;;
esac

# The page: words of ours, and what assay made harmless. A comment may have 65536 characters.
{
  printf '<!-- assay -->\n### assay: verdict **%s**, gate **%s**\n\n' "${verdict:-none}" "$gate"
  for reason in "${reasons[@]}"; do
    printf -- '- %s\n' "$reason"
  done
  if [ "$differs" != none ]; then
    printf '\n'
    cat -- "$out/diff.md"
  fi
  printf '\n'
  cat -- "$out/run.report.md"
} | LC_ALL=C awk -v most=60000 '
  { bytes += length($0) + 1 }
  bytes > most { print "\nCut here: the whole is in the files of the job."; exit }
  { print }' > "$out/comment.md"
cat -- "$out/comment.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"

tell bundle "$bundle"
tell sarif "$out/lint.sarif"
tell comment "$out/comment.md"
tell profile "$out/run.profile.yaml"
tell verdict "$verdict"
tell gate "$gate"
tell exit-code "$child"

for reason in "${reasons[@]}"; do
  note "$reason"
done
[ "${#reasons[@]}" = 0 ] || exit 1
# What the command ended with is the job's; how assay ended is not, where it only says what it saw.
if [ -n "$child" ]; then
  exit "$child"
fi
exit "$code"
