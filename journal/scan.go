package journal

import (
	"fmt"
	"iter"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds nesting, as encoding/json does.
const maxDepth = 10000

// syntaxError is the offset at which bytes stop being JSON.
type syntaxError int

func (e syntaxError) Error() string { return fmt.Sprintf("no valid JSON at byte %d", int(e)) }

// scanner finds where JSON values begin and end without decoding them. Records
// are kept byte for byte, so what is needed of most values is their extent.
type scanner struct {
	b     []byte
	depth int
	// visit, if set, is given every number's extent; path then holds the names and
	// indices that lead to it.
	visit func(start, end int)
	path  []string
}

// checkJSON reports whether b is exactly one JSON value in valid UTF-8, with or
// without white space around it.
func checkJSON(b []byte) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("no valid UTF-8")
	}
	s := scanner{b: b}
	return s.document()
}

func (s *scanner) document() error {
	end, err := s.value(s.space(0))
	if err != nil {
		return err
	}
	if end = s.space(end); end != len(s.b) {
		return syntaxError(end)
	}
	return nil
}

func (s *scanner) space(i int) int {
	for i < len(s.b) && (s.b[i] == ' ' || s.b[i] == '\t' || s.b[i] == '\n' || s.b[i] == '\r') {
		i++
	}
	return i
}

// value returns the end of the value that starts at i.
func (s *scanner) value(i int) (int, error) {
	if i >= len(s.b) {
		return 0, syntaxError(i)
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.str(i)
	case c == '{':
		return s.object(i)
	case c == '[':
		return s.array(i)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	default:
		return s.number(i)
	}
}

func (s *scanner) literal(i int, want string) (int, error) {
	if end := i + len(want); end <= len(s.b) && string(s.b[i:end]) == want {
		return end, nil
	}
	return 0, syntaxError(i)
}

// str returns the end of the string that starts, with its quote, at i.
func (s *scanner) str(i int) (int, error) {
	if i >= len(s.b) || s.b[i] != '"' {
		return 0, syntaxError(i)
	}
	for i++; i < len(s.b); i++ {
		if plainChar[s.b[i]] {
			continue
		}
		switch c := s.b[i]; {
		case c == '"':
			return i + 1, nil
		case c < ' ':
			return 0, syntaxError(i)
		case c == '\\':
			i++
			if i >= len(s.b) {
				return 0, syntaxError(i)
			}
			switch s.b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i >= len(s.b) || !isHex(s.b[i]) {
						return 0, syntaxError(i)
					}
				}
			default:
				return 0, syntaxError(i)
			}
		}
	}
	return 0, syntaxError(i)
}

// plainChar are the bytes that mean nothing but themselves in a string.
var plainChar = func() (plain [256]bool) {
	for c := range plain {
		plain[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return plain
}()

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (s *scanner) digits(i int) (int, error) {
	start := i
	for i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9' {
		i++
	}
	if i == start {
		return 0, syntaxError(i)
	}
	return i, nil
}

func (s *scanner) number(start int) (i int, err error) {
	i = start
	if s.b[i] == '-' {
		i++
	}
	if i < len(s.b) && s.b[i] == '0' {
		i++
	} else if i, err = s.digits(i); err != nil {
		return 0, err
	}
	if i < len(s.b) && s.b[i] == '.' {
		if i, err = s.digits(i + 1); err != nil {
			return 0, err
		}
	}
	if i < len(s.b) && (s.b[i] == 'e' || s.b[i] == 'E') {
		if i++; i < len(s.b) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		if i, err = s.digits(i); err != nil {
			return 0, err
		}
	}
	if s.visit != nil {
		s.visit(start, i)
	}
	return i, nil
}

func (s *scanner) enter(i int) error {
	if s.depth++; s.depth > maxDepth {
		return syntaxError(i)
	}
	return nil
}

func (s *scanner) object(i int) (int, error) {
	if err := s.enter(i); err != nil {
		return 0, err
	}
	if i = s.space(i + 1); i < len(s.b) && s.b[i] == '}' {
		s.depth--
		return i + 1, nil
	}
	for {
		m, err := s.member(i)
		if err != nil {
			return 0, err
		}
		i = s.space(m.end)
		if i >= len(s.b) || s.b[i] != ',' && s.b[i] != '}' {
			return 0, syntaxError(i)
		}
		if s.b[i] == '}' {
			s.depth--
			return i + 1, nil
		}
		i = s.space(i + 1)
	}
}

// member is the extent of one member of an object: its quoted name, its value.
type member struct{ nameStart, nameEnd, start, end int }

func (s *scanner) member(i int) (m member, err error) {
	m.nameStart = i
	if m.nameEnd, err = s.str(i); err != nil {
		return m, err
	}
	if i = s.space(m.nameEnd); i >= len(s.b) || s.b[i] != ':' {
		return m, syntaxError(i)
	}
	m.start = s.space(i + 1)
	if s.visit != nil {
		s.path = append(s.path, unquote(s.b[m.nameStart:m.nameEnd]))
		defer func() { s.path = s.path[:len(s.path)-1] }()
	}
	m.end, err = s.value(m.start)
	return m, err
}

func (s *scanner) array(i int) (int, error) {
	if err := s.enter(i); err != nil {
		return 0, err
	}
	if i = s.space(i + 1); i < len(s.b) && s.b[i] == ']' {
		s.depth--
		return i + 1, nil
	}
	for n := 0; ; n++ {
		end, err := s.element(i, n)
		if err != nil {
			return 0, err
		}
		i = s.space(end)
		if i >= len(s.b) || s.b[i] != ',' && s.b[i] != ']' {
			return 0, syntaxError(i)
		}
		if s.b[i] == ']' {
			s.depth--
			return i + 1, nil
		}
		i = s.space(i + 1)
	}
}

func (s *scanner) element(i, n int) (int, error) {
	if s.visit != nil {
		s.path = append(s.path, strconv.Itoa(n))
		defer func() { s.path = s.path[:len(s.path)-1] }()
	}
	return s.value(i)
}

// members yields the decoded name and the extent of each member of the object
// that b is; of anything else, nothing. b must be valid JSON.
func members(b []byte) iter.Seq2[string, member] {
	return func(yield func(string, member) bool) {
		s := scanner{b: b}
		i := s.space(0)
		if i >= len(b) || b[i] != '{' {
			return
		}
		i = s.space(i + 1)
		for i < len(b) && b[i] == '"' {
			m, err := s.member(i)
			if err != nil || !yield(unquote(b[m.nameStart:m.nameEnd]), m) {
				return
			}
			if i = s.space(m.end); i < len(b) && b[i] == ',' {
				i = s.space(i + 1)
			}
		}
	}
}

// elements yields each element of the array that b is; of anything else,
// nothing. b must be valid JSON.
func elements(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := scanner{b: b}
		i := s.space(0)
		if i >= len(b) || b[i] != '[' {
			return
		}
		i = s.space(i + 1)
		for i < len(b) && b[i] != ']' {
			end, err := s.value(i)
			if err != nil || !yield(b[i:end]) {
				return
			}
			if i = s.space(end); i < len(b) && b[i] == ',' {
				i = s.space(i + 1)
			}
		}
	}
}
