# The commands that v6 is made with: an acceptance of what a gate has named, and of nothing
# else; a gate that opens again and names what has come to be obeyed; files that a worker has
# committed and that are not delivered, that are a repository together, and that git LFS
# keeps. All runs have ended, as those of v5.

workspace files
git init -q -b main --template=
git config user.name Ada
git config user.email ada@example.org
printf '.tipstaff/\n*.log\n' >.gitignore
echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes
git add -A
git commit -q -m first

start named 4 run obeyed.yaml --unattended
does 0 decide "$run" 'delivery#1' apply --answer '{"obeyed":true}'
does 0 resume "$run" --unattended
rm -rf CLAUDE.md bin2
# Between the decision and its effect another of the files comes to be one that decides.
start reopened 4 run obeyed.yaml --unattended
does 0 decide "$run" 'delivery#1' apply --answer '{"obeyed":true}'
cp tipstaff.yaml before
sed -i 's|programs: \[sh\]|programs: [sh, ./bin2/tool.sh]|' tipstaff.yaml
does 4 resume "$run" --unattended
does 0 decide "$run" 'delivery#2' apply --answer '{"obeyed":true}'
does 0 resume "$run" --unattended
rm -rf CLAUDE.md bin2
mv before tipstaff.yaml
start committed 4 run committed.yaml --unattended
does 0 decide "$run" 'delivery#1' approve
does 0 resume "$run" --unattended
start repository 4 run repository.yaml --unattended
does 0 decide "$run" 'delivery#1' skip
does 0 resume "$run" --unattended
start large 4 run large.yaml --unattended
does 0 decide "$run" 'delivery#1' apply
does 0 resume "$run" --unattended
rm -f picture.bin
exported named reopened large
rm -rf .git
freeze lean
