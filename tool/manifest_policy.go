package tool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/policy"
)

// ParsePolicy reads a policy that has a file of its own: version, guards and
// rules. It reports every problem with its line and column; with any, the policy
// is nil. name is the file's, for the problems.
func ParsePolicy(name string, src []byte) (*policy.Policy, []tipstaff.Problem) {
	p := newManifestParser(name)
	root, ok := p.document(src)
	switch {
	case !ok:
	case root.value == nil:
		p.report(ProblemMissing, root, "the policy is empty: it has version, guards and rules")
	default:
		p.credentials(root)
		p.policyDocument(root)
	}
	if p.problems != nil {
		slices.SortStableFunc(p.problems, byPlace)
		return nil, p.problems
	}
	return p.m.Policy, nil
}

func (p *manifestParser) policyDocument(n at) {
	w := writtenPolicy{parser: p}
	known := w.fields()
	version := false
	known["version"] = func(v at) { version = true; p.integer(v, 1, 1) }
	p.object(n, known)
	if !version {
		p.report(ProblemMissing, n, "a policy begins with version: 1")
	}
	w.compile()
}

// policy reads the manifest's own, whose guards and rules may stand in a file.
func (p *manifestParser) policy(n at) {
	w := writtenPolicy{parser: p}
	known := w.fields()
	known["sub_dispatch"] = func(v at) { p.m.SubDispatch = p.boolean(v) }
	known["auto_accept"] = func(v at) { p.m.AutoAccept = p.boolean(v) }
	known["file"] = func(v at) { w.file = v }
	p.object(n, known)
	switch {
	case w.file.value == nil:
		w.compile()
	case w.places != nil:
		p.report(ProblemRange, w.file, "%s: guards and rules stand either here or in the file, not in both", w.file.path)
	default:
		p.policyFile(w.file)
	}
}

func (p *manifestParser) policyFile(n at) {
	name, ok := p.text(n)
	if !ok {
		return
	}
	src, err := p.beside(name)
	if err != nil {
		p.report(ProblemRange, n, "the policy %s cannot be read: %v", tipstaff.Quote(name, 200), err)
		return
	}
	compiled, problems := ParsePolicy(name, src)
	if problems == nil {
		p.m.Policy = compiled
	}
	p.elsewhere = append(p.elsewhere, problems...)
}

// beside reads a file that the manifest names, relative to its own folder.
func (p *manifestParser) beside(name string) ([]byte, error) {
	switch {
	case p.dir == nil:
		return nil, errors.New("this manifest was given without the files beside it")
	case !fs.ValidPath(name) || name == ".":
		return nil, errors.New("only files in the folder of the manifest can be named, without . and .. in their path")
	}
	p.m.obeys = append(p.m.obeys, name)
	src, err := fs.ReadFile(p.dir, name)
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return nil, failed.Err // the path is in the message already
	}
	return src, err
}

// Beside is the files of a manifest's folder. A link that leads out of it is not
// followed: what is obeyed stands where the manifest does, and is reviewed with it.
func Beside(folder string) fs.FS { return beside(folder) }

type beside string

// Open implements fs.FS.
func (dir beside) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := os.OpenInRoot(string(dir), filepath.FromSlash(name))
	if err == nil {
		return f, nil
	}
	if real, rerr := filepath.EvalSymlinks(filepath.Join(string(dir), filepath.FromSlash(name))); rerr == nil {
		home, herr := filepath.EvalSymlinks(string(dir))
		if rel, lerr := filepath.Rel(home, real); herr == nil && (lerr != nil || !filepath.IsLocal(rel)) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("it is a link that leads out of the folder of the manifest: put the file itself there")}
		}
	}
	return nil, err
}

// writtenPolicy is the guards and rules of a document, and where they stand.
type writtenPolicy struct {
	parser *manifestParser
	doc    policy.Document
	places map[string][]map[string]at // by list: of each entry its fields, "" being the entry itself
	file   at                         // that holds them instead; zero: none
}

func (w *writtenPolicy) fields() fields {
	return fields{
		policy.InGuards: func(v at) {
			w.entries(policy.InGuards, v, func(n at) map[string]at {
				g, where := w.parser.guard(n)
				w.doc.Guards = append(w.doc.Guards, g)
				return where
			})
		},
		policy.InRules: func(v at) {
			w.entries(policy.InRules, v, func(n at) map[string]at {
				r, where := w.parser.rule(n)
				w.doc.Rules = append(w.doc.Rules, r)
				return where
			})
		},
	}
}

func (w *writtenPolicy) entries(list string, n at, read func(at) map[string]at) {
	if w.places == nil {
		w.places = map[string][]map[string]at{}
	}
	w.parser.list(n, func(_ int, item at) { w.places[list] = append(w.places[list], read(item)) })
}

// compile makes the policy, and gives the problems that it has their places.
func (w *writtenPolicy) compile() {
	compiled, problems := policy.New(w.doc)
	for _, x := range problems {
		entry := w.places[x.List][x.Index]
		where, given := entry[x.Field]
		if !given {
			where = entry[""]
		}
		if !given || !w.parser.reportedAt(where) {
			w.parser.report(ProblemRule, where, "%s", x.Message)
		}
	}
	if problems == nil {
		w.parser.m.Policy = compiled
	}
}

// placed reads the fields of an entry and notes where each stands.
func (p *manifestParser) placed(n at, known fields) map[string]at {
	where := map[string]at{"": n}
	for name, read := range known {
		known[name] = func(v at) { where[name] = v; read(v) }
	}
	p.object(n, known)
	return where
}

func (p *manifestParser) rule(n at) (policy.Rule, map[string]at) {
	var r policy.Rule
	where := p.placed(n, fields{
		"id":     func(v at) { r.ID, _ = p.text(v) },
		"tool":   func(v at) { r.Tool, _ = p.text(v) },
		"effect": func(v at) { r.Effect = p.classes(v) },
		"when":   func(v at) { r.When = p.condition(v) },
		"do":     func(v at) { r.Do = p.action(v) },
		"why":    func(v at) { r.Why, _ = p.text(v) },
	})
	if _, ok := where["do"]; !ok {
		p.report(ProblemMissing, n, "%s needs do: allow, ask or deny", n.path)
	}
	return r, where
}

// condition: an empty one would make the rule hold always, which nobody means who
// writes when.
func (p *manifestParser) condition(n at) string {
	s, ok := p.text(n)
	if ok && s == "" {
		p.report(ProblemRule, n, "%s is empty: leave when out for a rule that always holds", n.path)
	}
	return s
}

func (p *manifestParser) guard(n at) (policy.GuardConfig, map[string]at) {
	g := policy.GuardConfig{Single: true}
	where := p.placed(n, fields{
		"id":      func(v at) { g.ID, _ = p.text(v) },
		"use":     func(v at) { g.Use, _ = p.text(v) },
		"tool":    func(v at) { g.Tool, _ = p.text(v) },
		"arg":     func(v at) { g.Arg, _ = p.text(v) },
		"dialect": func(v at) { g.Dialect, _ = p.text(v) },
		"functions": func(v at) {
			p.list(v, func(_ int, item at) {
				if name, ok := p.text(item); ok {
					g.Functions = append(g.Functions, name)
				}
			})
		},
		"single": func(v at) { g.Single = p.boolean(v) },
	})
	return g, where
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
