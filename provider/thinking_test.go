package provider

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

func errHint(err error) string {
	var e *tipstaff.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// asked is what of a request speaks of thinking.
func asked(t *testing.T, body []byte) string {
	t.Helper()
	var q struct {
		MaxTokens    int             `json:"max_tokens"`
		Thinking     json.RawMessage `json:"thinking"`
		OutputConfig json.RawMessage `json:"output_config"`
		Reasoning    json.RawMessage `json:"reasoning"`
		Effort       string          `json:"reasoning_effort"`
		Config       struct {
			Thinking json.RawMessage `json:"thinkingConfig"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(q.Thinking) + string(q.OutputConfig) + string(q.Reasoning) + q.Effort + string(q.Config.Thinking))
}

func TestThinkingInTheWordsOfEachVendor(t *testing.T) {
	for _, c := range []struct {
		provider, model, thinking string
		limit                     int // of the answer
		want                      string
	}{
		{Anthropic, "claude-sonnet-5-5", "", 100, ``},
		{Anthropic, "claude-sonnet-5-5", "high", 100, `{"type":"adaptive","display":"summarized"}{"effort":"high"}`},
		{Anthropic, "claude-opus-5", "off", 100, `{"type":"disabled"}`},
		{Anthropic, "claude-sonnet-4-5", "low", 8192, `{"type":"enabled","budget_tokens":1024,"display":"summarized"}`},
		{Anthropic, "claude-sonnet-4-5", "high", 32768, `{"type":"enabled","budget_tokens":24576,"display":"summarized"}`},
		{Anthropic, "claude-sonnet-4-5", "high", 8192, `{"type":"enabled","budget_tokens":6144,"display":"summarized"}`},
		{Anthropic, "claude-sonnet-4-5", "high", 1000, ``}, // no room
		{Anthropic, "claude-sonnet-4-5", "2000", 8192, `{"type":"enabled","budget_tokens":2000,"display":"summarized"}`},
		{Anthropic, "claude-opus-4-6", "medium", 8192, `{"type":"adaptive","display":"summarized"}{"effort":"medium"}`},
		{Anthropic, "claude-opus-4-6", "2000", 8192, `{"type":"enabled","budget_tokens":2000,"display":"summarized"}`},
		{Anthropic, "unheard-of", "low", 8192, `{"type":"adaptive","display":"summarized"}{"effort":"low"}`},
		{OpenAI, "gpt-6.1-terra", "", 100, ``},
		{OpenAI, "gpt-6.1-terra", "medium", 100, `{"effort":"medium","summary":"auto"}`},
		{OpenAI, "gpt-6.1-terra", "off", 100, `{"effort":"none"}`},
		{OpenAI, "gpt-4.1", "off", 100, ``}, // does not think anyway, and would refuse to be asked
		{OpenAIChat, "gpt-5", "high", 100, `high`},
		{OpenAIChat, "qwen3", "off", 100, `none`},
		{OpenAIChat, "qwen3", "", 100, ``},
		{Gemini, "gemini-3.8-flash", "", 100, ``},
		{Gemini, "gemini-3.8-flash", "low", 100, `{"includeThoughts":true,"thinkingLevel":"LOW"}`},
		{Gemini, "gemini-2.5-flash", "medium", 32768, `{"includeThoughts":true,"thinkingBudget":8192}`},
		{Gemini, "gemini-2.5-flash", "512", 8192, `{"includeThoughts":true,"thinkingBudget":512}`},
		{Gemini, "gemini-2.5-flash", "off", 8192, `{"thinkingBudget":0}`},
		{Gemini, "gemini-2.5-flash", "high", 0, `{"includeThoughts":true,"thinkingBudget":24576}`},
	} {
		var v vendor
		for _, known := range vendors {
			if known.provider == c.provider {
				v = known
			}
		}
		v.model = c.model
		s := serve(t, events(v.text(`"a"`)))
		m := v.openWith(t, s, func(conf *Config) { conf.Thinking = c.thinking })
		r := hello
		r.MaxOutputTokens = c.limit
		if h := ask(t, m, r); h.err != nil {
			t.Fatal(h.err)
		}
		if got := asked(t, s.bodies[0]); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.model, c.thinking, got, c.want)
		}
		r.Purpose = agent.PurposeRouter // has no room for it
		ask(t, m, r)
		if got := asked(t, s.bodies[1]); got != "" {
			t.Errorf("a router of %s %s: %s", c.model, c.thinking, got)
		}
	}
}

func TestThinkingThatAModelCannot(t *testing.T) {
	for _, c := range []struct{ provider, model, thinking, says, hint string }{
		{Anthropic, "claude-opus-5-5", "off", "always thinks", "low, medium or high"},
		{Anthropic, "claude-opus-5-5", "2000", "no number of tokens", "low, medium or high"},
		{Anthropic, "claude-sonnet-4-5", "1000", "no fewer than 1024", "off, low, medium, high or a number of tokens"},
		{Anthropic, "claude-sonnet-4-5", "64000", "at most 64000 tokens", ""},
		{OpenAI, "gpt-6.1-sol", "off", "always thinks", ""},
		{OpenAI, "gpt-4.1", "low", "does not take it", "leave it out"},
		{OpenAI, "unheard-of", "2000", "takes no number", ""},
		{OpenAIChat, "unheard-of", "2000", "takes no number", ""},
		{Gemini, "gemini-2.5-pro", "off", "always thinks", ""},
		{Gemini, "gemini-3.8-flash", "off", "always thinks", ""},
		{Gemini, "unheard-of", "hard", "must be off, low", ""},
		{Gemini, "unheard-of", "-1", "must be off, low", ""},
	} {
		_, err := Open(Config{Provider: c.provider, Model: c.model, APIKey: testKey, Thinking: c.thinking})
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(errHint(err), c.hint) {
			t.Errorf("%s %s: %v (%s)", c.model, c.thinking, err, errHint(err))
		}
	}
	if _, err := Open(Config{Provider: Scripted, Script: []byte("version: 1\nanswers: []"), Thinking: "low"}); err == nil || !strings.Contains(err.Error(), "thinking") {
		t.Errorf("a script: %v", err)
	}
}

// Thinking needs room in the answer, and leaves some to the conversation.
func TestRoomForThinking(t *testing.T) {
	for _, c := range []struct {
		model, thinking string
		window, want    int
	}{
		{"claude-sonnet-5-5", "", 0, 0}, {"claude-opus-5", "off", 0, 0}, {"claude-sonnet-5-5", "high", 0, 24576}, {"claude-sonnet-4-5", "5000", 0, 5000}, {"claude-sonnet-5-5", "high", 32768, 8192},
	} {
		m, err := Open(Config{Provider: Anthropic, Model: c.model, APIKey: testKey, Thinking: c.thinking, ContextWindow: c.window})
		if err != nil || m.Caps().Thinking != c.want {
			t.Errorf("%s %s: %+v, %v", c.model, c.thinking, m, err)
		}
	}
}
