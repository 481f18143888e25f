package file

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// Script is a list of answers and of what they answer.
type Script struct {
	name    string
	answers []Answer
}

// Answer is one entry of a script.
type Answer struct {
	tests []test // all of them must hold
	place int    // of an entry without when: the step it answers; else 0

	Text   string
	Calls  []Call
	Delay  time.Duration
	Chunks int
	Finish agent.Reason
	Usage  *agent.Usage // nil: not said
	Error  *Failure     // nil: it succeeds
}

// The document, as it is written.
type (
	scriptFile struct {
		Version int           `yaml:"version"`
		Answers []scriptEntry `yaml:"answers"`
	}
	scriptEntry struct {
		When   *scriptWhen   `yaml:"when"`
		Text   string        `yaml:"text"`
		Calls  []Call        `yaml:"calls"`
		Delay  time.Duration `yaml:"delay"`
		Chunks int           `yaml:"chunks"`
		Finish string        `yaml:"finish"`
		Usage  *scriptUsage  `yaml:"usage"`
		Error  *Failure      `yaml:"error"`
	}
	scriptWhen struct {
		Purpose string  `yaml:"purpose"`
		Agent   string  `yaml:"agent"`
		Path    string  `yaml:"path"`
		Turn    *int    `yaml:"turn"`
		Step    *int    `yaml:"step"`
		Attempt *int    `yaml:"attempt"`
		User    *string `yaml:"user"`
		System  *string `yaml:"system"`
		Result  *string `yaml:"result"`
		Offered string  `yaml:"offered"`
	}
	// Call is a tool call that an answer asks for.
	Call struct {
		Tool string `yaml:"tool"` // server/tool, or the name as it is offered
		ID   string `yaml:"id"`   // "": the loop gives one
		Args any    `yaml:"args"` // text stands for itself, also where it is no JSON
	}
	scriptUsage struct {
		Input      int64 `yaml:"input_tokens"`
		Output     int64 `yaml:"output_tokens"`
		CacheRead  int64 `yaml:"cache_read_tokens"`
		CacheWrite int64 `yaml:"cache_write_tokens"`
		Reasoning  int64 `yaml:"reasoning_tokens"`
	}
	// Failure is an error as a vendor would give it.
	Failure struct {
		Status      int           `yaml:"status"` // 0, in mid-stream: the stream just ends
		Type        string        `yaml:"type"`
		Message     string        `yaml:"message"`
		MidStream   bool          `yaml:"mid_stream"`
		AfterChunks int           `yaml:"after_chunks"`
		RetryAfter  time.Duration `yaml:"retry_after"`
	}
)

// ParseScript reads a script. Its error lists every problem with its place.
func ParseScript(name string, src []byte) (*Script, error) {
	d := &document{name: name, what: "the script"}
	var file scriptFile
	if d.decode(src, &file); len(d.problems) > 0 {
		return nil, d.err()
	}
	if file.Version != 1 {
		d.report(problemRange, "$.version", "version is %d: this version of Tipstaff reads 1", file.Version)
	}
	s := &Script{name: name}
	places := 0
	for i, e := range file.Answers {
		p := &entryParser{d: d, path: fmt.Sprintf("$.answers[%d]", i)}
		a := p.answer(e)
		if e.When == nil {
			places++
			a.place = places
		}
		s.answers = append(s.answers, a)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// entryParser checks one entry.
type entryParser struct {
	d    *document
	path string
}

func (p *entryParser) wrong(code, field, format string, args ...any) {
	p.d.report(code, p.path+field, strings.TrimPrefix(p.path, "$.")+field+": "+format, args...)
}

func (p *entryParser) answer(e scriptEntry) Answer {
	a := Answer{Text: e.Text, Calls: e.Calls, Delay: e.Delay, Chunks: e.Chunks, Error: e.Error}
	if e.When != nil {
		a.tests = p.tests(*e.When)
	}
	if e.Text == "" && len(e.Calls) == 0 && e.Error == nil && e.Finish == "" {
		p.wrong(problemRule, "", "it says nothing: give text, calls, error or finish")
	}
	if e.Error != nil && (len(e.Calls) > 0 || e.Finish != "" || e.Usage != nil) {
		p.wrong(problemRule, ".error", "an error has no calls, finish or usage beside it")
	}
	if e.Delay < 0 || e.Delay > time.Hour {
		p.wrong(problemRange, ".delay", "%v is not between 0 and 1h", e.Delay)
	}
	if e.Chunks < 0 || e.Chunks > 10_000 {
		p.wrong(problemRange, ".chunks", "%d is not between 0 and 10,000", e.Chunks)
	}
	for i, c := range e.Calls {
		if c.Tool == "" {
			p.wrong(problemRule, fmt.Sprintf(".calls[%d]", i), "tool is missing")
		}
	}
	a.Finish = p.finish(e)
	a.Usage = p.usage(e.Usage)
	p.fault(e.Error)
	return a
}

func (p *entryParser) finish(e scriptEntry) agent.Reason {
	switch reason := agent.Reason(e.Finish); reason {
	case "":
		if len(e.Calls) > 0 {
			return agent.ReasonToolCalls
		}
		return agent.ReasonStop
	case agent.ReasonStop, agent.ReasonLength, agent.ReasonContentFilter:
		return reason
	case agent.ReasonToolCalls:
		if len(e.Calls) == 0 {
			p.wrong(problemRule, ".finish", "tool_calls needs calls")
		}
		return reason
	}
	p.wrong(problemRange, ".finish", "%q is not stop, tool_calls, length or content_filter", e.Finish)
	return ""
}

func (p *entryParser) usage(u *scriptUsage) *agent.Usage {
	if u == nil {
		return nil
	}
	for _, n := range []int64{u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning} {
		if n < 0 || n > 1e12 {
			p.wrong(problemRange, ".usage", "%d tokens are not possible", n)
		}
	}
	return &agent.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead,
		CacheWriteTokens: u.CacheWrite, ReasoningTokens: u.Reasoning}
}

func (p *entryParser) fault(f *Failure) {
	switch {
	case f == nil:
	case f.Status == 0 && !f.MidStream:
		p.wrong(problemRule, ".error", "status is missing: only a stream that breaks off (mid_stream) has none")
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		p.wrong(problemRange, ".error.status", "%d is no error: 400 to 599 are", f.Status)
	case f.AfterChunks < 0 || f.AfterChunks > 10_000:
		p.wrong(problemRange, ".error.after_chunks", "%d is not between 0 and 10,000", f.AfterChunks)
	case f.AfterChunks > 0 && !f.MidStream:
		p.wrong(problemRule, ".error.after_chunks", "it needs mid_stream: true")
	case f.RetryAfter < 0:
		p.wrong(problemRange, ".error.retry_after", "%v is negative", f.RetryAfter)
	}
}

// tests are the matchers that are given, in the order of the documentation.
func (p *entryParser) tests(w scriptWhen) []test {
	var list []test
	equal := func(name, want string, have func(*situation) string) {
		if want != "" {
			list = append(list, test{name, want, have, func(s *situation) bool { return have(s) == want }})
		}
	}
	number := func(name string, want *int, have func(*situation) int) {
		if want == nil {
			return
		}
		if *want < 1 {
			p.wrong(problemRange, ".when."+name, "%d can never be: they are counted from 1", *want)
		}
		list = append(list, test{name, fmt.Sprint(*want), func(s *situation) string { return fmt.Sprint(have(s)) },
			func(s *situation) bool { return have(s) == *want }})
	}
	pattern := func(name string, want *string, have func(*situation) *string) {
		if want == nil {
			return
		}
		re, err := regexp.Compile(*want)
		if err != nil {
			p.wrong(problemRule, ".when."+name, "%v", err)
			return
		}
		list = append(list, test{name, "/" + *want + "/", func(s *situation) string { return shown(have(s)) },
			func(s *situation) bool { text := have(s); return text != nil && re.MatchString(*text) }})
	}
	equal("purpose", w.Purpose, func(s *situation) string { return s.request.Purpose })
	equal("agent", w.Agent, func(s *situation) string { return s.request.Agent })
	if w.Path != "" && p.glob("path", w.Path) {
		list = append(list, test{"path", w.Path, func(s *situation) string { return s.request.Path },
			func(s *situation) bool { return globs(w.Path, s.request.Path) }})
	}
	number("turn", w.Turn, func(s *situation) int { return s.turn })
	number("step", w.Step, func(s *situation) int { return s.step })
	number("attempt", w.Attempt, func(s *situation) int { return s.request.Attempt })
	pattern("user", w.User, func(s *situation) *string { return s.user })
	pattern("system", w.System, func(s *situation) *string { return &s.request.System })
	pattern("result", w.Result, func(s *situation) *string { return s.result })
	if w.Offered != "" && p.glob("offered", w.Offered) {
		if strings.Count(w.Offered, "/") != 1 {
			p.wrong(problemRule, ".when.offered", `%q is not server/tool with exactly one "/"`, w.Offered)
		}
		list = append(list, test{"offered", w.Offered, (*situation).offers,
			func(s *situation) bool { return s.offered(w.Offered) }})
	}
	return list
}

func (p *entryParser) glob(name, pattern string) bool {
	if _, err := path.Match(pattern, ""); err != nil {
		p.wrong(problemRule, ".when."+name, "%q is no pattern: %v", pattern, err)
		return false
	}
	return true
}

func globs(pattern, name string) bool {
	ok, _ := path.Match(pattern, name) // the pattern was checked
	return ok
}

// Arguments are the call's arguments as a model would write them.
func (c Call) Arguments() string {
	switch args := c.Args.(type) {
	case nil:
		return "{}"
	case string:
		return args
	}
	return string(flow.JSON(plainJSON(c.Args)))
}

// plainJSON makes of a decoded YAML value one that JSON has a form for.
func plainJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, member := range v {
			object[key] = plainJSON(member)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, member := range v {
			list[i] = plainJSON(member)
		}
		return list
	}
	if _, err := json.Marshal(v); err != nil {
		return fmt.Sprint(v)
	}
	return v
}
