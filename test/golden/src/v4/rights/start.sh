# start.sh RUN starts a run of this store from within a run, and forks one that has ended.
/tmp/golden/tipstaff run act.yaml --input "run=$1" --unattended --json >started
test $? -eq 4 || exit 1
test ! -s source || /tmp/golden/tipstaff fork "$(cat source)" --json >forked
