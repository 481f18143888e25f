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
	err     error        // of Resume
	next    tipstaff.Run // another
	unread  error        // of Get
	lost    error        // of Artifact
}

func (s *oneRun) Get(_ context.Context, id tipstaff.ID) (tipstaff.Run, error) {
	if id == s.next.ID {
		return s.next, nil
	}
	return s.run, s.unread
}

func (s *oneRun) Artifact(context.Context, tipstaff.ID, string) ([]byte, error) {
	return []byte("{}"), s.lost
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

func (s *oneRun) Fork(_ context.Context, r tipstaff.ForkRequest) (tipstaff.Forked, error) {
	s.forked = append(s.forked, r)
	return tipstaff.Forked{Run: s.run, Launched: &tipstaff.Launched{Pid: 4711}}, nil
}

// Only a run of which something would come is resumed; the guard comes before all else.
func TestControlResumes(t *testing.T) {
	id, child := tipstaff.NewID(time.UnixMilli(1)), tipstaff.NewID(time.UnixMilli(2))
	now := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	parked := func(news bool, wake time.Time) tipstaff.Run {
		return tipstaff.Run{State: tipstaff.Executing, Condition: tipstaff.Waiting, Status: tipstaff.StatusAwaitingResume,
			LastDrive: &tipstaff.LastDrive{Kind: tipstaff.KindRunParked, WakeAt: wake, News: news}}
	}
	interrupted := func(why string) tipstaff.Run {
		return tipstaff.Run{State: tipstaff.Executing, Condition: tipstaff.Interrupted, Status: tipstaff.StatusInterrupted, Program: tipstaff.Program{Digest: "sha256:p"},
			LastDrive: &tipstaff.LastDrive{Kind: tipstaff.KindRunInterrupted, Reason: why}}
	}
	followed := tipstaff.Run{State: tipstaff.Completed, Status: "completed", Delivery: &tipstaff.RunDelivery{Followup: child}}
	homeless := interrupted("owner_died")
	homeless.Delivery = &tipstaff.RunDelivery{Worktree: &tipstaff.WorktreeState{Path: "/gone"}}
	asks := parked(false, time.Time{})
	asks.Status, asks.OpenGates = tipstaff.StatusAwaitingDecision, []tipstaff.Gate{{ID: child, Kind: tipstaff.Question, Actions: []string{"approve"}}}
	ctx := tipstaff.WithCaller(t.Context(), tipstaff.Caller{Surface: "stdio", User: "local", Scopes: tipstaff.DefaultScopes()})
	for name, c := range map[string]struct {
		run     tipstaff.Run
		err     error
		outcome string
		asks    bool // the Service
		unread  error
		lost    error
		code    string
		reason  string // a part of it
	}{
		"followed up":           {run: followed, outcome: tipstaff.ResumeSuperseded},
		"nothing decided":       {run: asks, outcome: tipstaff.ResumeUndecided},
		"asleep":                {run: parked(false, now.Add(time.Hour)), outcome: tipstaff.ResumeUndecided, reason: "until 2026-11-15T11:00:00Z"},
		"slept":                 {run: parked(false, now), outcome: tipstaff.ResumeLaunched, asks: true},
		"asleep, and decided":   {run: parked(true, now.Add(time.Hour)), outcome: tipstaff.ResumeLaunched, asks: true},
		"its worktree is gone":  {run: homeless, outcome: tipstaff.ResumeBlocked, code: "worktree_missing"},
		"a newer format":        {unread: tipstaff.Errorf(tipstaff.FormatNewer, "record 9 is of a newer format"), outcome: tipstaff.ResumeBlocked, code: "format_newer"},
		"its program is gone":   {run: interrupted("owner_died"), lost: tipstaff.Errorf(tipstaff.ArtifactNotFound, "there is no sha256:p"), outcome: tipstaff.ResumeBlocked, code: "program_unreadable"},
		"its program has moved": {run: interrupted("replay_mismatch"), outcome: tipstaff.ResumeBlocked, code: "replay_mismatch"},

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
		s := &oneRun{run: c.run, err: c.err, unread: c.unread, lost: c.lost, next: tipstaff.Run{ID: child, State: tipstaff.Executing, Condition: tipstaff.Waiting,
			Status: tipstaff.StatusAwaitingResume, Control: tipstaff.Controllable}}
		control := tipstaff.Control{Runs: s, Now: func() time.Time { return now }, Present: func(string) bool { return false }}
		got, err := control.Resume(ctx, tipstaff.RunRequest{Run: id})
		launched := c.outcome == tipstaff.ResumeLaunched
		if err != nil || got.Outcome != c.outcome || (got.Launched != nil) != launched || (len(s.resumed) > 0) != c.asks || len(got.Next) == 0 || got.Reason == "" {
			t.Errorf("%s: %+v, %v, asked %d times", name, got, err, len(s.resumed))
		}
		if got.Code != c.code || !strings.Contains(got.Reason, c.reason) || (got.Outcome == tipstaff.ResumeSuperseded) != (got.Recommended == child) ||
			(got.Outcome == tipstaff.ResumeUndecided && c.reason == "") != (len(got.Gates) > 0) {
			t.Errorf("%s: %+v", name, got)
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
