# Money that kills cut off: what the worker had told is used, the rest is held, and a gate
# asks for more. The CLI is that of v2.
cp "$here/src/v2/claude" /tmp/golden/

workspace money
mkdir -p effects
for called in stopped asked; do
	begin "$called" run work.yaml --input do="Wait. Known as $called." --unattended
	until_marked "$called" slow
	until_told "$called" '"kind":"bound.used"'
	killed
	does 4 resume "$run" --unattended
	does 0 decide "$run" root/worker#1/in_doubt retry
	does 4 resume "$run" --unattended
	[ "$called" = asked ] || {
		does 0 decide "$run" root/worker#1/bound#1 stop
		does 5 resume "$run" --unattended
	}
done
exported stopped
freeze lean
