package tipstaff_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// oneRun is a Service with a run. It keeps what it was asked for.
type oneRun struct {
	tipstaff.Service
	run     tipstaff.Run
	resumed []tipstaff.ResumeRequest
	started []tipstaff.StartRequest
	forked  []tipstaff.ForkRequest
	err     error // of Resume
}

func (s *oneRun) Get(context.Context, tipstaff.ID) (tipstaff.Run, error) { return s.run, nil }

func (s *oneRun) Artifact(context.Context, tipstaff.ID, string) ([]byte, error) {
	return []byte("{}"), nil
}

func (s *oneRun) Events(context.Context, tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(func(tipstaff.Event, error) bool) {}
}

func (s *oneRun) Resume(_ context.Context, r tipstaff.ResumeRequest) (tipstaff.Started, error) {
	s.resumed = append(s.resumed, r)
	return tipstaff.Started{Run: r.Run, Launched: &tipstaff.Launched{Pid: 4711}}, s.err
}

func (s *oneRun) Start(_ context.Context, r tipstaff.StartRequest) (tipstaff.Started, error) {
	s.started = append(s.started, r)
	return tipstaff.Started{Run: s.run.ID}, nil
}

func (s *oneRun) Fork(_ context.Context, r tipstaff.ForkRequest) (tipstaff.Run, error) {
	s.forked = append(s.forked, r)
	return s.run, nil
}

// Only a run of which something would come is resumed; the guard comes before all else.
func TestControlResumes(t *testing.T) {
	id := tipstaff.NewID(time.UnixMilli(1))
	ctx := tipstaff.WithCaller(t.Context(), tipstaff.Caller{Surface: "stdio", User: "local"})
	for name, c := range map[string]struct {
		run     tipstaff.Run
		err     error
		outcome string
		asks    bool // the Service
	}{
		"ended":       {run: tipstaff.Run{State: tipstaff.Completed, Status: "completed"}, outcome: tipstaff.ResumeTerminal},
		"a draft":     {run: tipstaff.Run{State: tipstaff.Drafting, Status: "drafting"}, outcome: tipstaff.ResumeDraft},
		"driven":      {run: tipstaff.Run{State: tipstaff.Executing, Condition: tipstaff.Running, Status: tipstaff.StatusRunning}, outcome: tipstaff.ResumeRunning},
		"queued":      {run: tipstaff.Run{State: tipstaff.Executing, Condition: tipstaff.Waiting, Status: tipstaff.StatusQueued}, outcome: tipstaff.ResumeRunning},
		"interrupted": {run: tipstaff.Run{State: tipstaff.Executing, Condition: tipstaff.Interrupted, Status: tipstaff.StatusInterrupted}, outcome: tipstaff.ResumeLaunched, asks: true},
		"ready":       {run: tipstaff.Run{State: tipstaff.Executing, Condition: tipstaff.Waiting, Status: tipstaff.StatusAwaitingResume}, outcome: tipstaff.ResumeLaunched, asks: true},
		"another was faster": {run: tipstaff.Run{State: tipstaff.Executing, Condition: tipstaff.Interrupted, Status: tipstaff.StatusInterrupted},
			err: tipstaff.Errorf(tipstaff.Busy, "it is driven"), outcome: tipstaff.ResumeRunning, asks: true},
	} {
		c.run.ID, c.run.Control = id, tipstaff.Controllable
		s := &oneRun{run: c.run, err: c.err}
		control := tipstaff.Control{Runs: s, Now: time.Now}
		got, err := control.Resume(ctx, tipstaff.RunRequest{Run: id})
		launched := c.outcome == tipstaff.ResumeLaunched
		if err != nil || got.Outcome != c.outcome || (got.Launched != nil) != launched || (len(s.resumed) > 0) != c.asks || len(got.Next) == 0 || got.Reason == "" {
			t.Errorf("%s: %+v, %v, asked %d times", name, got, err, len(s.resumed))
		}
		if c.asks && !s.resumed[0].Detach {
			t.Errorf("%s: it is driven in this process", name)
		}
		s.resumed = nil
		control.Guard = func(_ context.Context, run tipstaff.ID, tool string) error {
			return tipstaff.InspectOnlyControl(run, tipstaff.ForegroundRun, tool)
		}
		if _, err := control.Resume(ctx, tipstaff.RunRequest{Run: id}); tipstaff.CodeOf(err) != tipstaff.InspectOnly || len(s.resumed) > 0 {
			t.Errorf("%s, guarded: %v", name, err)
		}
	}
}

// Bounds are read as documents write them, for starts and for forks.
func TestControlReadsBounds(t *testing.T) {
	id := tipstaff.NewID(time.UnixMilli(1))
	s := &oneRun{run: tipstaff.Run{ID: id}}
	control := tipstaff.Control{Runs: s, Now: time.Now}
	bounds := map[string]json.RawMessage{"tool_calls": json.RawMessage("7"), "max_cost_usd": json.RawMessage(`"0.50"`), "max_wall_seconds": json.RawMessage("90")}
	if _, err := control.Start(t.Context(), tipstaff.RunStart{Message: "hello\nthere", Agent: "a", Bounds: bounds}); err != nil {
		t.Fatal(err)
	}
	got := s.started[0]
	if got.Bounds[tipstaff.BoundToolCalls] != 7 || got.Bounds[tipstaff.BoundCostUSD] != 500_000_000 || got.Bounds[tipstaff.BoundWallTime] != 90_000 ||
		!got.Detach || got.NoFiles || got.Title != "hello" || !strings.Contains(string(got.Program), `"kind":"turn"`) {
		t.Errorf("%+v, %s", got, got.Program)
	}
	if _, err := control.Start(t.Context(), tipstaff.RunStart{Program: "x"}); err != nil || !s.started[1].NoFiles {
		t.Errorf("a program from elsewhere may name files: %v", err)
	}
	if _, err := control.Start(t.Context(), tipstaff.RunStart{ForkOf: id, ForkAt: 12, Bounds: bounds}); err != nil {
		t.Fatal(err)
	}
	if f := s.forked[0]; f.At != 12 || f.Raise["max_tool_calls"] != 7 || f.Raise["max_cost_usd"] != 500_000_000 || f.Raise["max_wall_seconds"] != 90 {
		t.Errorf("%+v", f)
	}
	for name, raw := range map[string]string{"surprises": "1", "tool_calls": "-1", "cost_usd": "0.5", "wall_time": `"soon"`, "max_tool_calls": `"x"`} {
		_, err := control.Start(t.Context(), tipstaff.RunStart{Program: "x", Bounds: map[string]json.RawMessage{name: json.RawMessage(raw)}})
		if tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s %s: %v", name, raw, err)
		}
	}
	twice := map[string]json.RawMessage{"tool_calls": json.RawMessage("1"), "max_tool_calls": json.RawMessage("2")}
	if _, err := control.Start(t.Context(), tipstaff.RunStart{Program: "x", Bounds: twice}); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Errorf("twice: %v", err)
	}
}
