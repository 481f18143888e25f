#!/usr/bin/env bash
# Runs a command beside a Temporal server of its own, which listens on loopback and ends with
# it: scripts/temporal.sh COMMAND... TIPSTAFF_TEMPORAL is the server's address, and
# TIPSTAFF_TEMPORAL_CLI the program that it is, for tests that kill servers. It is compiled
# once, which takes minutes. With --or-skip before the command a machine that cannot compile
# it has failed nothing.
set -euo pipefail
if [ "${1-}" = --or-skip ]; then
	or_skip=yes
	shift
fi
root=$(cd "$(dirname "$0")/.." && pwd)
version=v1.5.1
bin=$root/.cache/temporal/$version/temporal

# cannot ends the script: as a failure, or as tests that were not run.
cannot() {
	if [ "${or_skip-}" ]; then
		printf '%s: the tests with a Temporal server are skipped\n' "$1"
		exit 0
	fi
	printf '%s: the tests with a Temporal server cannot be run\n' "$1" >&2
	exit 1
}

if ! [ -x "$bin" ]; then
	echo "compiling Temporal's CLI $version, once: that takes minutes"
	mkdir -p "$(dirname "$bin")"
	CGO_ENABLED=0 GOFLAGS=-trimpath GOBIN=$(dirname "$bin") nice -n 19 "${GO:-go}" install -ldflags='-s -w' "github.com/temporalio/cli/cmd/temporal@$version" >"$bin.log" 2>&1 ||
		cannot "it cannot be compiled ($(tail -n 1 "$bin.log"))"
fi

dir=$(mktemp -d)
stop() {
	[ "${server-}" ] && kill -9 "$server" 2>/dev/null || true
	rm -rf "$dir"
}
trap stop EXIT
answers() { "$bin" operator cluster health --address "127.0.0.1:$port" >/dev/null 2>&1; }
for _ in 1 2 3 4 5; do # a port may be taken meanwhile
	port=$((20000 + RANDOM % 12000))
	"$bin" server start-dev --headless --ip 127.0.0.1 --port "$port" --db-filename "$dir/db" --log-level error >"$dir/log" 2>&1 &
	server=$!
	until answers || ! kill -0 "$server" 2>/dev/null; do sleep 0.2; done
	if answers; then
		started=yes
		break
	fi
done
[ "${started-}" ] || cannot "temporal: $(tail -n 1 "$dir/log")"
TIPSTAFF_TEMPORAL="temporal://127.0.0.1:$port" TIPSTAFF_TEMPORAL_CLI=$bin "$@"
