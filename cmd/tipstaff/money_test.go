package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A model that is overloaded first, then breaks the connection without a word, and then
// answers: what the lost attempt had reserved is charged, the overloaded one costs
// nothing, every surface tells the same, and nobody waits without knowing why.
func TestOneFigureForMoney(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) % 3 {
		case 1:
			w.WriteHeader(529)
			fmt.Fprint(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			for _, event := range []string{
				`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"priced","content":[],"usage":{"input_tokens":1000,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Fine."}}`,
				`{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":100}}`,
				`{"type":"message_stop"}`,
			} {
				kind, _, _ := strings.Cut(strings.TrimPrefix(event, `{"type":"`), `"`)
				fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, event)
			}
		}
	}))
	t.Cleanup(model.Close)
	w := newWorkspace(t, `-- tipstaff.yaml --
models:
  main: {provider: anthropic, model: priced, base_url: "$env:MODEL_URL", api_key: "$env:MODEL_KEY"}
models_file: models.yaml
agents:
  default: {model: main, max_output_tokens: 2000}
-- models.yaml --
version: 1
models:
  priced: {context_window: 100000, max_output: 8000, price: {input: "3", output: "15"}}
-- stage.yaml --
name: stage
agents: [{name: say, default_next: end, model: {agent: default}}]
`)
	w.Env = []string{"MODEL_URL=" + model.URL, "MODEL_KEY=no-key-of-anybody"}
	r := w.Must(0, "chat", "How are you?")
	for _, part := range []string{"priced is retrying", "529", "Fine."} {
		if !strings.Contains(r.Err+r.Out, part) {
			t.Errorf("nothing says %q:\n%s", part, r.Err)
		}
	}
	var run struct {
		Bounds map[string]struct{ Used, Lost string } `json:"bounds"`
	}
	if err := json.Unmarshal([]byte(w.Must(0, "show", "@", "--json").Out), &run); err != nil {
		t.Fatal(err)
	}
	lost := run.Bounds["cost_usd"].Lost
	// 1,000 tokens at 3 dollars a million and 100 at 15.
	if want := "$0.0045 + $" + lost + " lost"; lost == "" || !strings.Contains(r.Err, want) {
		t.Errorf("chat does not say %q:\n%s", want, r.Err)
	}
	if told := w.toldCost("agent.finish"); told.Cost != run.Bounds["cost_usd"].Used || told.Lost != lost {
		t.Errorf("the turn says %+v, the run %+v", told, run.Bounds["cost_usd"])
	}
	// At least the 2,000 tokens that could have been answered were reserved.
	if lost < "0.03" || len(lost) > len("0.030123456") {
		t.Errorf("%s was lost", lost)
	}
	w.Must(0, "verify", "@")

	w.Must(0, "run", "stage.yaml", "--text", "How are you?")
	if err := json.Unmarshal([]byte(w.Must(0, "show", "@", "--json").Out), &run); err != nil {
		t.Fatal(err)
	}
	if told := w.toldCost("stage.finished"); told.Lost == "" || told.Cost != run.Bounds["cost_usd"].Used || told.Lost != run.Bounds["cost_usd"].Lost {
		t.Errorf("the stage says %+v, the run %+v", told, run.Bounds["cost_usd"])
	}
	w.Must(0, "verify", "@")
}

// toldCost is the cost that the last record of a kind tells, in the newest run.
func (w *workspace) toldCost(kind string) (told struct {
	Cost string `json:"cost_usd"`
	Lost string `json:"lost_usd"`
}) {
	w.Helper()
	for line := range strings.Lines(w.Must(0, "events", "@", "--json").Out) {
		var ev struct {
			Kind string
			Body struct{ Usage json.RawMessage }
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			w.Fatal(err)
		}
		if ev.Kind == kind {
			if err := json.Unmarshal(ev.Body.Usage, &told); err != nil {
				w.Fatal(err)
			}
		}
	}
	return told
}
