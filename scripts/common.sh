# shellcheck shell=bash
# Sourced by the scripts beside it: where things are, and how a stage reports itself.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
log_dir="$root/build/log"
spinner_pid=

stop_spinner() {
  [[ -z $spinner_pid ]] && return
  kill "$spinner_pid" 2>/dev/null || true
  wait "$spinner_pid" 2>/dev/null || true
  spinner_pid=
}
trap stop_spinner EXIT
trap 'stop_spinner; printf "\ninterrupted\n" >&2; exit 130' INT
trap 'stop_spinner; exit 143' TERM

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  shift
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

# Wrong usage has an exit status of its own, as in the program.
usage_error() {
  printf '%s: %s (see --help)\n' "$(basename "$0")" "$1" >&2
  exit 2
}

# Prints the comment block at the top of the calling script.
show_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# Shows "what  12 s  [3/40]" on a terminal and updates it while the stage runs.
spin() {
  local what=$1 log=$2 started=$SECONDS progress
  while sleep 1; do
    progress=$(grep -aoE '^\[[0-9]+/[0-9]+\]' "$log" 2>/dev/null | tail -n 1 || true)
    printf '\r  %-46s %5d s  %s ' "$what" $((SECONDS - started)) "$progress"
  done
}

# try_stage NAME WHAT COMMAND...: runs the command and prints one line, WHAT and its seconds. The command's output goes
# to build/log/NAME.log. Returns the command's status.
try_stage() {
  local name=$1 what=$2 status=0 started=$SECONDS
  shift 2
  mkdir -p "$log_dir"
  stage_log="$log_dir/$name.log"
  : >"$stage_log"
  if [[ -t 1 ]]; then
    printf '  %-46s' "$what"
    spin "$what" "$stage_log" &
    spinner_pid=$!
  fi
  "$@" >"$stage_log" 2>&1 </dev/null || status=$?
  if [[ -t 1 ]]; then
    stop_spinner
    printf '\r\033[K'
  fi
  if [[ $status -eq 0 ]]; then
    printf '  %-46s %5d s\n' "$what" $((SECONDS - started))
  else
    printf '  %-46s %5d s  failed\n' "$what" $((SECONDS - started))
  fi
  return $status
}

# As try_stage, but a failure prints the end of the log and ends the script.
stage() {
  local status=0
  try_stage "$@" || status=$?
  if [[ $status -ne 0 ]]; then
    printf -- '---- the last lines of %s\n' "${stage_log#"$root"/}" >&2
    tail -n 60 "$stage_log" >&2
    printf -- '----\n' >&2
    die "\"$2\" failed with status $status; its whole output is in ${stage_log#"$root"/}"
  fi
}
