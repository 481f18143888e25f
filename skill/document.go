package skill

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	maxProse       = 256 << 10 // bytes of SKILL.md
	maxDescription = 1024      // characters
)

// readDocument reads SKILL.md: front matter between two lines of three dashes,
// then prose. Of the front matter name and description have a meaning here;
// other members are for other readers of the same convention.
func (s *Skill) readDocument(ps *problems, src []byte) {
	s.document = src
	if at, message := refuseText(src); message != "" {
		ps.add(codeSyntax, at, "", "%s", message)
		return
	}
	front, prose, ok := cutFrontMatter(src)
	if !ok {
		ps.add(codeFrontMatter, position{1, 1}, "", "SKILL.md begins with front matter: a line ---, name and description, and a line --- again")
		return
	}
	s.Prose = strings.TrimSpace(string(prose))
	v := readYAML(ps, front, 2)
	if v == nil {
		return
	}
	f := fieldsOf(ps, v, "")
	s.checkName(f.need("name", text), ps)
	s.Description = description(f.need("description", text), ps)
}

// checkName compares with the manifest's id, if that is one.
func (s *Skill) checkName(v *value, ps *problems) {
	if v != nil && validID(s.ID) && v.text != s.ID {
		ps.add(codeMismatch, v.at, "name", "name is %s, but the id in skill.yaml is %s", quoted(v.text), quoted(s.ID))
	}
}

func description(v *value, ps *problems) string {
	if v == nil {
		return ""
	}
	switch n := utf8.RuneCountInString(v.text); {
	case strings.TrimSpace(v.text) == "":
		ps.add(codeFieldInvalid, v.at, "description", "the description is blank")
	case n > maxDescription:
		ps.add(codeFieldInvalid, v.at, "description", "the description has %d characters; at most %d are read", n, maxDescription)
	}
	return strings.Join(strings.Fields(v.text), " ")
}

// cutFrontMatter splits a document that begins with a line of three dashes at
// the next such line.
func cutFrontMatter(src []byte) (front, rest []byte, ok bool) {
	first, after := cutLine(src)
	if !isFence(first) {
		return nil, nil, false
	}
	for rest = after; len(rest) > 0; {
		var line []byte
		begin := len(after) - len(rest)
		if line, rest = cutLine(rest); isFence(line) {
			return after[:begin], rest, true
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
