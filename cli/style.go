package cli

import "strings"

// color is a foreground of the terminal's own palette.
type color string

const (
	plain  color = ""
	dim    color = "2"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	blue   color = "36"
	bold   color = "1"
)

// span is clean text in one colour; line is what stands on one row.
type (
	span struct {
		text  string
		color color
	}
	line []span
)

// say makes foreign text a span: the only way into a line.
func say(c color, text string) span { return span{clean(text), c} }

// fit cuts a line to n cells.
func (l line) fit(n int) line {
	var out line
	for _, s := range l {
		if n <= 0 {
			break
		}
		s.text = fit(s.text, n)
		n -= cells(s.text)
		out = append(out, s)
	}
	return out
}

func (l line) cells() int {
	n := 0
	for _, s := range l {
		n += cells(s.text)
	}
	return n
}

// text is the line as bytes for a terminal, without trailing blanks.
func (l line) text(colored bool) string {
	var b strings.Builder
	for _, s := range l {
		if !colored || s.color == plain || s.text == "" {
			b.WriteString(s.text)
			continue
		}
		b.WriteString("\x1b[" + string(s.color) + "m" + s.text + "\x1b[0m")
	}
	return strings.TrimRight(b.String(), " ")
}

// colored reports whether a stream that is or is not a terminal gets colours.
// CLICOLOR_FORCE overrides the terminal, NO_COLOR overrides both.
func (e *Env) colored(tty bool) bool {
	if e.getenv("NO_COLOR") != "" {
		return false
	}
	if f := e.getenv("CLICOLOR_FORCE"); f != "" && f != "0" {
		return true
	}
	return tty && e.getenv("TERM") != "dumb"
}
