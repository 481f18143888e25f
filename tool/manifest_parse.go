package tool

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// Fields that belong to parts of Tipstaff this version does not have.
var (
	laterInManifest = []string{"anchor", "serve", "models", "models_file", "agents", "prompts", "telemetry", "workers", "roles", "bindings"}
	laterInPolicy   = []string{"guards", "file"}
	laterInRule     = []string{"when"}
)

const (
	mostTimeout    = 24 * time.Hour
	mostResult     = 16 << 20
	mostConcurrent = 64
)

// ParseManifest reads tipstaff.yaml. It reports every problem with its line and
// column; with any, the manifest is nil. name is the file's, for the problems.
func ParseManifest(name string, src []byte) (*Manifest, []tipstaff.Problem) {
	p := &manifestParser{
		reader: reader{file: name},
		m: &Manifest{
			AllowedEffects: []flow.Class{flow.Read},
			Servers:        map[string]ServerConfig{},
			Policy:         new(policy.Policy),
			MaxTimeout:     DefaultMaxTimeout,
		},
	}
	if root, ok := p.document(src); ok && root.node != nil {
		p.credentials(root)
		p.manifest(root)
	}
	if p.problems != nil {
		slices.SortStableFunc(p.problems, byPlace)
		return nil, p.problems
	}
	return p.m, nil
}

func byPlace(a, b tipstaff.Problem) int {
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	return a.Column - b.Column
}

type manifestParser struct {
	reader
	m        *Manifest
	timeouts []timeout // seen, to be compared with max_timeout
}

type timeout struct {
	where at
	value time.Duration
}

func (p *manifestParser) manifest(n at) {
	p.object(n, fields{
		"version": func(v at) { p.integer(v, 1, 1) },
		"allowed_effects": func(v at) {
			p.m.AllowedEffects = p.classes(v)
		},
		"servers":       p.servers,
		"policy":        p.policy,
		"bounds":        p.bounds,
		"max_timeout":   func(v at) { p.m.MaxTimeout = p.duration(v, mostTimeout) },
		"default_skill": func(v at) { p.m.DefaultSkill, _ = p.text(v) },
	}, laterInManifest...)
	for _, t := range p.timeouts {
		if p.m.MaxTimeout > 0 && t.value > p.m.MaxTimeout {
			p.report(ProblemRange, t.where, "%s is %s: max_timeout is %s", t.where.path, t.value, p.m.MaxTimeout)
		}
	}
}

func (p *manifestParser) tool(n at) ToolConfig {
	var t ToolConfig
	if _, empty := n.node.(*ast.NullNode); empty {
		return t // "read_file:" alone declares the tool with its own hints
	}
	p.object(n, fields{
		"effect":     func(v at) { t.Effect = p.class(v) },
		"timeout":    func(v at) { t.Timeout = p.timeout(v) },
		"max_result": func(v at) { t.MaxResult = p.size(v) },
	})
	return t
}

func (p *manifestParser) policy(n at) {
	p.object(n, fields{
		"rules":        p.rules,
		"sub_dispatch": func(v at) { p.m.SubDispatch = p.boolean(v) },
		"auto_accept":  func(v at) { p.m.AutoAccept = p.boolean(v) },
	}, laterInPolicy...)
}

func (p *manifestParser) rules(n at) {
	var rules []policy.Rule
	var places []map[string]at
	p.list(n, func(_ int, item at) {
		r, where := p.rule(item)
		rules = append(rules, r)
		places = append(places, where)
	})
	compiled, problems := policy.New(rules)
	for _, problem := range problems {
		where, given := places[problem.Rule][problem.Field]
		if !given {
			where = places[problem.Rule][""]
		}
		if !given || !p.reportedAt(where) {
			p.report(ProblemRule, where, "%s", problem.Message)
		}
	}
	if problems == nil {
		p.m.Policy = compiled
	}
}

// rule reads one rule and where its fields stand, "" being the rule itself.
func (p *manifestParser) rule(n at) (policy.Rule, map[string]at) {
	var r policy.Rule
	where := map[string]at{"": n}
	field := func(name string, read func(at)) func(at) {
		return func(v at) { where[name] = v; read(v) }
	}
	p.object(n, fields{
		"id":     field("id", func(v at) { r.ID, _ = p.text(v) }),
		"tool":   field("tool", func(v at) { r.Tool, _ = p.text(v) }),
		"effect": field("effect", func(v at) { r.Effect = p.classes(v) }),
		"do":     field("do", func(v at) { r.Do = p.action(v) }),
		"why":    field("why", func(v at) { r.Why, _ = p.text(v) }),
	}, laterInRule...)
	if _, ok := where["do"]; !ok {
		p.report(ProblemMissing, n, "%s needs do: allow, ask or deny", n.path)
	}
	return r, where
}

// reportedAt keeps one fault from being told twice, once as a wrong type and
// once by the policy.
func (p *manifestParser) reportedAt(where at) bool {
	return slices.ContainsFunc(p.problems, func(q tipstaff.Problem) bool {
		return q.Path == where.path || strings.HasPrefix(q.Path, where.path+".")
	})
}

func (p *manifestParser) action(n at) policy.Action {
	s, ok := p.text(n)
	if !ok {
		return policy.Deny
	}
	a, err := policy.ParseAction(s)
	if err != nil {
		p.report(ProblemRule, n, "%v", err)
	}
	return a
}

func (p *manifestParser) bounds(n at) {
	list, _ := p.entries(n)
	b := tipstaff.Bounds{}
	for _, e := range list {
		limit, err := tipstaff.ParseBound(e.name, scalar(e.value.node))
		var wrong *tipstaff.BoundError
		if errors.As(err, &wrong) {
			where := e.value
			if wrong.Code == ProblemField {
				where = e.key
			}
			p.report(wrong.Code, where, "bounds.%s: %s", wrong.Name, wrong.Message)
			continue
		}
		b[e.name] = limit
	}
	p.m.Bounds = b
}

// scalar is a node's value as a bound is parsed from it.
func scalar(n ast.Node) any {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	}
	return describe(n)
}

func (p *manifestParser) class(n at) flow.Class {
	s, ok := p.text(n)
	if !ok {
		return ""
	}
	switch c := flow.Class(s); c {
	case flow.Read, flow.Idempotent, flow.Once:
		return c
	}
	p.report(ProblemRange, n, "%q is not an effect class: use read, idempotent or once", s)
	return ""
}

// classes reads one class or a list of them.
func (p *manifestParser) classes(n at) []flow.Class {
	if _, one := n.node.(*ast.StringNode); one {
		return []flow.Class{p.class(n)}
	}
	list := []flow.Class{}
	p.list(n, func(_ int, item at) {
		c := p.class(item)
		if c != "" && slices.Contains(list, c) {
			p.report(ProblemDuplicate, item, "%q stands twice", string(c))
		}
		list = append(list, c)
	})
	return list
}

func (p *manifestParser) timeout(n at) time.Duration {
	d := p.duration(n, mostTimeout)
	p.timeouts = append(p.timeouts, timeout{n, d})
	return d
}

func (p *manifestParser) duration(n at, most time.Duration) time.Duration {
	s, ok := p.text(n)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		p.report(ProblemType, n, "%q is not a duration like 90s, 10m or 1h30m", s)
		return 0
	}
	if d < time.Millisecond || d > most {
		p.report(ProblemRange, n, "%s is %s: 1ms to %s is possible", n.path, d, most)
		return 0
	}
	return d
}

var sizeForm = regexp.MustCompile(`^([1-9][0-9]{0,9})(B|KiB|MiB)?$`)

// size reads an amount of bytes: 65536, 64KiB, 1MiB.
func (p *manifestParser) size(n at) int64 {
	text := ""
	switch node := n.node.(type) {
	case *ast.IntegerNode:
		text = node.Token.Value
	default:
		s, ok := p.text(n)
		if !ok {
			return 0
		}
		text = s
	}
	parts := sizeForm.FindStringSubmatch(text)
	if parts == nil {
		p.report(ProblemType, n, "%q is not a size like 65536, 64KiB or 1MiB", text)
		return 0
	}
	bytes, _ := strconv.ParseInt(parts[1], 10, 64)
	bytes <<= map[string]int{"KiB": 10, "MiB": 20}[parts[2]]
	if bytes > mostResult {
		p.report(ProblemRange, n, "%s is %s: 16MiB is the most", n.path, text)
		return 0
	}
	return bytes
}

// each reads a list of texts and checks every one.
func (p *manifestParser) each(n at, check func(string) error) []string {
	list := []string{}
	p.list(n, func(_ int, item at) {
		s, ok := p.text(item)
		if !ok {
			return
		}
		if err := check(s); err != nil {
			p.report(ProblemRange, item, "%v", err)
			return
		}
		list = append(list, s)
	})
	return list
}

func checkRoot(s string) error {
	if s == "" || strings.ContainsRune(s, 0) {
		return fmt.Errorf("%q is not a folder", s)
	}
	return nil
}

func checkProgram(s string) error {
	if s == "" || strings.ContainsAny(s, "\x00\n") {
		return fmt.Errorf("%q is not a program", s)
	}
	if strings.ContainsAny(s, " \t") {
		return fmt.Errorf("%q has a blank: list the program alone, its arguments come with the call", s)
	}
	return nil
}

var hostForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

func checkHost(s string) error {
	if _, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return nil
	}
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil && !strings.Contains(s, "/") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q has no possible port", s)
		}
		if _, err := netip.ParseAddr(h); err == nil {
			return nil
		}
		host = h
	}
	if len(host) > 253 || !hostForm.MatchString(strings.ToLower(host)) {
		return fmt.Errorf("%q is not a host: write a name or an address, with or without a port, like api.example.com or 127.0.0.1:8080", s)
	}
	return nil
}

// sortedKeys are the names of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
