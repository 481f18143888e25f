package file

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// test is one matcher of an entry.
type test struct {
	name  string
	want  string
	have  func(*situation) string
	holds func(*situation) bool
}

// situation is what matchers see of a request.
type situation struct {
	request *agent.Request
	turn    int     // user messages so far
	step    int     // assistant messages since the last of them, plus one
	user    *string // the last message; nil: none
	result  *string // the last result since then; nil: none
}

func newSituation(r *agent.Request) *situation {
	s := &situation{request: r, step: 1}
	for _, m := range r.Messages {
		switch m.Role {
		case agent.User:
			s.turn, s.step, s.user, s.result = s.turn+1, 1, &m.Text, nil
		case agent.Assistant:
			s.step++
		case agent.FromTool:
			text := contentText(m.Content)
			s.result = &text
		}
	}
	return s
}

func contentText(content []agent.Content) string {
	var lines []string
	for _, c := range content {
		if c.Type == agent.ContentText {
			lines = append(lines, c.Text)
		}
	}
	return strings.Join(lines, "\n")
}

func (s *situation) offered(pattern string) bool {
	for _, o := range s.request.Tools {
		if globs(pattern, o.Tool) {
			return true
		}
	}
	return false
}

func (s *situation) offers() string {
	var names []string
	for _, o := range s.request.Tools {
		names = append(names, o.Tool)
	}
	if names == nil {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// CodeExhausted is the code of a request that no answer of a script fits.
const CodeExhausted = "script_exhausted"

// Find is the first entry that answers the request. Its error names the nearest.
func (s *Script) Find(r *agent.Request) (*Answer, error) {
	at := newSituation(r)
	nearest, fewest := "", -1
	for i := range s.answers {
		a := &s.answers[i]
		missed := a.missed(at)
		if len(missed) == 0 {
			return a, nil
		}
		if fewest < 0 || len(missed) < fewest {
			fewest = len(missed)
			nearest = fmt.Sprintf("answers[%d], whose %s", i, missed[0])
		}
	}
	if nearest == "" {
		nearest = "nothing, for the script is empty"
	}
	return nil, &flow.Error{Code: CodeExhausted, Answered: true, Message: fmt.Sprintf(
		"%s has no answer for %s (turn %d, step %d, attempt %d): the nearest is %s", s.name, r.Path, at.turn, at.step, r.Attempt, nearest)}
}

// missed says which matchers do not hold.
func (a *Answer) missed(s *situation) (missed []string) {
	if a.place > 0 && a.place != s.step {
		missed = append(missed, fmt.Sprintf("place among entries without when is for step %d, and this is %d", a.place, s.step))
	}
	for _, t := range a.tests {
		if !t.holds(s) {
			missed = append(missed, fmt.Sprintf("%s is %s, and here is %s", t.name, t.want, t.have(s)))
		}
	}
	return missed
}

// shown is a text as messages show it.
func shown(text *string) string {
	const most = 80
	switch {
	case text == nil:
		return "none"
	case len(*text) > most:
		return fmt.Sprintf("%q…", strings.ToValidUTF8((*text)[:most], ""))
	}
	return fmt.Sprintf("%q", *text)
}

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
		r.Report(problemRule, r.Get(name).At, name, "%q is not a pattern: %v", document.Brief(want), err)
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
