#!/usr/bin/env bash
# From an agent to its proof, in a folder that is gone afterwards: an agent that
# works through an MCP server and needs an approval, a plan with a gate, a run that
# is killed while it posts a letter, an export that is tampered with, a change of
# code that workers make and that ends as a branch, and its page in a browser. At a terminal you answer the first
# questions yourself.
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
cp -R "$here/tipstaff.yaml" "$here/hello.yaml" "$here/post.yaml" "$here/post.sh" "$here/data" "$here/agent" "$here/deliver" "$here/deliver.sh" "$workspace"
cp "$server" "$workspace/agent/fileserver"
mkdir -p "$workspace/agent/out"
cd "$workspace"
# The folder is a copy of this repository's own: nobody need be asked whether to trust it.
export PATH="$workspace/bin:$PATH" XDG_STATE_HOME="$workspace/state" TIPSTAFF_TRUST=1
unset TIPSTAFF_WORKSPACE

say() { printf '\n-- %s\n' "$*"; }

# shown prints a command as one would type it.
shown() {
	local word line=
	for word in "$@"; do
		case $word in
		*[!A-Za-z0-9._/@=-]*) word="'$word'" ;;
		esac
		line="$line $word"
	done
	printf '\n$%s\n' "$line"
}

# try CODE COMMAND… shows a command, runs it and insists on its exit code.
try() {
	local want=$1 got=0
	shift
	shown "$@"
	"$@" || got=$?
	if [ "$got" -ne "$want" ]; then
		echo "exit code $got, not $want" >&2
		exit 1
	fi
	[ "$got" -eq 0 ] || printf '(exit code %d)\n' "$got"
}

attended=
if [ -t 0 ] && [ -t 2 ]; then attended=yes; fi

say "1. An agent: it reads letters through an MCP server, and asks before it writes."
say "Its model is scripted, so that this needs no key and no network. Everything else is real."
cd agent
say "First the tools are pinned: from now on a definition that changes is refused."
try 0 tipstaff tools pin --yes
if [ -n "$attended" ]; then
	say "You are at a terminal, so you are asked. Press y."
	code=0
	shown tipstaff chat 'Summarise the letters.'
	tipstaff chat 'Summarise the letters.' || code=$?
	[ "$code" -eq 0 ] || exit "$code"
else
	try 4 tipstaff chat 'Summarise the letters.'
	say "It waits for an approval, without a process. A command gives it, and another takes the turn on."
	try 0 tipstaff decide @ turn/tool#3.1/approval allow --note "reads well"
	try 0 tipstaff resume @ --unattended
fi
if [ -f out/summary.md ]; then try 0 cat out/summary.md; fi
say "The turn is a run like any other: it can be replayed and proven."
try 0 tipstaff verify @
cd ..

say "2. A plan: read a file, ask a person, write a file."
try 0 tipstaff run hello.yaml --dry-run

if [ -n "$attended" ]; then
	say "The run asks you. Type approve."
	code=0
	shown tipstaff run hello.yaml --input who=Ada
	tipstaff run hello.yaml --input who=Ada || code=$?
	case $code in
	0) ;;
	1) say "You denied it: that is recorded too, as a run that failed." ;;
	4)
		say "You left it open, so it parked. A command decides it now."
		try 0 tipstaff decide @ root/ok approve
		try 0 tipstaff resume @ --unattended
		;;
	*) exit "$code" ;;
	esac
else
	say "Nobody is at a terminal, so the run parks and its process ends."
	try 4 tipstaff run hello.yaml --input who=Ada --unattended
	say "A decision is a command of its own. It starts nothing; resume does."
	try 0 tipstaff decide @ root/ok approve --note "read it twice"
	try 0 tipstaff resume @ --unattended
fi

say "3. What happened, record by record. The signed ones are intent.*, plan.proposed and policy.*"
try 0 tipstaff events @

say "4. A second run posts a letter, which must not happen twice. It is killed in the middle."
printf '\n$ tipstaff run post.yaml --unattended &\n'
tipstaff run post.yaml --unattended >post.log 2>&1 &
pid=$!
until [ -s outbox.log ]; do
	kill -0 "$pid" 2>/dev/null || { cat post.log >&2; exit 1; }
	sleep 0.05
done
printf '$ kill -9 %d\n' "$pid"
kill -9 "$pid"
{ wait "$pid" || true; } 2>/dev/null # the shell's own notice
pid=
cat post.log
try 0 tipstaff ls
try 0 tipstaff show @

say "Resumed, the run does not post again. It does not know what became of the letter, so it asks."
try 4 tipstaff resume @ --unattended
say "The outbox has one line. We looked, and say so; the run goes on with our answer."
try 0 cat outbox.log
try 0 tipstaff decide @ root/post/in_doubt use_result --answer '{"exit_code":0,"stdout":"","stderr":""}' --note "the outbox has it"
try 0 tipstaff resume @ --unattended
try 0 cat outbox.log
[ "$(wc -l <outbox.log)" -eq 1 ] || { echo "the letter was posted more than once" >&2; exit 1; }

say "5. Proof: nothing was changed, and the plan, replayed, takes exactly these steps."
try 0 tipstaff verify @
try 0 tipstaff export @ proof
try 0 tipstaff verify ./proof

say "6. One byte of the export is flipped: the answer now says exit code 1."
sed 's/"answer":{"exit_code":0/"answer":{"exit_code":1/' proof/records.ndjson >forged
cmp -s forged proof/records.ndjson && { echo "nothing was flipped" >&2; exit 1; }
cat forged >proof/records.ndjson
try 6 tipstaff verify ./proof

say "7. Coding CLIs at work: a change is planned, made, reviewed, repaired and accepted, in a worktree of git."
say "The worker is scripted too. One line of tipstaff.yaml makes it Claude Code, Codex, Gemini CLI or opencode."
try 0 ./deliver.sh repository
cd repository
try 4 tipstaff run deliver.yaml --text "greet.sh NAME greets by name." --unattended
say "Tests have passed and the reviewer is content. What becomes of it is yours to say."
try 0 tipstaff show @ --diff
try 0 tipstaff decide @ 'delivery#1' approve --note "as I wanted it"
try 0 tipstaff resume @ --unattended
try 0 git log --branches --oneline
try 0 tipstaff verify @

say "8. The same in a browser: what waits for you, what runs do, what they cost, and the proof."
printf '\n$ tipstaff serve &\n'
tipstaff serve --addr 127.0.0.1:0 --grpc-addr 127.0.0.1:0 >serve.log 2>&1 &
pid=$!
until grep -q '^http ' serve.log; do
	kill -0 "$pid" 2>/dev/null || { cat serve.log >&2; exit 1; }
	sleep 0.05
done
address=$(sed -n 's/^http \([^ ]*\).*/\1/p' serve.log)
run=$(tipstaff show @ --json | grep -o '"run_id": *"[0-9A-Z]*"' | head -n 1 | cut -d '"' -f 4)
try 0 tipstaff serve --link --addr "$address"
say "That link signs you in, once. This run is then at http://$address/ui/runs/$run"
if [ -n "$attended" ]; then
	say "Press Enter when you have seen it."
	read -r _ || true
fi
kill "$pid"
wait "$pid" 2>/dev/null || true
pid=
cd ..

say "Done. Nothing of this is left behind. In a workspace of your own, tipstaff serve shows the page at http://127.0.0.1:8080/ui/"
