#!/usr/bin/env bash
# A real coding CLI changes code: demo-cli.sh [claude|codex|gemini|opencode]. Without a name it
# takes the first that is installed. The CLI uses your account, and its model costs what it
# costs: one small change. The folder stays, so that you can look at it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
binary=${TIPSTAFF:-$here/../bin/tipstaff}
[ -x "$binary" ] || { echo "there is no $binary: run make build" >&2; exit 1; }
known=(claude codex gemini opencode)

fail() {
	printf '%s\n' "$@" >&2
	exit 1
}

cli=${1-}
if [ -z "$cli" ]; then
	for name in "${known[@]}"; do
		if command -v "$name" >/dev/null; then cli=$name && break; fi
	done
	[ "$cli" ] || fail "none of ${known[*]} is on your PATH" "to install one: npm install --global @anthropic-ai/claude-code"
fi
[[ " ${known[*]} " == *" $cli "* ]] || fail "$cli is not a coding CLI that this demo knows: ${known[*]}"
command -v "$cli" >/dev/null || fail "$cli is not on your PATH"

folder=$(mktemp -d "${TMPDIR:-/tmp}/tipstaff-demo-$cli.XXXXXX")
mkdir "$folder/bin"
cp "$binary" "$folder/bin/tipstaff"
export PATH="$folder/bin:$PATH"
cd "$folder"
git init -q greeting
cd greeting
printf 'echo "Hello!"\n' >greet.sh

shown() { printf '\n$ %s\n' "$1"; }
shown "tipstaff init --worker $cli"
tipstaff init --worker "$cli" | sed '/^next/,$ d'
git add .
git -c user.name=Ada -c user.email=ada@example.com commit -q -m "A greeting"
change='Let greet.sh NAME greet by name. Without a name it greets the world.'
shown "tipstaff run deliver.yaml --text '$change'"
got=0
tipstaff run deliver.yaml --text "$change" || got=$?
printf '\n-- This is in %s\n' "$PWD"
case $got in
0) printf -- '-- To prove what was done: tipstaff verify @\n' ;;
4) printf -- '-- It waits for you there: tipstaff show @ --diff, and tipstaff decide @ delivery#1 approve\n' ;;
*) exit "$got" ;;
esac
