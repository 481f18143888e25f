package flowtest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// journal is a run's records with the questions that tests ask of them.
type journal []flow.Record

// body holds every member of a body that a test looks at.
type body struct {
	Name          string          `json:"name"`
	Class         flow.Class      `json:"class"`
	Attempt       int             `json:"attempt"`
	Digest        string          `json:"digest"`
	Input         json.RawMessage `json:"input"`
	Value         json.RawMessage `json:"value"`
	Error         *flow.Error     `json:"error"`
	Use           flow.Use        `json:"use"`
	Reserve       flow.Use        `json:"reserve"`
	Wanted        flow.Use        `json:"wanted"`
	Used          flow.Use        `json:"used"`
	Held          flow.Use        `json:"held"`
	SoFar         flow.Use        `json:"so_far"`
	Counters      flow.Use        `json:"counters"`
	By            string          `json:"by"`
	RetryAt       time.Time       `json:"retry_at"`
	Gate          string          `json:"gate"`
	GateKind      string          `json:"gate_kind"`
	Subject       json.RawMessage `json:"subject"`
	SubjectDigest string          `json:"subject_digest"`
	Actions       []string        `json:"actions"`
	Action        string          `json:"action"`
	Deny          string          `json:"deny"`
	Via           string          `json:"via"`
	Seq           int64           `json:"seq"`
	Skipped       []string        `json:"skipped"`
	Until         time.Time       `json:"until"`
	T             time.Time       `json:"t"`
	Gates         []string        `json:"gates"`
	WakeAt        time.Time       `json:"wake_at"`
	Reason        string          `json:"reason"`
	Evidence      struct {
		Bounds struct{ Used flow.Use } `json:"bounds"`
	} `json:"evidence"`
}

// read decodes what it can; a member of another shape than expected stays zero
// and fails the test that asks for it.
func read(r flow.Record) body {
	var b body
	_ = json.Unmarshal(r.Body, &b)
	return b
}

func (j journal) of(kind string) journal {
	return j.where(func(r flow.Record) bool { return r.Kind == kind })
}

func (j journal) at(path string) journal {
	return j.where(func(r flow.Record) bool { return r.Path == path })
}

func (j journal) where(keep func(flow.Record) bool) journal {
	var out journal
	for _, r := range j {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// finished is the outcome of a call, if it has one.
func (j journal) finished(path string) (body, bool) {
	all := j.of("effect.finished").at(path)
	if len(all) == 0 {
		return body{}, false
	}
	return read(all[len(all)-1]), true
}

// unsettled reports whether a once call was intended and has no outcome.
func (j journal) unsettled(path string) bool {
	open := false
	for _, r := range j.at(path) {
		switch r.Kind {
		case "effect.intended":
			open = read(r).Class == flow.Once
		case "effect.finished":
			open = false
		}
	}
	return open
}

// gate is an opened gate.
type gate struct {
	body
	Key  string // its path
	Done bool   // decided or closed
}

// asker is the path of the call inside which the engine opened the gate.
func (g gate) asker() string { return g.Key[:max(strings.LastIndexByte(g.Key, '/'), 0)] }

func (j journal) gates() []gate {
	var out []gate
	for _, r := range j {
		switch r.Kind {
		case "policy.gate":
			out = append(out, gate{body: read(r), Key: r.Path})
		case "policy.gate.resolve":
			id := read(r).Gate
			for i := range out {
				out[i].Done = out[i].Done || out[i].Gate == id
			}
		}
	}
	return out
}

func (j journal) open() []gate {
	return slices.DeleteFunc(j.gates(), func(g gate) bool { return g.Done })
}

func (j journal) gate(key string) (gate, bool) {
	for _, g := range j.gates() {
		if g.Key == key {
			return g, true
		}
	}
	return gate{}, false
}

// ended is the terminal record's kind, or "".
func (j journal) ended() string {
	for _, r := range j {
		if terminal(r.Kind) {
			return r.Kind
		}
	}
	return ""
}

func terminal(kind string) bool {
	return kind == "intent.attest" || kind == "intent.fail" || kind == "intent.cancel"
}

func (j journal) kinds() []string {
	out := make([]string, len(j))
	for i, r := range j {
		out[i] = r.Kind
	}
	return out
}

// String is one line per record, for failure messages.
func (j journal) String() string {
	var b strings.Builder
	for _, r := range j {
		b.WriteString("\n\t")
		b.WriteString(strings.Join([]string{itoa(r.Seq), "e" + itoa(r.Epoch), r.Kind, r.Path}, " "))
		if r.N > 0 {
			b.WriteString(" n" + itoa(int64(r.N)))
		}
		if r.Note {
			b.WriteString(" note")
		}
		b.WriteString(" " + clip(string(r.Body), 240))
	}
	return b.String()
}
