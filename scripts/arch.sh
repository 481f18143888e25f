#!/usr/bin/env bash
# What the memory learns must be the same to the last digit on every architecture:
# its tests, which hold it to values that another program has computed, run on one of
# 32 bits, too. A machine that cannot run such programs has failed nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

[ "$("$go" env GOHOSTOS)/$("$go" env GOHOSTARCH)" = linux/amd64 ] || exit 0
export GOARCH=386 CGO_ENABLED=0
mkdir -p .cache
"$go" test -trimpath -c -o .cache/cortex-386.test ./cortex
if ! .cache/cortex-386.test -test.run '^$' >/dev/null 2>&1; then
	echo 'this machine runs no programs of 32 bits: cortex was tested on one architecture alone'
	exit 0
fi
cd cortex
../.cache/cortex-386.test -test.shuffle=on
