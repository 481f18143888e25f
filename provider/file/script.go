package file

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/document"
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

// Call is a tool call that an answer asks for.
type Call struct {
	Tool string          // server/tool, or the name as it is offered
	ID   string          // "": the loop gives one
	Args *document.Value // text stands for itself, also where it is no JSON; nil: none
}

// Failure is an error as a vendor would give it.
type Failure struct {
	Status      int // 0, in mid-stream: the stream just ends
	Type        string
	Message     string
	MidStream   bool
	AfterChunks int
	RetryAfter  time.Duration
}

const mostChunks = 10_000

// ParseScript reads a script. Its error lists every problem with its place.
func ParseScript(name string, src []byte) (*Script, error) {
	s := &Script{name: name}
	if err := parse(name, "the script", src, s.read); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Script) read(f *document.Fields) {
	places := 0
	f.Each("answers", func(e *document.Fields) {
		a := readAnswer(e)
		if e.Get("when") == nil {
			places++
			a.place = places
		}
		s.answers = append(s.answers, a)
	})
}

func readAnswer(f *document.Fields) Answer {
	a := Answer{
		Text:   f.Text("text"),
		Delay:  readDuration(f, "delay", time.Hour),
		Chunks: int(f.Integer("chunks", 0, 0, mostChunks)),
	}
	f.Object("when", func(w *document.Fields) { a.tests = readTests(w) })
	f.Each("calls", func(c *document.Fields) { a.Calls = append(a.Calls, readCall(c)) })
	f.Object("usage", func(u *document.Fields) { a.Usage = readUsage(u) })
	f.Object("error", func(e *document.Fields) { a.Error = readFailure(e) })
	a.Finish = readFinish(f, a)
	fault, finish, usage := f.Get("error"), f.Get("finish"), f.Get("usage")
	if a.Text == "" && len(a.Calls) == 0 && fault == nil && finish == nil {
		f.Problems.Add(problemRule, f.Value.At, f.Path, "an answer that says nothing: give text, calls, error or finish")
	}
	if fault != nil && (len(a.Calls) > 0 || finish != nil || usage != nil) {
		f.Report(problemRule, fault.At, "error", "an error has no calls, finish or usage beside it")
	}
	return a
}

func readCall(f *document.Fields) Call {
	c := Call{Tool: f.Text("tool"), ID: f.Text("id"), Args: f.Get("args")}
	if c.Tool == "" {
		f.Report(problemRule, f.Value.At, "tool", "tool is missing")
	}
	return c
}

func readFinish(f *document.Fields, a Answer) agent.Reason {
	v := f.Typed("finish", document.Text)
	switch {
	case v == nil && len(a.Calls) > 0:
		return agent.ReasonToolCalls
	case v == nil:
		return agent.ReasonStop
	}
	switch reason := agent.Reason(v.Text); reason {
	case agent.ReasonStop, agent.ReasonLength, agent.ReasonContentFilter:
		return reason
	case agent.ReasonToolCalls:
		if len(a.Calls) == 0 {
			f.Report(problemRule, v.At, "finish", "finish is tool_calls, which needs calls")
		}
		return reason
	}
	f.Report(document.CodeRange, v.At, "finish", "finish is %q; it must be stop, tool_calls, length or content_filter", document.Brief(v.Text))
	return ""
}

func readUsage(f *document.Fields) *agent.Usage {
	tokens := func(name string) int64 { return f.Integer(name, 0, 0, 1e12) }
	return &agent.Usage{
		InputTokens:      tokens("input_tokens"),
		OutputTokens:     tokens("output_tokens"),
		CacheReadTokens:  tokens("cache_read_tokens"),
		CacheWriteTokens: tokens("cache_write_tokens"),
		ReasoningTokens:  tokens("reasoning_tokens"),
	}
}

func readFailure(f *document.Fields) *Failure {
	e := &Failure{
		Status:      int(f.Integer("status", 0, 400, 599)),
		Type:        f.Text("type"),
		Message:     f.Text("message"),
		MidStream:   f.Boolean("mid_stream", false),
		AfterChunks: int(f.Integer("after_chunks", 0, 0, mostChunks)),
		RetryAfter:  readDuration(f, "retry_after", 24*time.Hour),
	}
	if f.Get("status") == nil && !e.MidStream {
		f.Report(problemRule, f.Value.At, "status", "status is missing: only a stream that breaks off (mid_stream) has none")
	}
	if v := f.Get("after_chunks"); e.AfterChunks > 0 && !e.MidStream {
		f.Report(problemRule, v.At, "after_chunks", "after_chunks needs mid_stream: true")
	}
	return e
}

// readDuration is a duration from nothing to most.
func readDuration(f *document.Fields, name string, most time.Duration) time.Duration {
	v := f.Typed(name, document.Text)
	if v == nil {
		return 0
	}
	d, err := time.ParseDuration(v.Text)
	if err != nil || d < 0 || d > most {
		f.Report(document.CodeRange, v.At, name, "%s is %q; it must be a duration from 0s to %v", name, document.Brief(v.Text), most)
		return 0
	}
	return d
}

// Arguments are the call's arguments as a model would write them.
func (c Call) Arguments() string {
	switch {
	case c.Args == nil || c.Args.Kind == document.Null:
		return "{}"
	case c.Args.Kind == document.Text:
		return c.Args.Text
	}
	var written bytes.Buffer
	c.Args.AppendJSON(&written)
	numbers := json.NewDecoder(&written)
	numbers.UseNumber() // they stay as they are written
	var sorted any
	if err := numbers.Decode(&sorted); err != nil {
		panic(err) // a value always has a JSON form
	}
	return string(flow.JSON(sorted))
}
