package agent

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// What a model may think with comes on top of what it may say, unless somebody has set
// how long an answer may be.
func TestRoomForThinking(t *testing.T) {
	for _, c := range []struct{ set, thinking, most, want int }{
		{0, 0, 0, 8192}, {0, 1024, 0, 9216}, {0, 24576, 16000, 16000}, {500, 1024, 0, 500},
	} {
		s := Settings{ModelName: "m", MaxOutputTokens: c.set, Caps: Caps{MaxOutput: c.most, Thinking: c.thinking}}
		if err := s.Resolve(); err != nil || s.MaxOutputTokens != c.want {
			t.Errorf("%+v: %d, %v", c, s.MaxOutputTokens, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	s := Settings{ModelName: "m", Caps: Caps{MaxOutput: 4096}}
	if err := s.Resolve(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Preamble, "data") {
		t.Errorf("the preamble is %q", s.Preamble)
	}
	one := 1
	want := Settings{Agent: "default", ModelName: "m", Caps: Caps{ContextWindow: 32_768, MaxOutput: 4096}, Preamble: s.Preamble,
		MaxSteps: 32, OnLimit: "fail", MaxOutputTokens: 4096, CallTimeout: 10 * time.Minute, ToolTimeout: 30 * time.Second,
		ApprovalExpiry: 24 * time.Hour, ToolParallelism: 4, MaxResultBytes: 32 << 10, OutputRetries: &one}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again := s
	if err := again.Resolve(); err != nil || !cmp.Equal(s, again) {
		t.Errorf("resolved twice it is something else: %v", err)
	}
	var frozen Settings
	if err := json.Unmarshal(flow.JSON(s), &frozen); err != nil || !cmp.Equal(s, frozen) {
		t.Errorf("frozen it is something else: %v\n%s", err, cmp.Diff(s, frozen))
	}
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	hot, none := 2.5, math.NaN()
	minus := -1
	c := Config{Settings: Settings{
		MaxSteps: 1001, OnLimit: "panic", Temperature: &hot, TopP: &none, MaxOutputTokens: -1, CallTimeout: -1, ToolTimeout: -1,
		ApprovalExpiry: -1, Timeout: -1, ToolParallelism: 17, MaxResultBytes: 10, OutputSchema: json.RawMessage(`{"type":7}`), OutputRetries: &minus,
		Router: "magic", Caps: Caps{ContextWindow: -1},
	}}
	err := c.Resolve()
	var e *tipstaff.Error
	if !errors.As(err, &e) || e.Code != ConfigInvalid {
		t.Fatalf("%v", err)
	}
	var paths []string
	for _, p := range e.Problems {
		paths = append(paths, p.Path)
	}
	slices.Sort(paths)
	want := []string{"approval_expiry", "approver", "call_timeout", "context_window", "max_output_tokens", "max_result_bytes", "max_steps", "model",
		"on_limit", "output_retries", "output_schema", "router", "temperature", "timeout", "tool_parallelism", "tool_timeout", "tools", "top_p"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if !strings.Contains(err.Error(), "a turn needs a model (and 17 more problems)") {
		t.Error(err)
	}
	if err := (&Settings{}).Resolve(); err == nil || !strings.Contains(err.Error(), "name of a model") {
		t.Errorf("without a name: %v", err)
	}
}
