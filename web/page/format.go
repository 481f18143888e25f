package page

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// funcs are what templates write values with. Text of others goes through text or prose,
// which mark what does not print; html/template escapes it.
var funcs = template.FuncMap{
	"text":      func(s string) string { return printed(s, 200) },
	"prose":     func(s string) string { return tipstaff.PrintableProse(s) },
	"short":     shortID,
	"brief":     shortDigest,
	"passage":   passage,
	"exact":     tipstaff.Printable,
	"state":     stateOf,
	"usd":       func(u tipstaff.USD) string { return "$" + u.String() },
	"took":      took,
	"count":     thousands,
	"counted":   counted,
	"clock":     func(t time.Time) clock { return clock{t} },
	"query":     query,
	"life":      func(l *tipstaff.Life) *lifeLine { return drawLife(l, lifeWidth) },
	"whole":     func(l *tipstaff.Life) *lifeLine { return drawLife(l, lifeWhole) },
	"driven":    driven,
	"costOf":    costOf,
	"costText":  costText,
	"costShare": costShare,
	"costliest": costliest,
	"tokensOf":  tokensOf,
	"nameOf":    nameOf,
	"words":     words,
	"most":      most,
	"more":      func(all []tipstaff.ID, n int) int { return len(all) - n },
	"sessionAt": sessionAddress, "memoryAt": memoryAddress,
	"span":   func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) },
	"actsOf": actionsOf,
	"dict":   dict,
	"add":    add,
	"half":   func(n int) int { return n / 2 },
}

// dict is what a part is given that needs more than one value.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

func add(all ...int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// words are a name of several words.
func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// most is the beginning of a text or a list.
func most(of any, n int) any {
	switch of := of.(type) {
	case string:
		return cut(of, n)
	case []tipstaff.ID:
		return of[:min(n, len(of))]
	}
	return of
}

// printed is the beginning of a text of others, with what does not print marked.
func printed(s string, most int) string { return cut(tipstaff.Printable(cut(s, most)), most) }

// percent is a length in SVG, of so many thousandths.
func percent(thousandths int64) string { return fmt.Sprintf("%d.%d%%", thousandths/10, thousandths%10) }

// cut leaves at most so many characters of a text, of which the last says that there is more.
func cut(s string, most int) string {
	n, end := 0, 0
	for i := range s {
		if n++; n == most {
			end = i
		} else if n > most {
			return s[:end] + "…"
		}
	}
	return s
}

// passage is foreign text of several lines: line breaks and tabs are kept, and everything else
// that does not print is marked.
func passage(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		cells := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
		for j, cell := range cells {
			cells[j] = tipstaff.PrintableProse(cell)
		}
		lines[i] = strings.Join(cells, "\t")
	}
	return strings.Join(lines, "\n")
}

// shortDigest is enough of a digest or an id to tell it from its neighbours.
func shortDigest(s string) string {
	kind := s[:strings.IndexByte(s, ':')+1]
	if rest := s[len(kind):]; len(rest) > 12 {
		return printed(kind+rest[:6]+"…"+rest[len(rest)-4:], 40)
	}
	return printed(s, 200)
}

// shortID is enough of an id to tell it from its neighbours.
func shortID(id fmt.Stringer) string {
	s := id.String()
	if len(s) <= 12 {
		return s
	}
	return s[:6] + "…" + s[len(s)-4:]
}

// took is a duration for a column of them.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// thousands is a number with its digits in groups.
func thousands(n any) string {
	digits := fmt.Sprint(n)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// clock is a moment: the machine-readable one is the truth, a script may rewrite the other.
type clock struct{ time.Time }

// ISO is the moment for machines; "": there is none.
func (c clock) ISO() string {
	if c.IsZero() {
		return ""
	}
	return c.UTC().Format(time.RFC3339Nano)
}

// Text is the moment for people.
func (c clock) Text() string { return c.UTC().Format("2 Jan 2006 15:04:05 MST") }

// mark is how a state is shown: by an icon, a word and a colour, never by a colour alone.
type mark struct {
	Class string // pending running waiting done failed refused uncertain
	Word  string
}

// stateOf is the mark of a status of a run, or of a state of a node.
func stateOf(status any) mark {
	word := fmt.Sprint(status)
	class := "pending"
	switch word {
	case "running", "executing":
		class = "running"
	case "waiting", "awaiting_decision", "awaiting_phase_handoff", "awaiting_delivery", "sleeping", "proposed":
		class = "waiting"
	case "awaiting_resume", "interrupted", "uncertain", "in_doubt", "in doubt":
		class = "uncertain"
	case "completed", "done", "success":
		class = "done"
	case "failed":
		class = "failed"
	case "cancelled", "refused", "denied", "skipped":
		class = "refused"
	}
	return mark{class, strings.ReplaceAll(word, "_", " ")}
}
