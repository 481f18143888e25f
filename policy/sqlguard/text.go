package sqlguard

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSQLDepth is how deep brackets may nest. The parsers need time that grows with
// the square of it.
const maxSQLDepth = 100

// sqlLexis is how the characters of a dialect are read.
type sqlLexis struct {
	backticks  bool // `name`
	hash       bool // # begins a comment
	dashSpace  bool // -- begins a comment only before a space; else it is two minus signs
	noPrefixes bool // nothing may stand directly before a quote: the parser would take E'…' for its own
	maxName    int  // the parser cuts names off after so many bytes, the server does not; 0: neither, or both
	marks      string
}

// sqlText is a text whose quotes, comments and borders of statements every reader
// sees alike.
type sqlText struct {
	whole      string
	statements []sqlStatement // without empty ones
}

type sqlStatement struct {
	first string // the first word, in lower case
	bare  bool   // words, names, strings and dots alone
}

// kind is what a statement is called when no rule says it.
func (t sqlStatement) kind() string {
	if t.first == "desc" {
		return "describe"
	}
	return t.first
}

// sqlScan walks over a text and gives up at the first character that could be read
// in two ways: by another mode of the server, by another version, or by a parser
// that is not quite the server's. It is much narrower than any dialect.
type sqlScan struct {
	sqlLexis
	rest  string
	last  byte // the byte before rest, 0 at the beginning
	depth int
	text  sqlText
	open  bool // the last statement has begun
}

func scanSQL(sql string, lexis sqlLexis) (*sqlText, error) {
	if err := plainRunes(sql); err != nil {
		return nil, err
	}
	s := sqlScan{sqlLexis: lexis, rest: sql, text: sqlText{whole: sql}}
	for s.rest != "" {
		if err := s.token(); err != nil {
			return nil, err
		}
	}
	return &s.text, nil
}

// plainRunes refuses characters that one reader takes for space and another does
// not, and those that stand for bytes that were no text.
func plainRunes(s string) error {
	for _, r := range s {
		switch {
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
		case r == utf8.RuneError:
			return errors.New("the text is not valid UTF-8")
		case unicode.IsControl(r) || unicode.In(r, unicode.Z, unicode.Cf):
			return fmt.Errorf("the character %U may be read as a space or not", r)
		}
	}
	return nil
}

func (s *sqlScan) token() error {
	c := s.rest[0]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		s.skip(1)
	case strings.HasPrefix(s.rest, "--"), c == '#' && s.hash:
		return s.lineComment()
	case strings.HasPrefix(s.rest, "/*"):
		return s.blockComment()
	case c == '\'' || c == '"' || c == '`' && s.backticks:
		return s.quoted(c)
	case isDigit(c):
		s.begin().wordOf(s.run(isNumberByte))
	case isWordByte(c) && c != '$' || c >= utf8.RuneSelf:
		return s.word()
	case c == ';':
		s.open = false
		s.skip(1)
	default:
		return s.mark(c)
	}
	return nil
}

func (s *sqlScan) skip(n int) {
	s.last, s.rest = s.rest[n-1], s.rest[n:]
}

// run takes the bytes from here on that are of a kind.
func (s *sqlScan) run(is func(byte) bool) string {
	n := 0
	for n < len(s.rest) && is(s.rest[n]) {
		n++
	}
	run := s.rest[:n]
	s.skip(n)
	return run
}

// begin is the statement that the next token belongs to.
func (s *sqlScan) begin() *sqlStatement {
	if !s.open {
		s.open = true
		s.text.statements = append(s.text.statements, sqlStatement{bare: true})
	}
	return &s.text.statements[len(s.text.statements)-1]
}

func (t *sqlStatement) wordOf(w string) {
	if t.first == "" {
		t.first = strings.ToLower(w)
	}
}

func (s *sqlScan) word() error {
	w := s.run(func(c byte) bool { return isWordByte(c) || c >= utf8.RuneSelf })
	for _, r := range w {
		if r >= utf8.RuneSelf && !unicode.In(r, unicode.L, unicode.M, unicode.N) {
			return fmt.Errorf("the character %q stands outside of quotes", r)
		}
	}
	s.begin().wordOf(w)
	return s.checkName(w)
}

func (s *sqlScan) checkName(name string) error {
	if s.maxName > 0 && len(name) > s.maxName {
		return fmt.Errorf("the name %.20s… has more than %d bytes: they would not be told apart", name, s.maxName)
	}
	return nil
}

// quoted passes over a string or a quoted name. A quote is written in it by
// doubling it; whether a backslash hides it depends on the server's mode.
func (s *sqlScan) quoted(quote byte) error {
	if s.noPrefixes && isWordByte(s.last) {
		return fmt.Errorf("what stands directly before the quote in %.12q may change how the string is read", string(s.last)+s.rest)
	}
	for i := 1; i < len(s.rest); i++ {
		switch {
		case s.rest[i] != quote:
		case s.rest[i-1] == '\\':
			return errors.New("whether a backslash hides the quote after it depends on the server's mode")
		case i+1 < len(s.rest) && s.rest[i+1] == quote:
			i++
		default:
			content := s.rest[1:i]
			s.begin().wordOf(string(quote))
			s.skip(i + 1)
			if quote == '\'' {
				return nil
			}
			return s.checkName(content)
		}
	}
	return fmt.Errorf("a quote %c is not closed", quote)
}

func (s *sqlScan) lineComment() error {
	line, _, _ := strings.Cut(s.rest, "\n")
	if s.rest[0] == '-' && s.dashSpace && len(line) > 2 && line[2] != ' ' && line[2] != '\t' && line[2] != '\r' {
		return errors.New("-- without a space after it is a comment to some readers and two minus signs to others")
	}
	if strings.Contains(strings.TrimSuffix(line, "\r"), "\r") {
		return errors.New("a carriage return ends a comment for some readers and not for others")
	}
	s.skip(len(line))
	return nil
}

// blockComment passes over a comment that is nothing else: not a hint, not code
// for servers of some version, and not nested.
func (s *sqlScan) blockComment() error {
	body, _, closed := strings.Cut(s.rest[2:], "*/")
	if !closed {
		return errors.New("a comment is not closed")
	}
	for _, executable := range []string{"!", "+", "M!", "T!"} {
		if strings.HasPrefix(body, executable) {
			return fmt.Errorf("a comment that begins with /*%s may be executed", executable)
		}
	}
	if strings.Contains(body, "/*") {
		return errors.New("a comment inside a comment ends in different places for different readers")
	}
	s.skip(len(body) + 4)
	return nil
}

// mark takes one character of punctuation.
func (s *sqlScan) mark(c byte) error {
	switch {
	case c == '$':
		if len(s.rest) < 2 || !isDigit(s.rest[1]) {
			return errors.New("$ may begin a quoted string")
		}
	case c == '(' || c == '[' || c == '{':
		if s.depth++; s.depth > maxSQLDepth {
			return fmt.Errorf("brackets nest deeper than %d", maxSQLDepth)
		}
	case c == ')' || c == ']' || c == '}':
		if s.depth--; s.depth < 0 {
			return fmt.Errorf("a %c closes nothing", c)
		}
	}
	if !strings.ContainsRune(s.marks, rune(c)) {
		return fmt.Errorf("the character %q stands outside of quotes", c)
	}
	t := s.begin()
	t.bare = t.bare && c == '.'
	s.skip(1)
	return nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isNumberByte(c byte) bool { return isWordByte(c) && c != '$' }

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$'
}
