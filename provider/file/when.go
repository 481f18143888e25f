package file

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/document"
)

// whenReader makes a test of each matcher that is given.
type whenReader struct {
	*document.Fields
	tests []test
}

// readTests reads when, in the order of the documentation.
func readTests(f *document.Fields) []test {
	r := &whenReader{Fields: f}
	r.equal("purpose", func(s *situation) string { return s.request.Purpose })
	r.equal("agent", func(s *situation) string { return s.request.Agent })
	r.glob("path", func(s *situation) string { return s.request.Path }, func(s *situation, pattern string) bool { return globs(pattern, s.request.Path) })
	r.number("turn", func(s *situation) int { return s.turn })
	r.number("step", func(s *situation) int { return s.step })
	r.number("attempt", func(s *situation) int { return s.request.Attempt })
	r.pattern("user", func(s *situation) *string { return s.user })
	r.pattern("system", func(s *situation) *string { return &s.request.System })
	r.pattern("result", func(s *situation) *string { return s.result })
	r.glob("offered", (*situation).offers, (*situation).offered)
	if v := f.Get("offered"); v != nil && v.Kind == document.Text && strings.Count(v.Text, "/") != 1 {
		f.Report(problemRule, v.At, "offered", `%q is not server/tool with exactly one "/"`, document.Brief(v.Text))
	}
	return r.tests
}

// equal adds a test that a text equals the field. An empty field tests nothing.
func (r *whenReader) equal(name string, have func(*situation) string) {
	if want := r.Text(name); want != "" {
		r.tests = append(r.tests, test{name, want, have, func(s *situation) bool { return have(s) == want }})
	}
}

// glob adds a test that the pattern in the field matches.
func (r *whenReader) glob(name string, have func(*situation) string, fits func(*situation, string) bool) {
	want := r.Text(name)
	if want == "" {
		return
	}
	if _, err := path.Match(want, ""); err != nil {
		r.Report(problemRule, r.Get(name).At, name, "%q is no pattern: %v", document.Brief(want), err)
		return
	}
	r.tests = append(r.tests, test{name, want, have, func(s *situation) bool { return fits(s, want) }})
}

// number adds a test that a count, which starts at 1, equals the field.
func (r *whenReader) number(name string, have func(*situation) int) {
	if r.Typed(name, document.Number) == nil {
		return
	}
	want := int(r.Integer(name, 0, 1, 1e9))
	r.tests = append(r.tests, test{name, strconv.Itoa(want), func(s *situation) string { return strconv.Itoa(have(s)) },
		func(s *situation) bool { return have(s) == want }})
}

// pattern adds a test that there is a text in which the expression is found.
func (r *whenReader) pattern(name string, have func(*situation) *string) {
	v := r.Typed(name, document.Text)
	if v == nil {
		return
	}
	re, err := regexp.Compile(v.Text)
	if err != nil {
		r.Report(problemRule, v.At, name, "%v", err)
		return
	}
	r.tests = append(r.tests, test{name, "/" + v.Text + "/", func(s *situation) string { return shown(have(s)) },
		func(s *situation) bool { text := have(s); return text != nil && re.MatchString(*text) }})
}

func globs(pattern, name string) bool {
	ok, _ := path.Match(pattern, name) // the pattern was checked
	return ok
}
