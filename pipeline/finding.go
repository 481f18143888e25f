package pipeline

import (
	"fmt"

	"github.com/tipstaff/tipstaff"
)

// Verdicts of a stage with a handoff. Whatever is not the first is the second.
const (
	verdictKey = "verdict"
	approved   = "approved"
	rejected   = "rejected"
)

// contract is what the output of a stage with a handoff says to people.
type contract struct {
	verdict    string
	summary    string
	findings   []tipstaff.StageFinding
	incomplete []string
}

// contractOf reads an output. What does not fit is left out; only a plain approval
// of something complete counts as one.
func contractOf(v *stint) contract {
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	c := contract{verdict: rejected, summary: text(v.output, "summary"), incomplete: []string{}, findings: []tipstaff.StageFinding{}}
	if v.output[verdictKey] == approved {
		c.verdict = approved
	}
	switch incomplete := v.output["incomplete"].(type) {
	case []any:
		for _, item := range incomplete {
			c.incomplete = append(c.incomplete, textOf(item))
		}
	case nil:
	default: // it says that something is, in a way of its own
		c.incomplete = append(c.incomplete, textOf(incomplete))
	}
	list, _ := v.output["findings"].([]any)
	for i, item := range list {
		f := tipstaff.StageFinding{ID: fmt.Sprintf("%s.f%d", v.path, i+1)}
		switch m := item.(type) {
		case map[string]any:
			f.Severity, f.Title, f.Body = text(m, "severity"), text(m, "title"), text(m, "body")
			f.RequiredFix, f.File = text(m, "required_fix"), text(m, "file")
			if line, ok := m["line"].(int64); ok && 0 < line && line <= maxSafe {
				f.Line = line
			}
		default:
			f.Title = textOf(item)
		}
		c.findings = append(c.findings, f)
	}
	return c
}

func (c contract) rejected() bool { return c.verdict != approved || len(c.incomplete) > 0 }

func (c contract) findingIDs() []string {
	ids := make([]string, len(c.findings))
	for i, f := range c.findings {
		ids[i] = f.ID
	}
	return ids
}

func (x *executor) recordFindings(v *stint) {
	for _, f := range contractOf(v).findings {
		x.emitAt(v.path, tipstaff.KindFindingRecorded, tipstaff.FindingRecorded{Stage: v.agent.Name, Visit: v.n, StageFinding: f})
	}
}
