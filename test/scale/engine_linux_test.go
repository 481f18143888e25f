package scale

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// engine is a Temporal server, which keeps what it knows in a file.
type engine struct {
	*testing.T
	cli, addr, file string
	process
}

// newEngine starts one.
func newEngine(t *testing.T) *engine {
	t.Helper()
	cli := os.Getenv("TIPSTAFF_TEMPORAL_CLI")
	if cli == "" {
		t.Skip("TIPSTAFF_TEMPORAL_CLI is not set: make test-scale runs this")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	e := &engine{T: t, cli: cli, addr: l.Addr().String(), file: filepath.Join(t.TempDir(), "temporal")}
	t.Cleanup(e.kill)
	e.start()
	return e
}

// start starts the server and waits until it answers.
func (e *engine) start() {
	e.Helper()
	host, port, _ := net.SplitHostPort(e.addr)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if !e.running() {
			c := exec.Command(e.cli, "server", "start-dev", "--headless", "--ip", host, "--port", port, "--db-filename", e.file, "--log-level", "never")
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := e.begin(c); err != nil {
				e.Fatal(err)
			}
		}
		out, err := e.command("operator", "cluster", "health")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("Temporal does not answer: %v\n%s", err, out)
		}
	}
}

// command asks the server for something, with Temporal's own program.
func (e *engine) command(args ...string) ([]byte, error) {
	return exec.Command(e.cli, append(args, "--address", e.addr, "--command-timeout", "5s")...).CombinedOutput()
}

// engineFaults are what else goes wrong where Temporal schedules drives.
var engineFaults = slices.Concat(kills(), []fault{
	{"cut off from Temporal for longer than it is missed", func(b *bed, m *machine) {
		way := b.proxies[slices.Index(b.machines, m)][2]
		way.cut(true)
		time.Sleep(lease)
		way.cut(false)
	}},
	{"a workflow terminated in Temporal", func(b *bed, _ *machine) {
		var run string
		b.until(time.Minute, "a workflow is terminated", func() bool {
			if run = b.driving(); run == "" {
				return false
			}
			_, err := b.engine.command("workflow", "terminate", "--workflow-id", run)
			return err == nil // else it has just ended
		})
		b.until(time.Minute, "it goes on", func() bool { return b.goesOn(run) })
	}},
})

// kills are those of the database, a server and Temporal, in every order, each before those
// that were killed before are back. They come back in any order.
func kills() (all []fault) {
	victims := []struct {
		name        string
		kill, start func(*bed, *machine)
	}{
		{"database", func(b *bed, _ *machine) { b.primary.kill() }, func(b *bed, _ *machine) { b.primary.start() }},
		{"server", func(_ *bed, m *machine) { m.kill() }, func(_ *bed, m *machine) { m.serve() }},
		{"Temporal", func(b *bed, _ *machine) { b.engine.kill() }, func(b *bed, _ *machine) { b.engine.start() }},
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		name := fmt.Sprintf("killed, one after the other: %s, %s, %s", victims[order[0]].name, victims[order[1]].name, victims[order[2]].name)
		all = append(all, fault{name, func(b *bed, m *machine) {
			for _, i := range order {
				victims[i].kill(b, m)
				time.Sleep(time.Duration(b.dice.IntN(1500)) * time.Millisecond)
			}
			for _, i := range b.dice.Perm(len(order)) {
				victims[i].start(b, m)
				time.Sleep(time.Duration(b.dice.IntN(1500)) * time.Millisecond)
			}
		}})
	}
	return all
}

// driving is a run in the middle of a long step; "": there is none.
func (b *bed) driving() string {
	b.mu.Lock()
	runs := maps.Clone(b.runs)
	b.mu.Unlock()
	for run, key := range runs {
		var s state
		if key%len(programs) != slow {
			continue
		}
		if _, err := b.ask(b.any(), http.MethodGet, "/runs/"+run, nil, &s); err == nil && s.Status == "running" {
			return run
		}
	}
	return ""
}

// goesOn resumes a run whose drive was broken off with its workflow, as somebody has to who
// has terminated that, and reports whether nothing more is to be done.
func (b *bed) goesOn(run string) bool {
	var s state
	if _, err := b.ask(b.any(), http.MethodGet, "/runs/"+run, nil, &s); err != nil || s.Status == "running" {
		return false
	}
	if s.Status != "interrupted" {
		return true
	}
	_, err := b.ask(b.any(), http.MethodPost, "/runs/"+run+"/resume", map[string]any{}, nil)
	return err == nil
}

// Temporal schedules the runs of three servers while it, they and the database fail: what
// TestServersWhileThingsFail asks for is so all the same.
func TestServersOfAnEngineWhileThingsFail(t *testing.T) {
	runs, rounds, which := 600, 2, ""
	if testing.Short() {
		runs, rounds, which = 90, 1, "one after the other|sleeps|Temporal"
	}
	all := slices.Concat(faults, engineFaults)
	b := newBed(t, conditions{engine: true})
	b.under(runs, func() {
		for range rounds {
			b.fail(all, which, runs/rounds)
		}
	})
}
