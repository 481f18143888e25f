package workspace

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/policy/shellguard"
	"github.com/tipstaff/tipstaff/policy/sqlguard"
)

// ParsePolicy reads a policy that has a file of its own: version, guards and
// rules. It reports every problem with its line and column; with any, the policy
// is nil. name is the file's, for the problems.
func ParsePolicy(name string, src []byte) (*policy.Policy, []tipstaff.Problem) {
	var file policyFile
	problems := new(parser).read(name, src, &file)
	if problems == nil && file.Version == 0 {
		problems = []tipstaff.Problem{{Code: document.CodeFieldMissing, File: name, Message: "the policy is empty: it has version, guards and rules"}}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return file.compiled, nil
}

type policyFile struct {
	Version int `doc:"version,min=1,max=1"`
	writtenPolicy
}

// CheckDocument requires a version, which distinguishes a policy from other files.
func (file *policyFile) CheckDocument(f *document.Fields) {
	if f.Get("version") == nil {
		f.Problems.Add(document.CodeFieldMissing, f.Value.At, "", "a policy begins with version: 1")
	}
	file.compile(f)
}

// writtenPolicy is the guards and rules of a document.
type writtenPolicy struct {
	Guards []policy.GuardConfig `doc:"guards"`
	Rules  []policy.Rule        `doc:"rules"`

	compiled *policy.Policy
}

// policy reads the manifest's own, whose guards and rules may stand in a file.
func (p *parser) policy(f *document.Fields, m *Manifest) {
	m.SubDispatch = f.Boolean("sub_dispatch", false)
	m.AutoAccept = f.Boolean("auto_accept", false)
	var w writtenPolicy
	f.Decode(&w)
	v := f.Get("file")
	switch {
	case v == nil:
		w.compile(f)
	case w.Guards != nil || w.Rules != nil:
		f.Report(document.CodeRange, v.At, "file", "%s: guards and rules stand either here or in the file, not in both", f.PathOf("file"))
	case f.Typed("file", document.Text) != nil:
		src, err := p.beside(v.Text)
		if err != nil {
			f.Report(document.CodeRange, v.At, "file", "the policy %s cannot be read: %v", tipstaff.Quote(v.Text, 200), err)
			break
		}
		compiled, problems := ParsePolicy(v.Text, src)
		w.compiled, p.elsewhere = compiled, append(p.elsewhere, problems...)
	}
	if w.compiled != nil {
		m.Policy = w.compiled
	}
}

// compile makes the policy, and gives the problems that it has their places.
func (w *writtenPolicy) compile(f *document.Fields) {
	for i := range w.Guards {
		if f.Value.Find("guards", strconv.Itoa(i), "single") == nil {
			w.Guards[i].Single = true
		}
	}
	for i := range w.Rules {
		if rule := f.Value.Find("rules", strconv.Itoa(i)); rule.Get("do") == nil {
			path := f.PathOf(index("rules", i))
			f.Problems.Add(document.CodeFieldMissing, rule.At, path, "%s needs do: allow, ask or deny", path)
		}
		// An empty condition would make the rule hold always, which is surely not meant.
		if v := f.Value.Find("rules", strconv.Itoa(i), "when"); v != nil && v.Kind == document.Text && v.Text == "" {
			f.Report(CodeRule, v.At, index("rules", i)+".when", "%s.when is empty: leave when out for a rule that always holds", f.PathOf(index("rules", i)))
		}
	}
	compiled, problems := policy.New(policy.Document{Guards: w.Guards, Rules: w.Rules}, sqlguard.Kind, shellguard.Kind)
	for _, x := range problems {
		v, at := f.Value.Find(x.List, strconv.Itoa(x.Index)), index(x.List, x.Index)
		if field := v.Get(x.Field); field != nil {
			v, at = field, at+"."+x.Field
			path := f.PathOf(at)
			if slices.ContainsFunc(*f.Problems, func(p document.Problem) bool { return p.Path == path || strings.HasPrefix(p.Path, path+"[") }) {
				continue // once as a wrong type is enough
			}
		}
		f.Report(CodeRule, v.At, at, "%s", x.Message)
	}
	w.compiled = compiled
}
