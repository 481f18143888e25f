#!/usr/bin/env bash
# Installs what test/clis needs, the coding CLIs that Tipstaff runs as workers: from npm, in
# the exact versions of the lock file, into .cache/clis. With --or-skip a machine that cannot
# install them has failed nothing; .cache/clis/there says whether it could.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$PWD/test/clis
cache=$PWD/.cache/clis
least=20 # the major version of Node that Gemini CLI needs

# cannot ends the script: as a failure, or as tests that were not run.
cannot() {
	if [ "${or_skip-}" ]; then
		printf '%s: the tests against real coding CLIs are skipped\n' "$1"
		mkdir -p "$cache" && : >"$cache/there"
		exit 0
	fi
	printf '%s: the tests against real coding CLIs cannot be run\n' "$1" >&2
	exit 1
}

node_is_enough() {
	local version
	version=$(node --version 2>/dev/null) || return 1
	version=${version#v}
	[ "${version%%.*}" -ge "$least" ]
}

# cli_is_there reports whether a CLI says that it is of the version that is listed.
cli_is_there() {
	local listed
	listed=$(sed -n "s/^  \"$1\": .*\"version\": \"\([^\"]*\)\".*/\1/p" "$wanted/clis.json")
	[ "$listed" ] && "$cache/node_modules/.bin/$1" --version 2>/dev/null | grep -qF -- "$listed"
}

all_are_there() {
	local name
	for name in claude codex gemini opencode; do
		cli_is_there "$name" || { missing=$name; return 1; }
	done
}

installed() { cmp -s "$wanted/package-lock.json" "$cache/installed.json" && all_are_there; }

# npm_answers asks one small question, and does not wait long for the reply.
npm_answers() {
	npm view --fetch-retries=0 --fetch-timeout=15000 @openai/codex@0.166.0 version >/dev/null 2>&1
}

# install keeps to the lock file; npm ci would insist on opencode's packages for other
# systems, which a registry may lack. It runs the scripts of two packages alone, which put the
# program for this machine in its place.
install() {
	mkdir -p "$cache"
	rm -f "$cache/installed.json"
	cp "$wanted/package.json" "$wanted/package-lock.json" "$cache/"
	(
		cd "$cache"
		rm -rf node_modules
		npm install --fetch-retries=5 --ignore-scripts --no-audit --no-fund --loglevel=error &&
			npm rebuild --loglevel=error @anthropic-ai/claude-code opencode-ai
	) || cannot 'npm cannot install the CLIs'
	all_are_there || cannot "$missing was installed and does not run, or is of another version"
	cp "$wanted/package-lock.json" "$cache/installed.json"
}

if [ "${1-}" = --or-skip ]; then or_skip=yes; fi

if ! installed; then
	command -v npm >/dev/null || cannot 'there is no npm'
	node_is_enough || cannot "there is no Node $least"
	npm_answers || cannot 'npm does not answer'
	install
fi
echo yes >"$cache/there"
