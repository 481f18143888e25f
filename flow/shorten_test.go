package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/flow"
)

// The text of an error is cut wherever it comes from; the whole of it, without secrets, is
// kept, and the record names it.
func TestErrorsThatAreTooLongAreCut(t *testing.T) {
	const secret = "hunter2"
	long := "the beginning é " + strings.Repeat("é"+secret, 600_000) + " the end"
	for name, c := range map[string]struct {
		class flow.Class
		err   error
		kind  string // of the record that has it
		check bool
	}{
		"of an activity":              {flow.Read, &flow.Error{Code: "broken", Message: long}, flow.KindEffectFinished, false},
		"of no type":                  {flow.Read, errors.New(long), flow.KindEffectFinished, false},
		"of an answer":                {flow.Once, &flow.Error{Code: "broken", Message: long, Answered: true}, flow.KindEffectFinished, false},
		"that is not valid":           {flow.Read, errors.New(long + "\xff"), flow.KindEffectFinished, false},
		"wrapped":                     {flow.Read, fmt.Errorf("so: %w", &flow.Error{Code: "broken", Message: long}), flow.KindEffectFinished, false},
		"of an attempt that is tried": {flow.Read, &flow.Error{Code: "broken", Message: long, Retry: true}, flow.KindEffectFailed, false},
		"of one in doubt":             {flow.Once, errors.New(long), flow.KindEffectLost, false},
		"of a check":                  {flow.Read, &flow.Error{Code: "refused", Message: long}, flow.KindEffectFinished, true},
	} {
		t.Run(name, func(t *testing.T) {
			kept := map[string]string{}
			tried := false
			act := flow.Activity{Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
				if c.check || a.N > 1 {
					return flow.Done{Value: a.Input}, nil
				}
				tried = true
				return flow.Done{}, c.err
			}}
			if c.check {
				act.Check = func(context.Context, flow.Attempt) error { return c.err }
			}
			log := flow.NewMem()
			var got error
			job := flow.Job{Run: "r", Root: "root", Acts: map[string]flow.Activity{"a": act},
				Redact: func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), secret, "***")) },
				Keep: func(b []byte) (string, error) {
					kept[flow.Digest(b)] = string(b)
					return flow.Digest(b), nil
				},
				Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
					call := flow.Call{Key: "x", Name: "a", Class: c.class}
					if c.kind == flow.KindEffectFailed {
						call.Retry = flow.Retry{Max: 1}
					}
					_, got = fc.Do(call)
					if flow.Parked(got) {
						return nil, got
					}
					return nil, nil
				}}
			drive(t, flow.New(log, nil), job)
			live := got
			var b struct {
				flow.Effect
				Known *flow.Error
			}
			for _, r := range log.Records("r") {
				if r.Kind == c.kind && r.Path == "root/x" {
					if err := json.Unmarshal(r.Body, &b); err != nil {
						t.Fatal(err)
					}
				}
				if len(r.Body) > 3*flow.MostMessage {
					t.Errorf("%s has %d bytes", r.Kind, len(r.Body))
				}
			}
			e := b.Error
			if c.kind == flow.KindEffectLost {
				e = b.Known
			}
			if e == nil || tried == c.check {
				t.Fatalf("there is no error in %+v", log.Records("r"))
			}
			if len(e.Message) > flow.MostMessage || !utf8.ValidString(e.Message) || !strings.HasPrefix(e.Message, "the beginning") || !strings.Contains(e.Message, e.Whole) || strings.Contains(e.Message, secret) {
				t.Errorf("the text is %d bytes: %.100q", len(e.Message), e.Message)
			}
			if whole := kept[e.Whole]; !strings.HasPrefix(whole, "the beginning é é***") || len(whole) < 3_000_000 || strings.Contains(whole, secret) || !slices.Equal(b.Keep, []string{e.Whole}) {
				t.Errorf("kept are %d bytes as %s, named are %v", len(whole), e.Whole, b.Keep)
			}
			drive(t, flow.Replay(flow.History{Records: log.Records("r"), Ended: flow.Completed}), job)
			if fmt.Sprint(got) != fmt.Sprint(live) && c.kind != flow.KindEffectLost {
				t.Errorf("replayed it is %.100v, live it was %.100v", got, live)
			}
		})
	}
}

// Where nothing can be kept the text is cut all the same.
func TestAnErrorIsCutAlsoWhereNothingIsKept(t *testing.T) {
	for name, keep := range map[string]func([]byte) (string, error){
		"no store":  nil,
		"full disk": func([]byte) (string, error) { return "", flow.ErrStoreFull },
	} {
		e := (&flow.Error{Code: "broken", Message: strings.Repeat("x", 5<<20)}).Shortened(keep)
		if len(e.Message) > flow.MostMessage || e.Whole != "" || !strings.Contains(e.Message, "5242880 bytes in all …") {
			t.Errorf("%s: %d bytes, %q", name, len(e.Message), e.Whole)
		}
	}
	if short := (&flow.Error{Message: strings.Repeat("x", flow.MostMessage)}); short.Shortened(nil) != short {
		t.Error("a text that fits is cut")
	}
}
