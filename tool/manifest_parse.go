package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// Fields that belong to parts of Tipstaff this version does not have.
var laterInManifest = []string{"workers", "roles", "bindings"}

const (
	mostTimeout    = 24 * time.Hour
	mostResult     = 16 << 20
	mostConcurrent = 64
)

// ParseManifest reads tipstaff.yaml. It reports every problem with its line and
// column; with any, the manifest is nil. name is the file's, for the problems. A
// manifest that names other files needs [ParseManifestIn].
func ParseManifest(name string, src []byte) (*Manifest, []tipstaff.Problem) {
	return ParseManifestIn(nil, name, src)
}

// ParseManifestIn is ParseManifest for a manifest beside which other files stand:
// those of dir.
func ParseManifestIn(dir fs.FS, name string, src []byte) (*Manifest, []tipstaff.Problem) {
	p := newManifestParser(name)
	p.dir = dir
	if root, ok := p.document(src); ok && root.value != nil {
		p.credentials(root)
		p.manifest(root)
	}
	if p.problems != nil || p.elsewhere != nil {
		slices.SortStableFunc(p.problems, byPlace)
		return nil, append(p.problems, p.elsewhere...)
	}
	return p.m, nil
}

func newManifestParser(file string) *manifestParser {
	return &manifestParser{
		reader: reader{file: file},
		m: &Manifest{
			AllowedEffects: []flow.Class{flow.Read},
			Servers:        map[string]ServerConfig{},
			Policy:         new(policy.Policy),
			MaxTimeout:     DefaultMaxTimeout,
			CleanPaths:     true,
			Models:         map[string]ModelConfig{},
			Agents:         map[string]AgentConfig{},
			Prompts:        prompts.Default(),
			Serve:          ServeConfig{MaxDriving: DefaultMaxDriving},
		},
	}
}

func byPlace(a, b tipstaff.Problem) int {
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	return a.Column - b.Column
}

type manifestParser struct {
	reader
	m         *Manifest
	dir       fs.FS              // files beside the manifest; nil: none can be read
	elsewhere []tipstaff.Problem // of those files
	timeouts  []timeout          // seen, to be compared with max_timeout
	later     []func()           // checks that need the whole document
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
		"models":        p.models,
		"models_file":   func(v at) { p.m.ModelsFile = p.fileBeside(v) },
		"agents":        p.agents,
		"prompts":       p.prompts,
		"telemetry":     p.telemetry,
		"anchor":        p.anchor,
		"serve":         p.serve,
	}, laterInManifest...)
	for _, check := range p.later {
		check()
	}
	for _, t := range p.timeouts {
		if p.m.MaxTimeout > 0 && t.value > p.m.MaxTimeout {
			p.report(ProblemRange, t.where, "%s is %s: max_timeout is %s", t.where.path, t.value, p.m.MaxTimeout)
		}
	}
}

func (p *manifestParser) tool(n at) ToolConfig {
	var t ToolConfig
	if n.is(document.Null) {
		return t // "read_file:" alone declares the tool with its own hints
	}
	p.object(n, fields{
		"effect":     func(v at) { t.Effect = p.class(v) },
		"timeout":    func(v at) { t.Timeout = p.timeout(v) },
		"max_result": func(v at) { t.MaxResult = p.size(v) },
	})
	return t
}

// reportedAt keeps one fault from being told twice, once as a wrong type and
// once by the policy.
func (p *manifestParser) reportedAt(where at) bool {
	return slices.ContainsFunc(p.problems, func(q tipstaff.Problem) bool {
		return q.Path == where.path || strings.HasPrefix(q.Path, where.path+".")
	})
}

func (p *manifestParser) bounds(n at) {
	list, _ := p.entries(n)
	b := tipstaff.Bounds{}
	for _, e := range list {
		limit, err := tipstaff.ParseBound(e.name, scalar(e.value))
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

// scalar is a value as a bound is parsed from it.
func scalar(n at) any {
	switch n.value.Kind {
	case document.Text:
		return n.value.Text
	case document.Number:
		return json.Number(n.value.Text)
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
	if n.is(document.Text) {
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
	text := n.value.Text
	if !n.is(document.Number) {
		var ok bool
		if text, ok = p.text(n); !ok {
			return 0
		}
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
