package plan

import (
	"bytes"
	"regexp"

	"github.com/tipstaff/tipstaff/document"
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

func (d *Document) decodeTurn(f *document.Fields, ps *document.Problems) {
	if f.Get("version") != nil {
		f.Integer("version", 1, 1, 1)
	}
	d.Version = 1
	d.Tools, d.toolsAt = readTools(f)
	d.Bounds = decodeBounds(f)
	f.Need("message")
	t := &Turn{Session: f.Text("session"), Head: f.Text("head"), Message: f.Text("message"), Model: f.Text("model"),
		MaxSteps: int(f.Integer("max_steps", 0, 1, 1000))}
	if v := f.Value.Get("message"); v != nil && v.Kind == document.Text && (t.Message == "" || len(t.Message) > MaxMessage) {
		ps.Add(document.CodeRange, v.At, "", "message has %d bytes; it must have 1 to %d", len(t.Message), MaxMessage)
	}
	d.Turn = t
	d.Root = &Node{ID: turnPath, Kind: Step, Agent: f.TextOr("agent", DefaultAgent), Path: turnPath, segment: turnPath, at: f.Value.At}
	d.Root.written = &document.Value{Kind: document.Object, Members: []document.Member{
		{Key: "id", Value: &document.Value{Kind: document.Text, Text: turnPath, At: f.Value.At}}}}
	if at, ok := d.at["agent"]; ok {
		d.Root.written.Members = append(d.Root.written.Members, document.Member{Key: "agent", Value: &document.Value{Kind: document.Text, Text: d.Root.Agent, At: at}})
	}
	f.End()
}
