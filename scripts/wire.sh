#!/usr/bin/env bash
# The wire: pb/tipstaff/core/v1/core.proto and what is made from it.
#
#   wire.sh generate   writes the Go code anew
#   wire.sh check      the code is what core.proto says, and core.proto breaks no client
#   wire.sh freeze     what core.proto says now is promised to clients from now on
#
# The generators are tools of go.mod. buf, which takes longer to compile than all else
# together, is not: it comes from npm, and is compiled only where there is no npm.
set -euo pipefail
cd "$(dirname "$0")/.."

buf_version=1.72.0
buf=$PWD/.cache/buf/node_modules/.bin/buf
promised=pb/testdata/v1.binpb

fault() {
	printf 'fault: %s\n' "$*" >&2
	exit 1
}

if [ "$("$buf" --version 2>/dev/null)" != "$buf_version" ]; then
	npm install --prefix .cache/buf --no-save --ignore-scripts --no-audit --no-fund --loglevel=error "@bufbuild/buf@$buf_version" >/dev/null 2>&1 ||
		GOBIN=$(dirname "$buf") go install "github.com/bufbuild/buf/cmd/buf@v$buf_version" ||
		fault "buf $buf_version cannot be installed: without it nobody knows whether the wire is sound"
fi

check() {
	"$buf" lint || fault 'buf lint: the lines above say where; a rule that cannot hold is excepted in buf.yaml, with the reason'
	"$buf" format --diff --exit-code || fault 'core.proto is not formatted: .cache/bin/buf format -w'
	"$buf" breaking --against "$promised" || fault 'buf breaking: clients that were promised the old core.proto would break; add fields, never change them'
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	"$buf" generate --output "$fresh"
	for file in "$fresh"/pb/*.pb.go pb/*.pb.go; do
		cmp -s "$fresh/pb/$(basename "$file")" "pb/$(basename "$file")" || fault "pb/$(basename "$file") is not what core.proto makes: make generate"
	done
}

case ${1-} in
generate) "$buf" generate ;;
check) check ;;
freeze) "$buf" build --exclude-source-info --output "$promised" ;;
*) fault 'usage: wire.sh generate|check|freeze' ;;
esac
