# The commands that v4 is made with: runs of somebody who may not decide, which ask whatever
# the policy allows, and runs that come of other runs.

workspace rights
export ADA_TOKEN=ada-0123456789abcdef0123456789abcdef BOB_TOKEN=bob-0123456789abcdef0123456789abcdef
# as TOKEN runs the commands that follow at the daemon, and here runs them in the workspace.
as() { export TIPSTAFF_SERVER=unix:/tmp/golden/grpc TIPSTAFF_TOKEN=$1; }
here() { unset TIPSTAFF_SERVER TIPSTAFF_TOKEN; }
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
value() { printf %s "$1" | base64 -w0; }

git init -q -b main --template=
git config user.name Ada
git config user.email ada@example.org
git add work.yaml
git commit -q -m first

# What bob runs while he may decide asks nothing; his forks of it, when he may not, do.
sed -i 's/\[read, run, submit\]/[read, run, submit, decide]/' tipstaff.yaml
serving --pipelines pipelines
as "$BOB_TOKEN"
start source 0 run act.yaml --input run=source --unattended
source=$run
start staged 0 run pipelines/mark.yaml --input run=staged --unattended
staged=$run
here
stopped
sed -i 's/submit, decide\]/submit]/' tipstaff.yaml

serving --pipelines pipelines
as "$BOB_TOKEN"
start asked 4 run act.yaml --input run=asked --unattended
asked=$run
start asks 4 run act.yaml --input run=asks --unattended
asks=$run
start worker 4 run work.yaml --input do=it --unattended
worker=$run
start family 4 run family.yaml --input run=family --unattended
family=$run
children family-one
child=$run
start forked 0 fork "$source" --at 5
forked=$run
start rolled 0 fork "$staged" --at stage:think
rolled=$run
here
drafted edited "$BOB_TOKEN" '{"metadata":{"run":"edited"},"pipeline":{"name":"mark"}}'
edited=$run
rpc "$BOB_TOKEN" UpdateEnvelope "{\"envelope\":{\"envelopeId\":\"$envelope\"},\"expectedVersion\":1,\"metadataJson\":\"$(value '{"color":"red"}')\"}"
rpc "$BOB_TOKEN" ExecutePipeline "{\"envelope\":{\"envelopeId\":\"$envelope\"}}"
drafted alone "$BOB_TOKEN" '{"metadata":{"run":"alone"},"pipeline":{"name":"mark"}}'
alone=$run
rpc "$BOB_TOKEN" ExecuteAgent "{\"envelope\":{\"envelopeId\":\"$envelope\"},\"agentName\":\"act\"}"
run=$(grep -oE '"runId": *"[0-9A-Z]{26}"' /tmp/golden/out | grep -oE '[0-9A-Z]{26}' | grep -vx "$alone" | head -1)
name alone-agent
agent=$run
stopped
does 0 decide "$asked" root/approval allow
does 0 resume "$asked" --unattended
does 0 decide "$asks" root/approval allow
run=$worker
does 0 decide "$worker" "$(gate)" allow
does 0 resume "$worker" --unattended
run=$child
does 0 decide "$child" "$(gate)" allow
does 0 resume "$family" --unattended
does 4 resume "$forked" --unattended
run=$forked
does 0 decide "$forked" "$(gate)" allow
does 4 resume "$rolled" --unattended
run=$rolled
does 0 decide "$rolled" "$(gate)" allow
run=$edited
does 0 decide "$edited" "$(gate)" allow
does 0 resume "$edited" --unattended
run=$agent
does 0 decide "$agent" "$(gate)" allow
does 0 resume "$agent" --unattended
does 0 cancel "$alone"

# A process of a run starts another in the same store, and forks one that has ended.
does 0 trust --yes # its processes inherit no trust
start plain 0 run act.yaml --input run=plain --unattended
echo "$run" >source
start starts 0 run starts.yaml --input run=within --unattended
run=$(id started)
name within
within=$run
run=$(id forked)
name within-forked
run=$within
does 0 decide "$within" "$(gate)" allow
exported asked worker starts
rm -rf .git
freeze lean
