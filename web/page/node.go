package page

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Limits of what is shown of a node.
const (
	nodeCalls   = 100      // the newest
	nodeRecords = 500      // that are searched for what a call was given
	nodePayload = 64 << 10 // characters of an input or output
)

// nodePage is one node of a run, or one call in it.
type nodePage struct {
	*runView
	Path    string
	Node    branch
	Calls   []nodeCall // what happened in it, the newest first
	Older   int        // calls that are not shown
	Chosen  *nodeCall  // whose input and output are shown; nil: it has made none
	Input   string
	Output  string
	Failure string // why it failed, in a line
	Below   tree
	Before  int64 // the last record before it; 0: there is none
}

// nodeCall is a call, a step, a visit of a stage or a gate.
type nodeCall struct {
	tipstaff.Span
	run tipstaff.ID
}

// What is what it is called.
func (c nodeCall) What() string {
	return map[tipstaff.SpanKind]string{tipstaff.SpanCall: "call", tipstaff.SpanStep: "step", tipstaff.SpanVisit: "visit", tipstaff.SpanGate: "gate"}[c.Kind]
}

// Took is how long the last attempt took; negative: it has not ended.
func (c nodeCall) Took() time.Duration {
	if c.Started().IsZero() || c.Ended().IsZero() {
		return -1
	}
	return c.Ended().Sub(c.Started())
}

// Key is the idempotency key of a call; "": nothing was called.
func (c nodeCall) Key() string {
	if c.Attempt == 0 {
		return ""
	}
	return c.IdempotencyKey(c.run)
}

// pathMost is how long a path is in an address.
const pathMost = 400

// keyOf is what a page finds a node by: its path or, of one that is long or does not print,
// the digest.
func keyOf(path string) string {
	if len(path) <= pathMost && tipstaff.Printable(path) == path {
		return path
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(path)))
}

// PathKey is what an address names the node by.
func (p *nodePage) PathKey() string { return keyOf(p.Path) }

// nodeLink is the address of the panel of a node, as of the same moment.
func nodeLink(run tipstaff.ID, path string, at *atBar) string {
	q := query("path", keyOf(path))
	if at != nil {
		q = query("path", keyOf(path), "at", at.Text())
	}
	return "/ui/runs/" + run.String() + "/node?" + q
}

// Link is the address of the panel.
func (c nodeCall) Link(run tipstaff.ID, at *atBar) string { return nodeLink(run, c.Path, at) }

// node is the panel of one node.
func (v *view) node() error {
	p, err := v.runView()
	if err != nil {
		return err
	}
	page := &nodePage{runView: p, Path: v.r.URL.Query().Get("path")}
	if err := p.fold(page.read); err != nil {
		return err
	}
	if err := page.payload(); err != nil {
		return err
	}
	return v.show("node", tipstaff.Joined(" · ", page.Node.Name, nameOf(v.run)), page)
}

// read takes what the fold knows of the node, or of the one that a call belongs to.
func (p *nodePage) read(f *fold) error {
	rows := f.view.Rows(p.now(f))
	at, chosen := findNode(rows, p.Path)
	if at < 0 {
		return &problem{status: http.StatusNotFound, title: "There is no such step", text: "Nothing in this run has the path " + tipstaff.Quote(p.Path, 100) + ", as of the record that is shown."}
	}
	n := rows[at]
	p.Path = n.Path
	if chosen != nil {
		p.Path = chosen.Path
	}
	p.Node, p.Below = *branchOf(n), treeOf(rowsBelow(rows, at), treeRows)
	for i, s := range slices.Backward(n.Spans()) {
		if len(p.Calls) == nodeCalls {
			p.Older = i + 1
			break
		}
		p.Calls = append(p.Calls, nodeCall{s.Copy(), p.Run.ID})
	}
	if chosen != nil {
		p.Chosen, p.Before = &nodeCall{chosen.Copy(), p.Run.ID}, chosen.First-1
		return nil
	}
	for _, r := range rowsBelow(rows, at) { // what it consists of
		for _, s := range r.Spans() {
			if p.Before == 0 || s.First <= p.Before {
				p.Before = s.First - 1
			}
		}
	}
	return nil
}

// findNode is the row at a path, or of what a call at the path belongs to, and the call that
// is meant: the one at the path, else the last. -1: there is none.
func findNode(rows []tipstaff.Row, path string) (at int, chosen *tipstaff.Span) {
	at, path = -1, keyOf(path)
	for i := range rows {
		own := keyOf(rows[i].Path) == path && (path != "" || i == 0)
		for _, s := range rows[i].Spans() {
			if keyOf(s.Path) == path || own && s.Kind != tipstaff.SpanGate {
				at, chosen = i, s
			}
		}
		if own {
			return i, chosen
		}
	}
	return at, chosen
}

// payload reads what the chosen call was given and has answered, which only its records hold.
func (p *nodePage) payload() error {
	if p.Chosen == nil {
		return nil
	}
	take := func(e *tipstaff.Event) {
		if e.Path == p.Chosen.Path {
			p.take(e)
		}
	}
	first := min(p.Chosen.Last, p.Chosen.First+nodeRecords)
	if err := after(p.v.ctx(), p.v.s.control.Runs, p.Run.ID, p.Chosen.First-1, first, take); err != nil {
		return err
	}
	return after(p.v.ctx(), p.v.s.control.Runs, p.Run.ID, max(first, p.Chosen.Last-1), p.Chosen.Last, take)
}

func (p *nodePage) take(e *tipstaff.Event) {
	switch e.Kind {
	case tipstaff.KindEffectIntended, tipstaff.KindEffectFailed, tipstaff.KindEffectFinished:
		b := tipstaff.BodyOf[tipstaff.Effect](e)
		if len(b.Input) > 0 {
			p.Input = pretty(b.Input)
		}
		if len(b.Value) > 0 {
			p.Output = pretty(b.Value)
		}
		if p.Failure = ""; b.Error != nil {
			p.Failure = passage(cut(tipstaff.ErrorText(b.Error), 4000))
		}
	case tipstaff.KindAgentToolCallRequest:
		p.Input = pretty(tipstaff.BodyOf[tipstaff.AgentToolCallRequest](e).Arguments)
	case tipstaff.KindPlanStep:
		if b := tipstaff.BodyOf[tipstaff.PlanStep](e); b.Error != nil {
			p.Failure = passage(cut(b.Error.String(), 4000))
		}
	case tipstaff.KindStageFinished:
		b := tipstaff.BodyOf[tipstaff.StageFinished](e)
		p.Output, p.Failure = pretty(b.Output), passage(cut(b.Failure(), 4000))
	}
}

// pretty is JSON for people, cut where it is long. A text stands as it is.
func pretty(raw json.RawMessage) string {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case len(raw) > 4*nodePayload && raw[0] != '"': // it is cut anyway
		return passage(cut(string(raw[:nodePayload])+"…", nodePayload))
	}
	return passage(cut(valueText(raw), nodePayload))
}
