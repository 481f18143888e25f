#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME each, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-10s}
found=0
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		found=$((found + 1))
		printf 'fuzz %s %s\n' "$(dirname "$file")" "$target"
		log=$(mktemp)
		if ! go test -run '^$' -fuzz "^${target}\$" -fuzztime "$time" "$(dirname "$file")" >"$log" 2>&1; then
			cat "$log"
			exit 1
		fi
		rm -f "$log"
	done
done
[ "$found" -gt 0 ] || { echo 'no fuzz target was found' >&2; exit 1; }
printf '%d fuzz targets, %s each: nothing found\n' "$found" "$time"
