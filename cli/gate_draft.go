package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// draft is what a confirmation asks to accept: a plan that a model has written.
type draft struct {
	IntentHash    string                     `json:"intent_hash"`
	ProgramDigest string                     `json:"program_digest"`
	Intent        json.RawMessage            `json:"intent"`
	Outline       *tipstaff.Outline          `json:"outline"`
	Bounds        map[string]json.RawMessage `json:"bounds"`
}

// draftOf is the plan that a gate asks about; nil: it asks about something else.
func draftOf(g tipstaff.Gate) *draft {
	var d draft
	if g.Kind != tipstaff.Confirmation || json.Unmarshal(g.Subject, &d) != nil || d.Outline == nil {
		return nil
	}
	return &d
}

// lines show the plan: what it is for, its tree with tools and effects, what it may
// consume, and the digests that an acceptance binds to.
func (d *draft) lines() (lines []string) {
	lines = append(lines, "intent")
	for _, l := range jsonLines(d.Intent) {
		lines = append(lines, "  "+l)
	}
	lines = append(lines, "plan")
	lines = append(lines, outlineLines(d.Outline, 1)...)
	var bounds []string
	for _, name := range slices.Sorted(maps.Keys(d.Bounds)) {
		bounds = append(bounds, clean(name)+" "+clean(limitText(name, d.Bounds[name])))
	}
	lines = append(lines, "bounds", "  "+strings.Join(bounds, ", "))
	return append(lines, "intent_hash  "+clean(d.IntentHash), "program_digest  "+clean(d.ProgramDigest))
}

// outlineLines are a program's tree, for people.
func outlineLines(n *tipstaff.Outline, depth int) []string {
	name := n.ID
	if name == "" {
		name = lastSegment(n.Path)
	}
	lines := []string{strings.Repeat("  ", depth) + joined("  ", clean(name), clean(n.Kind), clean(n.Label), clean(n.Class))}
	for _, c := range n.Children {
		lines = append(lines, outlineLines(c, depth+1)...)
	}
	return lines
}

// gateSubject is what a gate asks about, in lines.
func gateSubject(g tipstaff.Gate) []string {
	if d := draftOf(g); d != nil {
		return d.lines()
	}
	if qs := questionsOf(g); len(qs) > 0 {
		var lines []string
		for i, q := range qs {
			lines = append(lines, fmt.Sprintf("%d. %s", i+1, q.text()))
		}
		return lines
	}
	return subjectLines(g.Subject)
}
