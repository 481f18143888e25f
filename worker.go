package tipstaff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tipstaff/tipstaff/flow"
)

// What gates of workers ask about.

// WorkerRequest is the subject of an approval gate: a call that a worker's CLI asks leave
// for.
type WorkerRequest struct {
	Worker     string          `json:"worker"`
	Type       string          `json:"type"`
	CLIVersion string          `json:"cli_version"`
	Tool       string          `json:"tool"` // worker-<type>/<native name>
	Class      string          `json:"class"`
	Rule       string          `json:"rule"` // that asks
	Dir        string          `json:"dir"`
	Args       json.RawMessage `json:"args"` // as the CLI sent them
	ArgsDigest string          `json:"args_digest"`
	Facts      json.RawMessage `json:"facts,omitempty"` // what guards found
	Claim      string          `json:"claim,omitempty"` // what the CLI says of the call
}

// Subject is what the gate has as its subject.
func (r WorkerRequest) Subject() json.RawMessage { return flow.JSON(r) }

// WorkerInvocation is the subject of an approval gate: a worker that may change things is to
// begin a piece of work, in a run whose document somebody brought who may not decide.
type WorkerInvocation struct {
	Worker  string `json:"worker"`
	Type    string `json:"type"`
	Model   string `json:"model,omitempty"` // "": the CLI's own choice
	Posture string `json:"posture"`
	Task    string `json:"task"`
	Rule    string `json:"rule"` // that asks
	Why     string `json:"why"`
	Prompt  string `json:"prompt"` // what it is told
}

// Subject is what the gate has as its subject.
func (i WorkerInvocation) Subject() json.RawMessage { return flow.JSON(i) }

// WorkerQuestion is the subject of a question gate: a worker has asked, or has failed.
type WorkerQuestion struct {
	Worker     string   `json:"worker"`
	Task       string   `json:"task"`
	Outcome    string   `json:"outcome,omitempty"`     // of the invocation, if it failed
	Question   string   `json:"question,omitempty"`    // in the worker's words
	Options    []string `json:"options,omitempty"`     // likewise
	Text       string   `json:"text,omitempty"`        // the last that it said
	StderrTail string   `json:"stderr_tail,omitempty"` // of its program
	Changed    []string `json:"changed,omitempty"`     // files
}

// Subject is what the gate has as its subject.
func (q WorkerQuestion) Subject() json.RawMessage { return flow.JSON(q) }

// exactly decodes a subject, if it is of this form and has nothing that would not be shown.
func exactly(raw json.RawMessage, into any) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

// workerRequest shows a request of a worker; false: the subject is another.
func (s *shower) workerRequest(raw json.RawMessage) bool {
	var r WorkerRequest
	if !exactly(raw, &r) || r.Worker == "" || r.Tool == "" {
		return false
	}
	s.field(0, "worker", fmt.Sprintf("%s (%s %s)", r.Worker, r.Type, r.CLIVersion))
	s.field(0, "tool", r.Tool)
	s.field(0, "effect", r.Class)
	s.field(0, "rule", r.Rule)
	s.field(0, "directory", r.Dir)
	if facts := string(r.Facts); facts != "" && facts != "{}" && facts != "null" {
		s.value(0, "facts", "facts", r.Facts)
	}
	s.foreign = true
	s.arguments(0, "", r.Args)
	s.foreign = false
	s.field(0, "digest of the arguments", r.ArgsDigest)
	if r.Claim != "" {
		s.text(0, "claim", "the CLI says of it, which nobody has checked", r.Claim)
	}
	return true
}

// workerInvocation shows what a worker is to begin; false: the subject is another.
func (s *shower) workerInvocation(raw json.RawMessage) bool {
	var i WorkerInvocation
	if !exactly(raw, &i) || i.Worker == "" || i.Posture == "" {
		return false
	}
	s.field(0, "worker", fmt.Sprintf("%s (%s)", i.Worker, i.Type))
	s.field(0, "model", i.Model)
	s.field(0, "posture", i.Posture)
	s.field(0, "task", i.Task)
	s.field(0, "rule", i.Rule)
	s.field(0, "why", i.Why)
	s.text(0, "prompt", "it is told", i.Prompt)
	return true
}

// workerQuestion shows what a worker asks, or how it failed; false: the subject is another.
// All of it is data: whatever it says, it is not Tipstaff that says it.
func (s *shower) workerQuestion(raw json.RawMessage) bool {
	var q WorkerQuestion
	if !exactly(raw, &q) || q.Worker == "" || q.Task == "" {
		return false
	}
	s.field(0, "worker", q.Worker)
	s.field(0, "task", q.Task)
	s.field(0, "outcome", q.Outcome)
	for _, t := range []struct{ at, name, text string }{
		{"question", "the worker asks", q.Question}, {"text", "the worker said last", q.Text}, {"stderr_tail", "its program wrote last", q.StderrTail},
	} {
		if t.text != "" {
			s.text(0, t.at, t.name, t.text)
		}
		if t.at == "question" && len(q.Options) > 0 {
			s.line(0, "it offers these answers")
			for i, o := range q.Options {
				s.value(1, "options."+strconv.Itoa(i), strconv.Itoa(i+1), quote(o))
			}
		}
	}
	if len(q.Changed) > 0 {
		s.value(0, "changed", "changed files", flow.JSON(q.Changed))
	}
	return true
}

// blockNames are arguments of workers' tools that hold a command or the text of a file.
var blockNames = []string{"command", "content", "old_string", "new_string", "new_source"}

// label is the name of a value. One that goes on and on would push others out of sight.
func (s *shower) label(name string) string {
	if !s.foreign || s.all || len(name) <= shownLine {
		return name
	}
	s.Whole = false
	return fmt.Sprintf("%s… (%d bytes)", head(name, shownLine), len(name))
}
