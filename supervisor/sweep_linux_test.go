package supervisor

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// names are of this test process alone, so that tests that run beside each other
// never sweep one another.
func names(t *testing.T) (run, launch string) {
	t.Helper()
	return "run-" + t.Name(), "launch-" + t.Name()
}

func running(pid int) bool { return exists(pid) }

// left counts the processes that match.
func left(t *testing.T, match matcher) (n int) {
	t.Helper()
	found, err := findMarked(match)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		if !p.leaving {
			n++
		}
		p.release()
	}
	return n
}

func sweep(t *testing.T, run, launch string) int {
	t.Helper()
	ended, err := Sweep(context.Background(), map[string]string{launch: run})
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

func TestMarkers(t *testing.T) {
	want := []string{"TIPSTAFF_RUN_ID=R", "TIPSTAFF_LAUNCH=L"}
	if got := Markers("R", "L"); !slices.Equal(got, want) {
		t.Errorf("Markers = %q", got)
	}
}

func TestSweepEndsGrandchildWithItsOwnSession(t *testing.T) {
	run, launch := names(t)
	cmd, grandchild := start(t, "parent", Markers(run, launch)...)
	if grandchild == cmd.Process.Pid {
		t.Fatal("the helper is its own grandchild")
	}
	// The owner dies first, as in a crash: nobody knows its descendants any more.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !running(grandchild) {
		t.Fatal("the grandchild ended with its parent: nothing is tested")
	}
	if err := unix.Kill(grandchild, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if ended := sweep(t, run, launch); ended != 1 {
		t.Errorf("ended %d processes, want 1", ended)
	}
	if running(grandchild) {
		t.Error("the grandchild lives")
	}
	if ended := sweep(t, run, launch); ended != 0 {
		t.Errorf("a second sweep ended %d", ended)
	}
}

func TestSweepEndsParentAndGrandchild(t *testing.T) {
	run, launch := names(t)
	cmd, grandchild := start(t, "parent", Markers(run, launch)...)
	if ended := sweep(t, run, launch); ended != 2 {
		t.Errorf("ended %d processes, want 2", ended)
	}
	if running(cmd.Process.Pid) || running(grandchild) {
		t.Error("one of them lives")
	}
}

func TestSweepLooksAgainUntilNoneIsLeft(t *testing.T) {
	run, launch := names(t)
	start(t, "breeder", Markers(run, launch)...)
	if ended := sweep(t, run, launch); ended < 1 {
		t.Errorf("ended %d processes", ended)
	}
	if n := left(t, byLaunch(map[string]string{launch: run})); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestSweepLeavesOthersAlone(t *testing.T) {
	run, launch := names(t)
	others := map[string][]string{
		"of another launch of the run":       Markers(run, launch+"2"),
		"of another run":                     Markers(run+"2", launch),
		"of a launch that begins alike":      Markers(run, launch[:len(launch)-1]),
		"with the run's marker alone":        Markers(run, launch)[:1],
		"with the launch's marker alone":     Markers(run, launch)[1:],
		"with none":                          nil,
		"whose other variable looks like it": {"X_" + Markers(run, launch)[0], "X_" + Markers(run, launch)[1]},
	}
	pids := map[string]int{}
	for name, env := range others {
		_, pids[name] = start(t, "deaf", env...)
	}
	_, mine := start(t, "deaf", Markers(run, launch)...)
	if ended := sweep(t, run, launch); ended != 1 {
		t.Errorf("ended %d processes, want 1", ended)
	}
	if running(mine) {
		t.Error("the run's process lives")
	}
	for name, pid := range pids {
		if !running(pid) {
			t.Errorf("a process %s was ended", name)
		}
	}
}

// A process that was found and has ended since may have left its pid to another:
// that one has another start time and gets no signal.
func TestSweepLeavesReusedPidAlone(t *testing.T) {
	_, pid := start(t, "deaf")
	began, _ := startTime(pid)
	handle, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	former := process{handle: handle, start: began - 1}
	if ended, err := endAll(context.Background(), []process{former}); err != nil || ended != 1 {
		t.Errorf("endAll = %d, %v: the former process is gone", ended, err)
	}
	if !running(pid) {
		t.Error("the stranger under its pid was ended")
	}
}

func TestSweepSparesItsOwnProcess(t *testing.T) {
	run, launch := names(t)
	_, other := start(t, "deaf", Markers(run, launch)...)
	_, ended := start(t, "sweeper", Markers(run, launch)...)
	if ended != 1 {
		t.Errorf("a process that sweeps its own launch ended %d others, want 1", ended)
	}
	if running(other) {
		t.Error("the other process of the launch lives")
	}
}

func TestSweepGivesUpWhenItsTimeIsOver(t *testing.T) {
	run, launch := names(t)
	start(t, "deaf", Markers(run, launch)...)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Sweep(ctx, map[string]string{launch: run}); !errors.Is(err, context.Canceled) {
		t.Errorf("Sweep = %v, want context.Canceled", err)
	}
}

func TestSweepNeedsBothNames(t *testing.T) {
	for _, c := range [][2]string{{"", "launch"}, {"run", ""}, {"", ""}} {
		if _, err := Sweep(context.Background(), map[string]string{c[1]: c[0]}); err == nil {
			t.Errorf("Sweep(%q, %q) went ahead", c[0], c[1])
		}
	}
}

func TestCarried(t *testing.T) {
	for _, c := range []struct {
		name, environ string
		want          bool
	}{
		{"alone", "TIPSTAFF_LAUNCH=a", true},
		{"among others", "A=b\x00TIPSTAFF_LAUNCH=a\x00C=d\x00", true},
		{"twice the same", "TIPSTAFF_LAUNCH=a\x00TIPSTAFF_LAUNCH=a", true},
		{"also another value", "TIPSTAFF_LAUNCH=a\x00TIPSTAFF_LAUNCH=b", false},
		{"after another value", "TIPSTAFF_LAUNCH=b\x00TIPSTAFF_LAUNCH=a", false},
		{"longer value", "TIPSTAFF_LAUNCH=ab", false},
		{"shorter value", "TIPSTAFF_LAUNCH=", false},
		{"longer name", "XTIPSTAFF_LAUNCH=a", false},
		{"in a value", "A=TIPSTAFF_LAUNCH=a", false},
		{"empty", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := carried([]byte(c.environ), launchMarker); (got == "a") != c.want {
				t.Errorf("it carries %q", got)
			}
		})
	}
}
