package plan

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// nodeReader reads the tree. It goes no further than the limits, which it
// reports once each.
type nodeReader struct {
	*document.Fields // of the plan

	count         int
	deep, tooMany bool
}

func (r *nodeReader) node(v *document.Value, path string, depth int) *Node {
	r.count++
	f := r.Of(v, path)
	n := &Node{written: f.Value}
	f.Decode(n)
	if n.Kind == ToolCall || n.Kind == Step || n.Kind == SubDispatch {
		n.Continue = f.Word("on_error", "fail", "continue") == "continue"
	}
	if n.Kind == ToolCall || n.Kind == Step {
		f.Object("retry", func(rf *document.Fields) {
			rf.Path = path
			n.Retry = decodeRetry(rf)
		})
	}
	switch n.Kind {
	case Sequential, Parallel:
		n.MaxParallel = cmp.Or(n.MaxParallel, DefaultParallel)
	case ToolCall:
		args := n.field("args", document.Object)
		n.literal, n.verbatim = isLiteral(args), args != nil && !bytes.Contains(n.Args, []byte("${"))
		if n.Parse == "none" {
			n.Parse = ""
		}
	case Step:
		n.Agent = cmp.Or(n.Agent, DefaultAgent)
		n.Tools = readTools(f)
	case SubDispatch:
		n.Agent, n.Accept = cmp.Or(n.Agent, DefaultAgent), cmp.Or(n.Accept, AcceptAsk)
	case Gate:
		n.Expires = cmp.Or(n.Expires, DefaultExpiry)
		f.Ignore("on_error") // has a report of its own
		if f.Get("actions") == nil {
			n.Actions = DefaultActions()
		}
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
		at, message = k.At, strconv.Quote(document.Brief(string(n.Kind)))+" is not a kind of node"
	}
	if f.Value.Get("kind") == nil || f.Value.Get("kind").Kind == document.Text {
		r.Problems.Add(document.CodeKindUnknown, at, f.Path, "%s; it is sequential, parallel, tool_call, step, sub_dispatch or gate", message)
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
				r.Problems.Add(document.CodeLimit, c.At, f.Path, "a plan has at most %d nodes", MaxNodes)
			}
			r.tooMany = true
			return
		}
		if depth >= MaxDepth {
			if !r.deep {
				r.Problems.Add(document.CodeLimit, c.At, f.Path, "nodes stand at most %d levels deep", MaxDepth)
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

// Retries, where a node says no more than max.
const (
	retryBackoff    = time.Second
	retryFactor     = 2
	retryMaxBackoff = 30 * time.Second
)

// retryable are the failures that trying again may mend.
var retryable = []string{ReasonTimeout, ReasonToolUnavailable, ReasonToolError, ReasonOutputInvalid}

func decodeRetry(f *document.Fields) flow.Retry {
	r := struct {
		Max        int           `doc:"max,required,min=1,max=5"`
		Backoff    time.Duration `doc:"backoff"`
		Factor     float64       `doc:"factor,min=1,max=100"`
		MaxBackoff time.Duration `doc:"max_backoff"`
		On         []string      `doc:"on"`
	}{1, retryBackoff, retryFactor, retryMaxBackoff, []string{ReasonTimeout, ReasonToolUnavailable}}
	f.Decode(&r)
	if on := f.Value.Get("on"); on != nil {
		for _, item := range on.Items {
			if item.Kind == document.Text && !slices.Contains(retryable, item.Text) {
				f.Problems.Add(document.CodeFieldInvalid, item.At, f.Path,
					"%q cannot be retried; on may list timeout, tool_unavailable, tool_error and output_invalid", document.Brief(item.Text))
			}
		}
	}
	return flow.Retry{Max: r.Max, Backoff: r.Backoff, Factor: r.Factor, MaxBackoff: r.MaxBackoff, On: r.On}
}

// CheckDocument reads the outcome. What is wrong with an action is told of its gate.
func (a *Action) CheckDocument(f *document.Fields) {
	a.Fails = f.Word("outcome", "continue", "fail") == "fail"
	f.Path = strings.TrimSuffix(f.Path, "."+f.Name)
}
