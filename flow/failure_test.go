package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/flow"
)

// What a run fails with is cut like the error of a call: the end of the run has 4 KiB of it,
// and all of it, without secrets, is a blob that the run keeps.
func TestWhatARunFailsWithIsCut(t *testing.T) {
	const secret = "hunter2"
	long := "the beginning é " + strings.Repeat("é"+secret, 600_000) + " the end"
	small := &flow.Error{Code: "broken", Message: "small"}
	for name, failed := range map[string]error{"plain": errors.New(long), "around the error of a call": fmt.Errorf("%s: %w", long, small), "not valid": errors.New(long + "\xff")} {
		t.Run(name, func(t *testing.T) {
			kept := map[string]string{}
			log := flow.NewMem()
			out := drive(t, flow.New(log, nil), flow.Job{Run: "r", Root: "root",
				Redact: func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), secret, "***")) },
				Keep: func(b []byte) (string, error) {
					kept[flow.Digest(b)] = string(b)
					return flow.Digest(b), nil
				},
				Flow: func(flow.Context, json.RawMessage) (json.RawMessage, error) { return nil, failed }})
			if out.Status != flow.Failed || !errors.Is(out.Err, failed) || len(out.Err.Error()) > flow.MostMessage {
				t.Fatalf("%s with %d bytes", out.Status, len(fmt.Sprint(out.Err)))
			}
			records := log.Records("r")
			end := records[len(records)-1]
			var b struct{ Message string }
			if err := json.Unmarshal(end.Body, &b); err != nil || end.Kind != flow.KindIntentFail {
				t.Fatalf("%s, %v", end.Kind, err)
			}
			if b.Message != out.Err.Error() || !utf8.ValidString(b.Message) || !strings.HasPrefix(b.Message, "the beginning é é***") || strings.Contains(b.Message, secret) {
				t.Errorf("the text is %d bytes: %.100q", len(b.Message), b.Message)
			}
			if len(end.Keep) != 1 || !strings.Contains(b.Message, end.Keep[0]) || len(kept[end.Keep[0]]) < 3_000_000 || strings.Contains(kept[end.Keep[0]], secret) {
				t.Errorf("kept are %d blobs, named are %v", len(kept), end.Keep)
			}
		})
	}
}

// What was cut when its call failed is not cut again with what was written around it.
func TestAnErrorIsCutOnce(t *testing.T) {
	failed := (&flow.Error{Code: "broken", Message: strings.Repeat("x", 5<<20)}).Shortened(nil)
	kept := 0
	out := drive(t, flow.New(flow.NewMem(), nil), flow.Job{Run: "r", Root: "root", Keep: func([]byte) (string, error) { kept++; return "", nil },
		Flow: func(flow.Context, json.RawMessage) (json.RawMessage, error) {
			return nil, fmt.Errorf("step a: %w", failed)
		}})
	if text := out.Err.Error(); kept != 0 || strings.Count(text, "[… cut:") != 1 || !strings.HasPrefix(text, "step a: ") {
		t.Errorf("%d kept, %d bytes: %.200q", kept, len(text), text)
	}
}

// A panic is told with its stack, however much the program has to say.
func TestThePanicOfAFlowIsCut(t *testing.T) {
	for name, job := range map[string]flow.Job{
		"of a flow": {Run: "r", Root: "root", Flow: func(flow.Context, json.RawMessage) (json.RawMessage, error) {
			panic("the beginning " + strings.Repeat("x", 5<<20))
		}},
		"of an activity": oneCall(flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
			panic("the beginning " + strings.Repeat("x", 5<<20))
		}}, flow.Read),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := flow.New(flow.NewMem(), nil).Drive(t.Context(), job)
			if err != nil || out.Status != flow.Interrupted || out.Reason != "panic" {
				t.Fatalf("%+v %v", out.Status, err)
			}
			if text := out.Err.Error(); len(text) > flow.MostMessage || !strings.HasPrefix(text, "panic: the beginning xxx") || name == "of a flow" && !strings.Contains(text, "failure_test.go") {
				t.Errorf("%d bytes: %.1000q", len(text), text)
			}
		})
	}
}
