package e2e

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
)

// evidence is what a run was seen to do and left behind, as it was found: nothing in it
// was judged. A fault replaces some of it; so the slices in it are never written to.
type evidence struct {
	Run     tipstaff.ID
	Said    replies // what the model was to say
	Live    bool    // the model was not scripted
	Locked  map[string]listing
	Listed  map[string]listing
	Skill   map[string][]byte // its files
	Seeded  memoryLog
	Rests   map[string]rest
	Asked   []string // the requests to the model, in their order
	Records []tipstaff.Event
	// Programs are the documents that the run has accepted, by the digest under which they
	// are stored.
	Programs map[string][]byte
	User     journal.PublicKey
	Executor journal.PublicKey

	Before, After map[string]tipstaff.MemoryItem // the seeded items
	Memory        memoryLog                      // after the end
	Weights       [5]int64                       // in force then

	Lifecycle string
	Calls     calls // of the whole run
	Replay    replay
	Verified  int               // exit code of verify over the export
	Flipped   int               // the same, with one bit of a record changed
	Folder    string            // of the run's envelopes
	Files     map[string][]byte // in it
}

// listing is what a server has: its version, and the definitions of its tools.
type listing struct {
	Version string
	Tools   map[string]json.RawMessage
}

// with is a listing with one tool more.
func (l listing) with(tool tipstaff.ToolInfo) listing {
	if l.Tools == nil {
		l.Tools = map[string]json.RawMessage{}
	}
	l.Version, l.Tools[tool.Tool] = tool.Version, tool.Definition
	return l
}

// memoryLog is the log of the memory, and the head that the product tells of it.
type memoryLog struct {
	Records [][]byte
	Seq     int64
	Head    string
}

// Places where a run rests.
const (
	restAsked     = "asked"     // the model wants to know something
	restDrafted   = "drafted"   // there is a plan to accept
	restGate      = "gate"      // at the plan's own gate
	restCorrected = "corrected" // after the correction that is not material
	restMaterial  = "material"  // after the one that is
	restAgain     = "again"     // at the gate again
	restEnd       = "end"
)

// rest is how a run was found when nobody drove it.
type rest struct {
	State tipstaff.State
	Gates []tipstaff.GateKind // that are open
	Calls calls               // since the run began
	Asked int                 // requests to the model so far
}

// replay is what `tipstaff replay` of the exported run has shown, with every server stopped.
type replay struct {
	Code    int
	Records [][]byte // that the plan asked for
	Outcome string
	Calls   calls // that were made meanwhile
}

// clone can be changed without a change of e.
func (e *evidence) clone() *evidence {
	c := *e
	c.Locked, c.Listed, c.Skill = maps.Clone(e.Locked), maps.Clone(e.Listed), maps.Clone(e.Skill)
	c.Rests, c.Programs, c.Files = maps.Clone(e.Rests), maps.Clone(e.Programs), maps.Clone(e.Files)
	c.Before, c.After, c.Calls = maps.Clone(e.Before), maps.Clone(e.After), maps.Clone(e.Calls)
	c.Asked, c.Records = slices.Clone(e.Asked), slices.Clone(e.Records)
	c.Seeded.Records, c.Memory.Records = slices.Clone(e.Seeded.Records), slices.Clone(e.Memory.Records)
	c.Replay.Records, c.Replay.Calls = slices.Clone(e.Replay.Records), maps.Clone(e.Replay.Calls)
	return &c
}

// of are the records of a kind.
func (e *evidence) of(kind tipstaff.Kind) (found []*tipstaff.Event) {
	for i := range e.Records {
		if e.Records[i].Kind == kind {
			found = append(found, &e.Records[i])
		}
	}
	return found
}

// at is a record of a kind by its place, -1 being the last; an empty one if there is none.
func (e *evidence) at(kind tipstaff.Kind, i int) *tipstaff.Event {
	all := e.of(kind)
	if i < 0 {
		i += len(all)
	}
	if i < 0 || i >= len(all) {
		return &tipstaff.Event{}
	}
	return all[i]
}
