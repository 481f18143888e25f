package tool

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

var agentForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

const (
	mostSteps       = 1000
	mostOutput      = 10_000_000 // tokens
	mostExpiry      = 30 * 24 * time.Hour
	mostParallelism = 16
	mostRetries     = 10
)

// agents are checked against models and tools when the whole document was read:
// the order of its parts is free.
func (p *manifestParser) agents(n at) {
	list, _ := p.entries(n)
	for _, e := range list {
		if !agentForm.MatchString(e.name) {
			p.report(ProblemField, e.key, "%s cannot name an agent: a letter of a-z, then up to 63 of a-z, 0-9, _ and -", tipstaff.Quote(e.name, 100))
			continue
		}
		p.m.Agents[e.name] = p.agent(e.value)
	}
}

func (p *manifestParser) agent(n at) AgentConfig {
	var a AgentConfig
	where := p.placed(n, fields{
		"model":             func(v at) { a.Model, _ = p.text(v) },
		"skill":             func(v at) { a.Skill = p.skill(v) },
		"tools":             func(v at) { a.Tools = p.toolURIs(v) },
		"router":            func(v at) { a.Router = strings.TrimPrefix(p.oneOf(v, "none", RouterToolkits), "none") },
		"system":            func(v at) { a.System = p.system(v) },
		"max_steps":         func(v at) { a.MaxSteps = int(p.integer(v, 0, mostSteps)) },
		"on_limit":          func(v at) { a.OnLimit = p.oneOf(v, "fail", "ask") },
		"temperature":       func(v at) { a.Temperature = p.number(v, 2) },
		"top_p":             func(v at) { a.TopP = p.number(v, 1) },
		"max_output_tokens": func(v at) { a.MaxOutputTokens = int(p.integer(v, 1, mostOutput)) },
		"call_timeout":      func(v at) { a.CallTimeout = p.duration(v, mostTimeout) },
		"tool_timeout":      func(v at) { a.ToolTimeout = p.timeout(v) },
		"approval_expiry":   func(v at) { a.ApprovalExpiry = p.duration(v, mostExpiry) },
		"tool_parallelism":  func(v at) { a.ToolParallelism = int(p.integer(v, 1, mostParallelism)) },
		"max_result_bytes":  func(v at) { a.MaxResultBytes = int(p.size(v)) },
		"output_schema":     func(v at) { a.OutputSchema = p.schema(v) },
		"output_retries":    func(v at) { retries := int(p.integer(v, 0, mostRetries)); a.OutputRetries = &retries },
	})
	model, given := where["model"]
	if !given {
		p.report(ProblemMissing, n, "%s needs model, one of models", n.path)
	}
	p.later = append(p.later, func() {
		if _, ok := p.m.Models[a.Model]; given && !ok && !p.reportedAt(model) {
			p.report(ProblemRange, model, "there is no model %s%s", tipstaff.Quote(a.Model, 100), suggest(a.Model, sortedKeys(p.m.Models)))
		}
	})
	return a
}

func (p *manifestParser) skill(n at) string {
	s, ok := p.text(n)
	if ok && (!strings.HasPrefix(s, "skill://") || !strings.Contains(s, "@")) {
		p.report(ProblemRange, n, "%s is not a skill: write skill://<id>@<version>", tipstaff.Quote(s, 100))
	}
	return s
}

// toolURIs reads none, or a list of pinned URIs. It is never nil: an agent that
// says which tools it has, has no others.
func (p *manifestParser) toolURIs(n at) []string {
	uris := []string{}
	if n.is(document.Text) && n.value.Text == "none" {
		return uris
	}
	p.list(n, func(_ int, item at) {
		s, ok := p.text(item)
		if !ok {
			return
		}
		u, err := tipstaff.ParseToolURI(s)
		switch {
		case err != nil:
			p.report(ProblemRange, item, "%v", err)
		case slices.Contains(uris, s):
			p.report(ProblemDuplicate, item, "%s stands twice", s)
		default:
			uris = append(uris, s)
			p.later = append(p.later, func() { p.declared(item, u) })
		}
	})
	return uris
}

// declared: what an agent is to use must be what the manifest declares.
func (p *manifestParser) declared(n at, u tipstaff.ToolURI) {
	if _, ok := p.m.Tool(u.Server, u.Tool); !ok {
		p.report(ProblemTool, n, "the manifest declares no tool %q of a server %q", u.Tool, u.Server)
	}
}

// system is a text, or a file that holds it.
func (p *manifestParser) system(n at) string {
	if !n.is(document.Object) {
		s, _ := p.text(n)
		return s
	}
	var f File
	where := p.placed(n, fields{"file": func(v at) { f = p.fileBeside(v) }})
	if _, ok := where["file"]; !ok {
		p.report(ProblemMissing, n, "%s is a text, or {file: NAME}", n.path)
	}
	return f.Text
}

// number reads one between 0 and most.
func (p *manifestParser) number(n at, most float64) *float64 {
	if !n.is(document.Number) {
		p.report(ProblemType, n, "%s must be a number, not %s", n.path, describe(n))
		return nil
	}
	value, err := strconv.ParseFloat(n.value.Text, 64)
	if err != nil || value < 0 || value > most {
		p.report(ProblemRange, n, "%s is %s: 0 to %g is possible", n.path, document.Brief(n.value.Text), most)
		return nil
	}
	return &value
}

// schema reads a JSON Schema that is written as YAML.
func (p *manifestParser) schema(n at) json.RawMessage {
	if _, ok := p.entries(n); !ok {
		return nil
	}
	var written bytes.Buffer
	n.value.AppendJSON(&written)
	raw, err := document.Canonical(written.Bytes())
	if err == nil {
		_, err = CompileSchema(raw)
	}
	if err != nil {
		p.report(ProblemRange, n, "%s is not a JSON Schema that can be used: %v", n.path, err)
		return nil
	}
	return raw
}
