#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME each, as many at once as there
# are processors. A package is built once for all its targets.
#
# With --changed only those of packages in which a file has changed (scripts/changed.sh), for
# ten seconds each. They are built as make test builds them and so without guidance by
# coverage: for that every package would have to be compiled once more.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-10s}
built=$PWD/.cache/fuzz

# one runs a target, on one processor. When the time is over go's own coordinator
# sometimes reports that as a failure, with no input to show for it. That is no
# finding, but no pass either: it is tried again, and must pass in the end.
one() {
	local log try program=$built/${1//\//_}.test
	log=$(mktemp)
	cd "$1"
	for try in 1 2 3; do
		if "$program" -test.run '^$' -test.parallel 1 -test.fuzz "^$2\$" -test.fuzztime "$time" -test.fuzzcachedir "$built/cases/$1" >"$log" 2>&1; then
			printf 'fuzz %s %s\n' "$1" "$2"
			rm -f "$log"
			return
		fi
		if ! grep -q 'context deadline exceeded' "$log" || grep -q 'Failing input written' "$log"; then break; fi
	done
	printf 'fuzz %s %s: failed\n' "$1" "$2"
	cat "$log"
	rm -f "$log"
	exit 255 # xargs starts no other
}

if [ $# -eq 2 ]; then
	one "$@"
	exit
fi

targets=$(grep -r --include='*_test.go' '^func Fuzz' . | sed 's|^\(.*\)/[^/]*_test.go:func \(Fuzz[A-Za-z0-9_]*\)(.*|\1 \2|' | sort)
[ -n "$targets" ] || { echo 'no fuzz target was found' >&2; exit 1; }
flags=(-fuzz .)
if [ "${1-}" = --changed ]; then
	changed=$(scripts/changed.sh)
	targets=$(while read -r package target; do
		folder=${package#.}
		! grep -qE "^${folder#/}${folder:+/}[^/]*\.go$" <<<"$changed" || printf '%s %s\n' "$package" "$target"
	done <<<"$targets")
	[ -n "$targets" ] || { echo 'skipped: fuzzing: no package with a fuzz target has changed; make fuzz runs it' && exit; }
	flags=(-trimpath -vet=off)
	export CGO_ENABLED=0
fi
mkdir -p "$built"
for package in $(cut -d ' ' -f 1 <<<"$targets" | uniq); do
	go test -c "${flags[@]}" -o "$built/${package//\//_}.test" "$package"
done
xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 "$PWD/scripts/fuzz.sh" <<<"$targets"
printf '%d fuzz targets, %s each: nothing found\n' "$(wc -l <<<"$targets")" "$time"
