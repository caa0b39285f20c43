# shellcheck shell=bash
# Shared by the scripts beside it; sourced, never run. Leaves the caller in the repository's root,
# with $called_from as the folder it was called from.
set -euo pipefail
# shellcheck disable=SC2034
called_from=$PWD
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

# Prints the comment block at the head of the calling script: the help lives where the code is.
help_from_head() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }

# Runs a command in a process group of its own. A signal to the script ends the whole group first, so
# that no compiler or test goes on behind the back of whoever pressed Ctrl-C.
guarded() {
  local status=0
  set -m
  "$@" </dev/null &
  guarded_group=$!
  set +m
  trap 'end_guarded 130' INT
  trap 'end_guarded 143' TERM
  trap 'end_guarded 129' HUP
  wait "$guarded_group" || status=$?
  trap - INT TERM HUP
  return $status
}
end_guarded() {
  trap '' INT TERM HUP
  kill -TERM -- "-$guarded_group" 2>/dev/null || true
  wait "$guarded_group" || true
  exit "$1"
}

# Builds one preset; quiet unless something is wrong.
build() {
  local preset=$1
  shift
  cmake --preset "$preset" -DMOONFENCE_COMMIT="$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" >/dev/null
  cmake --build --preset "$preset" --parallel "$(nproc)" "$@"
}

# What this computer lacks for real machines is told before anything is built, with what does without them.
need_machines() { # WORDS
  PYTHONPATH=tests PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m cluster.needs "$PWD/build" && return
  say "$1"
  exit 1
}
