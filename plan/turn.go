package plan

import (
	"bytes"
	"regexp"
)

// Kinds of documents.
const (
	KindPlan = "plan"
	KindTurn = "turn"
)

// turnPath is the path of the one step of a turn.
const turnPath = "turn"

// MaxMessage is how long the message of a turn may be, in bytes.
const MaxMessage = 1 << 20

// maxTurnSize leaves room for a message every character of which is escaped.
const maxTurnSize = 6*MaxMessage + 64<<10

// Turn is what a turn has beside a plan: one step, in which an agent answers a
// message in a session. It is walked like any other plan.
type Turn struct {
	Session  string // "": a new one
	Head     string // digest of the conversation so far; "": there is none yet
	Message  string
	Model    string // a name of the manifest, instead of the agent's own; "": that
	MaxSteps int    // 0: the agent's own
}

// maxSize is how large a document may be: only a turn carries what somebody has
// said or piped in.
func maxSize(src []byte) int {
	if turnForm.Match(src[:min(len(src), 4<<10)]) || bytes.Contains(src[max(0, len(src)-4<<10):], []byte(`"kind":"turn"`)) {
		return maxTurnSize
	}
	return MaxSize
}

var turnForm = regexp.MustCompile(`(?m)^\s*\{?\s*"?kind"?\s*:\s*"?turn\b|"kind":\s*"turn"`)

func (d *Document) decodeTurn(f *fields, ps *problems) {
	if f.get("version") != nil {
		f.integer("version", 1, 1, 1)
	}
	d.Version = 1
	d.Tools, d.toolsAt = f.tools()
	d.Bounds = decodeBounds(f, ps, "bounds")
	f.need("message")
	t := &Turn{Session: f.text("session"), Head: f.text("head"), Message: f.text("message"), Model: f.text("model"),
		MaxSteps: int(f.integer("max_steps", 0, 1, 1000))}
	if v := f.v.get("message"); v != nil && v.kind == text && (t.Message == "" || len(t.Message) > MaxMessage) {
		ps.add(codeRange, v.at, "", "message has %d bytes; it must have 1 to %d", len(t.Message), MaxMessage)
	}
	d.Turn = t
	d.Root = &Node{ID: turnPath, Kind: Step, Agent: f.textOr("agent", DefaultAgent), Path: turnPath, segment: turnPath, at: f.v.at,
		has: map[string]position{"id": f.v.at}, texts: map[string]position{}}
	if at, ok := d.at["agent"]; ok {
		d.Root.has["agent"] = at
	}
	f.end()
}
