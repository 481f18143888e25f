package api

import (
	"cmp"
	"maps"
	"regexp"
	"strings"
	"time"
)

// Turn is one answer of the model.
type Turn struct {
	When  string // what the last message must contain; empty: any
	Times int    // how many requests it answers; 0: one, Forever: all that match

	Text  string
	Calls []Call

	Status     int           // an HTTP status: the request fails with Text as its message
	RetryAfter time.Duration // told with the status
	Hang       bool          // no answer until the client goes away
	Close      bool          // the connection is closed in the middle of the answer
}

// Forever is for turns that answer every request that matches.
const Forever = -1

// InputTokens and OutputTokens of every answer, as its usage says.
const (
	InputTokens  = 11
	OutputTokens = 7
)

// Call is a call of a tool, named as the script names it. Native tools of the CLIs are
// Write (path, content) and Shell (command); any other name is that of an MCP tool, whose
// arguments are passed on as they are. In a text argument {dir} stands for the directory
// that the CLI says it works in, and {name}, where the results of tools have told a text under
// that name in JSON, for the one that was told last.
type Call struct {
	Tool string
	Args map[string]any
}

// The native tools.
const (
	Write = "write"
	Shell = "shell"
)

// WriteFile is a call that writes a file below the working directory.
func WriteFile(name, content string) Call {
	return Call{Write, map[string]any{"path": "{dir}/" + name, "content": content}}
}

// Run is a call that runs a shell command.
func Run(command string) Call { return Call{Shell, map[string]any{"command": command}} }

// of fills in what a conversation says: the working directory, and what tools have told.
func (c Call) of(r *Request) Call {
	args := maps.Clone(c.Args)
	for k, v := range args {
		if s, ok := v.(string); ok {
			args[k] = placeholder.ReplaceAllStringFunc(s, func(name string) string {
				if name == "{dir}" {
					return r.Dir
				}
				return cmp.Or(r.told(strings.Trim(name, "{}")), name)
			})
		}
	}
	return Call{c.Tool, args}
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// arg is a text argument, "" if there is none.
func (c Call) arg(name string) string {
	s, _ := c.Args[name].(string)
	return s
}

// script is the turns that are left.
type script []Turn

// next takes the turn that answers a request with this last message.
func (s *script) next(last string) (Turn, bool) {
	for i, t := range *s {
		if !strings.Contains(last, t.When) {
			continue
		}
		switch {
		case t.Times == Forever:
		case t.Times > 1:
			(*s)[i].Times--
		default:
			*s = append((*s)[:i:i], (*s)[i+1:]...)
		}
		return t, true
	}
	return Turn{}, false
}
