// Package prompts holds the texts that models are given: the files beside this
// one, embedded as they are.
//
// They are templates of text/template. What each is rendered with is a type in
// data.go; a name that the data does not have is an error, never an empty place.
// The functions json (a value as JSON in which no < or > stands, so that data
// cannot end the element around it) and join (of texts) are theirs.
//
// A folder may replace them file by file. A run freezes the Set that it uses.
//
// The package imports none of ours and does no I/O of its own. Start at [Default],
// then [Set.Override] and [Set.Render].
package prompts

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
)

// Name is the name of a prompt: of its file.
type Name string

const (
	System   Name = "system.md"     // precedes every agent's own system text
	Router   Name = "router.md"     // asks which toolkits a message needs
	Step     Name = "step.md"       // the message of a plan's step
	Stage    Name = "stage.md"      // the message of a pipeline's stage
	Draft    Name = "draft.md"      // asks for a plan
	Toolkits Name = "toolkits.yaml" // which tools belong together; no template
)

// Names are all of them.
func Names() []Name { return []Name{System, Router, Step, Stage, Draft, Toolkits} }

// Set is one text for each name.
type Set struct {
	System   string `json:"system.md"`
	Router   string `json:"router.md"`
	Step     string `json:"step.md"`
	Stage    string `json:"stage.md"`
	Draft    string `json:"draft.md"`
	Toolkits string `json:"toolkits.yaml"`
}

var (
	//go:embed system.md
	system string
	//go:embed router.md
	router string
	//go:embed step.md
	step string
	//go:embed stage.md
	stage string
	//go:embed draft.md
	draft string
	//go:embed toolkits.yaml
	toolkits string
)

// Default is the set that comes with Tipstaff.
func Default() Set { return Set{system, router, step, stage, draft, toolkits} }

// Text is the prompt of that name.
func (s Set) Text(n Name) string { return *s.field(n) }

// Digests are those of the texts, by name, as sha256: and 64 hex digits.
func (s Set) Digests() map[Name]string {
	digests := map[Name]string{}
	for _, n := range Names() {
		sum := sha256.Sum256([]byte(s.Text(n)))
		digests[n] = "sha256:" + hex.EncodeToString(sum[:])
	}
	return digests
}

// field is where the text of a name stands.
func (s *Set) field(n Name) *string {
	switch n {
	case System:
		return &s.System
	case Router:
		return &s.Router
	case Step:
		return &s.Step
	case Stage:
		return &s.Stage
	case Draft:
		return &s.Draft
	case Toolkits:
		return &s.Toolkits
	}
	panic(fmt.Sprintf("prompts: there is no %q", n))
}
