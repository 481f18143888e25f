package flow_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// Questions that are asked before there is a program open their gate by an
// intent.clarify and are closed by an intent.answer; a replay knows both.
func TestClarifyingGate(t *testing.T) {
	log := flow.NewMem()
	questions := json.RawMessage(`[{"id":"q","text":"` + strings.Repeat("What else is there to know? ", 9) + `"}]`)
	var got string
	job := flow.Job{Run: "r", Root: "draft", Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		g := flow.Clarifying(1, questions)
		g.Key = "clarify#1"
		d, err := fc.Wait(g)
		if err != nil {
			return nil, err
		}
		got = d.Action + string(d.Answer)
		return d.Answer, nil
	}}
	out, err := flow.New(log, nil).Drive(context.Background(), job)
	if err != nil || out.Status != flow.ParkedRun || len(out.Gates) != 1 {
		t.Fatalf("%+v %v", out, err)
	}
	var opened flow.Record
	for _, r := range log.Records("r") {
		if r.Kind == "intent.clarify" {
			opened = r
		}
	}
	if want := `{"gate":"` + out.Gates[0] + `","round":1,"questions":` + string(questions) + `}`; string(opened.Body) != want || opened.Path != "draft/clarify#1" || opened.From != "executor" {
		t.Fatalf("opened by %s at %s: %s", opened.From, opened.Path, opened.Body)
	}
	log.Write("r", flow.Draft{Kind: "intent.answer", Path: opened.Path, From: "user", Body: flow.JSON(map[string]any{
		"gate": out.Gates[0], "answers": map[string]string{"q": "yes"}, "via": "command"})})
	if out, err := flow.New(log, nil).Drive(context.Background(), job); err != nil || out.Status != flow.Completed || got != `answer{"q":"yes"}` {
		t.Fatalf("%+v %v, answered %s", out, err, got)
	}
	if out, err := flow.Replay(flow.History{Records: log.Records("r")}).Drive(context.Background(), job); err != nil || out.Status != flow.Completed || out.Live != 0 {
		t.Errorf("replayed: %+v %v", out, err)
	}
	other := job
	other.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		g := flow.Clarifying(2, questions)
		g.Key = "clarify#1"
		_, err := fc.Wait(g)
		return nil, err
	}
	if out, _ := flow.Replay(flow.History{Records: log.Records("r")}).Drive(context.Background(), other); out.Status != flow.Interrupted {
		t.Errorf("another round was taken for the recorded one: %+v", out)
	}
}
