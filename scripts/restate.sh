#!/usr/bin/env bash
# Runs a command beside a Restate server of its own, which listens on loopback and ends with
# it: scripts/restate.sh COMMAND... TIPSTAFF_RESTATE is the address that services are called
# at, TIPSTAFF_RESTATE_ADMIN the one that they are registered at. The server, its SDK and the
# Node that the SDK needs are installed from npm into .cache/restate, in the exact versions of
# the lock file; there cmd/bench/restate is copied as well, and node in the command is that one.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
wanted=$root/cmd/bench/restate
cache=$root/.cache/restate

cannot() {
	printf '%s: nothing can be run with a Restate server\n' "$1" >&2
	exit 1
}

mkdir -p "$cache"
cp "$wanted"/* "$cache/"
if ! cmp -s "$wanted/package-lock.json" "$cache/installed.json"; then
	command -v npm >/dev/null || cannot 'npm is not installed'
	(cd "$cache" && timeout 300 npm ci --fetch-retries=1 --ignore-scripts --no-audit --no-fund --loglevel=error) >"$cache/log" 2>&1 ||
		cannot "npm cannot install Restate ($(tail -n 1 "$cache/log"))"
	cp "$wanted/package-lock.json" "$cache/installed.json"
fi
PATH=$cache/node_modules/.bin:$PATH
node -e 'process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)' 2>/dev/null || cannot 'there is no Node 22'
bin=$(find "$cache/node_modules/@restatedev" -path '*/bin/restate-server' -type f | head -1)
[ -x "$bin" ] || cannot 'there is no Restate server for this machine'

dir=$(mktemp -d)
stop() {
	if [ "${server-}" ]; then
		kill -9 "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true # it writes until it has ended
	fi
	rm -rf "$dir"
}
trap stop EXIT
answers() { node -e "Promise.all(['$admin/health', '$ingress/restate/health'].map((u) => fetch(u))).then((all) => process.exit(all.every((r) => r.ok) ? 0 : 1), () => process.exit(1))"; }
for _ in 1 2 3 4 5; do # a port may be taken meanwhile
	port=$((20000 + RANDOM % 12000))
	ingress=http://127.0.0.1:$port admin=http://127.0.0.1:$((port + 1))
	RESTATE_INGRESS__BIND_PORT=$port RESTATE_ADMIN__BIND_PORT=$((port + 1)) RESTATE_DISABLE_TELEMETRY=true RESTATE_LOG_FILTER=warn \
		"$bin" --no-logo --listen-mode tcp --bind-ip 127.0.0.1 --bind-port $((port + 2)) --node-name one --base-dir "$dir/data" >"$dir/log" 2>&1 &
	server=$!
	for _ in $(seq 60); do
		if answers; then
			started=yes
			break 2
		fi
		kill -0 "$server" 2>/dev/null || break
		sleep 0.5
	done
	kill -9 "$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	rm -rf "$dir/data"
done
[ "${started-}" ] || cannot "restate: $(tail -n 1 "$dir/log")"
RESTATE_LOGGING=ERROR TIPSTAFF_RESTATE=$ingress TIPSTAFF_RESTATE_ADMIN=$admin "$@"
