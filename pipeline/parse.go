package pipeline

import (
	_ "embed"
	"encoding/json"
	"errors"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Limits of a document.
const (
	MaxSize   = 1 << 20 // bytes of source, and of each file that it names
	MaxAgents = 1000
	maxFrozen = 8 << 20 // bytes of its canonical form, with the files in it
)

const kindPipeline = "pipeline"

// IsPipeline reports whether a source says that it is a pipeline, or says nothing
// and has agents.
func IsPipeline(src []byte) bool {
	v, fault := document.Read(src, MaxSize)
	if fault != nil || v.Kind != document.Object {
		return false
	}
	kind := v.Get("kind")
	if kind == nil {
		return v.Get("agents") != nil
	}
	return kind.Kind == document.Text && kind.Text == kindPipeline
}

// Check reads a document in YAML 1.2 or JSON: everything that is wrong with it, in
// the order in which it stands there. The pipeline is nil if anything is. name is
// that of the file, for messages.
func Check(name string, src []byte, r Resolver) (*Pipeline, []tipstaff.Problem) {
	v, faults := document.ReadAll(src, MaxSize)
	if len(faults) > 0 {
		return nil, faults.Public(name)
	}
	return check(name, v, r)
}

// Load reads a pipeline back from its canonical form, which was checked when it was
// frozen.
func Load(canonical []byte) (*Pipeline, error) {
	v, fault := document.Read(canonical, maxFrozen)
	if fault != nil {
		return nil, unreadable(document.Problems{*fault}.Public(frozenName))
	}
	p, problems := check(frozenName, v, Resolver{})
	if len(problems) > 0 {
		return nil, unreadable(problems)
	}
	if string(p.canonical) != string(canonical) {
		return nil, errors.New("pipeline: the stored program is not in its canonical form")
	}
	return p, nil
}

// frozenName stands for the file in messages about a stored program.
const frozenName = "program"

func unreadable(problems []tipstaff.Problem) error {
	return &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the stored program cannot be read", Problems: problems}
}

func check(name string, v *document.Value, r Resolver) (*Pipeline, []tipstaff.Problem) {
	rd := &reader{resolver: r}
	rd.inline(v)
	document.CheckNumbers(v, &rd.ps)
	p := rd.pipeline(v)
	rd.connections(p)
	if len(rd.ps) > 0 {
		return nil, rd.ps.Public(name)
	}
	p.canonical = document.Raw(v)
	p.arrange(rd.agents)
	p.warnings = rd.unreachable(p).Public(name)
	return p, nil
}

// Canonical is the document in RFC 8785 form, with the files that it named in their
// places: what a run is frozen with.
func (p *Pipeline) Canonical() []byte { return p.canonical }

// Digest names the program: sha256:<hex> of Canonical.
func (p *Pipeline) Digest() string { return flow.Digest(p.canonical) }

// Warnings are what is odd about a pipeline that can run all the same, in document
// order.
func (p *Pipeline) Warnings() []tipstaff.Problem { return p.warnings }

// planTools are the tools that the document of a plan allows: those it lists, else
// those its nodes call.
func planTools(raw json.RawMessage) []string {
	var plan struct {
		Tools *[]string `json:"tools"`
		Root  planNode  `json:"root"`
	}
	if json.Unmarshal(raw, &plan) != nil {
		return nil // whoever walks the plan says what is wrong with it
	}
	if plan.Tools != nil {
		return *plan.Tools
	}
	return plan.Root.tools(nil)
}

type planNode struct {
	Tool     string     `json:"tool"`
	Children []planNode `json:"children"`
}

func (n planNode) tools(list []string) []string {
	if n.Tool != "" {
		list = append(list, n.Tool)
	}
	for _, c := range n.Children {
		list = c.tools(list)
	}
	return list
}

// Resolver answers what a document cannot know by itself. A function that is nil has
// nothing against anything, save File. The zero Resolver is one that knows nobody.
type Resolver struct {
	// Ceiling is what the manifest allows at most, by the ledger's names.
	Ceiling tipstaff.Bounds
	// File reads a file that the document names, relative to it. nil: the document
	// may name none.
	File func(name string) ([]byte, error)
	// Tool tells the effect class of a pinned tool; "": not known.
	Tool func(uri string) (class string, trouble Trouble)
	// Model, Agent and Skill tell about names of the manifest.
	Model, Agent, Skill func(name string) Trouble
	// Performer tells whether the host has somebody of that name who runs stages in
	// that way.
	Performer func(way Way, name string) Trouble
	// Plan checks the document of a plan stage, which is in RFC 8785 form.
	Plan func(document json.RawMessage) []tipstaff.Problem
}

// Trouble is why something cannot be used. The zero value is none.
type Trouble struct{ Code, Message string }

//go:embed schema.json
var documentSchema []byte

// Schema is a JSON Schema of pipeline documents, for editors. It says which fields
// there are and what they hold; that names fit together is for [Check] to say.
func Schema() json.RawMessage { return json.RawMessage(documentSchema) }
