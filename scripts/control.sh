#!/usr/bin/env bash
# Installs what test/control needs, programs of others that speak with the control plane:
# from npm, in the exact versions of the lock file, k6 from source and Prometheus from
# Debian, all into .cache/control; the conformance suite and the coding CLIs as scripts/mcp.sh
# and scripts/clis.sh do. Chromium is Debian's and belongs to the machine. Without one of
# Chromium, Prometheus and k6 its tests alone are skipped. With --or-skip a machine that has
# no npm has failed nothing; .cache/control/there says whether the rest could be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$PWD/test/control
cache=$PWD/.cache/control
least=22 # the major version of Node that the Inspector needs
k6=v1.8.1

# cannot ends the script: as a failure, or as tests that were not run.
cannot() {
	if [ "${or_skip-}" ]; then
		printf '%s: the tests of the control plane against real programs are skipped\n' "$1"
		mkdir -p "$cache" && : >"$cache/there"
		exit 0
	fi
	printf '%s: the tests of the control plane against real programs cannot be run\n' "$1" >&2
	exit 1
}

# without says that the tests with one program will be skipped.
without() { printf '%s: the tests with %s are skipped\n' "$2" "$1"; }

own_node_is_enough() {
	local version
	version=$(node --version 2>/dev/null) || return 1
	version=${version#v}
	[ "${version%%.*}" -ge "$least" ]
}

node_there() { own_node_is_enough || "$cache/node_modules/.bin/node" --version >/dev/null 2>&1; }

installed() { cmp -s "$wanted/package-lock.json" "$cache/installed.json" && node_there; }

# npm_answers asks one small question, and does not wait long for the reply.
npm_answers() {
	npm view --fetch-retries=0 --fetch-timeout=15000 @modelcontextprotocol/inspector@2.12.0 version >/dev/null 2>&1
}

# install keeps to the lock file; npm ci would insist on packages for other systems, which a
# registry may lack.
install() {
	local omit=()
	if own_node_is_enough; then omit=(--omit=optional); fi
	mkdir -p "$cache"
	rm -f "$cache/installed.json"
	cp "$wanted/package.json" "$wanted/package-lock.json" "$cache/"
	(cd "$cache" && npm install --fetch-retries=5 --ignore-scripts --no-audit --no-fund --loglevel=error ${omit[@]+"${omit[@]}"}) || cannot 'npm cannot install them'
	node_there || cannot "Node $least is not to be had for this machine"
	cp "$wanted/package-lock.json" "$cache/installed.json"
}

# install_prometheus unpacks Debian's package. Nothing of it becomes part of the machine.
install_prometheus() {
	command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
	(
		rm -rf "$cache/prometheus" && mkdir -p "$cache/prometheus" && cd "$cache/prometheus" &&
			apt-get download prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb
	) >"$cache/prometheus.log" 2>&1
}

# install_k6 compiles for minutes, and leaves the machine to others meanwhile.
install_k6() {
	echo "compiling k6 $k6, once; it takes minutes"
	CGO_ENABLED=0 GOFLAGS=-trimpath GOBIN=$cache/bin nice -n 19 "${GO:-go}" install "go.k6.io/k6@$k6" >"$cache/k6.log" 2>&1
}

if [ "${1-}" = --or-skip ]; then or_skip=yes; fi

if ! installed; then
	command -v npm >/dev/null && command -v node >/dev/null || cannot 'there is no npm'
	npm_answers || cannot 'npm does not answer'
	install
fi
scripts/mcp.sh ${or_skip:+--or-skip}
scripts/clis.sh ${or_skip:+--or-skip}
if ! [ -x /usr/bin/chromium ]; then
	apt-get install -y --no-install-recommends chromium >"$cache/chromium.log" 2>&1 || without Chromium 'apt-get cannot install it'
fi
if ! "$cache/prometheus/usr/bin/prometheus" --version >/dev/null 2>&1; then
	install_prometheus || without Prometheus 'apt-get cannot download it'
fi
if ! "$cache/bin/k6" version 2>/dev/null | grep -qF "$k6"; then
	install_k6 || without k6 "it cannot be compiled ($(tail -n 1 "$cache/k6.log"))"
fi
echo yes >"$cache/there"
