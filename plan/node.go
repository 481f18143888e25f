package plan

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// nodeReader reads the tree. It goes no further than the limits, which it
// reports once each.
type nodeReader struct {
	ps            *document.Problems
	count         int
	deep, tooMany bool
}

func (r *nodeReader) node(v *document.Value, path string, depth int) *Node {
	r.count++
	f := document.FieldsOf(r.ps, v, path)
	n := &Node{at: f.Value.At, written: f.Value}
	n.ID = f.Text("id")
	n.Kind = NodeKind(f.Text("kind"))
	switch n.Kind {
	case Sequential, Parallel:
		n.MaxParallel = DefaultParallel
		if n.Kind == Parallel {
			n.MaxParallel = int(f.Integer("max_parallel", DefaultParallel, 1, maxParallel))
		}
	case ToolCall:
		r.toolCall(n, f)
	case Step:
		r.step(n, f)
	case SubDispatch:
		r.subDispatch(n, f)
	case Gate:
		r.gate(n, f)
	default:
		r.unknownKind(n, f)
	}
	r.children(n, f, depth)
	f.End()
	return n
}

// unknownKind reports a node that is none of the six. Its other fields are left
// alone: nobody knows which of them belong.
func (r *nodeReader) unknownKind(n *Node, f *document.Fields) {
	at, message := f.Value.At, "a node must say its kind"
	if k := f.Value.Get("kind"); k != nil {
		at, message = k.At, strconv.Quote(document.Brief(string(n.Kind)))+" is no kind of node"
	}
	if f.Value.Get("kind") == nil || f.Value.Get("kind").Kind == document.Text {
		r.ps.Add(document.CodeKindUnknown, at, f.Path, "%s; it is sequential, parallel, tool_call, step, sub_dispatch or gate", message)
	}
	f.IgnoreRest()
	n.Kind = ""
}

// children reads what stands under a node. A leaf that has some is at fault, but
// what is wrong with them is reported all the same.
func (r *nodeReader) children(n *Node, f *document.Fields, depth int) {
	v := f.Typed("children", document.List)
	n.childless = f.Value.Get("children") == nil || v != nil && len(v.Items) == 0
	if v == nil {
		return
	}
	for i, c := range v.Items {
		if r.count >= MaxNodes {
			if !r.tooMany {
				r.ps.Add(document.CodeLimit, c.At, f.Path, "a plan has at most %d nodes", MaxNodes)
			}
			r.tooMany = true
			return
		}
		if depth >= MaxDepth {
			if !r.deep {
				r.ps.Add(document.CodeLimit, c.At, f.Path, "nodes stand at most %d levels deep", MaxDepth)
			}
			r.deep = true
			return
		}
		segment := strconv.Itoa(i)
		if id := c.Get("id"); id != nil && id.Kind == document.Text && id.Text != "" {
			segment = id.Text
		}
		n.Children = append(n.Children, r.node(c, document.Brief(f.Path)+"/"+document.Brief(segment), depth+1))
	}
}

func (r *nodeReader) toolCall(n *Node, f *document.Fields) {
	f.Need("tool")
	n.Tool = f.Text("tool")
	n.args = f.Typed("args", document.Object)
	n.Args = document.Raw(n.args)
	n.literal, n.verbatim = isLiteral(n.args), n.args != nil && !bytes.Contains(n.Args, []byte("${"))
	if n.Parse = f.Word("parse", "none", "json"); n.Parse == "none" {
		n.Parse = ""
	}
	r.effort(n, f, true)
}

func (r *nodeReader) step(n *Node, f *document.Fields) {
	f.Need("prompt")
	n.prompt = f.Typed("prompt", document.Text)
	n.Prompt = f.Text("prompt")
	n.Agent = f.TextOr("agent", DefaultAgent)
	n.inputs = f.Typed("inputs", document.Object)
	n.Inputs = document.Raw(n.inputs)
	n.Tools, n.toolsAt = readTools(f)
	n.OutputSchema = document.Raw(f.Get("output_schema"))
	r.effort(n, f, true)
}

func (r *nodeReader) subDispatch(n *Node, f *document.Fields) {
	f.Need("skill")
	n.Skill = f.Text("skill")
	n.inputs = f.Typed("inputs", document.Object)
	n.Inputs = document.Raw(n.inputs)
	n.Agent = f.TextOr("agent", DefaultAgent)
	n.Scope = f.Text("scope")
	n.Bounds = decodeBounds(f)
	n.Accept = f.Word("accept", AcceptAsk, AcceptAuto)
	r.effort(n, f, false)
}

// effort is what a leaf that does something says about failing.
func (r *nodeReader) effort(n *Node, f *document.Fields, retries bool) {
	n.Timeout = f.Duration("timeout")
	n.Continue = f.Word("on_error", "fail", "continue") == "continue"
	if !retries {
		return
	}
	if v := f.Typed("retry", document.Object); v != nil {
		rf := document.FieldsOf(r.ps, v, f.Path)
		n.Retry = decodeRetry(rf)
		rf.End()
	}
}

// Retries, where a node says no more than max.
const (
	retryBackoff    = time.Second
	retryFactor     = 2
	retryMaxBackoff = 30 * time.Second
	maxRetries      = 5
	maxFactor       = 100
)

// retryable are the failures that trying again may mend.
var retryable = []string{ReasonTimeout, ReasonToolUnavailable, ReasonToolError, ReasonOutputInvalid}

func decodeRetry(f *document.Fields) flow.Retry {
	f.Need("max")
	retry := flow.Retry{
		Max:        int(f.Integer("max", 1, 1, maxRetries)),
		Backoff:    retryBackoff,
		Factor:     f.Number("factor", retryFactor, 1, maxFactor),
		MaxBackoff: retryMaxBackoff,
		On:         []string{ReasonTimeout, ReasonToolUnavailable},
	}
	if d := f.Duration("backoff"); d > 0 {
		retry.Backoff = d
	}
	if d := f.Duration("max_backoff"); d > 0 {
		retry.MaxBackoff = d
	}
	on, at := f.Texts("on")
	for i, code := range on {
		if !slices.Contains(retryable, code) {
			f.Problems.Add(document.CodeFieldInvalid, at[i], f.Path,
				"%q cannot be retried; on may list timeout, tool_unavailable, tool_error and output_invalid", document.Brief(code))
		}
	}
	if on != nil {
		retry.On = on
	}
	return retry
}

func (r *nodeReader) gate(n *Node, f *document.Fields) {
	n.question = f.Typed("question", document.Text)
	n.Question = f.Text("question")
	n.show = f.Get("show")
	n.Show = document.Raw(n.show)
	if n.Expires = f.Duration("expires"); n.Expires == 0 {
		n.Expires = DefaultExpiry
	}
	f.Ignore("on_error") // has a report of its own
	n.Actions = DefaultActions()
	if f.Get("actions") == nil {
		return
	}
	n.Actions = nil
	f.Each("actions", func(a *document.Fields) {
		a.Need("name")
		n.Actions = append(n.Actions, Action{
			Name:       a.Text("name"),
			Fails:      a.Word("outcome", "continue", "fail") == "fail",
			FailReason: a.Text("fail_reason"),
		})
		a.Path = f.Path
	})
}
