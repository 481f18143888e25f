#!/usr/bin/env bash
# Runs a command beside the binary of an earlier commit: scripts/versions.sh COMMAND...
# TIPSTAFF_EARLIER names it. It is built once, into .cache/versions, from history; EARLIER is
# another commit. With --or-skip before the command a clone without that history has failed
# nothing.
set -euo pipefail
if [ "${1-}" = --or-skip ]; then
	or_skip=yes
	shift
fi
root=$(cd "$(dirname "$0")/.." && pwd)
earlier=${EARLIER:-540f50a145e3bcb7314e68da8a9936353a7d6f60}
place=$root/.cache/versions/$earlier
if [ ! -x "$place/bin/tipstaff" ]; then
	if ! git -C "$root" cat-file -e "$earlier^{commit}" 2>/dev/null; then
		printf 'the history has no commit %s: the tests with two versions cannot be run\n' "$earlier" >&2
		[ "${or_skip-}" ] && exit 0
		exit 1
	fi
	rm -rf "$place"
	mkdir -p "$place"
	git -C "$root" archive "$earlier" | tar -x -C "$place"
	(cd "$place" && CGO_ENABLED=0 "${GO:-go}" build -trimpath -ldflags "-s -w -X main.version=$earlier" -o bin/ ./cmd/tipstaff)
fi
TIPSTAFF_EARLIER="$place/bin/tipstaff" "$@"
