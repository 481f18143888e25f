package tipstaff

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// watchable is a project whose runs go on.
type watchable struct {
	Service
	*project
	mu      sync.Mutex
	changed chan struct{}
}

func newWatchable(j records, with func(*projectRun)) *watchable {
	w := &watchable{project: newProject(), changed: make(chan struct{})}
	if r := w.add(1, j); with != nil {
		with(r)
	}
	return w
}

func (w *watchable) Get(ctx context.Context, id ID) (Run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.project.Get(ctx, id)
}

func (w *watchable) Artifact(ctx context.Context, id ID, digest string) ([]byte, error) {
	return w.project.Artifact(ctx, id, digest)
}

func (w *watchable) Events(ctx context.Context, req EventsRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for after, left := req.After, req.Limit; ; {
			w.mu.Lock()
			var news []Event
			for _, e := range w.runs[req.Run].records {
				if e.Seq > after {
					news = append(news, e)
				}
			}
			ended, changed := w.runs[req.Run].fold().State.Terminal(), w.changed
			w.mu.Unlock()
			for _, e := range news {
				after = e.Seq
				if !yield(e, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if !req.Follow || ended {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// happens adds a record, and wakes who waits for one.
func (w *watchable) happens(kind Kind, path, body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.runs[testID(1)]
	facts := r.Facts
	r.add(kind, path, 1, body)
	r = w.add(1, r.records)
	facts.Head = r.Head
	r.Facts = facts
	close(w.changed)
	w.changed = make(chan struct{})
}

func alive(r *projectRun) {
	r.Owner = &Owner{Kind: "foreground", Pid: 7, Alive: true, HeartbeatAt: dawn.Add(time.Hour)}
}

// Whatever is waited for: what fires first, and at once if it is so already.
func TestWatchModes(t *testing.T) {
	piped := started()
	piped[0].Body = json.RawMessage(strings.Replace(string(piped[0].Body), `{`, `{"pipeline":{},`, 1))
	piped.add(KindStageStarted, "write#1", 1, `{"stage":"write","visit":1}`)
	piped.add(KindStageStarted, "write#2", 1, `{"stage":"write","visit":2}`)
	piped.add(KindStageStarted, "review#1", 1, `{"stage":"review","visit":1}`)
	gate := func(kind GateKind) records { return parked(started(), kind, nil, "approve") }
	open := len(gate(Question)) - 1 // the record of the gate
	decided := ends(gate(Question), KindPolicyGateResolve, resolves(40, "approve"))
	interrupted := ends(started(), KindRunInterrupted, `{"reason":"owner_died"}`)
	type watches struct {
		name  string
		of    records
		with  func(*projectRun)
		after int
		want  string // by mode, in the order of WatchModes
	}
	cases := []watches{
		{"decided, and not resumed", decided, nil, len(decided), "resume_needed resume_needed resume_needed resume_needed resume_needed resume_needed"},
		{"interrupted", interrupted, nil, len(interrupted), "interrupted interrupted interrupted interrupted interrupted interrupted"},
		{"nothing has happened", started(), alive, len(started()), "timeout timeout timeout timeout timeout decision"},
		{"something has", started(), alive, len(started()) - 1, "next_event timeout timeout timeout timeout decision"},
		{"asks, and goes on; it was known", gate(Question), alive, open + 1, "timeout timeout timeout gate timeout timeout"},
		{"asks, and goes on; it is news", gate(Question), alive, open - 1, "gate gate gate gate timeout gate"},
		{"another stage", piped, alive, len(piped) - 1, "next_event stage_change step_change timeout timeout decision"},
		{"another visit of the stage", piped[:len(piped)-1], alive, len(piped) - 2, "next_event timeout step_change timeout timeout decision"},
		{"the decided one never fires", ends(decided[:len(decided):len(decided)], KindRunResumed, `{"epoch":2}`), alive, 0, "next_event timeout step_change timeout timeout decision"},
	}
	for _, kind := range []GateKind{Question, Approval, Handoff, Clarification, Confirmation, InDoubt, Bound, Delivery} {
		cases = append(cases, watches{"parked at " + string(kind), gate(kind), nil, open + 1, "gate gate gate gate timeout timeout"})
	}
	for _, kind := range []Kind{KindIntentAttest, KindIntentFail, KindIntentCancel} {
		cases = append(cases, watches{"ended by " + string(kind), ends(started(), kind, `{"reason":"because"}`), nil, len(started()) + 1, "end end end end end end"})
	}
	for _, c := range cases {
		for i, want := range strings.Fields(c.want) {
			mode := WatchModes()[i]
			t.Run(c.name+", "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWatchable(append(records{}, c.of...), c.with)
					from := time.Now()
					got, err := Control{Runs: w, Now: time.Now}.Watch(WithCaller(t.Context(), Caller{Surface: "cli"}),
						WatchRequest{Run: testID(1), After: int64(c.after), Until: mode, TimeoutS: 2}, nil)
					if err != nil || got.Trigger.Kind != want || got.Triggered != (want != WatchTimeout) || got.Last != int64(len(c.of)) {
						t.Fatalf("%+v, %v; want %s", got, err, want)
					}
					if waited := time.Since(from); waited > 0 && want != WatchTimeout || waited != 2*time.Second && want == WatchTimeout {
						t.Errorf("it took %s", waited)
					}
					n := 0
					for _, count := range got.Summary.ByKind {
						n += count
					}
					if n != len(c.of)-c.after || len(got.Summary.Last) > 5 || want == WatchGate && len(got.Gates) != 1 || len(got.Next) == 0 && want != WatchTimeout {
						t.Errorf("%+v", got)
					}
				})
			})
		}
	}
}

// Who waits for a decision is told of one that came after the cursor, of every later gate, and
// of none that was there before.
func TestWatchUntilDecision(t *testing.T) {
	two := parked(started(), Question, nil, "approve")
	two.add(KindPolicyGate, "root/two", 0, opens(41, Question, nil, "approve"))
	both := int64(len(two))
	first := func(w *watchable) { w.happens(KindPolicyGateResolve, "root/ok", resolves(40, "approve")) }
	third := func(w *watchable) { w.happens(KindPolicyGate, "root/three", opens(42, Question, nil, "approve")) }
	for name, c := range map[string]struct {
		after   int64
		before  func(*watchable) // nil: nothing
		happens func(*watchable)
		want    string
	}{
		"one of two is decided":              {both, nil, first, UntilDecision},
		"without a cursor":                   {0, nil, first, UntilDecision},
		"it was decided before the watch":    {both, first, nil, UntilDecision},
		"before a watch without a cursor":    {0, first, nil, WatchTimeout},
		"nobody answers":                     {both, nil, nil, WatchTimeout},
		"a third is asked":                   {both, nil, third, WatchGate},
		"a gate that the cursor has not met": {both - 1, nil, nil, WatchGate},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatchable(slices.Clone(two), nil)
				if c.before != nil {
					c.before(w)
				}
				if c.happens != nil {
					go func() {
						time.Sleep(time.Second)
						c.happens(w)
					}()
				}
				got, err := Control{Runs: w, Now: time.Now}.Watch(WithCaller(t.Context(), Caller{Surface: "cli"}),
					WatchRequest{Run: testID(1), After: c.after, Until: UntilDecision, TimeoutS: 5}, nil)
				if err != nil || got.Trigger.Kind != c.want {
					t.Errorf("%+v, %v", got.Trigger, err)
				}
			})
		})
	}
}

// A watch wakes up when it happens, says how far the run has come, and the next one goes on
// where it ended.
func TestWatchWakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchable(started(), alive)
		control := Control{Runs: w, Now: time.Now}
		ctx := WithCaller(t.Context(), Caller{Surface: "cli"})
		begun := time.Now()
		go func() {
			for i := range 300 {
				time.Sleep(10 * time.Millisecond)
				w.happens(KindPlanStep, fmt.Sprintf("root/%d", i), `{"status":"completed"}`)
			}
			w.happens(KindPolicyGate, "root/ok", opens(40, Question, nil, "approve"))
		}()
		var told []int64
		var at []time.Time
		first, err := control.Watch(ctx, WatchRequest{Run: testID(1), After: 5, Until: UntilEvent}, nil)
		if err != nil || first.Trigger.Kind != UntilEvent || time.Since(begun) != 10*time.Millisecond {
			t.Fatalf("%+v, %v after %s", first, err, time.Since(begun))
		}
		got, err := control.Watch(ctx, WatchRequest{Run: testID(1), After: first.Last}, func(seq int64, message string) {
			told, at = append(told, seq), append(at, time.Now())
			if len(message) > 200 || message == "" {
				t.Errorf("it says %q", message)
			}
		})
		if err != nil || got.Trigger.Kind != WatchGate || time.Since(begun) != 3*time.Second {
			t.Fatalf("%+v, %v after %s", got, err, time.Since(begun))
		}
		if got.Summary.ByKind[string(KindPlanStep)] != 299 || got.Summary.ByKind[string(KindPolicyGate)] != 1 || got.Summary.Last[4].Text != "What now?" {
			t.Errorf("%+v", got.Summary)
		}
		if len(told) < 8 || told[len(told)-1] != got.Last {
			t.Errorf("told %v of %d", told, got.Last)
		}
		for i := range told {
			if i > 0 && told[i] <= told[i-1] || i >= 4 && at[i].Sub(at[i-4]) < time.Second {
				t.Errorf("told %v at %v", told, at)
			}
		}
		lost, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Minute, cancel)
		if _, err := control.Watch(lost, WatchRequest{Run: testID(1), Until: UntilEnd, TimeoutS: 3600}, nil); err != context.Canceled {
			t.Errorf("a watch that nobody waits for ends with %v", err)
		}
		short, err := control.Watch(ctx, WatchRequest{Run: testID(1), After: got.Last, Summary: new(bool)}, nil)
		if err != nil || short.Summary != nil || short.Last != got.Last || len(short.Gates) != 1 {
			t.Errorf("%+v, %v", short, err)
		}
	})
	for name, req := range map[string]WatchRequest{
		"no mode": {Until: "dawn"}, "too long": {TimeoutS: 3601}, "less than nothing": {TimeoutS: -1}, "no cursor": {After: -1},
	} {
		req.Run = testID(1)
		if _, err := (Control{Runs: newWatchable(started(), nil), Now: time.Now}).Watch(t.Context(), req, nil); CodeOf(err) != InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Control{Runs: newWatchable(started(), nil), Now: time.Now}).Watch(t.Context(), WatchRequest{Run: testID(1), After: 99}, nil); CodeOf(err) != CursorBeyondHead {
		t.Errorf("a cursor beyond the head: %v", err)
	}
}

// Ten thousand findings are summed up by the worst.
func TestWatchKeepsItsLimits(t *testing.T) {
	long, text := strings.Repeat("é", 5000), strings.Repeat("x", 301)
	subject := HandoffSubject{Stage: "review", Visit: 1, Trigger: TriggerRejected, Summary: long}
	for i := range 10_000 {
		text := text
		if i > 10 && i != 7000 {
			text = "short"
		}
		subject.Findings = append(subject.Findings, StageFinding{ID: fmt.Sprint("f", i), Severity: []string{"P3", "P2", "odd"}[i%3], Title: text, Body: text, RequiredFix: text})
	}
	subject.Findings[7000].Severity = "P0"
	j := started()
	for i := range 30 {
		j.add(KindAgentMessage, fmt.Sprintf("review#%d", i), 1, body(AgentMessage{Text: long}))
	}
	w := newWatchable(parked(j, Handoff, subject, ActionRetry), nil)
	got, err := Control{Runs: w, Now: time.Now}.Watch(t.Context(), WatchRequest{Run: testID(1)}, nil)
	if err != nil || len(got.Summary.OpenGates) != 1 {
		t.Fatal(got.Trigger, err)
	}
	var short struct {
		HandoffSubject
		Total int `json:"total"`
	}
	if err := json.Unmarshal(got.Summary.OpenGates[0].Subject, &short); err != nil {
		t.Fatal(err)
	}
	f := short.Findings
	if short.Total != 10_000 || len(f) != 5 || f[0].ID != "f7000" || f[1].Severity != "P2" || len([]rune(f[0].Title)) > 160 || len([]rune(f[0].Body)) > 300 || len([]rune(f[0].RequiredFix)) > 240 {
		t.Errorf("%d of %d: %s", len(f), short.Total, f[0].ID)
	}
	if raw, _ := json.Marshal(got.Summary); len(raw) > 32<<10 {
		t.Errorf("the summary has %d bytes", len(raw))
	}
	for _, e := range got.Summary.Last {
		if len([]rune(e.Text)) > 256 {
			t.Errorf("a text of %d characters", len([]rune(e.Text)))
		}
	}
}

// Tailing in whatever pages sees every record once.
func TestTail(t *testing.T) {
	j := started()
	for i := range 500 {
		j.add([]Kind{KindPlanStep, KindAgentMessage}[i%2], fmt.Sprint("root/", i), 1, body(AgentMessage{Text: strings.Repeat("x", 40*i)}))
	}
	w := newWatchable(j, alive)
	control := Control{Runs: w, Now: time.Now}
	next := int64(1)
	for after, eof := int64(0), false; !eof; {
		page, err := control.Tail(t.Context(), TailRequest{Run: testID(1), After: after, Limit: 1 + rand.IntN(60)})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			if e.Seq != next || len(e.Body) > 5<<10 {
				t.Fatalf("record %d of %d bytes, after %d", e.Seq, len(e.Body), next-1)
			}
			next++
		}
		after, eof = page.Last, page.EOF
		if eof && page.Head != int64(len(j)) {
			t.Errorf("it ends at %d", page.Head)
		}
	}
	if next != int64(len(j))+1 {
		t.Errorf("%d records were seen", next-1)
	}
	only, err := control.Tail(t.Context(), TailRequest{Run: testID(1), Kinds: []string{string(KindAgentMessage)}, Limit: 1000, Detail: "full"})
	if err != nil || len(only.Events) != 250 || only.Last != only.Head || !only.EOF || len(only.Events[249].Body) < 19_000 {
		t.Errorf("%d events up to %d, %v", len(only.Events), only.Last, err)
	}
	if cut, err := control.Tail(t.Context(), TailRequest{Run: testID(1), After: int64(len(j)) - 1}); err != nil || !strings.Contains(string(cut.Events[0].Body), "bytes left out)") {
		t.Errorf("%+v, %v", cut, err)
	}
	for name, req := range map[string]TailRequest{"limit": {Limit: 1001}, "kinds": {Kinds: []string{"x"}}, "detail": {Detail: "some"}, "after": {After: -1}} {
		req.Run = testID(1)
		if _, err := control.Tail(t.Context(), req); CodeOf(err) != InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A status tells in full what is asked for, and else how it begins.
func TestStatusIncludes(t *testing.T) {
	w := newWatchable(parked(started(), Question, map[string]string{"text": strings.Repeat("y", 9000)}, "approve"), nil)
	control := Control{Runs: withInputs{w, map[string]json.RawMessage{"long": quote(strings.Repeat("x", 281)), "short": quote("x")}}, Now: time.Now}
	ctx := WithCaller(t.Context(), Caller{Surface: "cli"})
	got, err := control.Status(ctx, StatusRequest{Run: testID(1)})
	if err != nil || string(got.Inputs["long"]) != `"`+strings.Repeat("x", 280)+`…"` || string(got.Inputs["short"]) != `"x"` || got.Document != nil || len(got.Next) != 1 {
		t.Errorf("%s, %+v, %v", got.Inputs["long"], got.Next, err)
	}
	got, err = control.Status(ctx, StatusRequest{Run: testID(1), Include: []string{IncludeAll}})
	if err != nil || len(got.Inputs["long"]) != 283 || string(got.Document) != `{"kind":"plan"}` || !got.OpenGates[0].Shown.Whole || got.Errors == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := control.Status(ctx, StatusRequest{Run: testID(1), Include: []string{"secrets"}}); CodeOf(err) != InvalidArgument {
		t.Error(err)
	}
}

// withInputs are runs with inputs.
type withInputs struct {
	*watchable
	inputs map[string]json.RawMessage
}

func (w withInputs) Get(ctx context.Context, id ID) (Run, error) {
	r, err := w.watchable.Get(ctx, id)
	r.Inputs = w.inputs
	return r, err
}
