package plan

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// nodeReader reads the tree. It goes no further than the limits, which it
// reports once each.
type nodeReader struct {
	ps            *problems
	count         int
	deep, tooMany bool
}

func (r *nodeReader) node(v *value, path string, depth int) *Node {
	r.count++
	f := fieldsOf(r.ps, v, path)
	n := &Node{at: f.v.at, has: map[string]position{}, texts: map[string]position{}}
	for _, m := range f.v.members {
		n.has[m.key] = m.value.at
		if m.value.kind == text {
			n.texts[m.key] = m.value.at
		}
	}
	n.ID = f.text("id")
	n.Kind = NodeKind(f.text("kind"))
	switch n.Kind {
	case Sequential, Parallel:
		n.MaxParallel = DefaultParallel
		if n.Kind == Parallel {
			n.MaxParallel = int(f.integer("max_parallel", DefaultParallel, 1, maxParallel))
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
	f.end()
	return n
}

// unknownKind reports a node that is none of the six. Its other fields are left
// alone: nobody knows which of them belong.
func (r *nodeReader) unknownKind(n *Node, f *fields) {
	at, message := f.v.at, "a node must say its kind"
	if k := f.v.get("kind"); k != nil {
		at, message = k.at, strconv.Quote(brief(string(n.Kind)))+" is no kind of node"
	}
	if f.v.get("kind") == nil || f.v.get("kind").kind == text {
		r.ps.add(codeKindUnknown, at, f.path, "%s; it is sequential, parallel, tool_call, step, sub_dispatch or gate", message)
	}
	for _, m := range f.v.members {
		f.asked[m.key] = true
	}
	n.Kind = ""
}

// children reads what stands under a node. A leaf that has some is at fault, but
// what is wrong with them is reported all the same.
func (r *nodeReader) children(n *Node, f *fields, depth int) {
	v := f.typed("children", list)
	n.childless = f.v.get("children") == nil || v != nil && len(v.items) == 0
	if v == nil {
		return
	}
	for i, c := range v.items {
		if r.count >= MaxNodes {
			if !r.tooMany {
				r.ps.add(codeLimit, c.at, f.path, "a plan has at most %d nodes", MaxNodes)
			}
			r.tooMany = true
			return
		}
		if depth >= MaxDepth {
			if !r.deep {
				r.ps.add(codeLimit, c.at, f.path, "nodes stand at most %d levels deep", MaxDepth)
			}
			r.deep = true
			return
		}
		segment := strconv.Itoa(i)
		if id := c.get("id"); id != nil && id.kind == text && id.text != "" {
			segment = id.text
		}
		n.Children = append(n.Children, r.node(c, brief(f.path)+"/"+brief(segment), depth+1))
	}
}

func (r *nodeReader) toolCall(n *Node, f *fields) {
	f.need("tool")
	n.Tool = f.text("tool")
	n.args = f.typed("args", object)
	n.Args = raw(n.args)
	n.literal, n.verbatim = n.args.literal(), n.args != nil && !bytes.Contains(n.Args, []byte("${"))
	if n.Parse = f.word("parse", "none", "json"); n.Parse == "none" {
		n.Parse = ""
	}
	r.effort(n, f, true)
}

func (r *nodeReader) step(n *Node, f *fields) {
	f.need("prompt")
	n.prompt = f.typed("prompt", text)
	n.Prompt = f.text("prompt")
	n.Agent = f.textOr("agent", DefaultAgent)
	n.inputs = f.typed("inputs", object)
	n.Inputs = raw(n.inputs)
	n.Tools, n.toolsAt = f.tools()
	n.OutputSchema = raw(f.get("output_schema"))
	r.effort(n, f, true)
}

func (r *nodeReader) subDispatch(n *Node, f *fields) {
	f.need("skill")
	n.Skill = f.text("skill")
	n.inputs = f.typed("inputs", object)
	n.Inputs = raw(n.inputs)
	n.Agent = f.textOr("agent", DefaultAgent)
	n.Scope = f.text("scope")
	n.Bounds = decodeBounds(f, r.ps, "bounds")
	n.Accept = f.word("accept", AcceptAsk, AcceptAuto)
	r.effort(n, f, false)
}

// effort is what a leaf that does something says about failing.
func (r *nodeReader) effort(n *Node, f *fields, retries bool) {
	n.Timeout = f.duration("timeout")
	n.Continue = f.word("on_error", "fail", "continue") == "continue"
	if !retries {
		return
	}
	if v := f.typed("retry", object); v != nil {
		rf := fieldsOf(r.ps, v, f.path)
		n.Retry = decodeRetry(rf)
		rf.end()
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

func decodeRetry(f *fields) flow.Retry {
	f.need("max")
	retry := flow.Retry{
		Max:        int(f.integer("max", 1, 1, maxRetries)),
		Backoff:    retryBackoff,
		Factor:     f.number("factor", retryFactor, 1, maxFactor),
		MaxBackoff: retryMaxBackoff,
		On:         []string{ReasonTimeout, ReasonToolUnavailable},
	}
	if d := f.duration("backoff"); d > 0 {
		retry.Backoff = d
	}
	if d := f.duration("max_backoff"); d > 0 {
		retry.MaxBackoff = d
	}
	on, at := f.texts("on")
	for i, code := range on {
		if !slices.Contains(retryable, code) {
			f.ps.add(codeFieldInvalid, at[i], f.path,
				"%q cannot be retried; on may list timeout, tool_unavailable, tool_error and output_invalid", brief(code))
		}
	}
	if on != nil {
		retry.On = on
	}
	return retry
}

func (r *nodeReader) gate(n *Node, f *fields) {
	n.Question = f.text("question")
	n.show = f.get("show")
	n.Show = raw(n.show)
	if n.Expires = f.duration("expires"); n.Expires == 0 {
		n.Expires = DefaultExpiry
	}
	f.asked["on_error"] = true // has a report of its own
	n.Actions = DefaultActions()
	if f.get("actions") == nil {
		return
	}
	n.Actions = nil
	f.each("actions", func(a *fields) {
		a.need("name")
		n.Actions = append(n.Actions, Action{
			Name:       a.text("name"),
			Fails:      a.word("outcome", "continue", "fail") == "fail",
			FailReason: a.text("fail_reason"),
		})
		a.path = f.path
	})
}
