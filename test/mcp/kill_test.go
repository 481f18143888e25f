package mcp

import (
	"strings"
	"testing"
	"time"
)

// How long a call may go on after its server has died. A stream over HTTP that
// broke may be taken up again, which is tried first.
const (
	soon        = time.Second
	afterARetry = 5 * time.Second
)

const short = `-- short.yaml --
kind: plan
version: 1
root: {id: work, kind: tool_call, tool: "mcp://everything/trigger-long-running-operation@2.0.0", args: {duration: 4, steps: 40}}
outputs: {work: "${work.output}"}
`

const shortDone = "Long running operation completed. Duration: 4 seconds, Steps: 40."

// inFlight is a run of that plan whose call has reached the server. class is what
// the manifest says of the tool.
func inFlight(t *testing.T, class string) (*workspace, *process) {
	t.Helper()
	w := newWorkspace(t)
	w.declare(w.listening(everything))
	w.write("tipstaff.yaml", strings.Replace(w.read("tipstaff.yaml"), "operation: {}", "operation: {effect: "+class+"}", 1))
	w.files(short).pin()
	w.write("received", "")
	p := w.start("run", "short.yaml", "--unattended")
	w.received(`"trigger-long-running-operation"`)
	return w, p
}

// It is about time, and so does not run beside others.
func TestKilledServerFailsItsCall(t *testing.T) {
	w, p := inFlight(t, "read")
	killed := time.Now()
	w.check(w.server().kill())
	p.wait(1)
	f := w.failure("root")
	if f.Body.Error.Code != "tool_unavailable" {
		w.Errorf("it failed with %+v", f.Body.Error)
	}
	if took := f.At.Sub(killed); took > soon {
		w.Errorf("it failed %s after the server", took)
	}
	w.noServers()
	w.tipstaff(0, "verify", "@")
	var out struct{ Work string }
	if w.outputs("short.yaml", &out); out.Work != shortDone {
		w.Errorf("the next run gives %q", out.Work)
	}
}

func TestKilledServerLeavesOnceInDoubt(t *testing.T) {
	t.Parallel()
	for action, settle := range map[string]struct {
		answer []string
		want   string
		calls  int
	}{
		"use_result": {[]string{"--answer", `"it was done by hand"`}, "it was done by hand", 1},
		"retry":      {nil, shortDone, 2},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w, p := inFlight(t, "once")
			w.check(w.server().kill())
			p.wait(4).says(t, "root/in_doubt")
			w.noServers()
			w.tipstaff(0, append([]string{"decide", "@", "root/in_doubt", action}, settle.answer...)...)
			w.tipstaff(0, "resume", "@", "--unattended")
			var out struct{ Work string }
			if w.shown(&out); out.Work != settle.want {
				t.Errorf("it gives %q", out.Work)
			}
			if n := strings.Count(w.read("received"), `"method":"tools/call"`); n != settle.calls {
				t.Errorf("%d calls were sent, not %d", n, settle.calls)
			}
		})
	}
}

// When Tipstaff itself is killed its servers are gone, at the latest when anybody
// looks at the store again, and the run goes on.
func TestKilledTipstaffLeavesNoServer(t *testing.T) {
	t.Parallel()
	t.Run("read", func(t *testing.T) {
		t.Parallel()
		w, p := inFlight(t, "read")
		p.kill()
		w.tipstaff(0, "ls")
		w.noServers()
		w.tipstaff(0, "resume", "@", "--unattended")
		var out struct{ Work string }
		if w.shown(&out); out.Work != shortDone {
			t.Errorf("it gives %q", out.Work)
		}
	})
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		w, p := inFlight(t, "once")
		p.kill()
		w.tipstaff(4, "resume", "@", "--unattended").says(t, "root/in_doubt")
		w.noServers()
		w.tipstaff(0, "decide", "@", "root/in_doubt", "fail")
		w.tipstaff(1, "resume", "@", "--unattended")
		if n := strings.Count(w.read("received"), `"method":"tools/call"`); n != 1 {
			t.Errorf("%d calls were sent", n)
		}
		w.tipstaff(0, "verify", "@")
	})
}

// A service that goes away takes the calls to it along, and no more than those.
func TestKilledServiceFailsItsCall(t *testing.T) {
	w := newWorkspace(t)
	s := w.serveHTTP()
	w.declare("url: " + s.url)
	w.files(short).pin()
	p := w.start("run", "short.yaml", "--unattended")
	w.until("the call to be on its way", func() bool {
		events := w.start("events", "@", "--json") // at first there is no run to tell of
		<-events.ended
		return strings.Contains(events.out.String(), "effect.intended")
	})
	killed := time.Now()
	s.kill()
	p.wait(1)
	f := w.failure("root")
	if f.Body.Error.Code != "tool_unavailable" {
		w.Errorf("it failed with %+v", f.Body.Error)
	}
	if took := f.At.Sub(killed); took > afterARetry {
		w.Errorf("it failed %s after the server", took)
	}
	s.start()
	var out struct{ Work string }
	if w.outputs("short.yaml", &out); out.Work != shortDone {
		w.Errorf("the next run gives %q", out.Work)
	}
}
