package grpc

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What load may leave in the memory of the daemon, once it has been under load.
const mayGrow = 96 << 20

// ghz puts load on the daemon, on loopback. Every call is answered; what the second
// load leaves in memory is no more than the first did, but for a margin.
func TestGhz(t *testing.T) {
	program := installed(t, "bin", "ghz")
	d := serve(t)
	c := d.client(d.addr)
	env := c.create("loop")
	loads := []struct {
		call, data  string
		count, each int
	}{
		{"CheckBounds", `{"envelope_id": "` + env.EnvelopeId + `"}`, 2000, 20},
		{"ExecutePipeline", `{"envelope": {"raw_input": "hello"}}`, 60, 10},
	}
	var resident [2]int64
	for round := range resident {
		for _, l := range loads {
			authorization := `{"authorization": "` + d.authorization() + `"}`
			out, err := exec.Command(program, "--insecure", "--call", "tipstaff.core.v1.CoreService."+l.call, "--data", l.data, "--metadata", authorization,
				"--reflect-metadata", authorization, "--total", strconv.Itoa(l.count), "--concurrency", strconv.Itoa(l.each), "--timeout", "60s", "--format", "json", d.addr).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var report struct {
				Count    int
				Statuses map[string]int `json:"statusCodeDistribution"`
				Errors   map[string]int `json:"errorDistribution"`
			}
			decodeJSON(t, string(out), &report)
			if want := map[string]int{"OK": l.count}; !maps.Equal(report.Statuses, want) || len(report.Errors) > 0 {
				t.Errorf("%s: %v, %v", l.call, report.Statuses, report.Errors)
			}
		}
		resident[round] = d.resident()
	}
	if grown := resident[1] - resident[0]; grown > mayGrow {
		t.Errorf("the daemon has %d bytes in memory, and had %d after half the load", resident[1], resident[0])
	}
	events := c.execute(c.ctx(), env) // it serves as before
	if err := events.rest(); err != nil || !slices.ContainsFunc(story(events.events...), func(s string) bool { return strings.Contains(s, "PIPELINE_COMPLETED") }) {
		t.Errorf("after the load: %v", err)
	}
}

// resident is how many bytes the daemon has in memory; 0 where the system does not tell.
func (d *daemon) resident() int64 {
	d.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		d.t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
