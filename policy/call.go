package policy

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff/flow"
)

// Call is what is decided about. Conditions see all of it.
type Call struct {
	Server, Tool, URI string
	Class             flow.Class      // as guards have raised it
	Args              json.RawMessage // an object; nil: {}
	Destructive       bool
	OpenWorld         bool
	Facts             json.RawMessage // what guards found, as Findings.Seen gives it; nil: {}
	Turn              Turn
	Run               Run
}

// Turn is how far the turn of the agent that makes a call has come. Outside of a
// turn it is zero.
type Turn struct {
	Untrusted bool `json:"untrusted"` // an earlier result of the turn came from an open world
	Step      int  `json:"step"`
}

// Run is which call of which run it is, and on whose behalf.
type Run struct{ ID, Path, Principal string }
