package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// The server's name in manifests and the version of its tools. The version belongs
// to the definitions: one that changes any of them is another version.
const (
	Name    = "builtin"
	Version = "1.0.0"
)

// Options say what the tools may touch. The zero value allows nothing that
// touches the world.
type Options struct {
	Workspace string   // folder that relative roots and programs stand in; "": the current one
	Roots     []string // folders that may be read and written; the first is that of relative paths
	Hosts     []string // host or host:port that may be fetched from; a host alone covers every port
	Programs  []string // argv[0] that may be run, compared literally

	// Protection says what no tool touches; nil: they touch nothing.
	Protection Protection

	// Markers are NAME=value pairs that every process gets, by which all that a run
	// started can be found.
	Markers []string
}

// Server holds what the tools share between calls.
type Server struct {
	options Options
	cel     func() (*celEnv, error)

	mu      sync.Mutex
	folders map[string]*folder // that are open, by path
}

// New makes a server. Nothing is opened before a tool is called.
func New(o Options) *Server {
	if o.Protection == nil {
		o.Protection = everything{}
	}
	o.Roots, o.Hosts, o.Programs = slices.Clone(o.Roots), slices.Clone(o.Hosts), slices.Clone(o.Programs)
	return &Server{options: o, cel: sync.OnceValues(newCELEnv), folders: map[string]*folder{}}
}

// tools are all of them, by name.
var tools = []tool{
	function(execTool, (*Server).exec),
	function(httpGetTool, (*Server).httpGet),
	function(jsonQueryTool, (*Server).jsonQuery),
	function(listDirTool, (*Server).listDir),
	function(readFileTool, (*Server).readFile),
	function(sleepTool, (*Server).sleep),
	function(writeFileTool, (*Server).writeFile),
}

// Tools are the names of the tools, sorted.
func Tools() (names []string) {
	for _, t := range tools {
		names = append(names, t.name)
	}
	return names
}

// Reaches are the options that say what a tool may reach, by their names in a manifest.
func Reaches(tool string) []string {
	switch tool {
	case execTool.name:
		return []string{"roots", "programs"} // a program is started in a root
	case httpGetTool.name:
		return []string{"hosts"}
	case listDirTool.name, readFileTool.name, writeFileTool.name:
		return []string{"roots"}
	}
	return nil
}

// Definitions are the tools as a server of the protocol lists them: as this binary was
// built, so they stay.
var Definitions = sync.OnceValue(func() (list []json.RawMessage) {
	for _, t := range tools {
		raw, err := json.Marshal(map[string]any{"name": t.name, "title": t.title, "description": t.description,
			"inputSchema": json.RawMessage(t.input), "outputSchema": json.RawMessage(t.output), "annotations": t.hints})
		if err != nil {
			panic(fmt.Sprintf("builtin: the definition of %s is not JSON: %v", t.name, err))
		}
		list = append(list, raw)
	}
	return list
})

// Stops reports whether a tool ends itself in good order when its context ends, and then
// returns what it knows.
func Stops(tool string) bool { return tool == execTool.name }

// Call is one call of a tool.
type Call struct {
	Tool   string
	Args   json.RawMessage
	Demand Demand
	Output func(Output) // gets what a program prints while it runs, never concurrently; nil: not wanted
}

// Result is what a tool has answered.
type Result struct {
	Value   json.RawMessage // nil: none, of a failure
	Text    string          // the part of the value that is text, or why the tool failed
	Failed  bool            // the tool did not do what it was asked for
	Killed  bool            // its program was ended because the call's context ended
	Refused *flow.Error     // with which it was refused before it did anything; nil: it was not
}

// Call calls a tool. What the tool finds wrong is a Result; an error is a fault of the
// tool itself, and says nothing about what was done.
func (s *Server) Call(ctx context.Context, c Call) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v\n%s", c.Tool, p, debug.Stack())
		}
	}()
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == c.Tool })
	if i < 0 {
		return Result{Text: fmt.Sprintf("there is no tool %q", c.Tool), Failed: true}, nil
	}
	a, failed := tools[i].run(s, call{ctx, c.Demand, c.Output}, c.Args)
	if failed != nil {
		r := Result{Text: failed.Error(), Failed: true}
		if errors.As(failed, &r.Refused) {
			r.Text = r.Refused.Message
		}
		return r, nil
	}
	value, err := json.Marshal(a.value)
	return Result{Value: value, Text: a.text, Failed: a.failed, Killed: a.killed}, err
}

// definition is a tool as it is listed.
type definition struct {
	name, title, description string
	input, output            string // JSON Schema
	hints                    annotations
}

// tool is a definition and the function that it describes.
type tool struct {
	definition
	run func(*Server, call, json.RawMessage) (answer, error)
}

// call is what a tool is told besides its arguments.
type call struct {
	ctx context.Context
	Demand
	emit func(Output)
}

// answer is a tool's result: the value, and the part of it that is text. A
// failed one still has a value.
type answer struct {
	value          any
	text           string
	failed, killed bool
}

// function makes a tool of a function that takes decoded arguments. Unknown members are
// refused: an argument that would be ignored is a mistake of the caller.
func function[In any](d definition, run func(*Server, call, In) (answer, error)) tool {
	return tool{d, func(s *Server, c call, args json.RawMessage) (answer, error) {
		var in In
		if err := document.UnmarshalStrict(args, &in); err != nil {
			return answer{}, err
		}
		return run(s, c, in)
	}}
}

// annotations are a tool's hints, every one stated: what is left out claims nothing.
type annotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Idempotent  bool `json:"idempotentHint"`
	Destructive bool `json:"destructiveHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

const maxSleep = 10 * time.Minute

var sleepTool = definition{
	name:        "sleep",
	title:       "Wait",
	description: "Waits for a duration of at most 10m. Ends at once when it is cancelled.",
	input: `{"type":"object","additionalProperties":false,"required":["duration"],"properties":{
		"duration":{"type":"string","description":"like 500ms, 90s or 10m"}}}`,
	output: `{"type":"object","additionalProperties":false,"required":["slept"],"properties":{"slept":{"type":"string"}}}`,
	hints:  annotations{ReadOnly: true},
}

type sleepArgs struct {
	Duration string `json:"duration"`
}

type slept struct {
	Slept string `json:"slept"`
}

func (s *Server) sleep(c call, in sleepArgs) (answer, error) {
	d, err := time.ParseDuration(in.Duration)
	if err != nil {
		return answer{}, fmt.Errorf("%q is not a duration like 500ms, 90s or 10m", in.Duration)
	}
	if d < 0 || d > maxSleep {
		return answer{}, fmt.Errorf("%s is not between 0s and %s", d, maxSleep)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return answer{value: slept{d.String()}, text: d.String()}, nil
	case <-c.ctx.Done():
		return answer{}, fmt.Errorf("the wait was cancelled")
	}
}
