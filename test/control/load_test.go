//go:build linux

package control

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// Load by k6: 200 subscribers of a busy run, 1,000 starts, and reads of all kinds at the same
// time. Nothing fails and nothing is missed. How long it takes is said, and kept beside the
// programs, but judged by nobody: a machine may be busy.
func TestLoad(t *testing.T) {
	b := newBed(t)
	k6 := perhaps(t, cached(t, "control", "bin", "k6"))
	d := b.serve()
	run := d.submit(busy(150, 100))
	file := b.Path("load.json")
	said := b.run(program{argv: []string{k6, "run", "--quiet", "--no-usage-report", "-e", "URL=" + d.url, "-e", "TOKEN=" + d.token, "-e", "RUN=" + run, "-e", "SUMMARY=" + file, loadScript(t)}})
	var found struct {
		Metrics map[string]struct {
			Values     map[string]float64
			Thresholds map[string]struct{ OK bool }
		}
		Root struct {
			Checks []struct {
				Name          string
				Passes, Fails int
			} `json:"checks"`
		} `json:"root_group"`
	}
	b.decode([]byte(b.Read("load.json")), &found)
	for _, c := range found.Root.Checks {
		if c.Fails > 0 {
			t.Errorf("%s: not in %d of %d", c.Name, c.Fails, c.Fails+c.Passes)
		}
	}
	passes := map[string]int{}
	for _, c := range found.Root.Checks {
		passes[c.Name] = c.Passes
	}
	if said.code != 0 || passes["a stream is whole"] != 200 || passes["a start completes"] != 1000 {
		t.Errorf("k6 ended with %d: %v\n%s\n%s", said.code, passes, cmdtest.Clip(said.out), cmdtest.Clip(said.err))
	}
	if n := found.Metrics["http_req_failed"].Values["rate"]; n != 0 {
		t.Errorf("%v of all requests failed", n)
	}
	var lines strings.Builder
	fmt.Fprintf(&lines, "load: 200 subscribers of a busy run, 1,000 starts and their ends, reads meanwhile: %.0f requests, %.0f a second, %.1f %% failed\n",
		found.Metrics["http_reqs"].Values["count"], found.Metrics["http_reqs"].Values["rate"], 100*found.Metrics["http_req_failed"].Values["rate"])
	for _, m := range []struct{ name, says string }{{"http_req_duration{name:start}", "POST /runs"}, {"start_to_end", "from POST to the end of the run"}, {"http_req_waiting{scenario:reads}", "reads"}, {"http_req_waiting{scenario:subscribers}", "the first byte of a stream"}} {
		v := found.Metrics[m.name].Values
		fmt.Fprintf(&lines, "load: %s: median %.1f ms, 95 %% within %.1f ms, 99 %% within %.1f ms, at most %.1f ms\n", m.says, v["med"], v["p(95)"], v["p(99)"], v["max"])
	}
	t.Log(lines.String())
	b.Check(os.WriteFile(cached(t, "control", "summary"), []byte(lines.String()), 0o644))

	// The daemon is as it was: nobody follows, nothing is driven or waits.
	b.Until("the daemon to rest", func() bool {
		var health struct {
			InFlight int `json:"in_flight"`
			Queued   int
			SSE      struct{ Subscribers int }
		}
		d.get("/healthz", &health)
		return health.InFlight == 0 && health.Queued == 0 && health.SSE.Subscribers == 0
	})
	b.Must(0, "verify", run)
}

// loadScript is load.js, by its whole path.
func loadScript(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/load.js"
}
