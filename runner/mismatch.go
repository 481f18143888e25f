package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/tool"
)

// mostDifferences is how many places a message about a mismatch names.
const mostDifferences = 3

// tellDifference fills in how a program that no longer fits its records differs
// from them: two digests tell nobody what to look at.
func (t *trace) tellDifference(err error) {
	var m *flow.NonDeterminism
	if !errors.As(err, &m) || m.Input == nil {
		return
	}
	what, digest, _ := strings.Cut(m.Recorded, " sha256:")
	recorded := t.recordedInput(m.Path, "sha256:"+digest)
	if recorded == nil {
		return
	}
	var places []string
	list := tool.Differences(recorded, m.Input)
	for _, d := range list[:min(len(list), mostDifferences)] {
		places = append(places, fmt.Sprintf("%s: recorded %s, asked for %s", cmp.Or(d.Pointer, "all of it"), brief(d.Was), brief(d.Now)))
	}
	if left := len(list) - len(places); left > 0 {
		places = append(places, fmt.Sprintf("and %d more", left))
	}
	if len(list) == 0 {
		places = []string{"they say the same in another spelling"}
	}
	m.Difference = fmt.Sprintf("%s was recorded with another input: %s", what, strings.Join(places, "; "))
}

// recordedInput is what a record at path holds the digest of: the input of a call,
// what a gate asks, or the body of an event. nil: no record does.
func (t *trace) recordedInput(path, digest string) json.RawMessage {
	for _, r := range slices.Concat(t.base, t.records) {
		if r.Path != path {
			continue
		}
		raw, err := journal.Attach(r.Kind, r.Note, r.Body, func(h journal.Hash) ([]byte, error) { return t.blob(h.String()) })
		if err != nil {
			continue
		}
		if r.N > 0 && flow.Digest(slices.Concat([]byte(r.Kind), []byte{0}, raw)) == digest {
			return raw
		}
		var b struct {
			Digest   string          `json:"digest"`
			Input    json.RawMessage `json:"input"`
			Actions  []string        `json:"actions"`
			Deny     string          `json:"deny"`
			Question string          `json:"question"`
			Subject  json.RawMessage `json:"subject"`
		}
		switch {
		case json.Unmarshal(raw, &b) != nil || b.Digest != digest:
		case b.Input != nil:
			return b.Input
		case journal.IsEnvelope(r.Kind):
			asks := map[string]any{"actions": b.Actions, "deny": b.Deny, "question": b.Question}
			if string(b.Subject) != "null" {
				asks["subject"] = b.Subject
			}
			return flow.JSON(asks)
		}
	}
	return nil
}
