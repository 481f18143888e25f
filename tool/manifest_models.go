package tool

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/docs/prompts"
)

var (
	modelForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$`) // a name in the manifest
	caches      = []string{"off", "5m", "1h"}
	ofScripted  = []string{"provider", "model", "script", "context_window"}
	mostContext = int64(100_000_000) // tokens
)

func (p *manifestParser) models(n at) {
	list, _ := p.entries(n)
	for _, e := range list {
		if !modelForm.MatchString(e.name) {
			p.report(ProblemField, e.key, "%s cannot name a model: 1 to 64 of A-Z, a-z, 0-9, _, ., : and -, beginning with a letter or digit", tipstaff.Quote(e.name, 100))
			continue
		}
		p.m.Models[e.name] = p.model(e.value)
	}
}

func (p *manifestParser) model(n at) ModelConfig {
	var c ModelConfig
	where := p.placed(n, fields{
		"provider":       func(v at) { c.Provider = p.checked(v, checkProvider) },
		"model":          func(v at) { c.Model = p.reference(v) },
		"api_key":        func(v at) { c.APIKey = p.key(v) },
		"base_url":       func(v at) { c.BaseURL = p.reference(v) },
		"allow_http":     func(v at) { c.AllowHTTP = p.boolean(v) },
		"context_window": func(v at) { c.ContextWindow = int(p.integer(v, 1024, mostContext)) },
		"cache":          func(v at) { c.Cache = p.oneOf(v, caches...) },
		"script":         func(v at) { c.Script = p.fileBeside(v) },
	})
	if given, ok := where["base_url"]; ok {
		p.baseURL(given, c)
	}
	p.fits(n, c, where)
	return c
}

// baseURL looks at an address that is written out. One with a reference is looked
// at when it is known.
func (p *manifestParser) baseURL(n at, c ModelConfig) {
	if c.BaseURL == "" || len(referencesIn(c.BaseURL)) > 0 {
		return
	}
	if err := checkBaseURL(c.BaseURL, c.AllowHTTP); err != nil {
		p.report(ProblemRange, n, "%s: %v; for http to another machine say allow_http: true", n.path, err)
	}
	p.urlCredential(n, c.BaseURL)
}

// fits: which fields a model needs, and which it may not have, depends on its
// provider.
func (p *manifestParser) fits(n at, c ModelConfig, where map[string]at) {
	missing := func(field, why string) {
		if _, given := where[field]; !given {
			p.report(ProblemMissing, n, "%s needs %s%s", n.path, field, why)
		}
	}
	missing("provider", ": anthropic, openai or scripted")
	switch c.Provider {
	case ProviderScripted:
		missing("script", ": the file that holds its answers")
		for _, field := range sortedKeys(where) {
			if field != "" && !slices.Contains(ofScripted, field) {
				p.report(ProblemField, where[field], "%s: a scripted model is asked of nobody: it has no %s", n.path, field)
			}
		}
	case ProviderAnthropic, ProviderOpenAI:
		missing("model", ", as the vendor calls it")
		if _, elsewhere := where["base_url"]; !elsewhere {
			missing("api_key", ", as $env:NAME")
		}
		if given, ok := where["script"]; ok {
			p.report(ProblemField, given, "%s: script goes with provider: scripted", n.path)
		}
		if given, ok := where["cache"]; ok && c.Provider != ProviderAnthropic {
			p.report(ProblemField, given, "%s: cache goes with provider: anthropic; others decide themselves", n.path)
		}
	}
}

// reference is a text in which references may stand.
func (p *manifestParser) reference(n at) string {
	s, ok := p.text(n)
	if !ok {
		return ""
	}
	_, err := parseReferences(s)
	switch {
	case err != nil:
		p.report(ProblemRange, n, "%s: %v", n.path, err)
		return ""
	case foreignReference(s) != "":
		p.foreign(n, s)
		return ""
	case s == "" || strings.ContainsAny(s, "\x00\r\n\t "):
		p.report(ProblemRange, n, "%s is empty, or has a blank", n.path)
		return ""
	}
	return s
}

func (p *manifestParser) key(n at) string {
	s := p.reference(n)
	if s != "" && len(referencesIn(s)) == 0 {
		p.literal(n)
		return ""
	}
	return s
}

// oneOf is a text of a few.
func (p *manifestParser) oneOf(n at, known ...string) string {
	return p.checked(n, func(s string) error {
		if slices.Contains(known, s) {
			return nil
		}
		last := len(known) - 1
		return fmt.Errorf("%s is %s: %s or %s is possible", n.path, tipstaff.Quote(s, 100), strings.Join(known[:last], ", "), known[last])
	})
}

// fileBeside reads a file that the manifest names.
func (p *manifestParser) fileBeside(n at) File {
	name, ok := p.text(n)
	if !ok {
		return File{}
	}
	src, err := p.beside(name)
	switch {
	case err != nil:
		p.report(ProblemRange, n, "%s: the file %s cannot be read: %v", n.path, tipstaff.Quote(name, 200), err)
		return File{}
	case len(src) > maxDocument:
		p.report(ProblemLimit, n, "%s: the file %s has %d bytes: %d are the most", n.path, tipstaff.Quote(name, 200), len(src), maxDocument)
		return File{}
	case !utf8.Valid(src):
		p.report(ProblemRange, n, "%s: the file %s is not UTF-8", n.path, tipstaff.Quote(name, 200))
		return File{}
	}
	p.credential(n, string(src))
	return File{Name: name, Digest: digestOf(src), Text: string(src)}
}

// prompts reads the folder that replaces prompts.
func (p *manifestParser) prompts(n at) {
	name, ok := p.text(n)
	if !ok {
		return
	}
	name = path.Clean(cmp.Or(name, "."))
	if p.dir == nil || !fs.ValidPath(name) {
		_, err := p.beside(name)
		p.report(ProblemRange, n, "%s: the folder %s cannot be read: %v", n.path, tipstaff.Quote(name, 200), err)
		return
	}
	if name != "." { // what is new there is read, too
		p.m.obeys = append(p.m.obeys, name)
	}
	for _, prompt := range prompts.Names() {
		p.m.obeys = append(p.m.obeys, path.Join(name, string(prompt)))
	}
	folder, err := fs.Sub(p.dir, name)
	if err == nil {
		var set prompts.Set
		if set, err = prompts.Default().Override(folder); err == nil {
			p.replaced(n, name, set)
			return
		}
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		p.report(ProblemRange, n, "%s: %s: %s", n.path, name, line)
	}
}

func (p *manifestParser) replaced(n at, folder string, set prompts.Set) {
	for _, name := range prompts.Names() {
		p.credential(n, set.Text(name))
	}
	if set.Toolkits != p.m.Prompts.Toolkits {
		_, problems := ParseToolkits(path.Join(folder, string(prompts.Toolkits)), []byte(set.Toolkits))
		p.elsewhere = append(p.elsewhere, problems...)
	}
	p.m.Prompts = set
}

func (p *manifestParser) telemetry(n at) {
	p.object(n, fields{
		"content": func(v at) { p.m.Telemetry.Content = p.boolean(v) },
		"otlp":    p.otlp,
	})
}

// anchor names the file that where runs come to rest is written to. It is of use only
// outside the store.
func (p *manifestParser) anchor(n at) {
	where := p.placed(n, fields{"file": func(v at) { p.m.Anchor, _ = p.text(v) }})
	given, ok := where["file"]
	switch name := path.Clean(filepath.ToSlash(p.m.Anchor)); {
	case !ok:
		p.report(ProblemMissing, n, "%s needs file, the name of the file that anchors are written to", n.path)
	case strings.TrimSpace(p.m.Anchor) == "" && !p.reportedAt(given):
		p.report(ProblemRange, given, "%s is empty: it is the name of the file that anchors are written to", given.path)
	case slices.Contains(strings.Split(name, "/"), ".tipstaff"):
		p.report(ProblemRange, given, "%s lies in .tipstaff: whoever changes the store could change it too", given.path)
	}
}

func (p *manifestParser) otlp(n at) {
	t, allowHTTP := &p.m.Telemetry, false
	where := p.placed(n, fields{
		"endpoint":   func(v at) { t.Endpoint, _ = p.text(v) },
		"headers":    func(v at) { t.Headers = p.values(v, checkHeader) },
		"allow_http": func(v at) { allowHTTP = p.boolean(v) },
	})
	given, ok := where["endpoint"]
	if !ok {
		p.report(ProblemMissing, n, "%s needs endpoint, the address of a collector", n.path)
		return
	}
	if err := checkBaseURL(t.Endpoint, allowHTTP); err != nil && !p.reportedAt(given) {
		p.report(ProblemRange, given, "%s: %v; for http to another machine say allow_http: true", given.path, err)
	}
	p.urlCredential(given, t.Endpoint)
}
