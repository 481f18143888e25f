package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/e2e"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// tryProduct makes the three runs in this process.
func tryProduct(t *testing.T, o e2e.Options, change func(*e2e.Product)) *e2e.Report {
	t.Helper()
	binary, err := cmdtest.Released()
	if err != nil {
		t.Fatal(err)
	}
	ctx := tipstaff.WithCaller(t.Context(), tipstaff.Caller{Surface: "cli", User: "local", Principal: "local:cli"})
	s := &stop{ctx: ctx, drives: context.WithoutCancel(ctx), patience: context.WithoutCancel(ctx)}
	p := s.product([]string{binary, e2e.FilesCommand})
	if change != nil {
		change(p)
	}
	r, err := e2e.Run(ctx, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// holds wants every one of the 75 assertions.
func holds(t *testing.T, r *e2e.Report) {
	t.Helper()
	if !r.OK() || r.Passed != 75 || r.Total != 75 || len(r.Assertions) != 75 {
		var text strings.Builder
		r.Text(&text)
		t.Errorf("%d of %d\n%s", r.Passed, r.Total, text.String())
	}
}

// The harness passes, and each of its definitions fails under its fault.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	r := tryProduct(t, e2e.Options{Sabotage: true}, nil)
	holds(t, r)
	var defined, failed []string
	for _, a := range r.Assertions {
		if a.Run == "A" || a.Run == "" {
			defined = append(defined, a.Name)
		}
	}
	for _, f := range r.Faults {
		if f.Fault == "" || !f.Found {
			t.Errorf("%q holds although %q", f.Name, f.Fault)
		}
		failed = append(failed, f.Name)
	}
	if len(defined) != 29 || !slices.Equal(defined, failed) {
		t.Errorf("of the definitions\n%s\nthese were sabotaged:\n%s", strings.Join(defined, "\n"), strings.Join(failed, "\n"))
	}
}

// Of a product that does not work all assertions are made, and none holds.
func TestEndToEndFindsABrokenProduct(t *testing.T) {
	t.Parallel()
	r := tryProduct(t, e2e.Options{}, func(p *e2e.Product) { p.Files = []string{"/nowhere/tipstaff"} })
	var text strings.Builder
	r.Text(&text)
	if r.OK() || r.Total != 75 || r.Passed != 0 || !strings.Contains(text.String(), "broken off: ") || !strings.HasSuffix(text.String(), "\n0 of 75\n") {
		t.Errorf("%d of %d\n%s", r.Passed, r.Total, text.String())
	}
}

// A live model does A and C, B repeats what it said in A: also an answer that was of no
// use. So the harness passes a second time in this process.
func TestEndToEndLive(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Messages []struct{ Content string } }
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &request); err != nil {
			t.Error(err)
		}
		prompt := request.Messages[len(request.Messages)-1].Content
		after := func(mark string) string {
			_, rest, _ := strings.Cut(prompt, mark+"\n")
			line, _, _ := strings.Cut(rest, "\n")
			return line
		}
		text := `{"title": "A title of its own"}`
		switch n := asked.Add(1); {
		case n == 1:
			text = "Let me think."
		case !strings.Contains(prompt, "Write a plan for what the user asks"): // it is the step
		case strings.Contains(prompt, "The user answered"):
			text = "```json\n" + after("exactly this plan:") + "\n```"
		default:
			text = after("exactly this document:")
		}
		said, _ := json.Marshal(text)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"model\":\"live-2\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", said)
	}))
	defer model.Close()
	dir := t.TempDir()
	manifest := "models: {own: {provider: openai-chat, model: live-1, base_url: " + model.URL + "}}\nagents: {default: {model: own, tools: none}}\n"
	if err := os.WriteFile(dir+"/tipstaff.yaml", []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	r := tryProduct(t, e2e.Options{Live: true, Sabotage: true}, func(p *e2e.Product) {
		p.Models = func() (json.RawMessage, string, error) { return liveModel(dir) }
	})
	holds(t, r)
	if n := asked.Load(); n != 7 { // four times in A, where the first answer was of no use, and three times in C
		t.Errorf("the model was asked %d times", n)
	}
}
