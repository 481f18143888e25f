package mcp

import (
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
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
func inFlight(t *testing.T, class string) (*workspace, *cmdtest.Process) {
	t.Helper()
	w := newWorkspace(t)
	w.declare(w.listening(everything))
	w.Write("tipstaff.yaml", strings.Replace(w.Read("tipstaff.yaml"), "operation: {}", "operation: {effect: "+class+"}", 1))
	w.files(short).pin()
	w.Write("received", "")
	p := w.Start("run", "short.yaml", "--unattended")
	w.received(`"trigger-long-running-operation"`)
	return w, p
}

// It is about time, and so does not run beside others.
func TestKilledServerFailsItsCall(t *testing.T) {
	w, p := inFlight(t, "read")
	killed := time.Now()
	w.Check(w.server().kill())
	p.Must(1)
	f := w.failure("root")
	if f.Body.Error.Code != "tool_unavailable" {
		w.Errorf("it failed with %+v", f.Body.Error)
	}
	if took := f.At.Sub(killed); took > soon {
		w.Errorf("it failed %s after the server", took)
	}
	w.noServers()
	w.Must(0, "verify", "@")
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
			w.Check(w.server().kill())
			p.Must(4).Says(t, "root/in_doubt")
			w.noServers()
			w.Must(0, append([]string{"decide", "@", "root/in_doubt", action}, settle.answer...)...)
			w.Must(0, "resume", "@", "--unattended")
			var out struct{ Work string }
			if w.shown(&out); out.Work != settle.want {
				t.Errorf("it gives %q", out.Work)
			}
			if n := strings.Count(w.Read("received"), `"method":"tools/call"`); n != settle.calls {
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
		p.Kill()
		w.Must(0, "ls")
		w.noServers()
		w.Must(0, "resume", "@", "--unattended")
		var out struct{ Work string }
		if w.shown(&out); out.Work != shortDone {
			t.Errorf("it gives %q", out.Work)
		}
	})
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		w, p := inFlight(t, "once")
		p.Kill()
		w.Must(4, "resume", "@", "--unattended").Says(t, "root/in_doubt")
		w.noServers()
		w.Must(0, "decide", "@", "root/in_doubt", "fail")
		w.Must(1, "resume", "@", "--unattended")
		if n := strings.Count(w.Read("received"), `"method":"tools/call"`); n != 1 {
			t.Errorf("%d calls were sent", n)
		}
		w.Must(0, "verify", "@")
	})
}

// A service that goes away takes the calls to it along, and no more than those.
func TestKilledServiceFailsItsCall(t *testing.T) {
	w := newWorkspace(t)
	s := w.serveHTTP()
	w.declare("url: " + s.url)
	w.files(short).pin()
	p := w.Start("run", "short.yaml", "--unattended")
	w.Until("the call to be on its way", func() bool {
		events := w.Start("events", "@", "--json") // at first there is no run to tell of
		<-events.Ended
		return strings.Contains(events.Out.String(), "effect.intended")
	})
	killed := time.Now()
	s.kill()
	p.Must(1)
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
