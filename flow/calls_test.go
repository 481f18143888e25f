package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// asking is a job whose activity gives 1.
func asking(program func(flow.Context) error) flow.Job {
	job := oneCall(answers(func(flow.Attempt) {}), flow.Read)
	job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) { return nil, program(fc) }
	return job
}

func drive(t *testing.T, e flow.Engine, job flow.Job) flow.Outcome {
	t.Helper()
	out, err := e.Drive(context.Background(), job)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func calls(fc flow.Context, key string, class flow.Class) error {
	_, err := fc.Do(flow.Call{Key: key, Name: "a", Class: class})
	return err
}

func waits(fc flow.Context, key string) error {
	_, err := fc.Wait(flow.Gate{Key: key, Kind: "question", Actions: []string{"yes"}, Deny: "yes"})
	return err
}

// The key of a gate is no other thing's. That a program uses it again is its fault;
// one that has something else there is another program.
func TestTheKeyOfAGateIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		program func(flow.Context) error
		reason  string
	}{
		"a call, too":       {func(fc flow.Context) error { return errors.Join(waits(fc, "k"), calls(fc, "k", flow.Read)) }, "misuse"},
		"asked twice":       {func(fc flow.Context) error { return errors.Join(waits(fc, "k"), waits(fc, "k")) }, "misuse"},
		"a call instead":    {func(fc flow.Context) error { return calls(fc, "k", flow.Read) }, "replay_mismatch"},
		"the gate, rightly": {func(fc flow.Context) error { return waits(fc, "k") }, ""},
	} {
		log := flow.NewMem()
		out := drive(t, flow.New(log, nil), asking(func(fc flow.Context) error { return waits(fc, "k") }))
		if err := log.Decide("r", out.Gates[0], flow.Decision{Action: "yes"}); err != nil {
			t.Fatal(err)
		}
		if out := drive(t, flow.New(log, nil), asking(c.program)); out.Reason != c.reason {
			t.Errorf("%s: %+v, want %q", name, out, c.reason)
		}
	}
}

// A call that can be made again and reserves nothing leaves one record: its outcome.
func TestWhatACallRecords(t *testing.T) {
	for class, want := range map[flow.Class][]string{
		flow.Read:       {"run.started", "effect.finished", "intent.attest"},
		flow.Idempotent: {"run.started", "effect.finished", "intent.attest"},
		flow.Once:       {"run.started", "effect.intended", "effect.finished", "intent.attest"},
	} {
		log := flow.NewMem()
		drive(t, flow.New(log, nil), oneCall(answers(func(flow.Attempt) {}), class))
		if got := records(t, log); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", class, got, want)
		}
	}
}

// An outcome counts what was served from records and what was done: calls, waits and
// sleeps.
func TestOutcomesCountSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := flow.NewMem()
		job := asking(func(fc flow.Context) error {
			if err := errors.Join(calls(fc, "c", flow.Read), calls(fc, "d", flow.Once), fc.Sleep(time.Millisecond)); err != nil {
				return err
			}
			if err := waits(fc, "g"); err != nil {
				return err
			}
			return calls(fc, "e", flow.Read)
		})
		first := drive(t, flow.New(log, nil), job)
		if first.Replayed != 0 || first.Live != 4 || first.Status != flow.ParkedRun {
			t.Errorf("the first drive: %+v", first)
		}
		if err := log.Decide("r", first.Gates[0], flow.Decision{Action: "yes"}); err != nil {
			t.Fatal(err)
		}
		if second := drive(t, flow.New(log, nil), job); second.Replayed != 3 || second.Live != 1 || second.Status != flow.Completed {
			t.Errorf("the second drive: %+v", second)
		}
		h, err := log.Load(context.Background(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if again := drive(t, flow.Replay(h), job); again.Replayed != 5 || again.Live != 0 || again.Status != flow.Completed {
			t.Errorf("the replay: %+v", again)
		}
	})
}

// kept is a history as a log gives it that keeps large values apart.
func kept(records []flow.Record, blobs map[string]string) flow.History {
	for i := range records {
		for name, value := range blobs {
			records[i].Body = json.RawMessage(strings.ReplaceAll(string(records[i].Body), value, `{"$blob":"`+name+`"}`))
		}
	}
	return flow.History{Records: records, Blob: func(name string) ([]byte, error) {
		if value, ok := blobs[name]; ok && value != "" {
			return []byte(value), nil
		}
		return nil, flow.ErrNoBlob
	}}
}

// A program that is replayed is given values, details and answers that are kept apart
// from their records as they were. Where one is lost, it is not run on without it.
func TestValuesThatAreKeptApart(t *testing.T) {
	const value, detail, answer = `"the value"`, `"the detail"`, `"the answer"`
	var got []string
	job := asking(nil)
	job.Acts["fails"] = flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{}, &flow.Error{Code: "no", Detail: json.RawMessage(detail)}
	}}
	job.Acts["a"] = flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: json.RawMessage(value)}, nil
	}}
	job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		got = nil
		r, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read})
		if err != nil {
			return nil, err
		}
		got = append(got, string(r.Value))
		_, err = fc.Do(flow.Call{Key: "f", Name: "fails", Class: flow.Read})
		if e := (*flow.Error)(nil); errors.As(err, &e) {
			got = append(got, string(e.Detail))
		} else {
			return nil, err
		}
		d, err := fc.Wait(flow.Gate{Key: "g", Kind: "question", Actions: []string{"yes"}, Deny: "yes"})
		if err != nil {
			return nil, err
		}
		got = append(got, string(d.Answer))
		return nil, nil
	}
	log := flow.NewMem()
	out := drive(t, flow.New(log, nil), job)
	if err := log.Decide("r", out.Gates[0], flow.Decision{Action: "yes", Answer: json.RawMessage(answer)}); err != nil {
		t.Fatal(err)
	}
	drive(t, flow.New(log, nil), job)
	want := []string{value, detail, answer}
	if !slices.Equal(got, want) {
		t.Fatalf("driven with %q", got)
	}
	blobs := map[string]string{"v": value, "d": detail, "a": answer}
	if out := drive(t, flow.Replay(kept(log.Records("r"), blobs)), job); out.Status != flow.Completed || !slices.Equal(got, want) {
		t.Errorf("replayed: %+v with %q", out, got)
	}
	for i, name := range []string{"v", "d", "a"} {
		h := kept(log.Records("r"), blobs)
		h.Blob = func(digest string) ([]byte, error) {
			if digest == name {
				return nil, flow.ErrNoBlob
			}
			return []byte(blobs[digest]), nil
		}
		if out := drive(t, flow.Replay(h), job); out.Status != flow.Interrupted || out.Reason != "store_unavailable" || !errors.Is(out.Err, flow.ErrNoBlob) || len(got) != i {
			t.Errorf("without %s: %+v after %q", name, out, got)
		}
	}
}

// So is the state with which a segment begins.
func TestAStateThatIsKeptApart(t *testing.T) {
	var got string
	job := asking(nil)
	job.Flow = func(_ flow.Context, in json.RawMessage) (json.RawMessage, error) {
		got = string(in)
		return nil, nil
	}
	h := flow.History{Records: []flow.Record{{Seq: 1, Draft: flow.Draft{Kind: "run.continued", Body: json.RawMessage(`{"state":{"$blob":"s"}}`)}}},
		Blob: func(string) ([]byte, error) { return []byte(`"the state"`), nil }}
	if out := drive(t, flow.Replay(h), job); out.Status != flow.Completed || got != `"the state"` {
		t.Errorf("%+v with %s", out, got)
	}
	h.Blob = func(string) ([]byte, error) { return nil, flow.ErrNoBlob }
	if out := drive(t, flow.Replay(h), job); out.Status != flow.Interrupted || !errors.Is(out.Err, flow.ErrNoBlob) {
		t.Errorf("without it: %+v", out)
	}
}

// A once call whose outcome a person gave, and that was not recorded before the run
// was cancelled, stays in doubt: a closed run writes no outcomes.
func TestADecidedDoubtOfACancelledRun(t *testing.T) {
	log := flow.NewMem()
	broken := flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) { return flow.Done{}, errors.New("lost") }}
	out := drive(t, flow.New(log, nil), oneCall(broken, flow.Once))
	if err := log.Decide("r", out.Gates[0], flow.Decision{Action: "use_result", Answer: json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	lease, err := log.Acquire(context.Background(), "r", flow.Owner{})
	if err != nil {
		t.Fatal(err)
	}
	decided := slices.IndexFunc(log.Records("r"), func(r flow.Record) bool { return r.Kind == "policy.gate.resolve" })
	taken := flow.JSON(flow.GateTaken{Gate: out.Gates[0], Seq: int64(decided + 1)})
	if err := appended(log, lease, flow.Draft{Kind: "gate.taken", Path: "root/c/in_doubt", Body: taken}); err != nil {
		t.Fatal(err)
	}
	cancelRun(t, log)
	var got *flow.Error
	job := oneCall(broken, flow.Once)
	flowOf := job.Flow
	job.Flow = func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		v, err := flowOf(fc, in)
		errors.As(err, &got)
		return v, err
	}
	if out := drive(t, flow.New(log, nil), job); out.Status != flow.Cancelled || got == nil || got.Code != flow.CodeInDoubt {
		t.Errorf("%+v, the flow was told %v", out, got)
	}
	if kinds := records(t, log); slices.Contains(kinds, "effect.finished") {
		t.Errorf("recorded: %v", kinds)
	}
}

// Of an attempt's limits the least counts, and is what its failure names.
func TestTheLeastLimitCounts(t *testing.T) {
	codes := []string{flow.CodeTimeout, flow.CodeBoundExceeded, flow.CodeDeadline}
	for _, limits := range [][3]time.Duration{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {3, 1, 2}, {2, 3, 1}, {3, 2, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var got *flow.Error
			began := time.Now()
			job := oneCall(flow.Activity{Run: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
				<-ctx.Done()
				return flow.Done{}, ctx.Err()
			}}, flow.Read)
			job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				_, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read, Timeout: limits[0] * time.Second})
				errors.As(err, &got)
				return nil, err
			}
			job.Limits = flow.Use{flow.WallTime: int64(limits[1]) * 1000}
			job.Deadline = began.Add(limits[2] * time.Second)
			drive(t, flow.New(flow.NewMem(), nil), job)
			if want := codes[slices.Index(limits[:], 1)]; got == nil || got.Code != want || time.Since(began) != time.Second {
				t.Errorf("%v: %v after %v, want %s", limits, got, time.Since(began), want)
			}
		})
	}
}

// Of the engine's own keys a program may use one, for its own kind of question.
func TestKeysOfDoubts(t *testing.T) {
	for _, c := range []struct {
		kind, key, at string // at "": it is a misuse
	}{
		{"in_doubt", "in_doubt#0", "root/in_doubt#0"},
		{"in_doubt", "k", "root/k"},
		{"question", "in_doubt#0", ""},
		{"in_doubt", "in_doubt#1", ""},
	} {
		log := flow.NewMem()
		out := drive(t, flow.New(log, nil), asking(func(fc flow.Context) error {
			_, err := fc.Wait(flow.Gate{Key: c.key, Kind: c.kind, Actions: []string{"yes"}, Deny: "yes"})
			return err
		}))
		at := ""
		for _, r := range log.Records("r") {
			if r.Kind == "policy.gate" {
				at = r.Path
			}
		}
		if at != c.at || (out.Reason == "misuse") != (c.at == "") {
			t.Errorf("%s at %s: opened at %q, %+v", c.kind, c.key, at, out)
		}
	}
}

// gateOf is the id of the gate that a record opens.
func gateOf(t *testing.T, r flow.Record) string {
	t.Helper()
	var b struct{ Gate string }
	if err := json.Unmarshal(r.Body, &b); err != nil {
		t.Error(err)
	}
	return b.Gate
}

// A name that is wrong in the binary ends no run: what was done before it stays, and the
// next drive goes on where the activity is.
func TestAnActivityThatDoesNotExistIsMisuse(t *testing.T) {
	for _, class := range []flow.Class{flow.Read, flow.Once} {
		log, paid := flow.NewMem(), 0
		job := asking(func(fc flow.Context) error {
			if _, err := fc.Do(flow.Call{Key: "pay", Name: "pay"}); err != nil {
				return err
			}
			_, err := fc.Do(flow.Call{Key: "c", Name: "missing", Class: class})
			return err
		})
		job.Acts = map[string]flow.Activity{"pay": {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
			paid++
			return flow.Done{}, nil
		}}}
		out := drive(t, flow.New(log, nil), job)
		if m := (*flow.Misuse)(nil); out.Status != flow.Interrupted || out.Reason != "misuse" || !errors.As(out.Err, &m) || m.Path != "root/c" || !strings.Contains(m.Message, "missing") {
			t.Errorf("%s: %+v", class, out)
		}
		job.Acts["missing"] = job.Acts["pay"]
		if out := drive(t, flow.New(log, nil), job); out.Status != flow.Completed || paid != 2 {
			t.Errorf("%s: %+v after %d calls", class, out, paid)
		}
	}
}

// A program that cannot read a result has not failed: what was paid stays, and one that can
// read it goes on.
func TestAResultThatCannotBeReadIsMisuse(t *testing.T) {
	log, paid := flow.NewMem(), 0
	acts := map[string]flow.Activity{"pay": {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		paid++
		return flow.Done{Value: json.RawMessage(`{"tx":"7"}`)}, nil
	}}}
	wrong := asking(func(fc flow.Context) error {
		_, _ = flow.Do[struct{ Tx int }](fc, flow.Call{Key: "pay", Name: "pay"})
		return nil // a program that does not look at the error gets no further
	})
	wrong.Acts = acts
	out := drive(t, flow.New(log, nil), wrong)
	if m := (*flow.Misuse)(nil); out.Status != flow.Interrupted || out.Reason != "misuse" || !errors.As(out.Err, &m) || m.Path != "root/pay" || !strings.Contains(m.Message, "int") {
		t.Errorf("%+v", out)
	}
	right := asking(func(fc flow.Context) error {
		r, err := flow.Do[struct{ Tx string }](fc, flow.Call{Key: "pay", Name: "pay"})
		if r.Tx != "7" {
			t.Errorf("%+v, %v", r, err)
		}
		return err
	})
	right.Acts = acts
	if out := drive(t, flow.New(log, nil), right); out.Status != flow.Completed || paid != 1 {
		t.Errorf("%+v after %d calls", out, paid)
	}
}

// What numbers itself at a path is counted together, whichever Contexts stand there.
func TestContextsOfOnePathCountTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := flow.NewMem()
		drive(t, flow.New(log, nil), asking(func(fc flow.Context) error {
			for i := range 2 {
				at := fc.At("x")
				at.Emit(flow.Event{Kind: "said"})
				at.Now()
				if err := errors.Join(at.Sleep(time.Millisecond), at.Go(flow.Group{}, flow.Branch{Name: string(rune('a' + i)), Run: func(flow.Context) error { return nil }})); err != nil {
					return err
				}
			}
			return nil
		}))
		var got []string
		for _, r := range log.Records("r") {
			if r.N > 0 {
				got = append(got, strings.Repeat("said", r.N))
			} else if r.Kind == "clock.read" || r.Kind == "timer.set" {
				got = append(got, r.Path)
			}
		}
		if want := []string{"said", "root/x/now#1", "root/x/sleep#1", "saidsaid", "root/x/now#2", "root/x/sleep#2"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// The largest value is a result; a larger one is none.
func TestTooLargeResults(t *testing.T) {
	if testing.Short() {
		t.Skip("of large things there are tests without the race detector")
	}
	value := json.RawMessage(`"` + strings.Repeat("x", flow.MaxPayload-1) + `"`)
	for size, code := range map[int]string{flow.MaxPayload: "", flow.MaxPayload + 1: flow.CodeResultTooLarge} {
		var got flow.Error
		act := flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
			return flow.Done{Value: append(value[:size-1:size-1], '"')}, nil
		}}
		job := oneCall(act, flow.Read)
		job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			r, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read})
			if e := (*flow.Error)(nil); errors.As(err, &e) {
				got = *e
			} else if len(r.Value) != size {
				t.Errorf("%d bytes of %d", len(r.Value), size)
			}
			return nil, nil
		}
		if drive(t, flow.New(flow.NewMem(), nil), job); got.Code != code || got.Answered != (code != "") {
			t.Errorf("%d bytes: %v, want %q", size, &got, code)
		}
	}
}

// Which failures are tried again, and how often.
func TestWhatIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		retry flow.Retry
		fails flow.Error
		want  int // attempts
	}{
		"what may be":              {flow.Retry{Max: 2}, flow.Error{Code: "away", Retry: true}, 3},
		"what may not be":          {flow.Retry{Max: 2}, flow.Error{Code: "away"}, 1},
		"nothing":                  {flow.Retry{}, flow.Error{Code: "away", Retry: true}, 1},
		"what is named":            {flow.Retry{Max: 1, On: []string{"away"}}, flow.Error{Code: "away"}, 2},
		"what is not named":        {flow.Retry{Max: 1, On: []string{"other"}}, flow.Error{Code: "away", Retry: true}, 1},
		"no deadline that is over": {flow.Retry{Max: 1, On: []string{flow.CodeDeadline}}, flow.Error{Code: flow.CodeDeadline, Retry: true}, 1},
		"no bound that is reached": {flow.Retry{Max: 1}, flow.Error{Code: flow.CodeBoundExceeded, Retry: true}, 1},
	} {
		attempts, log := 0, flow.NewMem()
		job := oneCall(flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
			attempts++
			return flow.Done{Use: flow.Use{"calls": 2}}, &c.fails
		}}, flow.Read)
		job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			_, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read, Retry: c.retry, Input: json.RawMessage(`"` + strings.Repeat("x", 500) + `"`)})
			return nil, err
		}
		if out := drive(t, flow.New(log, nil), job); attempts != c.want || out.Used["calls"] != int64(2*c.want) {
			t.Errorf("%s: %d attempts, want %d; used %v", name, attempts, c.want, out.Used)
		}
		inputs := 0
		for _, r := range log.Records("r") {
			var b struct {
				Error flow.Error
				Input json.RawMessage
				Use   flow.Use
				Due   time.Time `json:"retry_at"`
			}
			if err := json.Unmarshal(r.Body, &b); err != nil {
				t.Fatal(err)
			}
			if b.Input != nil {
				inputs++
			}
			if r.Kind == "effect.failed" && (b.Error.Code != c.fails.Code || b.Use["calls"] != 2 || b.Due.IsZero()) {
				t.Errorf("%s: recorded %s", name, r.Body)
			}
		}
		if inputs != 1 {
			t.Errorf("%s: the input is recorded %d times", name, inputs)
		}
	}
}

// A call without a class is made once.
func TestACallWithoutAClass(t *testing.T) {
	log := flow.NewMem()
	drive(t, flow.New(log, nil), asking(func(fc flow.Context) error { return calls(fc, "c", "") }))
	all := log.Records("r")
	i := slices.IndexFunc(all, func(r flow.Record) bool { return r.Kind == "effect.intended" })
	if i < 0 || !strings.Contains(string(all[i].Body), `"class":"once"`) {
		t.Errorf("recorded %v", kindsOf(all))
	}
}

// Nothing is begun when the deadline has passed.
func TestADeadlineThatHasPassed(t *testing.T) {
	for _, class := range []flow.Class{flow.Read, flow.Once} {
		var got *flow.Error
		ran := false
		job := oneCall(answers(func(flow.Attempt) { ran = true }), class)
		job.Deadline = time.Now()
		job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			err := calls(fc, "c", class)
			errors.As(err, &got)
			return nil, err
		}
		log := flow.NewMem()
		drive(t, flow.New(log, nil), job)
		if got == nil || got.Code != flow.CodeDeadline || !got.NotSent || ran || slices.Contains(records(t, log), "effect.intended") {
			t.Errorf("%s: %v, begun: %v, recorded %v", class, got, ran, records(t, log))
		}
	}
}

// A failure is recorded without a detail that is no JSON; what it means is known from
// its code.
func TestADetailThatIsNoJSON(t *testing.T) {
	for detail, want := range map[string]string{"{": "", "{\n}": "{}", "[1]": "[1]"} {
		var got *flow.Error
		job := oneCall(flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
			return flow.Done{}, &flow.Error{Code: "no", Detail: json.RawMessage(detail)}
		}}, flow.Read)
		job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			err := calls(fc, "c", flow.Read)
			errors.As(err, &got)
			return nil, err
		}
		if out := drive(t, flow.New(flow.NewMem(), nil), job); out.Status != flow.Failed || got == nil || got.Code != "no" || string(got.Detail) != want {
			t.Errorf("%q: %+v, %+v", detail, out, got)
		}
	}
}

// A call that failed has no value, live as in replay.
func TestAFailureHasNoValue(t *testing.T) {
	log := flow.NewMem()
	var got []string
	job := oneCall(flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: json.RawMessage(`1`)}, &flow.Error{Code: "no"}
	}}, flow.Read)
	job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		r, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read})
		got = append(got, string(r.Value))
		return nil, err
	}
	drive(t, flow.New(log, nil), job)
	drive(t, flow.Replay(flow.History{Records: log.Records("r"), Ended: flow.Failed}), job)
	if !slices.Equal(got, []string{"", ""}) {
		t.Errorf("%q", got)
	}
}

// An activity that its timeout ends may know better what happened.
func TestWhatAnActivityKnowsAtItsTimeout(t *testing.T) {
	for want, says := range map[string]error{
		"half_done":      &flow.Error{Code: "half_done", Answered: true},
		"too_early":      &flow.Error{Code: "too_early", NotSent: true},
		flow.CodeTimeout: &flow.Error{Code: "broken"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got *flow.Error
			job := oneCall(flow.Activity{Run: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
				<-ctx.Done()
				return flow.Done{}, says
			}}, flow.Read)
			job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				_, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read, Timeout: time.Second})
				errors.As(err, &got)
				return nil, err
			}
			if drive(t, flow.New(flow.NewMem(), nil), job); got == nil || got.Code != want {
				t.Errorf("%v, want %s", got, want)
			}
		})
	}
}

// What a call did not use, want or need a person for is not mentioned in its records.
func TestRecordsOfCallsAreShort(t *testing.T) {
	log, attempts := flow.NewMem(), 0
	job := oneCall(flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		if attempts++; attempts == 1 {
			return flow.Done{}, &flow.Error{Code: "away", Retry: true}
		}
		return flow.Done{Value: json.RawMessage(`1`)}, nil
	}}, flow.Read)
	job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		_, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read, Retry: flow.Retry{Max: 1}})
		return nil, err
	}
	drive(t, flow.New(log, nil), job)
	want := map[string][]string{"effect.failed": {"attempt", "digest", "error", "input", "name", "retry_at"}, "effect.finished": {"attempt", "digest", "ms", "name", "value"}}
	for _, r := range log.Records("r") {
		var body map[string]json.RawMessage
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(body)); want[r.Kind] != nil && !slices.Equal(got, want[r.Kind]) {
			t.Errorf("%s has %v, want %v", r.Kind, got, want[r.Kind])
		}
		delete(want, r.Kind)
	}
	if len(want) > 0 {
		t.Errorf("not recorded: %v", want)
	}
}
