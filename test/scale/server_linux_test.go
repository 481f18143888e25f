package scale

import (
	"net/http"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// long is a program that takes a while, and nothing else.
const long = `{kind: plan, version: 1, root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 10m}, timeout: 15m}}`

// begin starts runs at one server that are not to end soon, and waits until they are driven.
func (b *bed) begin(m *machine, n int) (runs []string) {
	b.Helper()
	for range n {
		var run struct {
			Run string `json:"run"`
		}
		if _, err := b.ask(m, http.MethodPost, "/runs", map[string]any{"program": long}, &run); err != nil {
			b.Fatal(err)
		}
		runs = append(runs, run.Run)
	}
	b.until(time.Minute, "the runs are driven", func() bool { return b.driven(runs, 0) == n })
	return runs
}

// driven is how many runs are driven by others than a process.
func (b *bed) driven(runs []string, not int) (n int) {
	from := b.machines[len(b.machines)-1]
	for _, id := range runs {
		var run struct {
			Status string `json:"status"`
			Owner  *struct {
				Pid int `json:"pid"`
			} `json:"owner"`
		}
		if _, err := b.ask(from, http.MethodGet, "/runs/"+id, nil, &run); err == nil && run.Status == "running" && run.Owner != nil && run.Owner.Pid != not {
			n++
		}
	}
	return n
}

// until waits for something, and tells how long that took.
func (b *bed) until(within time.Duration, what string, done func() bool) time.Duration {
	b.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if done() {
			return time.Since(began)
		}
		if time.Since(began) > within {
			b.Fatalf("waited in vain: %s", what)
		}
	}
}

// metric is one of the numbers of a server; -1: it does not tell.
func (b *bed) metric(m *machine, name string) int {
	var text string
	if _, err := b.ask(m, http.MethodGet, "/metrics", nil, &text); err != nil {
		return -1
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindStringSubmatch(text)
	if found == nil {
		return -1
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// answers is how a route of a server answers.
func (b *bed) answers(m *machine, path string) int {
	status, _ := b.ask(m, http.MethodGet, path, nil, nil)
	return status
}

// A server that has died, and one that sleeps, are missed: others drive their runs.
func TestRunsOfALostServerAreTakenUp(t *testing.T) {
	b := newBed(t, conditions{})
	for i, lose := range []func(*machine){(*machine).kill, func(m *machine) { m.signal(syscall.SIGSTOP) }} {
		m := b.machines[i]
		runs := b.begin(m, 10)
		pid := m.server.Process.Pid
		mine := len(runs) - b.driven(runs, pid)
		lose(m)
		took := b.until(40*time.Second, "others drive them", func() bool { return b.driven(runs, pid) == len(runs) })
		t.Logf("%d runs of %s were taken up after %.1f s", mine, m.name, took.Seconds())
		if mine == 0 || took > 20*time.Second {
			t.Errorf("%d runs of %s were taken up after %s", mine, m.name, took)
		}
		m.signal(syscall.SIGCONT)
		if i == 1 {
			b.until(20*time.Second, "the one that slept finds that they were taken", func() bool { return b.metric(m, "tipstaff_leases_lost_total") >= mine })
			if begun, ended := b.metric(m, "tipstaff_drives_begun_total"), b.metric(m, "tipstaff_drives_ended_total"); begun < mine || ended < mine || ended > begun {
				t.Errorf("of %d drives %d have ended", begun, ended)
			}
		}
	}
}

// A server that is told to end is not given work any more, and hands its runs over.
func TestAServerThatIsToldToEndHandsOver(t *testing.T) {
	b := newBed(t, conditions{})
	m := b.machines[0]
	runs := b.begin(m, 10)
	pid := m.server.Process.Pid
	mine := len(runs) - b.driven(runs, pid)
	began := time.Now()
	m.drain()
	ended := time.Since(began)
	took := b.until(10*time.Second, "others drive them", func() bool { return b.driven(runs, pid) == len(runs) })
	t.Logf("it ended after %.1f s, and its %d runs were driven %.1f s later", ended.Seconds(), mine, took.Seconds())
	if mine == 0 || ended > 10*time.Second || took > 3*time.Second {
		t.Errorf("it ended after %s, and its %d runs were driven %s later", ended, mine, took)
	}
}

// A server whose database does not answer is alive, and should not be given work.
func TestAServerWithoutItsDatabaseIsNotReady(t *testing.T) {
	b := newBed(t, conditions{})
	m := b.machines[0]
	ready := func(want int) func() bool { return func() bool { return b.answers(m, "/readyz") == want } }
	b.until(5*time.Second, "it is ready", ready(200))
	b.primary.kill()
	lost := b.until(15*time.Second, "it is not ready", ready(503))
	if got := b.answers(m, "/healthz"); got != 200 {
		t.Errorf("it is told to be dead: %d", got)
	}
	if up := b.metric(m, "tipstaff_store_up"); up != 0 {
		t.Errorf("the store is up: %d", up)
	}
	b.primary.start()
	t.Logf("it was not ready after %.1f s, and ready again %.1f s after the database was", lost.Seconds(), b.until(15*time.Second, "it is ready again", ready(200)).Seconds())
}
