# The commands that v5 is made with: worktrees with a repository of their own and what a
# project needs, checks on what is delivered, gates that name first what is obeyed. All runs
# have ended: what is open needs the worktree, which is not in the archive.

workspace files
export GOLDEN_KEY=sk-golden-0123456789abcdef
git init -q -b main --template=
git config user.name Ada
git config user.email ada@example.org
git add -A
git commit -q -m first
echo "KEY=$GOLDEN_KEY" >.env.local
mkdir modules
echo lib >modules/lib.txt

start given 4 run work.yaml --unattended
does 0 decide "$run" 'delivery#1' approve
does 0 resume "$run" --unattended
start unready 1 run unready.yaml --unattended
start linked 4 run linked.yaml --unattended
does 0 decide "$run" 'delivery#1' skip
does 0 resume "$run" --unattended
echo lib >modules/lib.txt
start obeyed 4 run obeyed.yaml --unattended
does 3 decide "$run" 'delivery#1' apply
obeyed=$(sed -n 's/^obeyed //p' /tmp/golden/names)
does 0 decide "$obeyed" 'delivery#1' apply --answer '{"obeyed":true}'
does 0 resume "$obeyed" --unattended
rm -rf .github name tool
start secret 4 run secret.yaml --unattended
does 0 decide "$run" 'delivery#1' skip
does 0 resume "$run" --unattended
start meddled 4 run meddle.yaml --unattended
does 0 decide "$run" 'delivery#1' approve
does 0 resume "$run" --unattended
start idle 0 run idle.yaml --unattended
start hindered 4 run plain.yaml --unattended
does 0 decide "$run" 'delivery#1' apply
echo other >out.txt
does 4 resume "$run" --unattended
rm out.txt
does 0 decide "$run" 'delivery#2' skip
does 0 resume "$run" --unattended
# While the repository starts something else than when the run was made nothing is written.
start guarded 4 run plain.yaml --unattended
git config alias.x status
does 3 decide "$run" 'delivery#1' approve
guarded=$(sed -n 's/^guarded //p' /tmp/golden/names)
git config --unset alias.x
does 0 decide "$guarded" 'delivery#1' approve
does 0 resume "$guarded" --unattended
start followed 4 run plain.yaml --unattended
does 0 decide "$run" 'delivery#1' fix --feedback 'more please'
run=$(grep -oE '"followup_run_id":"[0-9A-Z]{26}"' /tmp/golden/out | cut -d'"' -f4)
name followup
does 4 resume "$run" --unattended
does 0 decide "$run" 'delivery#1' halt
exported given obeyed followup
rm -rf .git
freeze lean
