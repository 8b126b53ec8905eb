#!/usr/bin/env bash
# Run a cluster for as long as standard input stays open.
#
#   hold.sh STATE_DIR [NODES]
#
# Says "up" or "failed" in a line once up.sh has ended, then waits. When whoever
# started it closes the pipe, or dies in whatever way, the cluster is stopped; if the
# line "keep" came before, STATE_DIR/logs stays. One cluster per port at a time: a
# second one waits; and one that was left behind by a killed hold.sh is stopped first.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=lib.sh
. "$here/lib.sh"
# Ctrl-C is for the test, which then closes the pipe; and if nobody listens any more, the
# cluster is stopped all the same. (Handlers, not '': what is ignored, containers inherit.)
trap : INT TERM PIPE

lock=$cache/held-$port
touch "$lock"
exec 9<> "$lock"
flock -w 100 9 || { echo "hold.sh: another cluster has port $port: $(cat "$lock")" >&2; echo failed; exit 1; }
left=$(cat "$lock")
[ -z "$left" ] || [ ! -d "$left/pids" ] || "$here/down.sh" "$left" > /dev/null 2>&1
echo "$1" > "$lock"

if "$here/up.sh" "$@" >&2; then echo up; else echo failed; fi
read -r word || word=
[ ! -d "$1/pids" ] || "$here/down.sh" "$1" ${word:+--keep-logs} > /dev/null 2>&1
