#!/usr/bin/env bash
# Installs what test/page needs to try the page in a browser: playwright-core and axe-core from
# npm, in the exact versions of the lock file, into .cache/web. Chromium is Debian's and belongs
# to the machine. With --or-skip a machine that lacks one of them has failed nothing;
# .cache/web/there says whether all are there.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$PWD/test/page/browser
cache=$PWD/.cache/web
[ "${1-}" != --or-skip ] || or_skip=yes

# cannot ends the script: as a failure, or as tests that were not run.
cannot() {
	mkdir -p "$cache" && : >"$cache/there"
	if [ "${or_skip-}" ]; then
		printf '%s: the tests of the web page in a browser are skipped\n' "$1"
		exit 0
	fi
	printf '%s: the tests of the web page in a browser cannot be run\n' "$1" >&2
	exit 1
}

command -v chromium >/dev/null || cannot 'chromium is not installed'
command -v node >/dev/null || cannot 'node is not installed'
if ! cmp -s "$wanted/package-lock.json" "$cache/installed.json"; then
	command -v npm >/dev/null || cannot 'npm is not installed'
	mkdir -p "$cache"
	cp "$wanted/package.json" "$wanted/package-lock.json" "$cache/"
	(cd "$cache" && npm ci --fetch-retries=5 --ignore-scripts --no-audit --no-fund --loglevel=error) || cannot 'npm cannot install playwright-core and axe-core'
	cp "$wanted/package-lock.json" "$cache/installed.json"
fi
echo yes >"$cache/there"
