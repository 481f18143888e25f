package skill

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

const (
	maxProse       = 256 << 10 // bytes of SKILL.md
	maxDescription = 1024      // characters
)

// readDocument reads SKILL.md: front matter between two lines of three dashes,
// then prose. Of the front matter name and description have a meaning here;
// other members are for other readers of the same convention.
func (s *Skill) readDocument(ps *document.Problems, src []byte) {
	s.document = src
	if p := document.CheckText(src); p != nil {
		*ps = append(*ps, *p)
		return
	}
	front, prose, ok := cutFrontMatter(src)
	if !ok {
		ps.Add(codeFrontMatter, document.Position{Line: 1, Column: 1}, "", "SKILL.md begins with front matter: a line ---, name and description, and a line --- again")
		return
	}
	s.Prose = strings.TrimSpace(string(prose))
	v := readObject(ps, front)
	if v == nil {
		return
	}
	f := document.FieldsOf(ps, v, "")
	f.Dotted = true
	s.checkName(f.Required("name", document.Text), ps)
	s.Description = description(f.Required("description", document.Text), ps)
}

// checkName compares with the manifest's id, if that is one.
func (s *Skill) checkName(v *document.Value, ps *document.Problems) {
	if v != nil && tipstaff.IsSkillID(s.ID) && v.Text != s.ID {
		ps.Add(codeMismatch, v.At, "name", "name is %s, but the id in skill.yaml is %s", tipstaff.Quote(v.Text, 120), tipstaff.Quote(s.ID, 120))
	}
}

func description(v *document.Value, ps *document.Problems) string {
	if v == nil {
		return ""
	}
	switch n := utf8.RuneCountInString(v.Text); {
	case strings.TrimSpace(v.Text) == "":
		ps.Add(document.CodeFieldInvalid, v.At, "description", "the description is blank")
	case n > maxDescription:
		ps.Add(document.CodeFieldInvalid, v.At, "description", "the description has %d characters; at most %d are read", n, maxDescription)
	}
	return strings.Join(strings.Fields(v.Text), " ")
}

// cutFrontMatter splits a text that begins with a line of three dashes at the next
// such line. The front begins with its own, so that lines count as in the file.
func cutFrontMatter(src []byte) (front, rest []byte, ok bool) {
	first, rest := cutLine(src)
	if !isFence(first) {
		return nil, nil, false
	}
	for len(rest) > 0 {
		var line []byte
		end := len(src) - len(rest)
		if line, rest = cutLine(rest); isFence(line) {
			return src[:end], rest, true
		}
	}
	return nil, nil, false
}

func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r")) == "---" }
