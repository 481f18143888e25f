#!/usr/bin/env bash
# Runs a command beside a server of its own that speaks the protocol of S3, which listens on
# loopback and ends with it: scripts/s3.sh COMMAND... TIPSTAFF_S3 is the address of a bucket,
# AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are its credentials, and TIPSTAFF_S3_SERVER is
# the program. That is compiled once, into .cache/bin. With --or-skip before the command a
# machine that cannot compile it runs the command without, whose tests skip themselves.
set -euo pipefail
version=v1.8.0
cache=$(cd "$(dirname "$0")/.." && pwd)/.cache/bin
server=$cache/versitygw-$version
if [ "${1-}" = --or-skip ]; then
	or_skip=yes
	shift
fi

compile() {
	echo "compiling versitygw $version, once; it takes minutes"
	mkdir -p "$cache"
	CGO_ENABLED=0 GOFLAGS=-trimpath GOBIN=$dir nice -n 19 "${GO:-go}" install -ldflags=-w "github.com/versity/versitygw/cmd/versitygw@$version" >"$dir/log" 2>&1 &&
		mv "$dir/versitygw" "$server"
}

# start leaves pid and port of a server that answers.
start() {
	mkdir -p "$dir/root/tipstaff" "$dir/meta"
	for _ in 1 2 3 4 5; do # a port may be taken meanwhile
		port=$((20000 + RANDOM % 12000))
		"$server" --port "127.0.0.1:$port" --quiet posix --sidecar "$dir/meta" "$dir/root" >"$dir/log" 2>&1 &
		pid=$!
		for _ in $(seq 100); do
			kill -0 "$pid" 2>/dev/null || break
			if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
			sleep 0.1
		done
	done
	return 1
}

dir=$(mktemp -d)
pid=
stop() {
	[ ! "$pid" ] || kill "$pid" 2>/dev/null || true
	rm -rf "$dir"
}
trap stop EXIT
export ROOT_ACCESS_KEY=tipstaff ROOT_SECRET_KEY=$RANDOM$RANDOM$RANDOM$RANDOM
if { [ -x "$server" ] || compile; } && start; then
	AWS_ACCESS_KEY_ID=$ROOT_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$ROOT_SECRET_KEY TIPSTAFF_S3_SERVER=$server \
		TIPSTAFF_S3="s3://tipstaff?endpoint=http://127.0.0.1:$port" "$@"
elif [ "${or_skip-}" ]; then
	printf 'versitygw: %s: the tests with an S3 server are skipped\n' "$(tail -1 "$dir/log")"
	"$@"
else
	printf 'versitygw: %s: the tests with an S3 server cannot be run\n' "$(tail -1 "$dir/log")" >&2
	exit 1
fi
