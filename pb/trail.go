package pb

import (
	"regexp"
	"strconv"
	"strings"
)

// FieldError is a value that cannot be taken, and where it stands:
// outputs.critic.findings[2].
type FieldError struct {
	Path    string // "": the whole value
	Message string
}

func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// trail leads to the value that is looked at. It is put into words only where one is
// at fault.
type trail []step

// step goes to a member or, without a name, to an element. A member may be called
// "", so what tells the two apart is index: -1 for a member.
type step struct {
	name  string
	index int
}

func (t *trail) member(name string) { *t = append(*t, step{name, -1}) }
func (t *trail) element(i int)      { *t = append(*t, step{"", i}) }
func (t *trail) back()              { *t = (*t)[:len(*t)-1] }

func (t trail) fault(message string) error {
	return &FieldError{Path: t.String(), Message: message}
}

func (t trail) String() string {
	var b strings.Builder
	for _, s := range t {
		text := s.String()
		if b.Len() > 0 && text[0] != '[' {
			b.WriteByte('.')
		}
		b.WriteString(text)
	}
	return b.String()
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func (s step) String() string {
	switch {
	case s.index >= 0:
		return "[" + strconv.Itoa(s.index) + "]"
	case plainName.MatchString(s.name):
		return s.name
	}
	return "[" + strconv.Quote(s.name) + "]"
}
