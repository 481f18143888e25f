#!/usr/bin/env bash
# The wire: pb/tipstaff/core/v1/core.proto and what is made from it.
#
#   wire.sh generate   writes the Go code anew
#   wire.sh check      the code is what core.proto says, and core.proto breaks no client
#   wire.sh freeze     what core.proto says now is promised to clients from now on
#
# The generators are tools of go.mod. buf, which has more dependencies than all else
# together, is not: it is installed beside, and only when something has changed since
# the last check. What was checked stands in pb/testdata/checked.
set -euo pipefail
cd "$(dirname "$0")/.."

buf_version=1.72.0
buf=$PWD/.cache/bin/buf
promised=pb/testdata/v1.binpb
checked=pb/testdata/checked

fault() {
	printf 'fault: %s\n' "$*" >&2
	exit 1
}

# state is everything that the verdict of a check depends on.
state() {
	printf 'buf %s\n' "$buf_version"
	go list -m -f '{{.Path}} {{.Version}}' google.golang.org/protobuf google.golang.org/grpc/cmd/protoc-gen-go-grpc
	sha256sum scripts/wire.sh buf.yaml buf.gen.yaml "$promised" pb/tipstaff/core/v1/core.proto pb/*.pb.go
}

need_buf() {
	[ "$("$buf" --version 2>/dev/null)" = "$buf_version" ] ||
		GOBIN=$(dirname "$buf") go install "github.com/bufbuild/buf/cmd/buf@v$buf_version" ||
		fault "buf $buf_version cannot be installed: without it nobody knows whether the wire is sound"
}

check() {
	[ "$(state)" != "$(cat "$checked" 2>/dev/null)" ] || return 0
	need_buf
	"$buf" lint || fault 'buf lint: the lines above say where; a rule that cannot hold is excepted in buf.yaml, with the reason'
	"$buf" format --diff --exit-code || fault 'core.proto is not formatted: .cache/bin/buf format -w'
	"$buf" breaking --against "$promised" || fault 'buf breaking: clients that were promised the old core.proto would break; add fields, never change them'
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	"$buf" generate --output "$fresh"
	for file in "$fresh"/pb/*.pb.go pb/*.pb.go; do
		cmp -s "$fresh/pb/$(basename "$file")" "pb/$(basename "$file")" || fault "pb/$(basename "$file") is not what core.proto makes: make generate"
	done
	state >"$checked"
}

case ${1-} in
generate) need_buf && "$buf" generate ;;
check) check ;;
freeze) need_buf && "$buf" build --exclude-source-info --output "$promised" ;;
*) fault 'usage: wire.sh generate|check|freeze' ;;
esac
