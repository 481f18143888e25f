package flow

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
)

// verified replays records of a run that completed on a program, and gives what does
// not fit.
func verified(t *testing.T, lines []string, program func(Context) error) *NonDeterminism {
	t.Helper()
	h := History{Records: told(t, lines...), Ended: Completed}
	out, err := Verify(h).Drive(context.Background(), Job{Flow: func(fc Context, _ json.RawMessage) (json.RawMessage, error) { return nil, program(fc) }})
	if err != nil {
		t.Fatal(err)
	}
	var found *NonDeterminism
	if errors.As(out.Err, &found); (found == nil) != (out.Status == Completed) || found != nil && out.Reason != "replay_mismatch" {
		t.Fatalf("%+v", out)
	}
	return found
}

// What is said of a call that was recorded with another class than the program has.
func TestVerifySaysWhichClassWasRecorded(t *testing.T) {
	asks := func(c Call) func(Context) error {
		return func(fc Context) error {
			c.Key, c.Name, c.Input = "a", "t", json.RawMessage("{}")
			_, err := fc.Do(c)
			return err
		}
	}
	whole := with(finished, `"name":"t","digest":"CALL","input":{}`)
	second := put(intended, `"attempt":1`, `"attempt":2`)
	refused := `effect.finished a {"name":"t","attempt":1,"digest":"CALL","input":{},"error":{"code":"no","not_sent":true}}`
	for _, c := range []struct {
		name            string
		lines           []string
		call            Call
		recorded, asked string
	}{
		{"as it was", []string{intended, finished}, Call{Class: Read}, "", ""},
		{"another class", []string{intended, finished}, Call{Class: Idempotent}, "t as read", "t as idempotent"},
		{"several", []string{intended, put(second, "read", "once"), put(finished, "1", "2")}, Call{Class: Once}, "t with several classes", "t as once"},
		{"no intent", []string{whole}, Call{Class: Once}, "t without an intent", "t as once"},
		{"no intent of what reserves", []string{whole}, Call{Class: Read, Reserve: Use{"calls": 1}}, "t without an intent", "t as read"},
		{"no intent of what was paid before", []string{whole}, Call{Class: Read, Reserve: Use{"calls": 1}, Prepaid: Use{"calls": 1}}, "", ""},
		{"no intent needed", []string{whole}, Call{Class: Read}, "", ""},
		{"refused, which needs no intent", []string{refused}, Call{Class: Once}, "", ""},
		{"refused as a second attempt", []string{put(refused, `"attempt":1`, `"attempt":2`)}, Call{Class: Once}, "t without an intent", "t as once"},
	} {
		program := asks(c.call)
		found := verified(t, c.lines, func(fc Context) error {
			_ = program(fc)
			return nil
		})
		if found == nil {
			found = &NonDeterminism{}
		}
		if found.Recorded != c.recorded || found.Asked != c.asked || c.recorded != "" && found.Path != "a" {
			t.Errorf("%s: at %q %q, %q; want %q, %q", c.name, found.Path, found.Recorded, found.Asked, c.recorded, c.asked)
		}
	}
}

// Whatever a program owns and did not ask for is found, and of several what was recorded
// first is told of.
func TestReplayFindsWhatNobodyAskedFor(t *testing.T) {
	for want, line := range map[string]string{
		"t " + CallDigest("t", []byte("{}")): with(finished, `"name":"t","digest":"CALL","input":{}`),
		"question gate " + GateDigest(Gate{Kind: "question", Question: "Go?", Subject: json.RawMessage(`{}`), Actions: []string{"go", "no"}, Deny: "no"}): put(asked, "gate g", "gate a"),
		"said " + digest("said", []byte(`{}`)): `n1 said a {}`,
		"a sleep":                              `timer.set a {}`,
		"a reading of the clock":               `clock.read a {}`,
		"the closing of a group":               `group.closed a {}`,
	} {
		if found := verified(t, []string{line, `clock.read A {}`, `clock.read c {}`}, func(Context) error { return nil }); found == nil || found.Path != "a" || found.Recorded != want || found.Asked != "" {
			t.Errorf("%+v, want %q", found, want)
		}
	}
	if found := verified(t, []string{`run.started - {}`, `x - {}`, `note said a {}`}, func(Context) error { return nil }); found != nil {
		t.Errorf("what the program does not own: %v", found)
	}
}

// A gate that a call has opened goes with its call; another below it does not.
func TestGatesOfCalls(t *testing.T) {
	for key, fits := range map[string]bool{"a/in_doubt": true, "a/bound#1": true, "a/x": false, "b/in_doubt": false} {
		found := verified(t, []string{put(asked, "gate g", "gate "+key), intended, finished}, func(fc Context) error {
			_, err := fc.Do(Call{Key: "a", Name: "t", Class: Read, Input: json.RawMessage("{}")})
			return err
		})
		if (found == nil) != fits {
			t.Errorf("%s: %v", key, found)
		}
	}
}

// What a program does that is not recorded is told with what it would have recorded.
func TestReplaySaysWhatIsNotRecorded(t *testing.T) {
	call := Call{Key: "a", Name: "t", Class: Read, Input: json.RawMessage("{}")}
	gate := Gate{Key: "g", Kind: "question"}
	for want, program := range map[string]func(Context) error{
		"said " + digest("said", []byte("1")): func(fc Context) error { fc.Emit(Event{Kind: "said", Body: 1}); return nil },
		"a reading of the clock":              func(fc Context) error { fc.Now(); return nil },
		"a sleep":                             func(fc Context) error { return fc.Sleep(1) },
		"t " + CallDigest("t", []byte("{}")):  func(fc Context) error { _, err := fc.Do(call); return err },
		"question gate " + GateDigest(gate):   func(fc Context) error { _, err := fc.Wait(gate); return err },
	} {
		if found := verified(t, nil, program); found == nil || found.Asked != want || found.Recorded != "" {
			t.Errorf("%+v, want %q", found, want)
		}
	}
}

// What was recorded and what is asked for are both told where they differ.
func TestReplaySaysWhatDiffers(t *testing.T) {
	ask := Gate{Kind: "question", Question: "Go?", Subject: json.RawMessage(`{}`), Actions: []string{"go", "no"}, Deny: "no"}
	other := ask
	other.Key, other.Question = "g", "Stop?"
	gated := []string{asked, resolved, taken}
	called, gate := "t "+CallDigest("t", []byte("{}")), "question gate "+GateDigest(ask)
	at := func(key string, g Gate) Gate { g.Key = key; return g }
	for _, c := range []struct {
		lines           []string
		program         func(Context) error
		recorded, asked string
		input           string
	}{
		{[]string{intended, finished}, func(fc Context) error { _, err := fc.Wait(at("a", ask)); return err }, called, gate, ""},
		{gated, func(fc Context) error {
			_, err := fc.Do(Call{Key: "g", Name: "t", Input: json.RawMessage("{}")})
			return err
		}, gate, called, ""},
		{gated, func(fc Context) error { _, err := fc.Wait(other); return err }, gate, "question gate " + GateDigest(other), string(GateJSON(other))},
		{[]string{intended, finished}, func(fc Context) error {
			_, err := fc.Do(Call{Key: "a", Name: "t", Input: json.RawMessage("1")})
			return err
		},
			called, "t " + CallDigest("t", []byte("1")), "1"},
		{[]string{`n1 said - {}`}, func(fc Context) error { fc.Emit(Event{Kind: "said", Body: 2}); return nil },
			"said " + digest("said", []byte("{}")), "said " + digest("said", []byte("2")), "2"},
	} {
		found := verified(t, c.lines, c.program)
		if found == nil || found.Recorded != c.recorded || found.Asked != c.asked || string(found.Input) != c.input {
			t.Errorf("%+v, want %q, %q, %s", found, c.recorded, c.asked, c.input)
		}
	}
}

// Of a group that keeps going, a replay that comes to the end of what is known cannot
// say that it failed: a later drive may. Another has failed with its first branch.
func TestAGroupOfWhichNotAllIsKnown(t *testing.T) {
	failed := put(put(with(finished, `"name":"t","digest":"CALL","input":{}`), "finished a", "finished a/c"), `"value":1`, `"error":{"code":"no"}`)
	for keep, want := range map[bool]Status{true: ParkedRun, false: Failed} {
		one := func(fc Context) error {
			_, err := fc.Do(Call{Key: "c", Name: "t", Class: Read, Input: json.RawMessage("{}")})
			return err
		}
		out, err := Replay(History{Records: told(t, failed)}).Drive(context.Background(), Job{Flow: func(fc Context, _ json.RawMessage) (json.RawMessage, error) {
			return nil, fc.Go(Group{KeepGoing: keep}, Branch{Name: "a", Run: one}, Branch{Name: "b", Run: one})
		}})
		if err != nil || out.Status != want {
			t.Errorf("keeps going %v: %+v %v", keep, out, err)
		}
	}
}
