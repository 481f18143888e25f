package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// gateText is a gate as people are asked about it, wherever that is. All of it is printable.
type gateText struct {
	head  string   // who asks what
	lines []string // what it is about
	// brief are the few of the lines that tell what would be done: where not all of them are
	// in sight these are.
	brief   []string
	expires string
	digests []string // what the decision binds to, of the gate itself the last: nobody reads them first
}

// sureCells is what has room on every terminal.
const sureCells = 50

// mostBrief is how many lines of a gate stay in sight.
const mostBrief = 5

// textOf is a gate with long values cut, or whole.
func textOf(g tipstaff.Gate, whole bool) gateText {
	t := gateText{head: fmt.Sprintf("%s (%s) asks: %s", clean(g.Place()), clean(string(g.Kind)), clean(g.Question))}
	shown := tipstaff.Subject(g)
	if whole {
		shown = tipstaff.WholeSubject(g)
	}
	for _, l := range shown.Lines {
		if digestLine.MatchString(l) {
			t.digests = append(t.digests, l)
		} else {
			t.lines = append(t.lines, l)
		}
	}
	t.brief = briefOf(t.lines)
	if !g.ExpiresAt.IsZero() {
		t.expires = "expires: " + g.ExpiresAt.UTC().Format(time.RFC3339)
	}
	for i, d := range t.digests {
		t.digests[i] = "  " + d
	}
	if g.Digest != "" {
		t.digests = append(t.digests, "digest: "+clean(g.Digest))
	}
	return t
}

// all is everything that there is, digests last.
func (t gateText) all() []string { return t.without(nil) }

// rest is what is not in the few lines that stay in sight, unless they do not show all of a
// value.
func (t gateText) rest() []string { return t.without(t.brief) }

func (t gateText) without(brief []string) (lines []string) {
	for _, l := range t.lines {
		if !slices.Contains(brief, strings.TrimLeft(l, " ")) || cells(l) > sureCells {
			lines = append(lines, "  "+l)
		}
	}
	if t.expires != "" {
		lines = append(lines, t.expires)
	}
	return append(lines, t.digests...)
}

// digestLine is a line of its own, not of a value, that has nothing but a digest.
var digestLine = regexp.MustCompile(`^[^ |][^:]*: sha256:[0-9a-f]{64}$`)

// briefOf picks what would be done: the tool and the short arguments of a call, else the
// first lines. Lines with a bar are the text of others.
func briefOf(lines []string) (brief []string) {
	var first, later []string
	arguments := false
	for _, l := range lines {
		text := strings.TrimLeft(l, " ")
		switch depth := len(l) - len(text); {
		case strings.HasPrefix(text, "| "), text == "|", strings.HasSuffix(text, ":"):
		case l == "arguments":
			arguments = true
		case depth == 0 && strings.HasPrefix(text, "tool: "), arguments && depth == 2:
			first = append(first, text)
		default:
			arguments = arguments && depth > 2
			later = append(later, text)
		}
	}
	brief = append(first, later...)
	return brief[:min(len(brief), mostBrief)]
}

// prose is a gate for a terminal that scrolls. Where it is higher than that, what is decided
// is said again at its end, where the answer is typed.
func (t gateText) prose(width, height int) string {
	text := "\n" + t.head + "\n"
	for _, l := range t.all() {
		text += l + "\n"
	}
	rows := 0
	for l := range strings.Lines(text) {
		rows += max(1, (cells(strings.TrimSuffix(l, "\n"))+width-1)/width)
	}
	const prompt = 3 // rows that what may be typed takes
	if rows+prompt > height {
		text += "\n" + t.head + "\n" + indented(t.brief)
	}
	return text
}

// rowsOf lays a printable line out in rows of at most width cells. What is a value's stays
// indented, and behind its bar.
func rowsOf(l string, width int) (rows []string) {
	rest := strings.TrimLeft(l, " ")
	before := l[:len(l)-len(rest)]
	if strings.HasPrefix(rest, "| ") {
		before, rest = before+"| ", rest[2:]
	}
	if cells(before) > width/2 {
		before = ""
	}
	for room := width - cells(before); cells(rest) > room; {
		used, at, space := 0, 0, 0
		for i, r := range rest {
			if used += runeWidth(r); used > room {
				break
			}
			at = i + len(string(r))
			if r == ' ' {
				space = at
			}
		}
		if rest[at] == ' ' { // the word ends where the room does
			space = at + 1
		}
		if space > at/2 {
			at = space
		}
		if at == 0 { // one character is wider than all
			break
		}
		rows = append(rows, before+strings.TrimRight(rest[:at], " "))
		rest = rest[at:]
	}
	return append(rows, before+rest)
}
