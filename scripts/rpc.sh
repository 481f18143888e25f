#!/usr/bin/env bash
# Installs what test/grpc needs, gRPC clients that other people wrote and a proxy that makes
# the network fail: into .cache/rpc, in the versions below and of the lock file.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$PWD/test/grpc
cache=$PWD/.cache/rpc
programs=(
	grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4
	ghz github.com/bojand/ghz/cmd/ghz@v0.121.0
	toxiproxy-server github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0
)

cannot() {
	printf '%s: the tests against real gRPC clients cannot be run\n' "$1" >&2
	exit 1
}

installed() { [ "$(cat "$cache/installed" 2>/dev/null)" = "$(wanted_now)" ]; }

# wanted_now is what the tests need, as text.
wanted_now() { printf '%s\n' "${programs[@]}" && cat "$wanted/package-lock.json"; }

# registries_answer asks two small questions, and does not wait long for the replies.
registries_answer() {
	npm view --fetch-retries=0 --fetch-timeout=15000 @grpc/grpc-js version >/dev/null 2>&1 || cannot 'npm does not answer'
	timeout 30 go list -m "github.com/fullstorydev/grpcurl@v1.9.4" >/dev/null 2>&1 || cannot 'no proxy of Go modules answers'
}

install() {
	local n built
	mkdir -p "$cache/bin"
	rm -f "$cache/installed"
	cp "$wanted/package.json" "$wanted/package-lock.json" "$cache/"
	(cd "$cache" && npm ci --fetch-retries=5 --ignore-scripts --no-audit --no-fund --loglevel=error)
	built=$(mktemp -d)
	for ((n = 0; n < ${#programs[@]}; n += 2)); do
		CGO_ENABLED=0 GOFLAGS=-trimpath GOBIN=$built go install "${programs[n + 1]}"
		mv "$built"/* "$cache/bin/${programs[n]}"
	done
	rmdir "$built"
	wanted_now >"$cache/installed"
}

if ! installed; then
	command -v npm >/dev/null && command -v node >/dev/null || cannot 'there is no npm'
	registries_answer
	install
fi
