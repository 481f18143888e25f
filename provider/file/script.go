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

	Text   string        `doc:"text"`
	Calls  []Call        `doc:"calls"`
	Delay  time.Duration `doc:"delay,min=0s,max=1h"`
	Chunks int           `doc:"chunks,max=10000"`
	Finish agent.Reason  `doc:"finish,in=stop|tool_calls|length|content_filter"`
	Usage  *agent.Usage  // nil: not said
	Error  *Failure      `doc:"error"` // nil: it succeeds
}

// Call is a tool call that an answer asks for.
type Call struct {
	Tool string          `doc:"tool"` // server/tool, or the name as it is offered
	ID   string          `doc:"id"`   // "": the loop gives one
	Args *document.Value `doc:"args"` // text stands for itself, also where it is no JSON; nil: none
}

// Failure is an error as a vendor would give it.
type Failure struct {
	Status      int           `doc:"status,min=400,max=599"` // 0, in mid-stream: the stream just ends
	Type        string        `doc:"type"`
	Message     string        `doc:"message"`
	MidStream   bool          `doc:"mid_stream"`
	AfterChunks int           `doc:"after_chunks,max=10000"`
	RetryAfter  time.Duration `doc:"retry_after,min=0s,max=24h"`
}

// usage is the part of agent.Usage that a script states.
type usage struct {
	Input      int64 `doc:"input_tokens,max=1e12"`
	Output     int64 `doc:"output_tokens,max=1e12"`
	CacheRead  int64 `doc:"cache_read_tokens,max=1e12"`
	CacheWrite int64 `doc:"cache_write_tokens,max=1e12"`
	Reasoning  int64 `doc:"reasoning_tokens,max=1e12"`
}

// ParseScript reads a script. Its error lists every problem with its place.
func ParseScript(name string, src []byte) (*Script, error) {
	var file struct {
		Answers []Answer `doc:"answers"`
	}
	if err := parse(name, "the script", src, &file); err != nil {
		return nil, err
	}
	places := 0
	for i, a := range file.Answers {
		if a.place > 0 {
			places++
			file.Answers[i].place = places
		}
	}
	return &Script{name: name, answers: file.Answers}, nil
}

// CheckDocument reads when and usage, and finds what does not go together.
func (a *Answer) CheckDocument(f *document.Fields) {
	a.place = 1 // its own is known when all were read
	f.Object("when", func(w *document.Fields) { a.place, a.tests = 0, readTests(w) })
	f.Object("usage", func(u *document.Fields) {
		var said usage
		u.Decode(&said)
		a.Usage = &agent.Usage{InputTokens: said.Input, OutputTokens: said.Output, CacheReadTokens: said.CacheRead,
			CacheWriteTokens: said.CacheWrite, ReasoningTokens: said.Reasoning}
	})
	fault, finish := f.Get("error"), f.Get("finish")
	switch {
	case finish == nil && len(a.Calls) > 0:
		a.Finish = agent.ReasonToolCalls
	case finish == nil:
		a.Finish = agent.ReasonStop
	case a.Finish == agent.ReasonToolCalls && len(a.Calls) == 0:
		f.Report(problemRule, finish.At, "finish", "finish is tool_calls, which needs calls")
	}
	if a.Text == "" && len(a.Calls) == 0 && fault == nil && finish == nil {
		f.Problems.Add(problemRule, f.Value.At, f.Path, "an answer that says nothing: give text, calls, error or finish")
	}
	if fault != nil && (len(a.Calls) > 0 || finish != nil || f.Get("usage") != nil) {
		f.Report(problemRule, fault.At, "error", "an error has no calls, finish or usage beside it")
	}
}

// CheckDocument asks for the tool.
func (c *Call) CheckDocument(f *document.Fields) {
	if c.Tool == "" {
		f.Report(problemRule, f.Value.At, "tool", "tool is missing")
	}
}

// CheckDocument: only a stream that breaks off has no status.
func (e *Failure) CheckDocument(f *document.Fields) {
	if f.Get("status") == nil && !e.MidStream {
		f.Report(problemRule, f.Value.At, "status", "status is missing: only a stream that breaks off (mid_stream) has none")
	}
	if v := f.Get("after_chunks"); e.AfterChunks > 0 && !e.MidStream {
		f.Report(problemRule, v.At, "after_chunks", "after_chunks needs mid_stream: true")
	}
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

// Calls are those of all answers.
func (s *Script) Calls() (all []Call) {
	for _, a := range s.answers {
		all = append(all, a.Calls...)
	}
	return all
}
