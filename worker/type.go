package worker

import (
	"regexp"

	"github.com/tipstaff/tipstaff"
)

// cliType is a type of worker: what differs between CLIs beside their command lines.
type cliType struct {
	name    string
	command string   // looked for on PATH; "": Tipstaff itself
	install string   // how to get it
	passed  []string // variables of the environment that reach it
	always  []string // variables that it is started with, whatever it is to do
	sets    []string // names of variables that prepare sets

	// Its native tools, as far as a posture is about them: those that read, that change
	// files, each with the argument that is the path ("": none is), that run commands, and
	// that fetch. A tool that is not among reads has an effect that must not be repeated.
	reads       []string
	edits       map[string]string
	execs, nets []string

	hook         bool // it asks Tipstaff before it makes a call
	denialsKnown bool // its stream tells of every call that was not allowed
	midTurn      bool // its stream shows tokens before the turn has ended
	cumulative   counted

	reservedFlags []string
	sessionID     *regexp.Regexp                // what its ids look like; nil: any text
	shortValues   string                        // short flags whose value may be joined to them
	checkValue    func(flag, value string) bool // nil: any value is fine

	// stance is what a posture comes to.
	stance func(p Posture, v verdicts) stance
	// obeys lists what of the tree around a directory configures the CLI although it was told
	// all that it can be told. Nil: nothing does.
	obeys func(o *Options) ([]string, error)
	// prepare writes the configuration of an invocation, and says what its command line
	// and environment need.
	prepare func(*launch) error
	// reader makes events of its stream.
	reader func(*mapper) reader
	// mcpTool splits the name of an MCP tool as the CLI writes it.
	mcpTool func(name string, servers []string) (server, tool string, ok bool)
	signs   []sign
	retries *regexp.Regexp // lines of stderr that say that it tries again
}

// counted says which totals of a CLI are those of its session.
type counted struct{ usage, cost bool }

// reader makes events of what a CLI prints.
type reader interface {
	// read is given one line. It reports whether the line is a JSON object; of another it
	// tells nothing.
	read(line []byte) bool
}

// sign is how a CLI tells why it did not go on.
type sign struct {
	outcome Outcome
	resumed *bool          // only of a resume, or only of a spawn; nil: of both
	code    int            // of its exit; 0: any but 0
	text    *regexp.Regexp // in stderr, or in the error that ends its stream
}

var onSpawn, onResume = new(false), new(true)

// fault is the outcome that the signs of a CLI tell; "": none.
func (t *cliType) fault(resumed bool, exit tipstaff.WorkerExit, text string) Outcome {
	for _, s := range t.signs {
		switch {
		case s.resumed != nil && *s.resumed != resumed,
			exit.Signal != "" || exit.Code == 0,
			s.code != 0 && s.code != exit.Code,
			!s.text.MatchString(text):
			continue
		}
		return s.outcome
	}
	return ""
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
