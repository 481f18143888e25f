#!/usr/bin/env bash
# build.sh OUT PACKAGE… builds programs as they are released, and says how far it is: the
# first time, every module is downloaded and compiled, which takes minutes. VERSION is what
# the programs call themselves.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
out=$1
shift
export CGO_ENABLED=0
flags=(-trimpath -ldflags "-s -w -X main.version=${VERSION:-dev}")
took=.cache/took-build # how long the last large build took, and for how many packages

# The go command says by itself what it downloads here.
stale=$("$go" list -deps "${flags[@]}" -f '{{if .Stale}}{{.ImportPath}}{{end}}' "$@" | grep -c . || true)
if [ "$stale" -gt 20 ]; then
	about=
	if read -r seconds packages 2>/dev/null <"$took"; then about=", about $((stale * seconds / packages + 1)) s"; fi
	printf 'building %s: %d packages to compile%s\n' "${*##*/}" "$stale" "$about"
fi

# progress counts the packages that go build -v names as it begins them, and passes on
# everything else that it says.
progress() {
	local line n=0 said=$SECONDS
	while IFS= read -r line; do
		case $line in
		'' | *' '* | *:*) printf '%s\n' "$line" ;;
		*)
			n=$((n + 1))
			if [ -t 2 ]; then
				printf '\r  %d of %d: %s\033[K' "$n" "$stale" "$line"
			elif [ $((SECONDS - said)) -ge 15 ]; then
				said=$SECONDS
				printf '  %d of %d packages, after %d s\n' "$n" "$stale" "$SECONDS"
			fi
			;;
		esac
	done
	if [ -t 2 ] && [ "$n" -gt 0 ]; then printf '\r\033[K'; fi
}

"$go" build -v "${flags[@]}" -o "$out" "$@" 2>&1 | progress >&2
if [ "$stale" -gt 20 ]; then
	printf 'built in %d s\n' "$SECONDS"
	mkdir -p .cache
	if [ "$stale" -gt 200 ]; then echo "$SECONDS $stale" >"$took"; fi
fi
