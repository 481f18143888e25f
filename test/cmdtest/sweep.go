package cmdtest

import "testing"

// SkipSweep skips a sweep of kills in short tests. A sweep kills the command at many places
// of one story, with processes, and so takes long. What a kill does at each write is shown
// in process, by flow/flowtest and flow/simtest; before a merge four sweeps sample it with
// processes, and a soak takes all of them at every place.
func SkipSweep(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("a sweep of kills with processes: make soak runs it")
	}
}
