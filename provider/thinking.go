package provider

import (
	"slices"
	"strconv"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/provider/file"
)

// thinking is how much a model is to think before it answers. The zero value leaves it
// to the vendor.
type thinking struct {
	effort string // off, low, medium or high; "": there is none
	tokens int    // the budget; 0: there is none
}

// budgets are what the words stand for where a model wants a number of tokens, and how
// many tokens an answer needs beyond its own where it wants the word.
var budgets = map[string]int{"low": 1024, "medium": 8192, "high": 24576}

const (
	thinkingOff = "off"
	leastBudget = 1024 // of tokens, with which it is worth while, and of Anthropic's the least
)

func (t thinking) off() bool { return t.effort == thinkingOff }
func (t thinking) on() bool  { return t != thinking{} && !t.off() }

// allowance is how many tokens thinking may take of an answer.
func (t thinking) allowance() int {
	if t.tokens > 0 {
		return t.tokens
	}
	return budgets[t.effort]
}

// budget is the number of tokens to think with, of an answer of at most limit: a
// quarter stays for what is said. 0: that is too short to think.
func (t thinking) budget(limit int) int {
	if n := min(t.tokens, limit-limit/4); n >= leastBudget || n == t.tokens {
		return n
	}
	return 0
}

// openAI is the effort in OpenAI's words.
func (t thinking) openAI() string {
	if t.off() {
		return "none"
	}
	return t.effort
}

// parseThinking reads the setting for a model, of which the table says what it takes;
// nil: nothing is known of it, and the vendor will say.
func parseThinking(c Config, takes []string, maxOutput int) (thinking, error) {
	refuse := func(format string, args ...any) (thinking, error) {
		e := invalid("thinking is %s: "+format, append([]any{c.Thinking}, args...)...)
		if words := choices(takes); words != "" {
			return thinking{}, e.WithHint("write %s", words)
		}
		return thinking{}, e.WithHint("leave it out")
	}
	known := func(word string) bool { return takes == nil || slices.Contains(takes, word) }
	tokens, number := strconv.Atoi(c.Thinking)
	switch {
	case c.Thinking == "" || c.Thinking == thinkingOff && takes != nil && len(takes) == 0:
		return thinking{}, nil
	case number == nil && tokens < 1:
		return refuse("it must be off, low, medium, high or a number of tokens")
	case number == nil && maxOutput > 0 && tokens >= maxOutput:
		return refuse("%s answers with at most %d tokens, those that it thinks with included", c.Model, maxOutput)
	case number == nil && tokens < leastBudget && c.Provider == Anthropic:
		return refuse("provider %s takes no fewer than %d tokens", c.Provider, leastBudget)
	case number == nil && (c.Provider == OpenAI || c.Provider == OpenAIChat):
		return refuse("provider %s takes no number of tokens", c.Provider)
	case number == nil && !known(file.ThinkingTokens):
		return refuse("%s takes no number of tokens", c.Model)
	case number == nil:
		return thinking{tokens: tokens}, nil
	case c.Thinking != thinkingOff && budgets[c.Thinking] == 0:
		return refuse("it must be off, low, medium, high or a number of tokens")
	case known(c.Thinking):
		return thinking{effort: c.Thinking}, nil
	case c.Thinking == thinkingOff:
		return refuse("%s always thinks", c.Model)
	case slices.Contains(takes, file.ThinkingTokens):
		return thinking{tokens: budgets[c.Thinking]}, nil
	}
	return refuse("%s does not take it", c.Model)
}

// choices are what a model takes, in words.
func choices(takes []string) string {
	words := slices.Clone(takes)
	if i := slices.Index(words, file.ThinkingTokens); i >= 0 {
		words[i] = "a number of tokens"
		if !slices.Contains(words, "low") {
			words = slices.Insert(words, i, "low", "medium", "high")
		}
	}
	return document.Alternatives(words)
}

// thinks is how much to think about a request. A router has no room for it.
func (m *vendorModel) thinks(r agent.Request) thinking {
	if r.Purpose == agent.PurposeRouter {
		return thinking{}
	}
	return m.thinking
}
