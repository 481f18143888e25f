#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME each, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-10s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() { go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" >"$log" 2>&1; }

# When the time is over go's own coordinator sometimes reports that as a failure,
# with no input to show for it. That is no finding, but no pass either: it is tried
# again, and must pass in the end.
ran_out() { grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; }

found=0
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		found=$((found + 1))
		package=$(dirname "$file")
		printf 'fuzz %s %s\n' "$package" "$target"
		fuzz "$package" "$target" || { ran_out && fuzz "$package" "$target"; } || { ran_out && fuzz "$package" "$target"; } || {
			cat "$log"
			exit 1
		}
	done
done
[ "$found" -gt 0 ] || { echo 'no fuzz target was found' >&2; exit 1; }
printf '%d fuzz targets, %s each: nothing found\n' "$found" "$time"
