package workspace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/policy"
)

// DefaultAgent does the work that names no agent.
const DefaultAgent = "default"

// RouterToolkits is the only router that an agent can have; "": it has none.
const RouterToolkits = "toolkits"

// Agent is what the manifest says of one agent: a model, a worker or a role, and what
// goes with it. A zero value leaves it to the loop's own default.
type Agent struct {
	Model  string   `json:"model,omitempty" doc:""`                   // one of the manifest's models; "": a worker or role does the work
	Skill  string   `json:"skill,omitempty" doc:""`                   // URI; "": none
	Tools  []string `json:"tools"`                                    // pinned URIs, or server/* for all tools of one; nil: the skill's, without one none
	Router string   `json:"router,omitempty" doc:",in=none|toolkits"` // "": the whole catalog is offered
	System string   `json:"system,omitempty"`                         // its own instructions

	MaxSteps        int               `json:"max_steps,omitempty" doc:",max=1000"`
	OnLimit         string            `json:"on_limit,omitempty" doc:",in=fail|ask"`
	Temperature     *float64          `json:"temperature,omitempty" doc:",min=0,max=2"`
	TopP            *float64          `json:"top_p,omitempty" doc:",min=0,max=1"`
	MaxOutputTokens int               `json:"max_output_tokens,omitempty" doc:",min=1,max=10000000"`
	CallTimeout     document.Duration `json:"call_timeout,omitempty" doc:",min=1ms,max=24h"`
	ToolTimeout     document.Duration `json:"tool_timeout,omitempty" doc:",min=1ms,max=24h"`
	ApprovalExpiry  document.Duration `json:"approval_expiry,omitempty" doc:",min=1ms,max=720h"`
	ToolParallelism int               `json:"tool_parallelism,omitempty" doc:",min=1,max=16"`
	MaxResultBytes  int               `json:"max_result_bytes,omitempty"`
	OutputSchema    json.RawMessage   `json:"output_schema,omitempty"` // nil: none
	OutputRetries   *int              `json:"output_retries,omitempty" doc:",max=10"`

	Worker          string `json:"worker,omitempty" doc:""` // one by name
	Role            string `json:"role,omitempty" doc:""`   // whoever is bound to it
	Review          string `json:"review,omitempty" doc:""` // none, person or a role
	OnWorkerFailure string `json:"on_worker_failure,omitempty" doc:",in=fail|ask"`
	OnBound         string `json:"on_bound,omitempty" doc:",in=fail|ask"`
	MaxIterations   int    `json:"max_iterations,omitempty" doc:",min=1,max=100"`
}

// Whom an agent's work is done by: exactly one of them is said.
var ways = []string{"model", "worker", "role"}

// Settings that go with a worker or role, and no others do.
var ofWorker = []string{"worker", "role", "review", "on_worker_failure", "on_bound", "max_iterations"}

// Agent is the configuration of an agent; "" is the default one. Where the
// manifest has one model and no agent of that name, that model is the default
// agent, with nothing of its own.
func (m *Manifest) Agent(name string) (Agent, bool) {
	m, name = m.orNone(), cmp.Or(name, DefaultAgent)
	if a, ok := m.Agents[name]; ok {
		return a, true
	}
	if name == DefaultAgent && len(m.Models) == 1 {
		return Agent{Model: sortedKeys(m.Models)[0]}, true
	}
	return Agent{}, false
}

// AgentNames are all agents, sorted, the default one included where it is not
// declared.
func (m *Manifest) AgentNames() []string {
	names := sortedKeys(m.orNone().Agents)
	if _, ok := m.Agent(DefaultAgent); ok && !slices.Contains(names, DefaultAgent) {
		names = append(names, DefaultAgent)
		slices.Sort(names)
	}
	return names
}

var agentForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// CheckKey checks the name of an agent.
func (a *Agent) CheckKey(name string) error { return checkName(name, "an agent") }

// checkName: agents, workers and roles have names of one form, as they can stand for each
// other.
func checkName(name, what string) error {
	if !agentForm.MatchString(name) {
		return fmt.Errorf("%s cannot name %s: a letter of a-z, then up to 63 of a-z, 0-9, _ and -", tipstaff.Quote(name, 100), what)
	}
	return nil
}

// CheckDocument reads what a tag cannot say. Models and tools are looked up when the
// whole manifest was read.
func (a *Agent) CheckDocument(f *document.Fields) {
	check(f, "skill", func(s string) error {
		if !strings.HasPrefix(s, "skill://") || !strings.Contains(s, "@") {
			return fmt.Errorf("%s is not a skill: write skill://<id>@<version>", tipstaff.Quote(s, 100))
		}
		return nil
	})
	if a.Router == "none" {
		a.Router = ""
	}
	a.MaxResultBytes = int(readSize(f, "max_result_bytes", MaxResult))
	a.readTools(f)
	a.readSystem(f)
	if v := f.Typed("output_schema", document.Object); v != nil {
		a.readSchema(f, v)
	}
	a.checkWay(f)
}

// checkWay: who does the work decides which settings there are.
func (a *Agent) checkWay(f *document.Fields) {
	given := slices.DeleteFunc(slices.Clone(ways), func(way string) bool { return f.Value.Get(way) == nil })
	switch {
	case len(given) == 0:
		needs(f, "model", ", one of models; or worker, or role")
		return
	case len(given) > 1:
		f.Report(document.CodeRange, f.Value.Get(given[1]).At, given[1], "%s has %s: its work is done by one of them", f.Path, strings.Join(given, " and "))
		return
	}
	for _, m := range f.Value.Members {
		of := slices.Contains(ofWorker, m.Key)
		switch {
		case given[0] == "model" && of:
			f.Report(document.CodeFieldUnknown, m.At, m.Key, "%s: %s goes with worker or role", f.Path, m.Key)
		case given[0] != "model" && !of && slices.Contains(f.Known(), m.Key):
			f.Report(document.CodeFieldUnknown, m.At, m.Key, "%s: %s goes with model; with %s go %s", f.Path, m.Key, given[0], strings.Join(ofWorker[2:], ", "))
		}
	}
}

// AllTools is the server of which server/* names all tools that are declared and locked;
// false: it names something else.
func AllTools(item string) (server string, ok bool) { return strings.CutSuffix(item, "/*") }

// readTools reads none, or a list of pinned URIs and servers. It is never nil then: an agent that
// says which tools it has, has no others.
func (a *Agent) readTools(f *document.Fields) {
	v := f.Get("tools")
	switch {
	case v == nil:
	case v.Kind == document.Text && v.Text == "none":
		a.Tools = []string{}
	case f.Typed("tools", document.List) != nil:
		a.Tools = f.Texts("tools")
		twice(f, "tools", v.Items)
		checkEach(f, "tools", func(s string) error {
			if _, all := AllTools(s); all {
				return nil // whether there is such a server is found below
			}
			_, err := tipstaff.ParseToolURI(s)
			return err
		})
	}
}

// readSystem reads a text, or a file that holds it.
func (a *Agent) readSystem(f *document.Fields) {
	if v := f.Get("system"); v == nil || v.Kind != document.Object {
		a.System = f.Text("system")
		return
	}
	f.Object("system", func(f *document.Fields) {
		var system struct {
			File File `doc:"file"`
		}
		f.Decode(&system)
		if f.Value.Get("file") == nil {
			f.Problems.Add(document.CodeFieldMissing, f.Value.At, f.Path, "%s is a text, or {file: NAME}", f.Path)
		}
		a.System = system.File.Text
	})
}

// readSchema reads a JSON Schema that is written as YAML.
func (a *Agent) readSchema(f *document.Fields, v *document.Value) {
	var written bytes.Buffer
	v.AppendJSON(&written)
	raw, err := document.Canonical(written.Bytes())
	if err == nil {
		_, err = document.CompileSchema(raw)
	}
	if err != nil {
		f.Report(document.CodeRange, v.At, "output_schema", "%s is not a JSON Schema that can be used: %v", f.PathOf("output_schema"), err)
		return
	}
	a.OutputSchema = raw
}

// checkAgents: what an agent is to use must be what the manifest declares.
func (m *Manifest) checkAgents(f *document.Fields) {
	for name, a := range m.Agents {
		if v := f.Value.Find("agents", name, "model"); v != nil && v.Kind == document.Text && !m.has(a.Model) {
			f.Problems.Add(document.CodeRange, v.At, "agents."+name+".model", "there is no model %s%s", tipstaff.Quote(a.Model, 100), tipstaff.Suggest(a.Model, sortedKeys(m.Models)))
		}
		m.checkThought(f, name, a)
		for i, uri := range a.Tools {
			v := f.Value.Find("agents", name, "tools", strconv.Itoa(i))
			if server, all := AllTools(uri); all {
				if _, ok := m.Servers[server]; !ok {
					f.Problems.Add(CodeTool, v.At, index("agents."+name+".tools", i), "%s", m.Undeclared(server, ""))
				}
				continue
			}
			u, err := tipstaff.ParseToolURI(uri)
			if _, declared := m.Tool(u.Server, u.Tool); declared || err != nil {
				continue
			}
			f.Problems.Add(CodeTool, v.At, index("agents."+name+".tools", i), "%s", m.Undeclared(u.Server, u.Tool))
		}
	}
}

func (m *Manifest) has(model string) bool {
	_, ok := m.Models[model]
	return ok
}

// Toolkit is a group of tools as a toolkits.yaml declares it.
type Toolkit struct {
	Name        string   `json:"name" doc:"name"`
	Description string   `json:"description" doc:"description"`
	Match       []string `json:"match" doc:"match"`   // patterns on server/tool; none: tools come to it by its name
	Always      bool     `json:"always" doc:"always"` // part of every selection
}

// ParseToolkits reads a toolkits.yaml. It reports every problem with its line and
// column; with any, the list is nil. name is the file's, for the problems.
func ParseToolkits(name string, src []byte) ([]Toolkit, []tipstaff.Problem) {
	file := toolkitFile{Toolkits: []Toolkit{}}
	if problems := new(parser).read(name, src, &file); len(problems) > 0 {
		return nil, problems
	}
	return file.Toolkits, nil
}

type toolkitFile struct {
	Version  int       `doc:"version,min=1,max=1"`
	Toolkits []Toolkit `doc:"toolkits"`
}

// CheckDocument finds names that stand twice: models are not held to upper and lower
// case.
func (file *toolkitFile) CheckDocument(f *document.Fields) {
	for i, t := range file.Toolkits {
		if v := f.Value.Find("toolkits", strconv.Itoa(i), "name"); v != nil && t.Name != "" &&
			slices.ContainsFunc(file.Toolkits[:i], func(other Toolkit) bool { return strings.EqualFold(other.Name, t.Name) }) {
			f.Report(document.CodeFieldInvalid, v.At, index("toolkits", i)+".name", "there is already a toolkit %q", t.Name)
		}
	}
}

var toolkitForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// CheckDocument checks the name and the patterns.
func (t *Toolkit) CheckDocument(f *document.Fields) {
	needs(f, "name", "")
	t.Match = orEmpty(t.Match)
	check(f, "name", func(s string) error {
		if !toolkitForm.MatchString(s) {
			return fmt.Errorf("%s cannot name a toolkit: 1 to 64 of A-Z, a-z, 0-9, _, . and -, beginning with a letter or digit", tipstaff.Quote(s, 100))
		}
		return nil
	})
	checkEach(f, "match", func(s string) error {
		_, err := policy.ParsePattern(s)
		return err
	})
}
