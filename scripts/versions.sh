#!/usr/bin/env bash
# Runs a command beside the binaries of two earlier commits: scripts/versions.sh COMMAND...
# TIPSTAFF_EARLIER names the one whose stores have the same format as today's, TIPSTAFF_OLDER
# the one whose stores today's binary migrates. Each is built once, into .cache/versions, from
# history; EARLIER and OLDER are other commits. With --or-skip before the command a clone
# without that history has failed nothing.
set -euo pipefail
if [ "${1-}" = --or-skip ]; then
	or_skip=yes
	shift
fi
root=$(cd "$(dirname "$0")/.." && pwd)

# build sets binary to that of a commit.
build() {
	local commit=$1 place=$root/.cache/versions/$1
	binary=$place/bin/tipstaff
	[ ! -x "$binary" ] || return 0
	if ! git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null; then
		printf 'the history has no commit %s: the tests with two versions cannot be run\n' "$commit" >&2
		[ "${or_skip-}" ] && exit 0
		exit 1
	fi
	rm -rf "$place"
	mkdir -p "$place"
	git -C "$root" archive "$commit" | tar -x -C "$place"
	(cd "$place" && CGO_ENABLED=0 "${GO:-go}" build -trimpath -ldflags "-s -w -X main.version=$commit" -o bin/ ./cmd/tipstaff)
}

build "${EARLIER:-540f50a145e3bcb7314e68da8a9936353a7d6f60}"
export TIPSTAFF_EARLIER=$binary
build "${OLDER:-3e4c7f27d0ba0c6ac1764471a545f33a9bccdd8b}" # SQLite 9, Postgres 1
TIPSTAFF_OLDER=$binary "$@"
