#!/usr/bin/env bash
# Installs what test/mcp needs, real MCP servers and the protocol's conformance suite: from
# npm, in the exact versions of the lock file, into .cache/mcp; and from PyPI, in those of
# requirements.txt, into .cache/fastmcp. With --or-skip a machine that cannot install it has
# failed nothing; .cache/mcp/there says whether it could.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$PWD/test/mcp
cache=$PWD/.cache/mcp
fastmcp=$PWD/.cache/fastmcp
least=22 # the major version of Node that the suite needs

# cannot ends the script: as a failure, or as tests that were not run.
cannot() {
	if [ "${or_skip-}" ]; then
		printf '%s: the tests against real MCP servers are skipped\n' "$1"
		mkdir -p "$cache" && : >"$cache/there"
		exit 0
	fi
	printf '%s: the tests against real MCP servers cannot be run\n' "$1" >&2
	exit 1
}

own_node_is_enough() {
	local version
	version=$(node --version 2>/dev/null) || return 1
	version=${version#v}
	[ "${version%%.*}" -ge "$least" ]
}

# node_there reports whether the servers can be started: by Node as it is here, or by
# the one that npm brought.
node_there() { own_node_is_enough || "$cache/node_modules/.bin/node" --version >/dev/null 2>&1; }

installed() { cmp -s "$wanted/package-lock.json" "$cache/installed.json" && node_there; }

# npm_answers asks one small question, and does not wait long for the reply.
npm_answers() {
	npm view --fetch-retries=0 --fetch-timeout=15000 @modelcontextprotocol/server-everything@2026.8.31 version >/dev/null 2>&1
}

install() {
	local omit=()
	if own_node_is_enough; then omit=(--omit=optional); fi
	mkdir -p "$cache"
	rm -f "$cache/installed.json"
	cp "$wanted/package.json" "$wanted/package-lock.json" "$cache/"
	(cd "$cache" && npm ci --fetch-retries=5 --ignore-scripts --no-audit --no-fund --loglevel=error ${omit[@]+"${omit[@]}"})
	node_there || cannot "Node $least is not to be had for this machine"
	cp "$wanted/package-lock.json" "$cache/installed.json"
}

fastmcp_installed() { cmp -s "$wanted/requirements.txt" "$fastmcp/installed.txt" && "$fastmcp/bin/python" -c '' 2>/dev/null; }

# install_fastmcp leaves nothing behind that looks installed if it fails.
install_fastmcp() {
	rm -rf "$fastmcp"
	python3 -m venv "$fastmcp" 2>/dev/null &&
		"$fastmcp/bin/pip" install --quiet --disable-pip-version-check --retries 0 --timeout 15 --only-binary :all: --requirement "$wanted/requirements.txt" &&
		cp "$wanted/requirements.txt" "$fastmcp/installed.txt"
}

if [ "${1-}" = --or-skip ]; then or_skip=yes; fi

if ! installed; then
	command -v npm >/dev/null && command -v node >/dev/null || cannot 'there is no npm'
	npm_answers || cannot 'npm does not answer'
	install
fi
if ! fastmcp_installed && ! install_fastmcp; then
	[ "${or_skip-}" ] || cannot 'FastMCP cannot be installed'
	echo 'FastMCP cannot be installed (Python 3.10 with venv, or PyPI, is not there): its tests are skipped'
fi
echo yes >"$cache/there"
