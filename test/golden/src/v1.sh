# The commands that v1 was made with, as make.sh had them.

workspace plan
start sequence 0 run sequence.yaml --input run=sequence --yes --unattended
start resumed 4 run sequence.yaml --input run=resumed --input who=Eve --unattended
does 0 decide "$run" root/ok approve --note 'looks right'
does 0 resume "$run" --unattended
start parked 4 run sequence.yaml --input run=parked --unattended
start decided 4 run sequence.yaml --input run=decided --unattended
does 0 decide "$run" root/ok approve
start refused 4 run sequence.yaml --input run=refused --unattended
does 0 decide "$run" root/ok deny
does 1 resume "$run" --unattended
start cancelled 4 run sequence.yaml --input run=cancelled --unattended
does 0 cancel "$run" --reason 'wrong greeting'
start corrected-later 4 run sequence.yaml --input run=corrected-later --unattended
start expired 4 run brief.yaml --input run=expired --unattended
start expired-late 4 run brief.yaml --input run=expired-late --unattended
sleep 1.1
does 1 resume "$run" --unattended
start parallel 0 run parallel.yaml --yes --unattended
start half 4 run parallel.yaml --unattended
does 0 decide "$run" root/0/0/g approve
does 4 resume "$run" --unattended
start closed 1 run closed.yaml --unattended
start partial 0 run partial.yaml --unattended
start retried 1 run retry.yaml --input path=nowhere.txt --unattended
begin late run retry.yaml --input path=late.txt --unattended
until_told late '"kind":"effect.failed"'
echo late >late.txt
wait "$pid" || die 'late failed'
run=$(id /tmp/golden/out.late)
name retried-late
pids= begun=
begin signalled run nap.yaml --unattended
until_told signalled '"path":"root/nap"'
kill -INT "$pid"
wait "$pid" && die 'signalled ended by itself' || [ $? -eq 130 ] || die 'signalled was not interrupted'
run=$(id /tmp/golden/out.signalled)
name signalled
pids= begun=
start timeout 1 run timeout.yaml --unattended
start bound 5 run bound.yaml --unattended
start denied 1 run denied.yaml --unattended
start approved 4 run approval.yaml --input run=approved --unattended
does 0 decide "$run" root/approval allow
does 0 resume "$run" --unattended
start unapproved 4 run approval.yaml --input run=unapproved --unattended
does 0 decide "$run" root/approval deny --note 'not now'
does 1 resume "$run" --unattended
start allowed 4 run approval.yaml --input run=allowed --unattended
does 0 decide "$run" root/approval allow
for i in $(seq 3000); do echo "line $i of a text that is stored once, by its digest"; done >large.txt
start large 4 run large.yaml --unattended
exported sequence closed parked
freeze

# A call that was cut off between its intent and its start: a matter of luck.
for _ in $(seq 100); do
	rm -rf /tmp/golden/race
	workspace race
	start unsent 1 run race.yaml --unattended
	! grep -q '"reason":"in_doubt"' /tmp/golden/out || break
done
grep -q '"reason":"in_doubt"' /tmp/golden/out || die 'no call was in doubt'
freeze

workspace step
start ask 0 run ask.yaml --unattended
start approved 4 run mark.yaml --input run=approved --unattended
does 0 decide "$run" 'root/tool#1.1/approval' allow
does 0 resume "$run" --unattended
start decided 4 run mark.yaml --input run=decided --unattended
does 0 decide "$run" 'root/tool#1.1/approval' allow
start expired 4 run hasty.yaml --unattended
start nobody 1 run nobody.yaml --unattended
exported ask
freeze

workspace turn
start first 0 chat 'how full is the disk?'
session=$(grep -oE '"session":"[0-9A-Z]{26}"' /tmp/golden/out | tail -1 | grep -oE '[0-9A-Z]{26}')
echo "$session" >session
start second 0 chat 'say it again' --session "$session"
start limited 5 chat 'how full is the disk?' --max-steps 1
start exhausted 1 chat 'nothing fits this'
start allowed 4 chat 'mark allowed'
does 0 decide "$run" 'turn/tool#1.1/approval' allow
does 0 resume "$run" --unattended
start denied 4 chat 'mark denied'
does 0 decide "$run" 'turn/tool#1.1/approval' deny --note 'not today'
does 0 resume "$run" --unattended
start expired 4 chat 'mark expired' --agent hasty
start decided 4 chat 'mark decided'
does 0 decide "$run" 'turn/tool#1.1/approval' allow
start left 4 chat 'mark left'
does 0 cancel "$run"
exported second
freeze

workspace draft
start answered 4 do 'Tidy up the notes' --unattended
does 0 decide "$run" "$("$tipstaff" decide --json | grep -oE '"key":"[^"]*"' | cut -d'"' -f4)" answer --answer '{"file":"notes.md"}'
does 4 resume "$run" --unattended
does 0 decide "$run" "$("$tipstaff" decide --json | grep -oE '"key":"[^"]*"' | cut -d'"' -f4)" accept
does 0 resume "$run" --unattended
start advance 0 do 'Read the notes' --yes --unattended
start rejected 4 do 'Read the notes' --draft-only
does 0 decide "$run" "$("$tipstaff" decide --json | grep -oE '"key":"[^"]*"' | cut -d'"' -f4)" reject
does 8 resume "$run" --unattended
start invalid 1 do 'Delete the notes' --unattended
start asks 4 do 'Tidy up the notes' --unattended
start drafted 4 do 'Read the notes' --draft-only
exported answered
freeze

workspace child
start greets 0 run greets.yaml --input run=greets --unattended
children greets-one greets-two
start asks 4 run asks.yaml --input run=asks --unattended
children asks-one
start accepted 4 run asks.yaml --input run=accepted --unattended
parent=$run
children accepted-one
does 0 decide "$run" confirm accept
does 0 resume "$parent" --unattended
start rejected 4 run asks.yaml --input run=rejected --unattended
parent=$run
children rejected-one
does 0 decide "$run" confirm reject
does 1 resume "$parent" --unattended
start waits 4 run waits.yaml --input run=waits --unattended
children waits-one
start cancelled 4 run waits.yaml --input run=cancelled --unattended
parent=$run
children cancelled-one
does 0 cancel "$parent"
start fails 1 run fails.yaml --unattended
children fails-one
start continues 0 run continues.yaml --unattended
children continues-one
exported greets greets-one
freeze

workspace correction
start gentle 4 run plan.yaml --input run=gentle --unattended
does 4 resume "$run" --with gentle.yaml --reason 'ask better' --unattended
does 0 resume "$run" --yes --unattended
start accepted 4 run plan.yaml --input run=accepted --unattended
does 4 resume "$run" --with harsh.yaml --reason 'more room' --unattended
does 0 decide "$run" confirm@2 accept
does 0 resume "$run" --yes --unattended
start kept 4 run plan.yaml --input run=kept --unattended
does 4 resume "$run" --with harsh.yaml --reason 'more room' --unattended
does 0 decide "$run" confirm@2 keep
does 0 resume "$run" --yes --unattended
start cancelled 4 run plan.yaml --input run=cancelled --unattended
does 4 resume "$run" --with harsh.yaml --reason 'more room' --unattended
does 0 decide "$run" confirm@2 cancel --note 'too much'
does 8 resume "$run" --unattended
start ungated 4 run plan.yaml --input run=ungated --unattended
does 0 resume "$run" --with ungated.yaml --reason 'nobody needs to be asked' --unattended
start parked 4 run plan.yaml --input run=parked --unattended
does 4 resume "$run" --with gentle.yaml --reason 'ask better' --unattended
start confirms 4 run plan.yaml --input run=confirms --unattended
does 4 resume "$run" --with harsh.yaml --reason 'more room' --unattended
start keeps 4 run plan.yaml --input run=keeps --unattended
does 4 resume "$run" --with harsh.yaml --reason 'more room' --unattended
exported accepted
freeze

workspace fork
start source 1 run plan.yaml --input run=source --unattended
source=$run
start fork 0 fork "$source"
echo data >wanted.txt
does 0 resume "$run" --unattended
start second 0 fork "$run" --at 9 # before its last call
start waiting 0 fork "$source"
start early 0 fork "$source" --at 4
does 0 resume "$run" --unattended
exported fork waiting
freeze

workspace pipeline
start loop 4 run loop.yaml --input run=loop --unattended
does 0 decide "$run" 'critic#2/handoff' continue
does 0 resume "$run" --unattended
start handoff 4 run loop.yaml --input run=handoff --thread line --unattended
does 0 fork "$run" --label before
start rolled-back 4 run loop.yaml --input run=rolled-back --unattended
start rollback 0 fork "$run" --at stage:critic --rollback --set-output 'critic={"verdict":"approved"}' --raise max_iterations=5 --resume --unattended
start forked 4 run loop.yaml --input run=forked --unattended
start fork 0 fork "$run" --at "cp_${run}_2"
start halted 4 run loop.yaml --input run=halted --unattended
does 0 decide "$run" 'critic#2/handoff' halt
start review 4 run review.yaml --text 'A meeting' --unattended
does 0 decide "$run" 'critic#2/handoff' retry_feedback --feedback 'It is in room 4.'
does 0 resume "$run" --unattended
start reviews 4 run review.yaml --text 'A meeting' --unattended
start diamond 0 run diamond.yaml --unattended
start both 4 run both.yaml --unattended
does 0 decide "$run" 'right#1.ask/clarification' answer --answer '"the red one"'
does 4 resume "$run" --unattended
does 0 decide "$run" 'left#1.ask/question' answer --answer '{"n": 2}'
does 0 resume "$run" --unattended
start sure 4 run sure.yaml --input run=sure --unattended
does 0 decide "$run" 'ask#1/confirmation' approve
start unsure 4 run sure.yaml --input run=unsure --unattended
does 0 decide "$run" 'ask#1/confirmation' reject --note 'not today'
does 1 resume "$run" --unattended
start late 4 run late.yaml --unattended
start bound 4 run bound.yaml --input run=bound --unattended
start stopped 4 run bound.yaml --input run=stopped --unattended
does 0 decide "$run" 'judge#2/bound' extend --answer '{"iterations":1}'
does 4 resume "$run" --unattended
does 0 decide "$run" 'judge#3/bound' stop
does 5 resume "$run" --unattended
start cancelled 4 run loop.yaml --input run=cancelled --unattended
does 0 cancel "$run"
start fatal 1 run fatal.yaml --unattended
exported loop rollback fork
freeze lean

workspace long
start long 4 run long.yaml --unattended
freeze lean

workspace server
does 0 tools pin --yes
start calls 0 run calls.yaml --input run=calls --yes --unattended
start parked 4 run calls.yaml --input run=parked --unattended
begin slow run calls.yaml --input run=slow --unattended
until_marked slow fire
killed
touch go
freeze

# Each run of doubt was killed in a call that must happen only once, and resumed.
workspace doubt
doubtful() {
	rm -f go
	begin "$1" run once.yaml --input "run=$1" --unattended
	until_marked "$1" slow
	killed
	touch go
	does 4 resume "$run" --unattended
}
result='{"exit_code":0,"stdout":"","stderr":""}'
doubtful used
does 0 decide "$run" root/slow/in_doubt use_result --answer "$result"
does 0 resume "$run" --unattended
doubtful failed
does 0 decide "$run" root/slow/in_doubt fail --note 'nobody knows'
does 1 resume "$run" --unattended
doubtful retried
does 0 decide "$run" root/slow/in_doubt retry
does 0 resume "$run" --unattended
doubtful use
doubtful fail
doubtful retry
doubtful decided
does 0 decide "$run" root/slow/in_doubt use_result --answer "$result"
rm go
begin stages run stages.yaml --input run=stages --unattended
until_marked stages slow
killed
touch go
does 4 resume "$run" --unattended
begin lost run lost.yaml --unattended
until_told lost '"kind":"effect.intended"'
killed
does 1 resume "$run" --unattended
exported used
freeze lean

# The runs of killed died together, and nobody has opened the store since.
workspace killed
start corrected 4 run before.yaml --input run=corrected --unattended
corrected=$run
does 4 resume "$corrected" --with after.yaml --reason 'more room' --unattended
does 0 decide "$corrected" confirm@2 accept
start undecided 4 run before.yaml --input run=undecided --unattended
begin once run once.yaml --input run=once --unattended
begin retry run once.yaml --input run=retry --unattended
begin parallel run parallel.yaml --unattended
begin step run step.yaml --unattended
begin turn chat 'mark turn'
begin dispatch run dispatch.yaml --unattended
begin stages run stages.yaml --unattended
begin pending run once.yaml --input run=pending --unattended
begin cancelling run once.yaml --input run=cancelling --unattended
cancelling=$pid
begin corrected-again resume "$corrected" --yes --unattended
for slow in once retry parallel-a parallel-b step turn child stages pending cancelling corrected; do until_marked "$slow" slow; done
until_marked parallel-c c
until_told parallel '"kind":"policy.gate"'
until_told parallel '"path":"root/c".*"kind":"effect.finished"\|"kind":"effect.finished".*"path":"root/c"'
does 0 resume "$(id /tmp/golden/out.pending)" --with again.yaml --reason 'another name'
kill -STOP "$cancelling" # so that it does not hear of it
run=$(id /tmp/golden/out.cancelling)
begin cancel cancel "$run"
eventually has_event "$run" run.cancel_requested
kill -STOP "$pid" # so that it does not look after the dead
begin backoff run backoff.yaml --unattended
begin read run read.yaml --unattended
begin think run think.yaml --unattended
begin draft do 'Draft a mark' --agent drafter --unattended
until_told read '"path":"root/nap"'
until_told think '"kind":"agent.step_started"'
until_told draft '"kind":"agent.step_started"'
until_told backoff '"kind":"effect.failed"'
sleep 0.2 # until what was asked of the models is recorded
begun=${begun/ corrected-again/} begun=${begun/ cancel / }
killed
echo later >later.txt
touch go
cp .tipstaff/tipstaff.db* /tmp/golden/
run=$(sqlite3 /tmp/golden/tipstaff.db "SELECT id FROM runs WHERE title = 'skill://slow@1.0.0'")
name child
freeze lean
