package cli

// color is how text looks: a colour of the terminal's own palette of sixteen, or a weight.
// Every view of this package draws with these and with no others, so that a gate, a run and
// a list look alike wherever they stand, and as the theme of the terminal has it.
type color string

const (
	plain  color = ""
	dim    color = "2"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	blue   color = "36"
	bold   color = "1"
	chosen color = "7" // what the keys are about
)

// paint is clean text in a colour.
func (c color) paint(text string) string {
	if c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
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
