#!/usr/bin/env bash
# Tipstaff in five scenes, in a folder that is gone afterwards: an agent that needs an approval,
# a run that is killed while it posts a letter, its proof and a forgery of it, a change of code
# that workers make and that ends as a branch, and the page. At a terminal each scene waits for
# a key, and you answer the agent's question yourself. It needs no key and no network.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
binary=${TIPSTAFF:-$here/../bin/tipstaff}
server=${FILESERVER:-$here/../bin/fileserver}
[ -x "$binary" ] && [ -x "$server" ] || { echo "there is no $binary, or no $server: run make demo" >&2; exit 1; }

workspace=$(mktemp -d "${TMPDIR:-/tmp}/tipstaff-demo.XXXXXX")
pid=
cleanup() {
	[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
	rm -rf "$workspace"
}
trap cleanup EXIT

mkdir "$workspace/bin"
cp "$binary" "$workspace/bin/tipstaff"
cp -R "$here/tipstaff.yaml" "$here/post.yaml" "$here/post.sh" "$here/data" "$here/agent" "$here/deliver" "$here/deliver.sh" "$workspace"
cp "$server" "$workspace/agent/fileserver"
mkdir -p "$workspace/agent/out"
cd "$workspace"
# The folder is a copy of this repository's own: nobody need be asked whether to trust it.
export PATH="$workspace/bin:$PATH" XDG_STATE_HOME="$workspace/state" TIPSTAFF_TRUST=1
unset TIPSTAFF_WORKSPACE

attended=
if [ -t 0 ] && [ -t 1 ] && [ -t 2 ]; then attended=yes; fi

# scene begins one, on a screen of its own if somebody is there to turn the pages.
scenes=5 at=0
scene() {
	if [ "$attended" ] && [ "$at" -gt 0 ]; then
		local key
		printf '\n-- any key goes on, q ends: '
		read -rsn 1 key || true
		[ "${key-}" != q ] || { printf '\n'; exit 0; }
		printf '\033[H\033[2J'
	fi
	at=$((at + 1))
	[ "$at" -eq 1 ] || printf '\n'
	printf '== %d of %d: %s\n' "$at" "$scenes" "$1"
}

say() { printf -- '-- %s\n' "$*"; }

# try CODE COMMAND [SED] shows a line of shell, runs it and insists on its exit code. Of what it
# prints SED lets the reader see less, and … says that there is more.
try() {
	local want=$1 got=0 said
	printf '$ %s\n' "$2"
	if [ "${3-}" ]; then
		said=$(bash -c "$2" 2>&1) || got=$?
		printf '%s\n' "$said" | if [ "$got" -eq "$want" ]; then sed "$3"; else cat; fi
		printf '…\n'
	else
		bash -c "$2" 2>&1 || got=$?
	fi
	if [ "$got" -ne "$want" ]; then
		echo "exit code $got, not $want" >&2
		exit 1
	fi
}

# wait_for FILE PATTERN waits until a file of the process pid has it.
wait_for() {
	until grep -q "$2" "$1" 2>/dev/null; do
		kill -0 "$pid" 2>/dev/null || { cat "$1" >&2; exit 1; }
		sleep 0.05
	done
}

scene "an agent reads letters through an MCP server, and asks before it writes"
say "Its model is scripted, everything else is real. The tools are pinned: one that changes is refused."
cd agent
try 0 "tipstaff tools pin --yes" '/^  +/!d'
if [ "$attended" ]; then
	say "You are asked. Type y and Enter."
	printf '$ tipstaff chat "Summarise the letters."\n'
	tipstaff chat "Summarise the letters."
else
	try 4 'tipstaff chat "Summarise the letters."' '/digest/d; /^then/,$ d'
	say "It waits without a process. A command decides, another takes it on."
	try 0 "tipstaff decide @ turn/tool#3.1/approval allow --note 'reads well'" '1!d'
	try 0 "tipstaff resume @ --unattended" '3,$ d'
fi
if [ -f out/summary.md ]; then try 0 "cat out/summary.md"; fi
cd ..

scene "a run is killed while it posts a letter, which must not happen twice"
printf '$ tipstaff run post.yaml --unattended &\n'
tipstaff run post.yaml --unattended >post.log 2>&1 &
pid=$!
wait_for outbox.log posted
printf '$ kill -9 %d\n' "$pid"
{ kill -9 "$pid" && wait "$pid" || true; } 2>/dev/null # without the shell's own notice
pid=
try 0 "tipstaff ls"
say "Resumed, it does not post again. Nobody can know what became of the letter, so it asks."
try 4 "tipstaff resume @ --unattended" '/^waiting/,/argv\|decide/!d; /in_doubt$/d'
say "The outbox has the letter. We looked, and say so, and the run goes on."
answer='{"exit_code":0,"stdout":"","stderr":""}'
try 0 "tipstaff decide @ root/post/in_doubt use_result --answer '$answer' --note 'the outbox has it'" '1!d'
try 0 "tipstaff resume @ --unattended" '/^run \{4\}/,$ d; /resumed/d'
try 0 "cat outbox.log"
[ "$(wc -l <outbox.log)" -eq 1 ] || { echo "the letter was posted more than once" >&2; exit 1; }

scene "anyone can prove what was done, offline"
try 0 "tipstaff export @ proof"
say "Nothing was changed, and the plan, replayed, takes exactly these steps:"
try 0 "tipstaff verify ./proof" '/^head\|^lifecycle/d'
say "Now one byte is flipped: the answer says exit code 1."
sed 's/"answer":{"exit_code":0/"answer":{"exit_code":1/' proof/records.ndjson >forged
cmp -s forged proof/records.ndjson && { echo "nothing was flipped" >&2; exit 1; }
cat forged >proof/records.ndjson
try 6 "tipstaff verify ./proof" '/^integrity/,$ !d; s/^\(.\{100\}\).*/\1…/'

scene "coding CLIs plan, make, review and repair a change, and you say what becomes of it"
say "The worker is scripted, too. One line of tipstaff.yaml makes it a real one: make demo-claude."
try 0 "./deliver.sh repository"
cd repository
try 4 'tipstaff run deliver.yaml --text "greet.sh NAME greets by name." --unattended' '/  route  \|^deliver  ch\|asks:/!d; s/ What becomes of it?//'
try 0 "tipstaff show @ --diff" '/^[-+]/!d; /^---/d'
try 0 "tipstaff decide @ delivery#1 approve --note 'as I wanted it'" '1!d'
try 0 "tipstaff resume @ --unattended" '/^run \{4\}/,$ d; /resumed/d'
try 0 "git log --branches --oneline"

scene "the page: what waits for you, what runs do, what they cost, and the proof"
printf '$ tipstaff serve &\n'
tipstaff serve --addr 127.0.0.1:0 --grpc-addr 127.0.0.1:0 >serve.log 2>&1 &
pid=$!
wait_for serve.log '^http '
address=$(sed -n 's/^http \([^ ]*\).*/\1/p' serve.log)
if [ "$attended" ]; then
	try 0 "tipstaff serve --link --addr $address"
	say "Open that link: it signs you in, once. The page ends with this demo. Press Enter when you have seen it."
	read -r _ || true
fi
kill "$pid"
wait "$pid" 2>/dev/null || true
pid=
say "Nothing of this is left behind. In a folder of your own: tipstaff init, tipstaff serve, and open"
say "http://127.0.0.1:8080/ui/"
