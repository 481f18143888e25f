# The commands that v2 is made with: what is recorded of workers, tasks, deliveries, agent
# hosts and daemons, and what the runs of v1 do not hold.

cp "$here/src/$generation/claude" /tmp/golden/ # a program of ours in the part of a CLI

workspace stages
start skipped 0 run skipped.yaml --unattended
start waived 4 run handoff.yaml --input run=waived --unattended
does 0 decide "$run" 'critic#1/handoff' continue_with_waiver --feedback 'It is closed elsewhere.'
does 0 resume "$run" --unattended
start overridden 4 run handoff.yaml --input run=overridden --unattended
does 0 decide "$run" 'critic#1/handoff' continue --note 'It must be out today.'
does 0 resume "$run" --unattended
start waives 4 run incomplete.yaml --input run=waives --unattended
does 0 decide "$run" 'critic#1/handoff' continue_with_waiver --feedback 'It is closed elsewhere.'
start replaced 0 run replaced.yaml --unattended
start used 0 run used.yaml --unattended
begin asleep run asleep.yaml --unattended
until_told asleep '"kind":"run.parked"'
killed
exported waived skipped
freeze lean

workspace agents
start routed 0 chat 'look around'
start unrouted 0 chat 'look, I said nothing'
start busy 0 chat 'look, if you are not busy'
for i in $(seq 1000); do echo "line $i of a text that is too long to be sent whole"; done >long.txt
start shortened 0 chat 'read it all' --agent forgetful
start printed 0 run printed.yaml --unattended
exported routed
freeze lean

# Calls that must happen only once, of which nobody knows how they ended: two ran out of
# time, the others were killed.
workspace lost
does 0 tools pin --yes
start used 4 run hasty.yaml --input run=used --unattended
does 0 decide "$run" root/fire/in_doubt use_result --answer '{"did":"fire"}'
does 0 resume "$run" --unattended
start late 4 run hasty.yaml --input run=late --unattended
begin killed run once.yaml --input run=killed --unattended
until_marked killed slow
killed
touch go
does 4 resume "$run" --unattended
rm go
exported used
begin unseen run once.yaml --input run=unseen --unattended
until_marked unseen slow
killed
touch go
freeze lean

# What workers do, the CLI and the scripted one. They work in the workspace and change no file.
workspace workers
start reported 0 run work.yaml --input do='Do it all.' --unattended
start failed 1 run work.yaml --input do='Fail.' --unattended
start broken 1 run work.yaml --input do='Break.' --unattended
start limited 1 run hasty.yaml --input do='Spend.' --unattended
start played 0 run play.yaml --input do='Read it.' --unattended
start stage 0 run stage.yaml --unattended
start asked 4 run play.yaml --input do='Which color?' --unattended
does 0 decide "$run" "$(gate)" answer --answer '"red"'
does 0 resume "$run" --unattended
start approved 4 run reviewed.yaml --input do='Read it.' --unattended
does 0 decide "$run" "$(gate)" continue
does 0 resume "$run" --unattended
start reviewed 4 run reviewed.yaml --input do='Read it.' --unattended
start fails 4 run patient.yaml --input do='Fail.' --unattended
does 0 decide "$run" "$(gate)" fail
begin cancelled run work.yaml --input do='Wait. Known as cancelled.' --unattended
until_marked cancelled slow
run=$(id /tmp/golden/out.cancelled)
does 0 cancel "$run"
wait "$pid" || true
pids= begun=
name cancelled
begin used run work.yaml --input do='Wait. Known as used.' --unattended
until_marked used slow
killed
does 4 resume "$run" --unattended
does 0 decide "$run" "$(gate)" use_result --answer '{"text":"it was done"}'
does 0 resume "$run" --unattended
exported reported asked
begin killed run work.yaml --input do='Wait. Known as killed.' --unattended
until_marked killed slow
killed
freeze lean

# Tasks: ended in every way, and open at a review and at a failure.
workspace tasks
task() { # NAME FLAG…
	local called=$1
	shift
	does 0 task new --name "$called" --worker play "$@"
	task=$(grep -oE '"id":"[0-9]+"' /tmp/golden/out | head -1 | cut -d'"' -f4)
}
spawned() { # NAME CODE: the run of the task has that name
	does "$2" task spawn "$task" --unattended
	does 0 task show "$task"
	run=$(id /tmp/golden/out)
	name "$1"
}
task unreviewed --review none --description parser.md --input a.txt
spawned unreviewed 0
task corrected --description parser.md
spawned corrected 4
does 0 task feedback "$task" rejected -m 'Not this way.'
does 4 task resume "$task" --unattended
does 0 task feedback "$task" approved
does 0 task resume "$task" --unattended
task judged --review reviewer --description parser.md
spawned judged 0
task abandoned --description parser.md
spawned abandoned 4
does 0 task set "$task" abandoned --why 'not needed'
task cancelled --description stuck.md
spawned cancelled 4
does 0 cancel "$run"
task reviewed --description parser.md
spawned reviewed 4
echo "$task" >task.reviewed
task dropped --description parser.md
spawned dropped 4
echo "$task" >task.dropped
task paused --description stuck.md
spawned paused 4
does 0 decide "$run" "$(gate)" answer --answer '"go on"'
exported corrected
freeze lean

# Changes of a repository, delivered in every way and not at all. All runs have ended: what
# is open needs the worktree, which is not in the archive, and neither is the repository.
workspace delivery
git init -q -b main --template=
git config user.name Ada
git config user.email ada@example.org
git add -A
git commit -q -m first
start committed 4 run hello.yaml --unattended
does 0 decide "$run" 'delivery#1' approve --note 'as I wanted it'
does 0 resume "$run" --unattended
start applied 4 run hello.yaml --unattended
does 0 decide "$run" 'delivery#1' apply
does 0 resume "$run" --unattended
rm out.txt
# Between decision and delivery somebody makes the same change, and then another one.
start present 4 run hello.yaml --unattended
does 0 decide "$run" 'delivery#1' apply
echo hello >out.txt
does 0 resume "$run" --unattended
rm out.txt
start skipped 4 run hello.yaml --unattended
does 0 decide "$run" 'delivery#1' apply
echo other >out.txt
does 4 resume "$run" --unattended
rm out.txt
does 0 decide "$run" 'delivery#2' skip
does 0 resume "$run" --unattended
start moved 4 run move.yaml --unattended
does 0 decide "$run" 'delivery#1' approve
does 0 resume "$run" --unattended
echo changed >>kept.txt # which is not committed
start halted 4 run hello.yaml --unattended
git checkout -q kept.txt
does 0 decide "$run" 'delivery#1' halt --note enough
start empty 0 run idle.yaml --unattended
# followed NAME FEEDBACK has the last run followed up; the follow-up is $run.
followed() {
	does 0 decide "$run" 'delivery#1' fix --feedback "$2"
	run=$(grep -oE '"followup_run_id":"[0-9A-Z]{26}"' /tmp/golden/out | cut -d'"' -f4)
	name "$1"
}
start followed 4 run steps.yaml --unattended
followed followup 'more please'
does 4 resume "$run" --unattended
does 0 decide "$run" 'delivery#1' approve
does 0 resume "$run" --unattended
start judged 4 run stages.yaml --unattended
followed fixed-point 'nothing new'
does 4 resume "$run" --unattended
does 0 decide "$run" 'delivery#1' halt
start checked 4 run hello.yaml --unattended
followed unchecked 'more please'
does 0 cancel "$run"
TIPSTAFF_SANDBOX='a namespace' start free 0 run free.yaml --unattended
start allowed 4 run build.yaml --unattended
does 0 decide "$run" "$(gate)" allow
does 0 resume "$run" --unattended
begin killed run move.yaml --unattended
until_told killed '"kind":"worker.started"'
killed
does 4 resume "$run" --unattended
does 0 cancel "$run"
exported committed followup
rm -rf .git
freeze lean

# Calls of agents that a host serves, with a host of ours (client). No open run needs one:
# what has been sent has come back, or a person says what came of it.
workspace hosts
# hosted NAME CODE PIPELINE HOST… is a run with a host, whose calls are in calls.NAME.
hosted() {
	local called=$1 code=$2 pipeline=$3
	shift 3
	start "$called" "$code" run "$pipeline" --input "run=$called" --unattended --host "$client host $* >/tmp/golden/calls.$called"
}
# stranded NAME is killed while its host has a call.
stranded() {
	begin "$1" run once.yaml --input "run=$1" --unattended --host "exec $client host $1 outside once >/tmp/golden/calls.$1"
	eventually test -s "/tmp/golden/calls.$1"
	eventually has_event "$(id "/tmp/golden/out.$1")" effect.sent
	killed
}
# brought NAME JSON is what the host of a run brings to a daemon.
brought() { TIPSTAFF_ADDRESS=unix:/tmp/golden/grpc TIPSTAFF_TOKEN=$(cat .tipstaff/serve.token) "$client" bring "$1" outside once "$(head -1 "/tmp/golden/calls.$1")" "$2" >/tmp/golden/out 2>/tmp/golden/err || die "nothing was brought for $1"; }
hosted answered 0 once.yaml answered outside once "'{\"ok\":true}'"
hosted repeated 0 repeated.yaml repeated inside idempotent "'{\"ok\":true}'"
hosted late 4 asks.yaml late outside once "'{\"ok\":true}'"
hosted later 4 asks.yaml later outside once "'{\"ok\":true}'"
later=$run
stranded given
given=$run
stranded gives
stranded doubted
doubted=$run
stranded doubts
# A host has a minute to come back; these have it together.
begin doubting resume "$doubted" --unattended
does 4 resume "$run" --unattended
wait "$pid" || [ $? -eq 4 ] || die 'doubted was not asked about'
pids= begun=
serving
brought late '{"ok":false}'
brought later '{"ok":false}'
for called in given gives doubted doubts; do brought "$called" '{"ok":true}'; done
stopped
does 0 decide "$later" 'ask#1/handoff' continue
does 0 resume "$later" --unattended
does 0 resume "$given" --unattended
does 0 decide "$doubted" 'outside#1/in_doubt' use_result --answer '{"ok":true}'
does 0 resume "$doubted" --unattended
exported given late
freeze lean

# Drafts of pipelines, which clients of a daemon make and edit, and drafts of plans that
# they have drafted and answer.
workspace drafts
export ADA_TOKEN=ada-0123456789abcdef0123456789abcdef BOB_TOKEN=bob-0123456789abcdef0123456789abcdef EVE_TOKEN=eve-0123456789abcdef0123456789abcdef
serving --pipelines pipelines
# rpc TOKEN METHOD JSON… calls a method; what it prints is in /tmp/golden/out.
rpc() {
	local token=$1
	shift
	TIPSTAFF_ADDRESS=unix:/tmp/golden/grpc TIPSTAFF_TOKEN=$token "$client" "$@" >/tmp/golden/out 2>/tmp/golden/err || die "client $*"
}
# drafted NAME TOKEN JSON makes a draft, the Envelope $envelope, at version 1.
drafted() {
	rpc "$2" CreateEnvelope "$3"
	envelope=$(grep -oE 'env_[0-9A-Z]{26}' /tmp/golden/out | head -1)
	run=${envelope#env_}
	name "$1"
}
document=$(base64 -w0 pipelines/mark.yaml) other=$(base64 -w0 pipelines/other.yaml)
value() { printf %s "$1" | base64 -w0; }
drafted edited "$ADA_TOKEN" "{\"rawInput\":\"Mark it.\",\"sessionId\":\"session-1\",\"metadata\":{\"run\":\"edited\"},\"goals\":[\"a mark\"],\"pipeline\":{\"name\":\"mark\"}}"
rpc "$ADA_TOKEN" UpdateEnvelope "{\"envelope\":{\"envelopeId\":\"$envelope\"},\"expectedVersion\":1,\"agentName\":\"think\",\"output\":\"$(value '{"n":7}')\",\"usage\":{\"llmCalls\":2,\"tokensIn\":100,\"tokensOut\":20,\"costUsd\":5000000},\"metadataJson\":\"$(value '{"color":"red"}')\"}"
rpc "$ADA_TOKEN" UpdateEnvelope "{\"envelope\":{\"envelopeId\":\"$envelope\"},\"expectedVersion\":2,\"removeOutputs\":[\"think\"]}"
rpc "$ADA_TOKEN" ExecutePipeline "{\"envelope\":{\"envelopeId\":\"$envelope\"},\"threadId\":\"marks\",\"config\":{\"document\":\"$other\"},\"bounds\":{\"maxLlmCalls\":8}}"
drafted alone "$ADA_TOKEN" "{\"metadata\":{\"run\":\"alone\"},\"pipeline\":{\"document\":\"$document\"}}"
rpc "$ADA_TOKEN" ExecuteAgent "{\"envelope\":{\"envelopeId\":\"$envelope\"},\"agentName\":\"think\"}"
run=$(grep -oE '"runId": *"[0-9A-Z]{26}"' /tmp/golden/out | grep -oE '[0-9A-Z]{26}' | grep -vx "$run")
name alone-agent
rpc "$ADA_TOKEN" ExecutePipeline "{\"envelope\":{\"envelopeId\":\"$envelope\"}}"
literal=$(base64 -w0 literal.yaml)
drafted submitted "$BOB_TOKEN" "{\"pipeline\":{\"document\":\"$literal\"}}"
submitted=$run
rpc "$BOB_TOKEN" ExecutePipeline "{\"envelope\":{\"envelopeId\":\"$envelope\"}}"
drafted submits "$BOB_TOKEN" "{\"metadata\":{\"run\":\"submits\"},\"pipeline\":{\"name\":\"mark\"}}"
submits=$run
rpc "$BOB_TOKEN" ExecutePipeline "{\"envelope\":{\"envelopeId\":\"$envelope\"},\"config\":{\"document\":\"$literal\"}}"
drafted on-behalf "$ADA_TOKEN" "{\"userId\":\"eve\",\"metadata\":{\"run\":\"on-behalf\"},\"pipeline\":{\"name\":\"mark\"}}"
rpc "$EVE_TOKEN" ExecutePipeline "{\"envelope\":{\"envelopeId\":\"$envelope\"}}"
drafted draft "$ADA_TOKEN" "{\"metadata\":{\"run\":\"draft\"},\"pipeline\":{\"name\":\"mark\"}}"
rpc "$ADA_TOKEN" UpdateEnvelope "{\"envelope\":{\"envelopeId\":\"$envelope\"},\"expectedVersion\":1,\"metadataJson\":\"$(value '{"color":"blue"}')\"}"
drafted dropped "$ADA_TOKEN" "{\"metadata\":{\"run\":\"dropped\"},\"pipeline\":{\"name\":\"mark\"}}"
dropped=$run
# decided GATE-ACTION-JSON decides the one gate of the last run, and drives it on.
post() { http -H "Authorization: Bearer $ADA_TOKEN" -A notes/1.0 "$@" >/tmp/golden/out 2>/tmp/golden/err || die "$*"; }
decided() {
	eventually waiting
	post -d "$1" "$server/runs/$run/gates/$(gate_id)/decision"
}
waiting() { http -H "Authorization: Bearer $ADA_TOKEN" "$server/runs/$run" | grep -q '"open_gates":\[{'; }
accepting() { http -H "Authorization: Bearer $ADA_TOKEN" "$server/runs/$run" | grep -q '"kind":"confirmation"'; }
gate_id() { http -H "Authorization: Bearer $ADA_TOKEN" "$server/runs/$run" | grep -oE '"gate_id":"[^"]*"' | head -1 | cut -d'"' -f4; }
post -H 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' -d '{"prose":"Tidy up the notes","title":"Notes","labels":{"team":"green"}}' "$server/runs"
run=$(id /tmp/golden/out)
name answered
decided '{"action":"answer","answer":{"file":"notes.md"},"note":"that one","decided_by":"Eve","resume":true}'
eventually accepting
decided '{"action":"accept","note":"well drafted","decided_by":"Eve","resume":true}'
eventually has_event "$run" intent.attest
post -d '{"prose":"Read the notes"}' "$server/runs"
run=$(id /tmp/golden/out)
name rejected
decided '{"action":"reject","note":"not now","decided_by":"Eve","resume":true}'
eventually has_event "$run" intent.cancel
stopped
does 0 cancel "$dropped"
does 0 decide "$submitted" 'act#1/approval' allow
does 0 resume "$submitted" --unattended
does 0 decide "$submits" 'act#1/approval' allow
exported edited
freeze lean

# Runs that a process of their own drives, and runs that wait for a place of a daemon: one
# is driven, in a call that must happen only once, and two wait, when it is killed.
workspace daemon
touch go
start launched 0 run mark.yaml --input run=launched --input word=act --detach
eventually has_event "$run" intent.attest
start parked 0 run gated.yaml --input run=parked --detach
eventually has_event "$run" run.parked
start decided 0 run gated.yaml --input run=decided --detach
eventually has_event "$run" run.parked
does 0 decide "$run" root/ok approve
does 0 resume "$run" --detach
eventually has_event "$run" intent.attest
rm go
start lost 0 run mark.yaml --input run=lost --input word=slow --detach
launched=$(grep -oE '"pid":[0-9]+' /tmp/golden/out | cut -d: -f2)
until_marked lost slow
kill -9 "$launched"
serving
ask() { # NAME WORD
	http -H "Authorization: Bearer $(cat .tipstaff/serve.token)" -d "{\"program\":$(document),\"inputs\":{\"run\":\"$1\",\"word\":\"$2\"}}" "$server/runs" >/tmp/golden/out || die "$1"
	run=$(id /tmp/golden/out)
	name "$1"
}
document() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/$/\\n/' mark.yaml | tr -d '\n' | sed -e 's/^/"/' -e 's/$/"/'; }
exported launched
ask waited act
eventually has_event "$run" intent.attest
ask first slow
first=$run
until_marked first slow
ask withdrawn act
http -H "Authorization: Bearer $(cat .tipstaff/serve.token)" -d '{"reason":"no longer needed"}' "$server/runs/$run/cancel" >/tmp/golden/out || die cancel
eventually has_event "$run" intent.cancel
ask queued act
ask queued-again act
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
touch go
freeze lean
