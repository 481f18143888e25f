package pipeline

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff"
)

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
