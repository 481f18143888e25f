# The commands that v3 is made with: what is recorded of money that kills have cut off, and of
# errors whose text is cut. The CLI is that of v2.

cp "$here/src/v2/claude" /tmp/golden/

# What a worker had told of its use is used, the rest is held, and a gate asks for more.
workspace money
# lose NAME FILE FLAG… kills a run in the work of a worker that has told something.
lose() {
	begin "$1" run "${@:2}" --unattended
	until_marked "$1" slow
	until_told "$1" '"kind":"bound.used"'
	killed
}
# asked KEY has the lost work done again, and is asked for more.
asked() {
	does 4 resume "$run" --unattended
	does 0 decide "$run" "$1/in_doubt" retry
	does 4 resume "$run" --unattended
}
lose stopped work.yaml --input 'do=Wait. Known as stopped.'
asked 'root/worker#1'
does 0 decide "$run" 'root/worker#1/bound#1' stop
does 5 resume "$run" --unattended
lose corrected work.yaml --input 'do=Wait. Known as corrected.'
asked 'root/worker#1'
does 0 resume "$run" --with told.yaml --reason 'nobody needs it' --yes --unattended
lose stage stage.yaml
asked 'work#1/worker#1'
does 0 decide "$run" 'work#1/worker#1/bound#1' stop
does 5 resume "$run" --unattended
sed -i 's/cost_usd: "2.00"/cost_usd: "9.00"/' tipstaff.yaml
start raised 0 fork "$run" --raise max_cost_usd=5
sed -i 's/cost_usd: "9.00"/cost_usd: "2.00"/' tipstaff.yaml
exported stopped corrected
lose asks work.yaml --input 'do=Wait. Known as asks.'
asked 'root/worker#1'
freeze lean

# A host fails with more text than a record holds, and the stage is tried again, or another
# one goes on.
workspace errors
hosted() { start "$1" 0 run "$1.yaml" --unattended --host "$client host $1 outside idempotent '{\"ok\":true}' 9000"; }
hosted retried
hosted mended
exported retried mended
freeze lean
