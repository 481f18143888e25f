#!/usr/bin/env bash
# What must hold of the text itself, cheapest first. Stops at the first fault.
# The tests are a matter of `make test`; they run the commands of the pages too.
set -euo pipefail
cd "$(dirname "$0")/.."

staticcheck_version=v0.8.2 # the release 2026.2.2
tools=$PWD/.cache/bin

checking() { printf 'check: %s\n' "$*"; }
fault() {
	printf 'fault: %s\n' "$*" >&2
	exit 1
}

# files that belong to the repository, or would if they were added now.
files() { git ls-files --cached --others --exclude-standard -z -- "$@" | while IFS= read -r -d '' f; do [ -f "$f" ] && printf '%s\0' "$f"; done; }

checking 'README.md has at most 200 lines'
length=$(wc -l <README.md)
[ "$length" -le 200 ] || fault "README.md has $length lines"

checking 'no file points at things that are not in the repository, or promises work'
# Spelled so that this line does not find itself.
words='\.\./share[d]|TOD[O]|FIXM[E]|(^|[^A-Za-z0-9._}-])/(wor[k]|roo[t])/'
if files . | xargs -0 grep -nIE "$words"; then
	fault 'the lines above name a path of one machine, or leave something to do'
fi

checking 'scripts are executable'
while IFS= read -r -d '' script; do
	[ -x "$script" ] || fault "$script cannot be executed: chmod +x $script"
done < <(files '*.sh')

checking 'gofmt'
unformatted=$(files '*.go' | xargs -0 gofmt -l)
[ -z "$unformatted" ] || fault "gofmt would change: $unformatted"

# As make test does, which uses again what is compiled here.
export GOFLAGS="${GOFLAGS-} ${RACE-}"

checking 'go vet'
go vet ./... || fault 'go vet found something'

checking "staticcheck $staticcheck_version"
if ! "$tools/staticcheck" -version 2>/dev/null | grep -qF "(${staticcheck_version#v})"; then
	GOBIN=$tools CGO_ENABLED=0 GOFLAGS=-trimpath go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version"
fi
"$tools/staticcheck" ./... || fault 'staticcheck found something'

checking 'the wire: lint, clients of the last release, generated code'
scripts/wire.sh check || exit 1

checking 'the wire in Python: generated code'
scripts/python.sh check --or-skip || exit 1

echo 'all checks passed'
